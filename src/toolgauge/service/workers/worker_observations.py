"""The scorecards of all workers at the front: one watch, one web view, one summary.

Without room a message is counted and dropped. The front reads messages on a thread of its own, which owns the watcher.
"""

import asyncio
import pickle
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import msgspec
from msgspec import Struct

from toolgauge.model.feedback import Feedback
from toolgauge.model.notices import Notice
from toolgauge.model.outcomes import Scorecard, outcome_word
from toolgauge.model.regressions import Regression
from toolgauge.pipeline.stages import ignore
from toolgauge.score.failing_calls import ResultCounts
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.process import Faults, settle
from toolgauge.service.worker import Worker
from toolgauge.service.workers.channel import packed
from toolgauge.watch.open_conversations import TrajectoryScores, trajectory_scores
from toolgauge.watch.watcher import Watcher

_T = TypeVar("_T")
_TICK_S = 0.1
_SECOND_NS = 1_000_000_000
_END_WITHIN_S = 2.0
# Messages that wait at the front; about as many seconds of work as a webhook may take.
_MAX_WAITING_BYTES = 32 * 1024 * 1024
# A worker sends a larger message at once.
_MAX_MESSAGE_BYTES = 256 * 1024
_MAX_NOTICES = 100  # Of a message; few a minute are announced
_SCORES_BYTES, _TOOL_BYTES, _FEEDBACK_BYTES = 2048, 100, 1024
_COUNT_BYTES = 4  # The number of trajectories comes first: a message that is dropped is counted without being read


class Wanted(Struct, array_like=True, frozen=True):
    """The front's wishes: scores, `shown` scorecards at first, then a rate each for failed and other ones, and `counts` of the rest."""

    scores: bool = False
    shown: int = 0
    shown_per_second: int = 0
    counts: bool = False


class Observed(Struct, array_like=True):
    """The findings of a worker since its last message: `scorecards` are pickled, `counts` are of those left out."""

    scores: list[TrajectoryScores]
    scorecards: list[bytes]
    counts: ResultCounts
    notices: list[Notice] = []
    feedback: list[Feedback] = []


_ENCODER = msgspec.msgpack.Encoder()
_OBSERVED = msgspec.msgpack.Decoder(Observed)


@dataclass(frozen=True, slots=True)
class Viewers:
    """Viewers of whole scorecards, called on the observing thread; `count` gets the counts of scorecards not shown."""

    show: Sequence[Callable[[Scorecard], None]] = ()
    shown: int = 0
    shown_per_second: int = 0
    count: Callable[[ResultCounts], None] | None = None


class Observations:
    """The front's side. `take`, `start`, `stop` and `run` belong to the event loop, the rest to the observing thread."""

    def __init__(
        self,
        *,
        watcher: Watcher | None,
        on_regressions: Callable[[Sequence[Regression]], None],
        on_notices: Callable[[Sequence[Notice]], None],
        on_feedback: Callable[[Feedback], None] = ignore,
        viewers: Viewers,
        metrics: SelfMetrics,
        clock: Callable[[], int],
    ) -> None:
        self._watcher = watcher
        self._on_regressions = on_regressions
        self._on_notices = on_notices
        self._on_feedback = on_feedback
        self._viewers = viewers
        self._clock = clock
        self._faults = Faults(metrics)
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._bytes = 0
        self._lock = threading.Lock()
        self._dropped = 0
        metrics.observations_dropped.observe = lambda: {(): self._dropped}
        self._thread: threading.Thread | None = None

    @property
    def wishes(self) -> bytes:
        """The message with which a worker that has started learns what to hand over."""
        viewers = self._viewers
        wanted = Wanted(self._watcher is not None, viewers.shown, viewers.shown_per_second, viewers.count is not None)
        return _ENCODER.encode(wanted)

    def start(self) -> None:
        """Begin to read messages."""
        self._thread = threading.Thread(target=self._run, name="toolgauge-observations", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """Read the messages that wait, and end. Works twice and without a start."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._work.put(None)
            await asyncio.to_thread(thread.join, _END_WITHIN_S)

    def take(self, message: bytes) -> None:
        """Have a message read soon; count its trajectories where too many wait."""
        with self._lock:
            has_room = self._bytes + len(message) <= _MAX_WAITING_BYTES
            self._bytes += len(message) if has_room else 0
        if has_room:
            self._work.put(partial(self.read, message))
        else:
            self._dropped += int.from_bytes(message[:_COUNT_BYTES])

    def keep(self, streams: Mapping[tuple[str, str], str]) -> None:
        """Watch the scores of these criteria, given as measures by name and revision. Belongs to the observing thread."""
        if self._watcher is not None:
            self._watcher.keep(streams)

    async def run(self, work: Callable[[], _T]) -> _T:
        """Do this on the observing thread between two messages; here without one."""
        if self._thread is None:
            return work()
        outcome: Future[_T] = Future()
        self._work.put(partial(settle, outcome, work))
        return await asyncio.wrap_future(outcome)

    def _run(self) -> None:
        next_tick_ns = self._clock()
        is_ending = False
        while not is_ending:
            try:
                work = self._work.get(timeout=max(0.0, (next_tick_ns - self._clock()) / 1e9))
            except queue.Empty:
                pass
            else:
                is_ending = work is None
                if work is not None:
                    with self._faults.survived():
                        work()
            if self._clock() >= next_tick_ns:
                next_tick_ns = self._clock() + int(_TICK_S * 1e9)
                with self._faults.survived():
                    self.tick(self._clock())

    def read(self, message: bytes, now_ns: int | None = None) -> None:
        """Watch, show and count the contents of a message, as of now. Belongs to the observing thread."""
        with self._lock:
            self._bytes -= len(message)
        observed = _OBSERVED.decode(memoryview(message)[_COUNT_BYTES:])
        self._on_notices(observed.notices)
        if self._watcher is not None:
            for scores in observed.scores:
                with self._faults.survived():
                    # By this clock: the clocks of workers that were started later may differ, and conversations end by one clock.
                    if regressions := self._watcher.add(scores, self._clock() if now_ns is None else now_ns):
                        self._on_regressions(regressions)
        for pickled in observed.scorecards:
            with self._faults.survived():
                scorecard: Scorecard = pickle.loads(pickled)  # noqa: S301 (written by a worker of ours)
                for show in self._viewers.show:
                    show(scorecard)
        if self._viewers.count is not None:
            self._viewers.count(observed.counts)
        for feedback in observed.feedback:
            self._on_feedback(feedback)

    def shed(self) -> None:
        """Have memory given back soon. Any thread may call."""
        if self._watcher is not None:
            self._work.put(self._watcher.shed)

    def tick(self, now_ns: int) -> None:
        """Count the conversations that are complete. Belongs to the observing thread."""
        if self._watcher is not None and (regressions := self._watcher.tick(now_ns)):
            self._on_regressions(regressions)


class WorkerObserver:
    """Sends the scorecards that are added. All but `start` and `control` belong to the worker's thread."""

    def __init__(self, send: Callable[[bytes], bool], *, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._send = send
        self._clock = clock
        self._wanted = Wanted()
        self._flushing: asyncio.Task[None] | None = None
        # Trajectories that did not reach the front.
        self.dropped = 0
        self._found = Observed([], [], ResultCounts())
        self._found_bytes = 0
        # How many were shown in all, and in this second, of failed and of other scorecards.
        self._shown = 0
        self._second = 0
        self._shown_now = [0, 0]

    def start(self, metrics: SelfMetrics, worker: Worker) -> None:
        """Begin to send what this worker scores, on the running loop."""
        metrics.observations_dropped.observe = lambda: {(): self.dropped}

        async def flush_regularly() -> None:
            while True:
                await asyncio.sleep(_TICK_S)
                worker.post(self.flush)

        self._flushing = asyncio.create_task(flush_regularly())

    def control(self, message: bytes) -> None:
        """Take the front's wishes. Any thread may call."""
        self._wanted = msgspec.msgpack.decode(message, type=Wanted)

    def add(self, scorecard: Scorecard) -> None:
        """Take note of a scorecard; send when it is time."""
        wanted, found = self._wanted, self._found
        scores = trajectory_scores(scorecard) if wanted.scores else None
        if scores is not None:
            found.scores.append(scores)
            tools = [len(tool.form) for offer in scores.offers for tool in offer.tools]
            self._found_bytes += _SCORES_BYTES + sum(tools) + _TOOL_BYTES * len(tools)
        if scorecard.results or scorecard.trajectory.calls:
            if self._is_shown(scorecard):
                try:
                    found.scorecards.append(packed(scorecard))
                    self._found_bytes += len(found.scorecards[-1])
                except RecursionError:
                    # Values that are nested hundreds deep: somebody's arguments.
                    self.dropped += 1
            elif wanted.counts:
                found.counts.add(scorecard)
        if self._found_bytes >= _MAX_MESSAGE_BYTES:
            self.flush()

    def notify(self, notices: Sequence[Notice]) -> None:
        """Send failed runs with the next message; those beyond its room are left out."""
        self._found.notices.extend(notices[: _MAX_NOTICES - len(self._found.notices)])

    def hear(self, feedback: Feedback) -> None:
        """Send a verdict with the next message, where the front shows runs."""
        if self._wanted.shown:
            self._found.feedback.append(feedback)
            self._found_bytes += _FEEDBACK_BYTES
        if self._found_bytes >= _MAX_MESSAGE_BYTES:
            self.flush()

    def _is_shown(self, scorecard: Scorecard) -> bool:
        """Return whether a scorecard is to be shown: always at first, and within the share of its second later on."""
        wanted = self._wanted
        # What judges add is little, and belongs to one that may be shown.
        if not wanted.shown or scorecard.by_judges:
            return bool(wanted.shown)
        second = self._clock() // _SECOND_NS
        if second != self._second:
            self._second, self._shown_now = second, [0, 0]
        failed = any(
            result.enforce == "live" and outcome_word(result.outcome) in ("fail", "error")
            for result in scorecard.results
        )
        is_shown = self._shown < wanted.shown or self._shown_now[failed] < wanted.shown_per_second
        self._shown += is_shown
        self._shown_now[failed] += is_shown
        return is_shown

    def flush(self) -> None:
        """Send the findings since the last message."""
        found = self._found
        if found.scores or found.scorecards or found.counts.scorecards or found.notices or found.feedback:
            self._found, self._found_bytes = Observed([], [], ResultCounts()), 0
            count = max(len(found.scores), len(found.scorecards) + found.counts.scorecards, len(found.feedback))
            if not self._send(count.to_bytes(_COUNT_BYTES) + _ENCODER.encode(found)):
                self.dropped += count
