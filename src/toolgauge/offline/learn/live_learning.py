"""Learning from what passes through a running service, for a client that asks for it.

The worker adds trajectories, within a small share of its time; a run that would take more is left out and counted. What is
learned is written on another thread, after the worker's last run. Where no client asks any more, it is dropped.
"""

import asyncio
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from toolgauge.model.delivery import Outgoing
from toolgauge.model.learning import EndLearning, Learned, LearningState
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.trajectory import Trajectory
from toolgauge.offline.learn.evidence import Requirements
from toolgauge.offline.learn.learner import Learner, Options
from toolgauge.pipeline.stages import ScorecardSink
from toolgauge.score.criterion import ToolKinds, with_writing_tools
from toolgauge.score.scorer import ReadingScope
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.process import Faults, TimeShare
from toolgauge.service.watching import OnWorker
from toolgauge.settings import MINUTE, SECOND, duration_text

_T = TypeVar("_T")
# Learning takes one part in so many of the time of a core.
_SHARE = 25
_LOOK_S = 1.0
LEASE_NS = 5 * MINUTE


class Scoring(Protocol):
    """A running service: what it reads, and who may do something between two pieces of its work."""

    @property
    def metrics(self) -> SelfMetrics:
        """Its counters."""
        ...

    @property
    def reading_scope(self) -> ReadingScope:
        """What it reads, by now."""
        ...

    async def run(self, work: Callable[[], _T]) -> _T:
        """Have the thread that runs are handed over on do something in between."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """In nanoseconds: the time that passes, and the CPU time of the thread that asks."""

    passed: Callable[[], int] = time.monotonic_ns
    cpu_time: Callable[[], int] = time.thread_time_ns


_CLOCKS = Clocks()


class LiveSession:
    """Learns for one client until `until_ns`. `add` belongs to the worker; its counts may be read by any thread."""

    def __init__(self, duration_ns: int, reading: ReadingScope, kinds: ToolKinds, clocks: Clocks) -> None:
        self.id = uuid.uuid4().hex
        self._reading = reading
        self._kinds = kinds
        self._clock = clocks.passed
        self._cpu_time = clocks.cpu_time
        self._learner = Learner()
        self._begun_ns = self.asked_ns = clocks.passed()
        self.until_ns = self._begun_ns + duration_ns
        self._time = TimeShare(_SHARE, clocks.passed)
        self.runs = 0
        self.calls = 0
        self.skipped = 0
        self.writing: asyncio.Task[Learned] | None = None

    def add(self, read: Callable[[], Trajectory]) -> None:
        """Learn from a run, or leave it out, unread, where there is no time for it."""
        if self._clock() >= self.until_ns:
            return
        # Decided before the run is looked at: long runs are left out no more often than short ones.
        if not self._time.has_time:
            self.skipped += 1
            return
        begun_ns = self._cpu_time()
        try:
            self._learn(read())
        finally:
            self._time.spend(self._cpu_time() - begun_ns)

    def leave_out(self, runs: int) -> None:
        """Count runs for which there was no time elsewhere."""
        if self._clock() < self.until_ns:
            self.skipped += runs

    def is_part(self, trajectory: Trajectory) -> bool:
        """Return whether a trajectory is no run: a trace is a part of one where the service joins conversations."""
        joins = self._reading.conversations
        return joins and trajectory.scope == "trace" and trajectory.conversation_id is not None

    def _learn(self, trajectory: Trajectory) -> None:
        if self.is_part(trajectory):
            return
        self._learner.add(with_writing_tools(trajectory, (), self._kinds))
        self.runs += 1
        self.calls += len(trajectory.calls)

    def state(self) -> LearningState:
        """Return how far this has come."""
        left_ns = max(0, self.until_ns - self._clock())
        return LearningState(left_ns=left_ns, runs=self.runs, calls=self.calls, skipped=self.skipped)

    def learned(self, wanted: EndLearning) -> Learned:
        """Write what was learned; nothing may be added meanwhile."""
        requirements = Requirements(runs=wanted.min_runs, tolerance=wanted.tolerance)
        options = Options(requirements=requirements, most_alarms=wanted.false_alarms)
        text, services = self._learner.result(options, self._notes())
        return Learned(
            text=text,
            services=services,
            runs=self._learner.runs,
            calls=self._learner.calls,
            skipped=self.skipped,
            cut_short=self._learner.cut_short,
        )

    def _notes(self) -> Sequence[str]:
        seconds = round((min(self._clock(), self.until_ns) - self._begun_ns) / SECOND)
        notes = [f"Live traffic: {self.runs} runs in {duration_text(seconds * SECOND)}."]
        if self.skipped:
            notes.append(
                f"{self.skipped} further runs were left out: learning may take {100 // _SHARE} % of the time of a core."
            )
        if not self._reading.content:
            notes.append(
                "No criterion of the process looks at messages and results, so it did not read them: nothing is learned of "
                "where values come from, and of what users confirmed."
            )
        return notes


class LiveLearning:
    """Learns from the runs of a service when a client asks, for one client at a time; costs nothing otherwise.

    `observe` before the service is made, `start` and `stop` around it. Everything but the observed sink belongs to the
    event loop.
    """

    def __init__(self, kinds: ToolKinds, clocks: Clocks = _CLOCKS) -> None:
        self._kinds = kinds
        self._clocks = clocks
        self._clock = clocks.passed
        self._session: LiveSession | None = None
        # What the worker adds to.
        self.adding: LiveSession | None = None
        self.faults: Faults | None = None
        self._on_worker: OnWorker | None = None
        self._read: Callable[[], ReadingScope] = lambda: ReadingScope(conversations=False, content=False)
        self._looking: asyncio.Task[None] | None = None

    def observe(self, sink: ScorecardSink) -> ScorecardSink:
        """Wrap a sink: what passes through it is learned from."""
        return _ObservedSink(sink, self)

    @property
    def is_learning(self) -> bool:
        """Whether runs are wanted."""
        return self.adding is not None

    def learn(self, read: Callable[[], Trajectory]) -> None:
        """Learn from a run where a client wants it. Belongs to the worker."""
        session, faults = self.adding, self.faults
        if session is not None and faults is not None:
            with faults.survived():
                session.add(read)

    def leave_out(self, runs: int) -> None:
        """Count runs for which there was no time before they came here. Belongs to the worker."""
        session = self.adding
        if session is not None:
            session.leave_out(runs)

    def adopt(self, kinds: ToolKinds) -> None:
        """Take which tools change state from these settings, from the next client on."""
        self._kinds = kinds

    def start(self, service: Scoring) -> None:
        """Learn from this service from here on."""
        self.faults = Faults(service.metrics)
        self._on_worker = service.run
        self._read = lambda: service.reading_scope

    async def stop(self) -> None:
        """Learn no more. Works twice and without a start."""
        self._drop()
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    def begin(self, duration_ns: int) -> str | None:
        """Begin to learn, and return the id to ask with; `None` while another client learns."""
        self.look()
        before = self._session
        # What was learned is still to be asked for, or is being written.
        if before is not None and (before.writing is None or not before.writing.done()):
            return None
        session = LiveSession(duration_ns, self._read(), self._kinds, self._clocks)
        self._session = self.adding = session
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_regularly())
        return session.id

    def state(self, id_: str) -> LearningState | None:
        """Return how far learning has come for the client with this id; `None` where it has ended."""
        session = self._asked(id_)
        return None if session is None else session.state()

    async def end(self, wanted: EndLearning) -> Learned | None:
        """End learning and return what was learned, again when asked again; `None` where this id learns nothing."""
        session = self._asked(wanted.id)
        if session is None:
            return None
        if self.adding is session:
            self.adding = None
        if session.writing is None:
            session.writing = asyncio.create_task(self._write(session, wanted))
        # Who gives up waiting may ask again.
        return await asyncio.shield(session.writing)

    async def _write(self, session: LiveSession, wanted: EndLearning) -> Learned:
        if self._on_worker is not None:
            # Afterwards the worker is done with the run that it may have been adding.
            await self._on_worker(lambda: None)
        return await asyncio.to_thread(session.learned, wanted)

    def look(self) -> None:
        """Stop learning at its end, and drop a session that no client asks about."""
        session, now_ns = self._session, self._clock()
        if session is None:
            return
        if now_ns >= session.until_ns:
            self.adding = None
        if now_ns >= session.asked_ns + LEASE_NS:
            self._drop()

    def _asked(self, id_: str) -> LiveSession | None:
        self.look()
        session = self._session
        if session is None or session.id != id_:
            return None
        session.asked_ns = self._clock()
        return session

    def _drop(self) -> None:
        self._session = self.adding = None

    async def _look_regularly(self) -> None:
        while self._session is not None:
            await asyncio.sleep(_LOOK_S)
            self.look()


class _ObservedSink:
    """A sink of scorecards that are learned from, too."""

    def __init__(self, sink: ScorecardSink, learning: LiveLearning) -> None:
        self._sink = sink
        self._learning = learning

    def record(self, scorecard: Scorecard) -> None:
        """Pass the scorecard on, and learn from its trajectory; what judges add is of one that was seen."""
        self._sink.record(scorecard)
        session, trajectory = self._learning.adding, scorecard.trajectory
        if session is not None and not scorecard.by_judges and not session.is_part(trajectory):
            self._learning.learn(lambda: trajectory)

    def requests(self, scorecards: Sequence[Scorecard]) -> Iterable[Outgoing]:
        """Pass the requests on."""
        return self._sink.requests(scorecards)
