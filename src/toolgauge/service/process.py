"""The process itself: its time, its CPU, its event loop's lag, its garbage, its file descriptors, its faults.

Metrics are under the names that OpenTelemetry's conventions have for them.
"""

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

from toolgauge.model.metrics import Histogram, Labels, MetricRegistry
from toolgauge.net.throttle import Throttle, repetitions
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.memory import keep_freed_memory, resident_bytes

_EVERY_S = 0.1
_T = TypeVar("_T")


async def measure_loop_lag(histogram: Histogram) -> None:
    """Sleep again and again, and record by how much this overslept."""
    clock = asyncio.get_running_loop().time
    while True:
        began_s = clock()
        await asyncio.sleep(_EVERY_S)
        histogram.record(max(0.0, clock() - began_s - _EVERY_S))


_S = 1_000_000_000
_EVERY_NS = 60 * _S
# Under load without an end there is no quiet moment.
_AT_LATEST_NS = 600 * _S
# Of all time, looks may take one part in so many.
_SHARE = 500


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


class SteadyClock:
    """Nanoseconds since the epoch as they were at the start, plus what has passed since."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - _passed_ns()

    def __call__(self) -> int:
        """Return the current time in nanoseconds since the epoch."""
        return self._offset_ns + _passed_ns()


if hasattr(time, "CLOCK_BOOTTIME"):

    def _passed_ns() -> int:
        # The monotonic clock stands still while the machine is suspended; all we say afterwards would be of the past.
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)

else:
    _passed_ns = time.monotonic_ns


if sys.platform == "win32":

    def raise_descriptor_limit() -> None:
        """Do nothing: there is no such limit."""

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
    keep_freed_memory(memory_bytes)
    sys.setswitchinterval(_SWITCH_INTERVAL_S)


def handle_stop_signals(stop: Callable[[], None]) -> None:
    """Call `stop` on the running loop at each SIGTERM, and at each SIGINT unless that is ignored."""
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop)
    # A script's shell starts a background process with SIGINT ignored: Ctrl-C is for the process in the foreground.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGINT, stop)


def freeze_loaded_objects() -> None:
    """Leave all objects that are there now out of the search for garbage: walking over them keeps senders waiting."""
    gc.freeze()
    gc.set_threshold(*_GARBAGE_THRESHOLDS)


def measure_process(registry: MetricRegistry) -> None:
    """Register metrics that are read from the system whenever they are written out."""
    started_s = time.monotonic()

    def cpu_seconds() -> dict[Labels, float]:
        spent = os.times()
        return {("user",): spent.user, ("system",): spent.system}

    def memory() -> dict[Labels, float]:
        resident = resident_bytes()
        return {} if resident is None else {(): resident}

    registry.counter(
        "process.cpu.time",
        "s",
        "CPU seconds of this process. Near one second a second, a core is full: run more processes behind a Collector "
        "that balances by trace id.",
        ("cpu.mode",),
    ).observe = cpu_seconds
    registry.gauge(
        "process.memory.usage",
        "By",
        "Physical memory in use. When it nears `memory.limit`, look at the queue, at open trajectories and at held spans.",
    ).observe = memory
    registry.gauge(
        "process.uptime", "s", "Time since the start. When it falls back to 0, look for what ended the process."
    ).observe = lambda: {(): time.monotonic() - started_s}


_LOG = logging.getLogger("toolgauge")


class Faults:
    """Faults of our own in timed work: counted, logged once a minute by kind and place, and survived.

    Without this, one trajectory that trips a bug would end closing and scoring for everybody until the restart,
    while receivers go on taking spans as if all were well.
    """

    def __init__(self, metrics: SelfMetrics) -> None:
        self._count = metrics.faults
        self._throttle = Throttle()

    @contextmanager
    def survived(self) -> Generator[None]:
        """Do one piece of work; a fault ends it and nothing else."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 (nobody waits for timed work: it would end in silence, for good)
            kind = type(error).__name__
            self._count.add(1, (kind,))
            # The place and not the message, which may quote what came in a span.
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
    # From here on giving up is our business alone: the thread may still hand in what nobody wants any more.
    outcome.set_running_or_notify_cancel()

    def run() -> None:
        try:
            outcome.set_result(work())
        except Exception as error:  # noqa: BLE001 (raised again where it is waited for)
            outcome.set_exception(error)

    threading.Thread(target=run, name=f"toolgauge-{name}", daemon=True).start()
    return await asyncio.wrap_future(outcome)
