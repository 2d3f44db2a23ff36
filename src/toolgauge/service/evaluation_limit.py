"""Cuts off an evaluator that does not end.

While an evaluator runs, the event loop looks at the CPU time of the worker thread, and raises `EvaluationTimeout` in that
thread when it has used up its share. Only there: anywhere else the exception would tear state that others rely on.
What is stuck in a C library cannot be cut off: the exception waits until Python code runs again.
"""

import ctypes
import threading
import time
from contextlib import AbstractContextManager
from types import TracebackType

_LIMIT_NS = 10_000_000_000


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
        self._began_ns = 0
        self._is_running = False
        self._is_watching = False
        self._is_raised = False
        self._is_given_up = False

    def __enter__(self) -> None:
        """Begin to count CPU time."""
        self._end_if_given_up()
        if self._thread_id != threading.get_ident():
            self._thread_id = threading.get_ident()
            # Not every system has it: wall-clock time then stands for CPU time.
            get_clock_id = getattr(time, "pthread_getcpuclockid", None)
            self._clock_id = None if get_clock_id is None else get_clock_id(self._thread_id)
        self._began_ns = self._used_ns()
        self._is_running = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End; raise `TimeoutError` when the evaluation was cut off."""
        is_cut = kind is EvaluationTimeout
        while True:
            try:
                self._disarm()
                break
            except EvaluationTimeout:
                is_cut = True
        self._end_if_given_up()
        if is_cut:
            raise TimeoutError from None

    def settle(self) -> None:
        """End an evaluation that was cut off at the very moment at which it ended: its exception came outside."""
        while True:
            try:
                self._disarm()
            except EvaluationTimeout:
                continue
            return

    def watch(self) -> None:
        """Cut the evaluation off that has used up its time."""
        self._cut_off(self.limit_ns)

    def cut_off(self) -> None:
        """Cut off the evaluation under way, however little time it has used."""
        self._cut_off(-1)

    def give_up(self) -> None:
        """Have the thread stop for good when its evaluation ends."""
        self._is_given_up = True

    def _end_if_given_up(self) -> None:
        if self._is_given_up:
            # The event loop has taken over what this thread was working on: end the thread, and touch nothing more.
            raise GivenUp

    def _cut_off(self, limit_ns: int) -> None:
        # In this order, and in the other order in `_disarm`: one of both always sees the other.
        self._is_watching = True
        try:
            if self._is_running and self._used_ns() - self._began_ns > limit_ns:
                self._is_raised = True
                _raise_in(self._thread_id)
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

    def _used_ns(self) -> int:
        return time.monotonic_ns() if self._clock_id is None else time.clock_gettime_ns(self._clock_id)


def _raise_in(thread_id: int) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ctypes.py_object(EvaluationTimeout))
