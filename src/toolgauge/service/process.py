"""The process itself: its clock, its signals, the lag of its event loop, its garbage, its file descriptors, its faults."""

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb
from typing import TypeVar

from toolgauge.model.metrics import Histogram, MetricRegistry
from toolgauge.net.throttle import Throttle, repetitions
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.memory import allowed_bytes, keep_freed_memory, resident_bytes

_LOG = logging.getLogger("toolgauge")
_S = 1_000_000_000
_EVERY_S = 0.1
_T = TypeVar("_T")


async def measure_loop_lag(histogram: Histogram) -> None:
    """Sleep again and again, and record by how much this overslept."""
    clock = asyncio.get_running_loop().time
    while True:
        began_s = clock()
        await asyncio.sleep(_EVERY_S)
        histogram.record(max(0.0, clock() - began_s - _EVERY_S))


_EVERY_NS = 60 * _S
_AT_LATEST_NS = 600 * _S  # Under load without an end no moment is quiet
_SHARE = 500  # Of all time, looks may take one part in so many


class GarbageRounds:
    """Asked again and again whether to look, and looks. `clock` measures how long that takes, in nanoseconds."""

    def __init__(
        self, collect: Callable[[], object] = gc.collect, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._collect = collect
        self._clock = clock
        self._done_ns: int | None = None
        self._took_ns = 0

    def look(self, now_ns: int, *, is_quiet: bool) -> None:
        """Collect, if it is time and the process is idle."""
        if self._done_ns is None:
            self._done_ns = now_ns
        since_ns = now_ns - self._done_ns
        wait_ns = max(_EVERY_NS if is_quiet else _AT_LATEST_NS, _SHARE * self._took_ns)
        if since_ns < wait_ns:
            return
        began = self._clock()
        self._collect()
        self._took_ns = self._clock() - began
        self._done_ns = now_ns


# The monotonic clock stops while the machine is suspended.
_passed_ns: Callable[[], int] = (
    (lambda: time.clock_gettime_ns(time.CLOCK_BOOTTIME)) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic_ns
)


class SteadyClock:
    """Nanoseconds since the epoch at the start, plus the time that has passed since."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - _passed_ns()

    def __call__(self) -> int:
        """Return the current time in nanoseconds since the epoch."""
        return self._offset_ns + _passed_ns()


if sys.platform == "win32":

    def raise_descriptor_limit() -> None:
        """Do nothing: this system has no such limit."""

else:
    import resource

    def raise_descriptor_limit() -> None:
        """Raise the soft limit to the hard one, where that is allowed."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # A sandbox may forbid it, and some systems allow less than they tell: then it stays as it is.
        with contextlib.suppress(OSError, ValueError):
            if soft != hard:
                resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


# How long the worker may keep the event loop waiting: senders' answers and health have to come in between.
_SWITCH_INTERVAL_S = 0.0005
# Young garbage is looked for as often as ever: a request that is refused may hang in it, with all its bytes.
# A look at everything waits for a quiet moment, which the service finds.
_GARBAGE_THRESHOLDS = (700, 10, 1_000_000)


def tune_process(memory_bytes: int) -> None:
    """Set the process up for a service that may take so much memory, before it has threads."""
    raise_descriptor_limit()
    keep_freed_memory(allowed_bytes(memory_bytes))
    sys.setswitchinterval(_SWITCH_INTERVAL_S)


def handle_stop_signals(stop: Callable[[], None]) -> None:
    """Call `stop` on the running loop at each SIGTERM, and at each SIGINT unless that is ignored."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop)
    # A script's shell starts a background process with SIGINT ignored: Ctrl-C is for the process in the foreground.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGINT, stop)


def freeze_loaded_objects() -> None:
    """Leave all present objects out of the search for garbage: walking over them keeps senders waiting."""
    gc.freeze()
    gc.set_threshold(*_GARBAGE_THRESHOLDS)


def measure_process(registry: MetricRegistry) -> None:
    """Register metrics that are read from the system whenever they are written out."""
    started_s = time.monotonic()

    registry.counter(
        "process.cpu.time",
        "s",
        "CPU seconds of this process. Near one second a second, a core is full: run more processes behind a Collector "
        "that balances by trace id.",
        ("cpu.mode",),
    ).observe = lambda: {("user",): (spent := os.times()).user, ("system",): spent.system}
    registry.gauge(
        "process.memory.usage",
        "By",
        "Physical memory in use. When it nears `memory.limit`, look at the queue, at open trajectories and at held spans.",
    ).observe = lambda: {} if (resident := resident_bytes()) is None else {(): resident}
    registry.gauge(
        "process.uptime", "s", "Time since the start. When it falls back to 0, look for what ended the process."
    ).observe = lambda: {(): time.monotonic() - started_s}


class Faults:
    """Our own faults in timed work: counted, logged once a minute by kind and place, and survived, so that closing continues."""

    def __init__(self, metrics: SelfMetrics) -> None:
        self._count = metrics.faults
        self._throttle = Throttle()

    @contextmanager
    def survived(self, kinds: type[BaseException] = Exception) -> Generator[None]:
        """Do one piece of work; a fault of these kinds ends it and nothing else."""
        try:
            yield
        except kinds as error:  # (nobody waits for timed work: it would end in silence, for good)
            kind = type(error).__name__
            self._count.add(1, (kind,))
            # The place and not the message, which may quote a span.
            places = extract_tb(error.__traceback__)
            place = f"{Path(places[-1].filename).name}, line {places[-1].lineno}" if places else "an unknown place"
            fault = f"{kind} in {place}"
            suppressed = self._throttle.suppressed(fault)
            if suppressed is not None:
                line = "an internal error, counted in toolgauge.faults: %s; please report it%s"
                _LOG.error(line, fault, repetitions(suppressed), extra={"error.type": kind})


async def beside(work: Callable[[], _T], name: str) -> _T:
    """Do the work in a thread for which the end of the process does not wait."""
    outcome: Future[_T] = Future()
    threading.Thread(target=settle, args=(outcome, work), name=f"toolgauge-{name}", daemon=True).start()
    return await asyncio.wrap_future(outcome)


def settle(outcome: Future[_T], work: Callable[[], _T]) -> None:
    """Do the work unless it is cancelled by now, and set its result or its error as the outcome."""
    # From here on it cannot be cancelled: the thread may hand in a result that nobody wants any more.
    if not outcome.set_running_or_notify_cancel():
        return
    try:
        found = work()
    except Exception as error:  # noqa: BLE001 (raised again where it is waited for)
        outcome.set_exception(error)
    except BaseException as error:  # noqa: BLE001 (it would end the waiting task, too)
        outcome.set_exception(RuntimeError(type(error).__name__))
    else:
        outcome.set_result(found)


async def cancelled(*tasks: asyncio.Task[None] | None) -> None:
    """Cancel the tasks that there are, and wait for their end."""
    started = [task for task in tasks if task is not None]
    for task in started:
        task.cancel()
    await asyncio.gather(*started, return_exceptions=True)
