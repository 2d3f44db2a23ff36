"""The one thread that reads, recognizes, assembles, scores and encodes: it owns the pipeline and all of its state.

The event loop looks whether the thread is alive. When it has ended, whatever ended it, requests are sent on unread from then on, and
health asks for a restart.
"""

import asyncio
import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import TypeVar

from toolgauge.model.trajectory import Trajectory
from toolgauge.otlp.request import Request
from toolgauge.pipeline.pipeline import Pipeline
from toolgauge.score.criterion import Criterion
from toolgauge.score.scorer import run_id
from toolgauge.service.inbox import Inbox
from toolgauge.service.plug_in_evaluators import plug_ins
from toolgauge.service.process import Faults, settle
from toolgauge.state.under_way import UnderWay

_LOG = logging.getLogger("toolgauge")


class GivenUp(BaseException):
    """Ends the worker's thread when the event loop has taken over its work."""


class _EndedError(RuntimeError):
    """Something in a piece of work tried to end the thread."""


class _Evaluation(AbstractContextManager[None]):
    """Entered around each evaluation."""

    def __init__(self, ends: Callable[[], None]) -> None:
        self._ends = ends

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends()


_T = TypeVar("_T")
_TICK_NS = 100_000_000
_LOOK_S = 0.01
_STUCK_AFTER_NS = 15_000_000_000  # A trace of a hundred thousand spans takes a few seconds
_FLUSH_EVERY_NS = 500_000_000  # Each request to a destination costs as much as a few spans


class Worker:
    """Runs the pipeline on a thread of its own from `start` to `end`."""

    def __init__(
        self,
        pipeline: Pipeline,
        inbox: Inbox,
        *,
        clock: Callable[[], int],
        faults: Faults,
        under_way: UnderWay | None = None,
    ) -> None:
        """`under_way` notes the reading and evaluating of a process with a journal."""
        self._pipeline = pipeline
        self._inbox = inbox
        self._clock = clock
        self._faults = faults
        self._under_way = under_way
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._thread_id = 0
        self._evaluation = _Evaluation(self.end_if_given_up)
        # A request that was taken from the inbox and that the pipeline does not have yet.
        self._taken: Request | None = None
        self._is_ending = False
        self._is_given_up = False
        self._finishing: asyncio.Future[None] | None = None
        # Since when the worker has been at what it does; `None` while it waits.
        self.busy_since_ns: int | None = None
        self.stuck_after_ns = _STUCK_AFTER_NS
        # When the thread was found to have ended by itself.
        self.died_ns: int | None = None

    @property
    def is_idle(self) -> bool:
        """Return whether nothing waits to be read."""
        return self._inbox.is_empty and self.busy_since_ns is None

    @property
    def criteria_off(self) -> Mapping[str, int]:
        """The criteria whose evaluators were late too often, and since when they are off."""
        evaluators = plug_ins(self._pipeline.scorer.criteria)
        return {name: one.off_since_ns for name, one in evaluators if one.off_since_ns is not None}

    @property
    def stuck_since_ns(self) -> int | None:
        """Since when the worker has been at one piece of work, when that is too long; else `None`."""
        since_ns = self.busy_since_ns
        return since_ns if since_ns is not None and self._clock() - since_ns > self.stuck_after_ns else None

    def start(self) -> None:
        """Begin to work."""
        self._thread = threading.Thread(target=self._run, name="toolgauge-worker", daemon=True)
        self._thread.start()

    def around(self, criterion: Criterion, trajectory: Trajectory) -> AbstractContextManager[None]:
        """Note an evaluation that begins; end the thread before and after one when the event loop has taken over."""
        self.end_if_given_up()
        if self._under_way is not None:
            self._under_way.evaluates(run_id(trajectory), criterion.name)
        return self._evaluation

    def end_if_given_up(self) -> None:
        """End the worker's thread when it has to touch nothing more."""
        if self._is_given_up and threading.get_ident() == self._thread_id:
            raise GivenUp

    def watch(self) -> None:
        """Take over from a thread that has ended by itself. Called often, on the event loop."""
        if self.died_ns is None:
            if self._thread is None or self._thread.is_alive() or self._is_ending or self._is_given_up:
                return
            self.died_ns = self._clock()
            self.give_up()
            _LOG.error("the thread that scores has ended: spans are sent on unscored; start the process again")
            with self._faults.survived():
                self._pipeline.release()
            if self._taken is not None:
                with self._faults.survived():
                    self._pipeline.process_unread(self._taken)
                self._inbox.done(self._taken)
        self._do_posted()
        for request in self._inbox.drain():
            with self._faults.survived():
                self._pipeline.process_unread(request)
        with self._faults.survived():
            self._pipeline.flush()

    async def run(self, work: Callable[[], _T], timeout_s: float | None = None) -> _T:
        """Have the worker do this between two pieces of work, or do it here when no worker runs. Raises `TimeoutError`."""
        if self._thread is None or self._is_given_up:
            return work()
        outcome: Future[_T] = Future()

        def do() -> None:
            if not outcome.set_running_or_notify_cancel():
                return
            settle(outcome, work)

        self.post(do)
        async with asyncio.timeout(timeout_s):
            return await asyncio.wrap_future(outcome)

    def post(self, work: Callable[[], None]) -> None:
        """Have the worker do this between two pieces of its own work, without waiting for it."""
        self._work.put(work)
        self._inbox.wake()

    async def begin_to_finish(self, work: Callable[[], None], timeout_s: float) -> None:
        """Have this done when everything in the inbox has been read, or after so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not self._inbox.is_empty and self._thread is not None:
                    await asyncio.sleep(_LOOK_S)
        self._finishing = asyncio.ensure_future(self.run(work))

    async def finished(self, timeout_s: float) -> None:
        """Wait for what `begin_to_finish` was asked to do; raise `TimeoutError` when it takes too long."""
        if self._finishing is not None:
            async with asyncio.timeout(timeout_s):
                await asyncio.shield(self._finishing)

    def give_up(self) -> None:
        """Leave the pipeline to the caller: the worker does nothing more with it when it comes back."""
        self._is_given_up = True
        if self._finishing is not None:
            self._finishing.cancel()

    def end(self, timeout_s: float) -> None:
        """End the thread; one that is stuck is left alone. Works twice and without a start."""
        self._is_ending = True
        self._inbox.wake()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join(timeout_s)
        for _, evaluator in plug_ins(self._pipeline.scorer.criteria):
            evaluator.threads.end()

    def _run(self) -> None:
        self._thread_id = threading.get_ident()
        next_tick = next_flush = self.busy_since_ns = self._clock()
        is_due = False
        while not self._is_ending:
            self.busy_since_ns = None
            if self._under_way is not None:
                self._under_way.rests()
            request = self._taken = self._inbox.take(0 if is_due else max(0.0, (next_tick - self._clock()) / 1e9))
            now = self.busy_since_ns = self._clock()
            try:
                # First what came first: work that closes everything would leave open what is in this request.
                if request is not None:
                    if self._under_way is not None and isinstance(request.entry, int):
                        self._under_way.reads(request.entry)
                    with self._survived():
                        # From here on the pipeline passes it on, whatever happens.
                        self._taken = None
                        self._pipeline.process(request)
                    self._inbox.done(request)
                self._do_posted()
                if self._is_given_up:
                    return
                if self._inbox.is_empty or now >= next_tick:
                    with self._survived():
                        self._pipeline.egress.forward()
                if now >= next_tick or (is_due and request is None):
                    # Of a tick that fails, what failed is closed; whether more is due shows at the next one.
                    is_due = False
                    with self._survived():
                        # What waits in the inbox came in time: nothing closes as if it had not.
                        is_due = self._pipeline.tick(now if request is None else request.received_ns)
                    ended = self._clock()
                    # Requests have as much time as trajectories while there is more to close.
                    next_tick = ended + min(ended - now, _TICK_NS) if is_due else now + _TICK_NS
                if now >= next_flush or self._pipeline.egress.is_pressing:
                    next_flush = now + _FLUSH_EVERY_NS
                    with self._survived():
                        self._pipeline.flush()
            except GivenUp:
                return

    @contextmanager
    def _survived(self) -> Generator[None]:
        """Do one piece of work; no exception but `GivenUp` ends the thread, not even one that would end a process."""
        with self._faults.survived():
            try:
                yield
            except (Exception, GivenUp):
                raise
            except BaseException as error:
                raise _EndedError(type(error).__name__) from error

    def _do_posted(self) -> None:
        while not self._is_given_up or self.died_ns is not None:
            try:
                work = self._work.get_nowait()
            except queue.Empty:
                return
            with self._survived():
                work()
