"""Recordings, scored once: a second question about the same files and criteria is answered from memory.

Memory is bounded and holds failed trajectories first; figures count all. Changed files are read again.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from cachetools import LRUCache

from toolgauge.authoring.runs import with_runs_put_together
from toolgauge.config.load import Sources, find_sources
from toolgauge.config.model import Config
from toolgauge.export.redact import Redactor
from toolgauge.model.errors import ConfigError, RecordingError
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.trajectory import TrajectoryScope
from toolgauge.recordings.recorded_requests import RecordedRequest, read, scorecards
from toolgauge.report.findings import ResultSummary
from toolgauge.score.criterion import Criterion, register, with_writing_tools
from toolgauge.score.unmatched import UnmatchedCriteria
from toolgauge.service.criteria_factory import EvaluatorFiles, evaluator_files, load_for_replay
from toolgauge.service.pipeline_factory import offline_pipeline, redactor, tool_kinds
from toolgauge.settings import FileState
from toolgauge.web.trajectory_store import KeptTrajectory, TrajectoryStore


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedScoring:
    """How recordings are scored."""

    config: Config
    criteria: tuple[Criterion, ...]
    redactor: Redactor = field(compare=False)

    @property
    def pass_at(self) -> dict[str, float]:
        """The least score that passes, by the revision of the criterion."""
        return {criterion.revision: criterion.pass_at for criterion in self.criteria}


class ScoringFiles:
    """The configuration and criteria files that were named at the start."""

    def __init__(
        self, config_paths: tuple[str, ...] = (), overrides: tuple[str, ...] = (), criteria_files: tuple[str, ...] = ()
    ) -> None:
        """Load them, and run the evaluators in files; raise `ConfigError` with every problem found."""
        self._config_paths = config_paths
        self._overrides = overrides
        self._criteria_files = criteria_files
        self._evaluators = EvaluatorFiles()
        states = self._states()
        self._known = states, self._loaded(overrides)
        self._evaluators.close()
        self._code = Sources(tuple(map(Path, self.code)), ()).states()

    @property
    def code(self) -> tuple[str, ...]:
        """The Python files whose evaluators run."""
        return evaluator_files(self._known[1].criteria)

    def load(self) -> LoadedScoring:
        """Read the files again where they have changed; raise `ConfigError` with every problem found."""
        states = self._states()
        if self._known[0] != states:
            self._known = states, self._checked(self._loaded(self._overrides))
        return self._known[1]

    def load_for_runs(self, scope: TrajectoryScope) -> LoadedScoring:
        """Return the same for runs of this scope, which are put together for it."""
        return self._checked(self._loaded(with_runs_put_together(scope, self._overrides)))

    def _loaded(self, overrides: tuple[str, ...]) -> LoadedScoring:
        config, criteria = load_for_replay(
            self._config_paths, overrides, self._criteria_files, os.environ, evaluators=self._evaluators
        )
        return LoadedScoring(config=config, criteria=criteria, redactor=redactor(config))

    def _checked(self, scoring: LoadedScoring) -> LoadedScoring:
        now = Sources(tuple(map(Path, evaluator_files(scoring.criteria))), ()).states()
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


# Of one recording, and recordings; together 256 MB.
MAX_TRAJECTORIES = 20_000
MAX_BYTES = 64 * 1024 * 1024
_MAX_RECORDINGS = 4


@dataclass(slots=True)
class Work:
    """How far reading is, the reasons for files that are not read as a whole, and whether the question was withdrawn.

    Reading is on one thread, looking at it on another.
    """

    unread: dict[str, str] = field(default_factory=dict[str, str])
    done_bytes: int = 0
    # `None` while it is not known, as where files are compressed.
    total_bytes: int | None = None
    _withdrawn: Event = field(default_factory=Event)

    def requests(self, files: Sequence[str]) -> Iterator[RecordedRequest]:
        """Yield the requests of a recording; raise `RecordingError` once the question was withdrawn.

        What cannot be read is left out; raise `RecordingError` where this leaves nothing.
        """
        compressed = any(file.endswith((".gz", ".xz")) for file in files)
        self.done_bytes, self.total_bytes = 0, None if compressed else sum(Path(file).stat().st_size for file in files)
        is_read = False
        for request in read(files, self._read, self.unread.setdefault):
            is_read = True
            yield request
        unread = [self.unread[file] for file in files if file in self.unread]
        if unread and not is_read:
            raise RecordingError(unread[0])

    def withdraw(self) -> None:
        """Have reading end."""
        self._withdrawn.set()

    def _read(self, size: int) -> None:
        self.done_bytes += size
        if self._withdrawn.is_set():
            raise RecordingError("the question was withdrawn")


class ScoredRecording:
    """One recording with its results. `trajectories` counts all, `store` has as many as fit."""

    def __init__(self, scoring: LoadedScoring, max_trajectories: int = MAX_TRAJECTORIES) -> None:
        self.scoring = scoring
        self.summary = ResultSummary(scoring.criteria)
        self.store = TrajectoryStore(max_trajectories, MAX_BYTES)
        self.trajectories = 0
        self.unread: dict[str, str] = {}
        # Finds the criteria of people that judged nothing.
        self.unmatched = UnmatchedCriteria(tuple(map(register, scoring.criteria)))
        self._kinds = tool_kinds(scoring.config)

    def add(self, scorecard: Scorecard) -> None:
        """Take one trajectory."""
        self.trajectories += 1
        self.summary.add(scorecard)
        self.unmatched.see(with_writing_tools(scorecard.trajectory, (), self._kinds))
        self.store.add(scorecard)

    @property
    def kept(self) -> list[KeptTrajectory]:
        """The trajectories with room, failed ones first, each group from the newest to the oldest."""
        return sorted(self.store.newest(), key=lambda one: (not one.is_failed, -one.trajectory.end_ns))

    @property
    def is_whole(self) -> bool:
        """Whether every trajectory with results is kept, under an id of its own."""
        return self.store.added == len(self.store) and not self.store.evicted


class ScoredRecordings:
    """Scores recordings, and remembers the last ones. For one thread at a time."""

    def __init__(self, max_trajectories: int = MAX_TRAJECTORIES) -> None:
        self._max_trajectories = max_trajectories
        self._known = LRUCache[tuple[str, ...], tuple[object, ScoredRecording]](_MAX_RECORDINGS)

    def scored(self, files: tuple[str, ...], scoring: LoadedScoring, work: Work) -> ScoredRecording:
        """Return a recording as it is now, from memory where neither files nor criteria have changed."""
        try:
            states = tuple((one.st_ino, one.st_mtime_ns, one.st_size) for one in (Path(file).stat() for file in files))
        except OSError as error:
            raise RecordingError(f"cannot read `{error.filename}`: {error.strerror}") from error
        known = self._known.pop(files, None)
        if known is not None and known[0] == states and known[1].scoring == scoring:
            self._known[files] = known
            work.unread |= known[1].unread
            return known[1]
        # The oldest gives way before the next is read, so that both never take memory together.
        while len(self._known) >= _MAX_RECORDINGS:
            self._known.popitem()
        found = ScoredRecording(scoring, self._max_trajectories)
        for scorecard in scored_requests(files, scoring, work):
            found.add(scorecard)
        found.unread = {file: work.unread[file] for file in files if file in work.unread}
        self._known[files] = states, found
        return found

    def results(self, files: tuple[str, ...], scoring: LoadedScoring, work: Work) -> Iterator[Scorecard]:
        """Yield all results of a recording, kept or not."""
        found = self.scored(files, scoring, work)
        if not found.is_whole:
            yield from scored_requests(files, scoring, work)
            return
        yield from found.store.newest()


def scored_requests(files: Sequence[str], scoring: LoadedScoring, work: Work) -> Iterator[Scorecard]:
    """Score a recording, and keep nothing."""
    return scorecards(work.requests(files), offline_pipeline(scoring.config, scoring.criteria))
