"""The front's side of observations: one watch, one view, one learning over the trajectories of all workers.

Messages of workers come in on the event loop and are read on a thread of its own, which owns the watcher: a drop that shows in
many streams at once, or a trajectory of thousands of calls, keeps no receiver waiting.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Protocol, TypeVar

from toolgauge.model.outcomes import Scorecard
from toolgauge.model.regressions import Regression
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.failing_calls import ResultCounts
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.process import Faults
from toolgauge.service.workers.observed_messages import (
    Observed,
    Wanted,
    WholeScorecard,
    read_observed,
    trajectories_of,
    write_wanted,
)
from toolgauge.watch.watcher import Watcher

_T = TypeVar("_T")
_TICK_S = 0.1
_END_WITHIN_S = 2.0
# Messages that wait to be read; about as many seconds of work as a webhook may take.
_MOST_BYTES = 32 * 1024 * 1024


class Learning(Protocol):
    """Learns from runs when a client wants it."""

    @property
    def is_learning(self) -> bool:
        """Whether runs are wanted."""
        ...

    def learn(self, read: Callable[[], Trajectory]) -> None:
        """Learn from a run, read where there is time for it."""
        ...

    def leave_out(self, runs: int) -> None:
        """Count runs for which a worker had no time."""
        ...


class Viewers:
    """Who looks at whole scorecards: each is given those that workers hand over, on the observing thread.

    `shown` scorecards a worker hands over at once, and `shown_per_second` later on, of those that failed and of the others; the
    rest is counted for `count`.
    """

    def __init__(
        self,
        show: Sequence[Callable[[Scorecard], None]] = (),
        *,
        shown: int = 0,
        shown_per_second: int = 0,
        count: Callable[[ResultCounts], None] | None = None,
        learning: Learning | None = None,
    ) -> None:
        self.show = tuple(show)
        self.shown = shown
        self.shown_per_second = shown_per_second
        self.count = count
        self.learning = learning

    @property
    def is_learning(self) -> bool:
        """Whether a client learns."""
        return self.learning is not None and self.learning.is_learning


class Observations:
    """Takes what workers have observed. `take`, `ready`, `start`, `stop` and `run` belong to the event loop.

    `send_to_all` and `send_to` have workers hand over what is wanted. `on_regressions` is called on the observing thread.
    """

    def __init__(
        self,
        *,
        watcher: Watcher | None,
        on_regressions: Callable[[Sequence[Regression]], None],
        viewers: Viewers,
        metrics: SelfMetrics,
        clock: Callable[[], int],
        send_to_all: Callable[[bytes], None],
        send_to: Callable[[int, bytes], object],
    ) -> None:
        self._watcher = watcher
        self._on_regressions = on_regressions
        self._viewers = viewers
        self._clock = clock
        self._send_to_all = send_to_all
        self._send_to = send_to
        self._faults = Faults(metrics)
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._bytes = 0
        self._lock = threading.Lock()
        self._dropped = 0
        metrics.observations_dropped.observe = lambda: {(): self._dropped}
        self._wishes = self.wishes()
        self._thread: threading.Thread | None = None
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to read messages."""
        self._thread = threading.Thread(target=self._run, name="toolgauge-observations", daemon=True)
        self._thread.start()
        self._looking = asyncio.create_task(self._look_regularly())

    async def stop(self) -> None:
        """Read what was taken, and end. Works twice and without a start."""
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
        thread, self._thread = self._thread, None
        if thread is not None:
            self._work.put(None)
            await asyncio.to_thread(thread.join, _END_WITHIN_S)

    def ready(self, worker: int) -> None:
        """Have a worker that has just started hand over the same as the others."""
        self._send_to(worker, self.wishes())

    def take(self, message: bytes) -> None:
        """Have a message read soon; count its trajectories where too many wait."""
        with self._lock:
            has_room = self._bytes + len(message) <= _MOST_BYTES
            self._bytes += len(message) if has_room else 0
        if has_room:
            self._work.put(partial(self._take, message))
        else:
            self._dropped += trajectories_of(message)

    def keep(self, streams: Collection[tuple[str, str]]) -> None:
        """Watch the scores of these criteria from here on, given by name and revision. Belongs to the observing thread."""
        if self._watcher is not None:
            self._watcher.keep(streams)

    async def run(self, work: Callable[[], _T]) -> _T:
        """Do this on the observing thread between two messages; here where there is none."""
        if self._thread is None:
            return work()
        outcome: Future[_T] = Future()
        outcome.set_running_or_notify_cancel()

        def do() -> None:
            try:
                outcome.set_result(work())
            except Exception as error:  # noqa: BLE001 (raised again where it is waited for)
                outcome.set_exception(error)

        self._work.put(do)
        return await asyncio.wrap_future(outcome)

    # -- what is wanted -----------------------------------------------------------------------------------------------

    def wishes(self) -> bytes:
        """Write what workers are to hand over, as things are now."""
        viewers = self._viewers
        wanted = Wanted(
            scores=self._watcher is not None,
            shown=viewers.shown,
            shown_per_second=viewers.shown_per_second,
            counts=viewers.count is not None,
            is_learning=viewers.is_learning,
        )
        return write_wanted(wanted)

    async def _look_regularly(self) -> None:
        """Have workers hand over more, or less, when a client begins or ends to learn."""
        while True:
            wishes = self.wishes()
            if wishes != self._wishes:
                self._wishes = wishes
                self._send_to_all(wishes)
            await asyncio.sleep(_TICK_S)

    # -- on the observing thread --------------------------------------------------------------------------------------

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

    def _take(self, message: bytes) -> None:
        with self._lock:
            self._bytes -= len(message)
        self.read(message, self._clock())

    def read(self, message: bytes, now_ns: int) -> None:
        """Give everyone what a message holds. Belongs to the observing thread."""
        observed = read_observed(message)
        self._watch(observed, now_ns)
        for handed in observed.scorecards:
            with self._faults.survived():
                self._show(handed)
        if self._viewers.count is not None:
            self._viewers.count(observed.counts)
        if self._viewers.learning is not None and observed.not_learned:
            self._viewers.learning.leave_out(observed.not_learned)

    def tick(self, now_ns: int) -> None:
        """Count the conversations that are complete. Belongs to the observing thread."""
        if self._watcher is not None:
            self._report(self._watcher.tick(now_ns))

    def _watch(self, observed: Observed, now_ns: int) -> None:
        if self._watcher is None:
            return
        for scores in observed.scores:
            with self._faults.survived():
                # By this clock: those of workers that were started later may differ, and conversations end by one clock.
                self._report(self._watcher.add(scores, now_ns))

    def _report(self, regressions: Sequence[Regression]) -> None:
        if regressions:
            self._on_regressions(regressions)

    def _show(self, handed: WholeScorecard) -> None:
        if handed.is_shown:
            scorecard = handed.read()
            for show in self._viewers.show:
                show(scorecard)
        if handed.is_learned and self._viewers.learning is not None:
            self._viewers.learning.learn(lambda: handed.read().trajectory)
