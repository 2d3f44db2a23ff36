"""The one thread that reads, recognizes, assembles, scores and encodes: it owns the pipeline and all of its state.

The event loop watches each evaluation. One that uses up its CPU time is cut off: `EvaluationTimeout` is raised inside it, and only
there, as elsewhere it would tear state. One that waits for something, or stays in a C library, keeps its thread, which never comes back
from it; another thread goes on.
"""

import asyncio
import contextlib
import ctypes
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TypeVar

from toolgauge.pipeline.pipeline import Pipeline
from toolgauge.score.criterion import Criterion
from toolgauge.score.scorer import run_id
from toolgauge.service.inbox import Inbox
from toolgauge.service.process import Faults
from toolgauge.state.under_way import UnderWay

_LIMIT_NS = 10_000_000_000
# Of the time that an evaluation takes by the clock, and of that time after it was cut off.
_HUNG_AFTER_NS = 15_000_000_000
_HUNG_AFTER_CUT_NS = 5_000_000_000
# It waits if it uses less than this part of a processor: one that computes on a busy machine is cut off some time.
_WAITING_SHARE = 20
# Between two looks the whole process may have been stopped, which is no fault of an evaluator.
_LONGEST_LOOK_NS = 1_000_000_000


class EvaluationTimeout(BaseException):
    """Raised inside an evaluator that was cut off."""


class GivenUp(BaseException):
    """Ends the worker's thread when the event loop has taken over its work."""


class EvaluationLimit(AbstractContextManager[None]):
    """Entered by the worker around each evaluation; raises `TimeoutError` there. `watch` belongs to another thread."""

    def __init__(self, limit_ns: int = _LIMIT_NS) -> None:
        self.limit_ns = limit_ns
        self._thread_id = 0
        self._clock_id: int | None = None
        self._began_ns: int | None = None
        self._is_running = False
        self._is_watching = False
        self._is_raised = False
        self._is_given_up = False
        self._is_abandoned = False
        # How long the evaluation has been watched, and since it was cut off.
        self._watched_ns = self._cut_watched_ns = 0
        self._looked_ns = time.monotonic_ns()

    def __enter__(self) -> None:
        """Begin an evaluation."""
        self._end_if_given_up()
        if self._thread_id != threading.get_ident():
            self._thread_id = threading.get_ident()
            # Not every system has it: wall-clock time then stands for CPU time.
            get_clock_id = getattr(time, "pthread_getcpuclockid", None)
            self._clock_id = None if get_clock_id is None else get_clock_id(self._thread_id)
        # Read by `watch` when it first looks: reading the clock here would take as long as many an evaluation.
        self._began_ns = None
        self._is_running = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End; raise `TimeoutError` when the evaluation was cut off."""
        is_cut = self.settle() or kind is EvaluationTimeout
        self._end_if_given_up()
        if is_cut:
            raise TimeoutError from None

    def settle(self) -> bool:
        """End the evaluation, also one that was cut off as it ended: its exception came outside. True if it was cut off."""
        is_cut = False
        while True:
            try:
                self._disarm()
            except EvaluationTimeout:
                is_cut = True
            else:
                break
        while self._is_abandoned:
            # Another thread goes on with all that this one knows: not even a `finally` may run here.
            time.sleep(3600)
        return is_cut

    def watch(self) -> bool:
        """Cut the evaluation off that has used up its time; return True when it keeps its thread, which is abandoned then."""
        self.cut_off(self.limit_ns)
        return self._abandoned_if_hung()

    def give_up(self) -> None:
        """Have the thread stop for good when its evaluation ends."""
        self._is_given_up = True

    def _end_if_given_up(self) -> None:
        if self._is_given_up:
            # The event loop has taken over what this thread was working on: end the thread, and touch nothing more.
            raise GivenUp

    def cut_off(self, limit_ns: int = -1) -> None:
        """Cut off the evaluation under way, if it has used so much time."""
        # In this order, and in the other order in `_disarm`: one of both always sees the other.
        self._is_watching = True
        try:
            if self._is_running:
                used_ns = time.monotonic_ns() if self._clock_id is None else time.clock_gettime_ns(self._clock_id)
                if self._began_ns is None:
                    self._began_ns, self._watched_ns, self._cut_watched_ns = used_ns, 0, 0
                began_ns = self._began_ns
                if used_ns - began_ns > limit_ns:
                    self._is_raised = True
                    _raise_in(self._thread_id)
        finally:
            self._is_watching = False

    def _abandoned_if_hung(self) -> bool:
        now_ns = time.monotonic_ns()
        passed_ns, self._looked_ns = min(now_ns - self._looked_ns, _LONGEST_LOOK_NS), now_ns
        # As in `cut_off`.
        self._is_watching = True
        try:
            if not self._is_running or self._is_abandoned or self._began_ns is None:
                return False
            self._watched_ns += passed_ns
            if self._is_raised:
                self._cut_watched_ns += passed_ns
            used_ns = 0 if self._clock_id is None else time.clock_gettime_ns(self._clock_id) - self._began_ns
            is_waiting = self._watched_ns > _HUNG_AFTER_NS and used_ns < self._watched_ns // _WAITING_SHARE
            self._is_abandoned = is_waiting or self._cut_watched_ns > _HUNG_AFTER_CUT_NS
            return self._is_abandoned
        finally:
            self._is_watching = False

    def _disarm(self) -> None:
        self._is_running = False
        while self._is_watching:
            time.sleep(0)
        # What was raised and has not arrived must not arrive later. One more replaces it and arrives here: taking it back
        # would leave Python 3.11 with a mark that keeps functions from ever beginning while a profiler or debugger is on.
        while self._is_raised:
            try:
                _raise_in(self._thread_id)
                while True:
                    time.sleep(0)
            except EvaluationTimeout:
                self._is_raised = False


def _raise_in(thread_id: int) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ctypes.py_object(EvaluationTimeout))


_T = TypeVar("_T")
_TICK_NS = 100_000_000
_LOOK_S = 0.01
_STUCK_AFTER_NS = 15_000_000_000  # A trace of a hundred thousand spans takes a few seconds
_FLUSH_EVERY_NS = 500_000_000  # Each request to a destination costs as much as a few spans
# So often a thread is replaced; whoever watches the health of the process should restart it from the third time on.
_MAX_ABANDONED = 10


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
        self.evaluation_limit = EvaluationLimit()
        # How many threads an evaluator has kept.
        self.abandoned = 0
        self.abandoned_ns: int | None = None
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_ending = False
        self._is_given_up = False
        self._finishing: asyncio.Future[None] | None = None
        # Since when the worker has been at what it does; `None` while it waits.
        self.busy_since_ns: int | None = None
        self.stuck_after_ns = _STUCK_AFTER_NS

    @property
    def is_idle(self) -> bool:
        """Return whether nothing waits to be read."""
        return self._inbox.is_empty and self.busy_since_ns is None

    @property
    def stuck_since_ns(self) -> int | None:
        """Since when the worker has been at one piece of work, when that is too long; else `None`."""
        since_ns = self.busy_since_ns
        return since_ns if since_ns is not None and self._clock() - since_ns > self.stuck_after_ns else None

    def start(self) -> None:
        """Begin to work."""
        self._begin(lambda: None)

    def _begin(self, first: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=self._run, args=(first,), name="toolgauge-worker", daemon=True)
        self._thread.start()

    def deadline(self, _criterion: Criterion) -> EvaluationLimit:
        """Return the limit of the evaluation that begins, and note it."""
        if self._under_way is not None and (begun := self._pipeline.scorer.under_way) is not None:
            self._under_way.evaluates(run_id(begun[1]), begun[0].name)
        return self.evaluation_limit

    def watch(self) -> None:
        """Look at the evaluation under way; have another thread go on where it keeps this one. Called often, on the event loop."""
        if self.abandoned >= _MAX_ABANDONED:
            self.evaluation_limit.cut_off(self.evaluation_limit.limit_ns)
        elif self.evaluation_limit.watch():
            self.abandoned += 1
            self.abandoned_ns = self._clock()
            self.evaluation_limit = EvaluationLimit(self.evaluation_limit.limit_ns)
            self._begin(self._pipeline.resume)

    async def run(self, work: Callable[[], _T], timeout_s: float | None = None) -> _T:
        """Have the worker do this between two pieces of work, or do it here when no worker runs. Raises `TimeoutError`."""
        if self._thread is None or self._is_given_up:
            return work()
        outcome: Future[_T] = Future()

        def do() -> None:
            if not outcome.set_running_or_notify_cancel():
                return
            try:
                outcome.set_result(work())
            except EvaluationTimeout:
                self.evaluation_limit.settle()
                outcome.set_exception(TimeoutError("an evaluation was cut off as it ended"))
            except Exception as error:  # noqa: BLE001 (raised again where it is waited for)
                outcome.set_exception(error)

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

    def _run(self, first: Callable[[], None]) -> None:
        next_tick = next_flush = self.busy_since_ns = self._clock()
        is_due = False
        try:
            self._do(first)
        except GivenUp:
            return
        while not self._is_ending:
            self.busy_since_ns = None
            if self._under_way is not None:
                self._under_way.rests()
            request = self._inbox.take(0 if is_due else max(0.0, (next_tick - self._clock()) / 1e9))
            now = self.busy_since_ns = self._clock()
            try:
                # First what came first: work that closes everything would leave open what is in this request.
                if request is not None:
                    if self._under_way is not None and isinstance(request.entry, int):
                        self._under_way.reads(request.entry)
                    with self._faults.survived():
                        self._pipeline.process(request)
                    self._inbox.done(request)
                self._do_posted()
                if self._is_given_up:
                    return
                if self._inbox.is_empty or now >= next_tick:
                    with self._faults.survived():
                        self._pipeline.egress.forward()
                if now >= next_tick or (is_due and request is None):
                    # What waits in the inbox came in time: nothing closes as if it had not.
                    is_due = self._tick(now if request is None else request.received_ns)
                    ended = self._clock()
                    # Requests have as much time as trajectories while there is more to close.
                    next_tick = ended + min(ended - now, _TICK_NS) if is_due else now + _TICK_NS
                if now >= next_flush or self._pipeline.egress.is_pressing:
                    next_flush = now + _FLUSH_EVERY_NS
                    with self._faults.survived():
                        self._pipeline.flush()
            except GivenUp:
                return

    def _tick(self, now_ns: int) -> bool:
        # Of a tick that fails, what failed is closed; whether more is due shows at the next one.
        return self._do(lambda: self._pipeline.tick(now_ns)) or False

    def _do(self, work: Callable[[], _T]) -> _T | None:
        try:
            with self._faults.survived():
                return work()
        except EvaluationTimeout:
            self.evaluation_limit.settle()
        return None

    def _do_posted(self) -> None:
        while not self._is_given_up:
            try:
                work = self._work.get_nowait()
            except queue.Empty:
                return
            with self._faults.survived():
                work()
