"""Configuration and criteria as they are now: people edit criteria between two questions.

A criterion may name a Python file with its evaluator. That is code, and a client whose model can write files must not get it run by
asking a question: it runs once, at the start, and where it has changed since, questions are refused.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from toolgauge.authoring.tasks import with_runs_put_together
from toolgauge.config.load import FileState, Sources, find_sources
from toolgauge.config.model import Config
from toolgauge.export.redact import Redactor
from toolgauge.model.errors import ConfigError
from toolgauge.model.trajectory import TrajectoryScope
from toolgauge.score.criterion import Criterion
from toolgauge.service.criteria_factory import EvaluatorFiles, evaluator_files, load_for_replay
from toolgauge.service.pipeline_factory import redactor


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """How recordings are scored."""

    config: Config
    criteria: tuple[Criterion, ...]
    redactor: Redactor

    @property
    def pass_at(self) -> dict[str, float]:
        """The least score that passes, by the revision of the criterion."""
        return {criterion.revision: criterion.pass_at for criterion in self.criteria}


class ScoringFiles:
    """The configuration and criteria files that were named at the start."""

    def __init__(
        self,
        config_paths: tuple[str, ...] = (),
        overrides: tuple[str, ...] = (),
        criteria_files: tuple[str, ...] = (),
    ) -> None:
        """Load them, and run the evaluators in files; raise `ConfigError` with every problem found."""
        self._config_paths = config_paths
        self._overrides = overrides
        self._criteria_files = criteria_files
        self._evaluators = EvaluatorFiles()
        states = self._states()
        self._known = states, self._loaded(overrides)
        self._evaluators.close()
        self._code = _states_of(self.code)

    @property
    def code(self) -> tuple[str, ...]:
        """The Python files whose evaluators run."""
        return evaluator_files(self._known[1].criteria)

    def load(self) -> Scoring:
        """Return what the files hold now; raise `ConfigError` with every problem found."""
        states = self._states()
        if self._known[0] != states:
            self._known = states, self._checked(self._loaded(self._overrides))
        return self._known[1]

    def load_for_runs(self, scope: TrajectoryScope) -> Scoring:
        """Return the same for runs of this scope, which are put together for it."""
        return self._checked(self._loaded(with_runs_put_together(scope, self._overrides)))

    def _loaded(self, overrides: tuple[str, ...]) -> Scoring:
        config, criteria = load_for_replay(
            self._config_paths, overrides, self._criteria_files, os.environ, evaluators=self._evaluators
        )
        return Scoring(config=config, criteria=criteria, redactor=redactor(config))

    def _checked(self, scoring: Scoring) -> Scoring:
        now = _states_of(evaluator_files(scoring.criteria))
        changed = next((path for path, state in now.items() if self._code.get(path) != state), None)
        if changed is not None:
            raise ConfigError(
                f"the evaluators in `{changed}` have changed since this server was started, and code is not run anew",
                hint="start the server again, as by connecting the client anew",
            )
        return scoring

    def _states(self) -> Mapping[Path, FileState]:
        paths, criteria = map(Path, self._config_paths), map(Path, self._criteria_files)
        return find_sources(tuple(paths), self._overrides, os.environ, tuple(criteria)).states()


def _states_of(files: tuple[str, ...]) -> Mapping[Path, FileState]:
    return Sources(tuple(map(Path, files)), ()).states()
