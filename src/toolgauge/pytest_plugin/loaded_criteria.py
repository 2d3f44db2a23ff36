"""The criteria and the configuration of a test, read once for all tests that have the same."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from toolgauge.api.evaluate import evaluate
from toolgauge.api.evaluation import Evaluation
from toolgauge.api.written_criterion import Criterion as WrittenCriterion
from toolgauge.config.problems import suggestion
from toolgauge.model.errors import ConfigError
from toolgauge.pytest_plugin.collector import Request
from toolgauge.pytest_plugin.mark_settings import TestSettings
from toolgauge.score.criterion import Criterion, Lookup, register, with_writing_tools
from toolgauge.score.unmatched import Unmatched, UnmatchedCriteria
from toolgauge.service.criteria_factory import load_for_replay
from toolgauge.service.pipeline_factory import redactor, tool_kinds


class LoadedCriteria:
    """Criteria that are ready to score. Raises `ConfigError` when a file is wrong."""

    def __init__(self, settings: TestSettings, written: Sequence[WrittenCriterion]) -> None:
        self._settings = settings
        files, objects = _by_kind((*settings.criteria, *written))
        self._given = (*files, *objects)
        config_files = tuple(map(str, settings.config))
        self._config, self.criteria = load_for_replay(
            config_files, settings.overrides, files, os.environ, written=[one.written for one in objects]
        )
        is_shown = self._config.redact.values == "show" or "values" not in self._config.redact.model_fields_set
        self.redactor = redactor(self._config, show_values=is_shown)

    @property
    def case_keys(self) -> frozenset[str]:
        """The attributes that name the case."""
        return frozenset(one.reference.key for one in self.criteria if isinstance(one.reference, Lookup))

    def named(self, names: Sequence[str]) -> tuple[Criterion, ...]:
        """Return criteria by their names; raise `ConfigError` where there is none of a name."""
        known = {criterion.name: criterion for criterion in self.criteria}
        unknown = next((name for name in names if name not in known), None)
        if unknown is not None:
            message = f"no criterion called `{unknown}` in the criteria files of this test"
            raise ConfigError(message, hint=suggestion(unknown, known))
        return tuple(known[name] for name in names)

    def evaluate(self, requests: Iterable[Request]) -> Evaluation:
        """Score what a test recorded."""
        return evaluate(tuple(requests), self._given, config=self._settings.config, overrides=self._settings.overrides)

    def unmatched(self, evaluation: Evaluation) -> tuple[Unmatched, ...]:
        """Return the criteria that judged nothing, with the conditions that excluded everything."""
        unmatched, kinds = UnmatchedCriteria(tuple(map(register, self.criteria))), tool_kinds(self._config)
        for one in evaluation.trajectories:
            unmatched.see(with_writing_tools(one.trajectory, (), kinds))
        return unmatched.so_far()


def _by_kind(given: Iterable[object]) -> tuple[list[str], list[WrittenCriterion]]:
    """Separate files from objects."""
    files: list[str] = []
    objects: list[WrittenCriterion] = []
    for one in given:
        if isinstance(one, WrittenCriterion):
            objects.append(one)
        elif isinstance(one, Path):
            files.append(str(one))
        else:
            raise TypeError(
                f"a `{type(one).__name__}` is no criterion: give paths of criteria files, or `toolgauge.Criterion`"
            )
    return files, objects
