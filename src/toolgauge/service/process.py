"""The process itself: its clock, its signals, the lag of its event loop, its garbage, its file descriptors, its faults, its memory.

Only the system knows the cost of all queues together. When memory is short, requests are refused with a retryable status, memory for
our own use goes, and then open state: otherwise the kernel kills the process, and all acknowledged requests are lost.
"""

import asyncio
import contextlib
import ctypes
import gc
import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path, PurePosixPath
from traceback import extract_tb
from typing import TypeVar

from toolgauge.model.errors import StartError
from toolgauge.model.metrics import Histogram, MetricRegistry
from toolgauge.net.byte_budget import ByteBudget, Memory
from toolgauge.net.throttle import Throttle, repetitions
from toolgauge.selfmetrics import ProcessMetrics, SelfMetrics

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
    started_s, metrics = time.monotonic(), ProcessMetrics(registry)
    metrics.cpu_time.observe = lambda: {("user",): (spent := os.times()).user, ("system",): spent.system}
    metrics.memory.observe = lambda: {} if (resident := resident_bytes()) is None else {(): resident}
    metrics.uptime.observe = lambda: {(): time.monotonic() - started_s}


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


_MIB = 1 << 20
_STATM = Path("/proc/self/statm")
_OWN_CGROUPS, _CGROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")
_OF_CONTAINER = 0.9  # Buffers of sockets count there, and files that were written
_SOFT = 0.8
_RESUME = 0.9 * _SOFT  # Taking in again right below the soft limit would end in a refusal at the next request
# Between two looks of the timer, this share of the limit may come in before there is another look.
_UNSEEN = 0.02
_READING = 0.5  # Of the limit, for unpacking and reading requests
_BETWEEN_RELIEFS_NS = 1 * _S
_PATIENCE_NS = 5 * _S  # Senders may wait this long for trajectories that end by themselves; then open ones go
_BETWEEN_LINES_NS = 60 * _S  # A shortage that comes and goes is logged once; the metric has it all
_BETWEEN_COLLECTIONS_NS = 30 * _S  # Collecting garbage walks over every object there is
_KEPT = 1 / 16  # Of the limit, for requests to come
# As <malloc.h> has them; a larger threshold is not taken.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_LARGEST_MMAP_THRESHOLD = 32 * _MIB
# By default each thread has one, up to eight a core: a thread cannot reuse the memory that another thread has freed.
_ARENAS = 2
_LARGEST_THRESHOLD = (1 << 31) - 1  # Thresholds are of the type `int`: of a larger number the lower half would be taken
_C_LIBRARY = ctypes.CDLL(None) if os.name == "posix" else None  # glibc alone has `mallopt` and `malloc_trim`


def keep_freed_memory(limit_bytes: int) -> None:
    """Have this process keep a share of its memory limit when it is freed. Call before there are threads."""
    mallopt = getattr(_C_LIBRARY, "mallopt", None)
    if mallopt is not None:
        # All threads share freed memory: gRPC's threads otherwise hold a few megabytes each.
        mallopt(_M_ARENA_MAX, _ARENAS)
        # Clearing new pages costs a fifth of large requests. One that is a large part of all that is kept goes back at once.
        size_bytes = int(limit_bytes * _KEPT)
        mallopt(_M_MMAP_THRESHOLD, min(size_bytes // 4, _LARGEST_MMAP_THRESHOLD))
        mallopt(_M_TRIM_THRESHOLD, min(size_bytes, _LARGEST_THRESHOLD))


def resident_bytes() -> int | None:
    """Read how much memory this process has in use; `None` where the system does not report it this way."""
    pages = _pages(_STATM)
    return None if pages is None else pages[0] * os.sysconf("SC_PAGE_SIZE")


def own_bytes(process: int) -> int:
    """Read how much memory another process has in use beside the files that all have loaded; 0 where that is not known."""
    pages = _pages(Path(f"/proc/{process}/statm"))
    return 0 if pages is None else (pages[0] - pages[1]) * os.sysconf("SC_PAGE_SIZE")


def _pages(statm: Path) -> tuple[int, int] | None:
    """Read how many pages a process has in use, and how many of them are files' or shared."""
    try:
        _, resident, shared, *_ = map(int, statm.read_bytes().split())
    except (OSError, ValueError):
        return None
    return resident, shared


def container_bytes() -> int | None:
    """Read how much memory this process may use together with others of its container (of its cgroups); `None` without a limit."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for line in _OWN_CGROUPS.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers not in ("", "memory"):
                continue
            # Versions 2 and 1. Inside a container its own cgroup may be the root, at any path outside.
            folder, name = (_CGROUPS / "memory", "memory.limit_in_bytes") if controllers else (_CGROUPS, "memory.max")
            own = PurePosixPath(path.lstrip("/"))
            for cgroup in (own, *own.parents):
                with contextlib.suppress(OSError, ValueError):
                    found.append(int((folder / cgroup / name).read_text()))
    return min(found, default=None)


def allowed_bytes(limit_bytes: int) -> int:
    """Return the limit, or less in a smaller container: the kernel would kill the process before it refuses anything."""
    container = container_bytes()
    return limit_bytes if container is None else min(limit_bytes, int(container * _OF_CONTAINER))


def trim() -> None:
    """Return the free memory that the C library keeps."""
    malloc_trim = getattr(_C_LIBRARY, "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)


class Relief(IntEnum):
    """The memory to give back: our `OWN`, or also the memory of `OPEN` trajectories and held spans."""

    NONE = 0
    OWN = 1
    OPEN = 2


class MemoryGuard(Memory):
    """Takes requests, until 80 % of the limit is in use, and refuses them until less than 72 % is; a `resident` of `None`
    refuses nothing. `reading` is the budget for requests that are unpacked and read.
    """

    def __init__(
        self,
        limit_bytes: int,
        metrics: SelfMetrics,
        *,
        resident: Callable[[], int | None] = resident_bytes,
        collect: Callable[[], object] = gc.collect,
        trim: Callable[[], None] = trim,
        elsewhere: int = 0,
    ) -> None:
        self._limit = allowed_bytes(limit_bytes)
        self._name = "`memory.limit`" if self._limit == limit_bytes else "90 % of the container's memory limit"
        self._soft = int(self._limit * _SOFT)
        self._resume = int(self._limit * _RESUME)
        self._at_start = 0  # The memory of the process before it has taken anything
        self.reading = ByteBudget(int(self._limit * _READING), self, elsewhere=elsewhere)
        self._resident = resident
        self._collect = collect
        self._trim = trim
        self._unseen = 0
        self._last_known: int | None = None
        # Since when requests are refused, by the clock of `look`; `None` while they are taken.
        self.short_since_ns: int | None = None
        # The time of the last look, also for the requests that arrive until the next one.
        self._now_ns = 0
        self._done_ns: dict[str, int] = {}  # By work that is not done at each look: when it was done last
        self._is_logged = self._is_too_small = False
        metrics.memory_limit.set(self._limit)
        metrics.memory_state.observe = lambda: {(): float(self.short_since_ns is not None)}
        metrics.memory_resident.observe = lambda: {} if (known := self._resident()) is None else {(): known}

    def check(self) -> None:
        """Raise `StartError` when the limit leaves no room for requests beside what the process needs by itself."""
        self._trim()
        resident = self._at_start = self._read()
        if self._last_known is None:
            _LOG.warning("this system does not report how much memory is in use: `memory.limit` does not hold")
        if resident < self._resume:
            return
        needed = math.ceil(resident / _RESUME / _MIB)
        raise StartError(
            f"{self._name} is {self._limit // _MIB} MiB, and toolgauge needs {math.ceil(resident / _MIB)} MiB before it has "
            "taken anything: it would refuse all requests",
            hint=f"set it to more than {needed} MiB: requests are taken while less than {_RESUME:.0%} of it is in use",
        )

    def admits(self, size_bytes: int) -> bool:
        """Return whether there is memory for a request of this size."""
        self._unseen += size_bytes
        if self.short_since_ns is None and self._unseen > self._limit * _UNSEEN:
            self._noted()
        return self.short_since_ns is None

    def fits(self, size_bytes: int) -> bool:
        """Return whether so many bytes stay below the limit. A few do: they are refused, and counted, where they are read."""
        return size_bytes <= self._limit * _UNSEEN or self._noted() + size_bytes <= self._limit

    def could_fit(self, size_bytes: int) -> bool:
        """Return whether so many bytes would fit if the process held nothing."""
        return self._at_start + size_bytes <= self._limit

    def look(self, now_ns: int, *, is_empty: bool) -> Relief:
        """Look now; return the memory to give back. `is_empty`: the process holds nothing that could leave it."""
        self._now_ns = now_ns
        resident, relief = self._noted(), Relief.NONE
        if self.short_since_ns is None:
            return relief
        if not self._is_logged and self._is_due("line", _BETWEEN_LINES_NS):
            self._is_logged = True
            _LOG.warning("%s in use: requests are refused with a retryable status", self._share(resident))
        if resident >= self._resume and self._is_due("relief", _BETWEEN_RELIEFS_NS):
            is_urgent = resident >= self._limit or now_ns - self.short_since_ns >= _PATIENCE_NS
            relief = Relief.OPEN if is_urgent and not is_empty else Relief.OWN
            resident = self._tidied()
        if resident < self._resume:
            if self._is_logged:
                _LOG.info("%s in use: accepting requests again", self._share(resident))
            self._is_logged, self.short_since_ns = False, None
        elif is_empty:
            # Nothing is waiting that could free memory. Requests are still admitted one at a time.
            self.short_since_ns = None
            if resident >= self._soft and not self._is_too_small:
                self._is_too_small = True
                _LOG.warning("more than 80 %% of %s is in use although nothing is waiting: raise it", self._name)
        return relief

    def _noted(self) -> int:
        """Read how much is in use, and note when that is too much."""
        resident = self._read()
        if resident >= self._soft and self.short_since_ns is None:
            resident = self._tidied()
            if resident >= self._soft:
                self.short_since_ns = self._now_ns
        return resident

    def _tidied(self) -> int:
        """Read how much is in use without garbage and freed memory that is only kept: neither is a reason to refuse."""
        if self._is_due("collection", _BETWEEN_COLLECTIONS_NS):
            self._collect()
        self._trim()
        return self._read()

    def _read(self) -> int:
        self._unseen = 0
        # Without a free descriptor it cannot be read for a while: the last figure counts until then.
        resident = self._resident()
        resident = self._last_known = self._last_known if resident is None else resident
        return resident or 0

    def _share(self, resident: int) -> str:
        return f"{resident // _MIB} of {self._limit // _MIB} MiB of memory ({self._name})"

    def _is_due(self, work: str, every_ns: int) -> bool:
        last_ns = self._done_ns.get(work)
        is_due = last_ns is None or self._now_ns - last_ns >= every_ns
        if is_due:
            self._done_ns[work] = self._now_ns
        return is_due
