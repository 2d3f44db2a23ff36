"""Watches the memory of the process: when it is short, requests are refused, and open state is shed.

Every queue has a bound of its own, in estimated bytes; only the system knows what they cost together. Without
this, a destination that is away and many open traces at once end in the kernel's kill, and with it all that was
acknowledged. A sender whose request is refused with a retryable status keeps its spans.
"""

import ctypes
import gc
import logging
import math
import os
from collections.abc import Callable
from pathlib import Path

from toolgauge.model.errors import StartError
from toolgauge.net.throttle import repetitions
from toolgauge.selfmetrics import SelfMetrics

_LOG = logging.getLogger("toolgauge")
_MIB = 1 << 20
_S = 1_000_000_000
_STATM = Path("/proc/self/statm")
_SOFT = 0.8
# Taking in again right below the soft limit would end in a refusal at the next request.
_RESUME = 0.9 * _SOFT
# Between two looks of the timer, this share of the limit may come in before there is another look.
_UNSEEN = 0.02
_BETWEEN_RELIEFS_NS = 1 * _S
# Senders may have to wait this long for what ends by itself; after that, open trajectories go.
_PATIENCE_NS = 5 * _S
# A shortage that comes and goes is logged once; the metric has it all.
_BETWEEN_LINES_NS = 60 * _S
# Collecting garbage walks over every object there is.
_BETWEEN_COLLECTIONS_NS = 30 * _S
# Of the limit, for requests to come.
_KEPT = 1 / 16
# As <malloc.h> has them; a larger threshold is not taken.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_LARGEST_MMAP_THRESHOLD = 32 * _MIB
# By itself each thread has one, up to eight a core: memory that one thread has freed another must ask for anew.
_ARENAS = 2
# Thresholds are of the type `int`: of a larger number the lower half would be taken.
_LARGEST_THRESHOLD = (1 << 31) - 1


def keep_freed_memory(limit_bytes: int) -> None:
    """Have this process keep a share of its memory limit when it is freed, for any of its threads.

    For a process that is ours alone, before it has threads.
    """
    allocator = Allocator()
    allocator.share()
    allocator.keep(int(limit_bytes * _KEPT))


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


class Allocator:
    """Tunes the C library, to which CPython returns freed memory."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None) if os.name == "posix" else None
        # glibc alone has them.
        self._malloc_trim = getattr(library, "malloc_trim", None)
        self._mallopt = getattr(library, "mallopt", None)

    def keep(self, size_bytes: int) -> None:
        """Keep so much freed memory for later requests; the next `trim` returns the rest.

        By itself the C library gives the memory of each large request back and asks for it anew, and the system clears
        every page of it: a fifth of what such requests cost.
        """
        if self._mallopt is not None:
            # A request that is a large part of all that is kept goes back at once: it would only crowd out the others.
            self._mallopt(_M_MMAP_THRESHOLD, min(size_bytes // 4, _LARGEST_MMAP_THRESHOLD))
            self._mallopt(_M_TRIM_THRESHOLD, min(size_bytes, _LARGEST_THRESHOLD))

    def share(self) -> None:
        """Have future threads share freed memory: those of gRPC otherwise hold a few megabytes each."""
        if self._mallopt is not None:
            self._mallopt(_M_ARENA_MAX, _ARENAS)

    def trim(self) -> None:
        """Return the memory that is free at this moment."""
        if self._malloc_trim is not None:
            self._malloc_trim(0)

    def collect(self) -> None:
        """Free what refers to itself; takes time that grows with everything that is in memory."""
        gc.collect()


class MemoryGuard:
    """Refuses above 80 % of the limit, asks for relief above the limit, and ends by itself.

    `resident` reads the memory in use; `None` means that it cannot be known, and nothing is refused then.
    """

    def __init__(
        self,
        limit_bytes: int,
        metrics: SelfMetrics,
        *,
        resident: Callable[[], int | None] = resident_bytes,
        allocator: Allocator | None = None,
    ) -> None:
        self._limit = limit_bytes
        self._soft = int(limit_bytes * _SOFT)
        self._resume = int(limit_bytes * _RESUME)
        self._resident = resident
        self._allocator = allocator or Allocator()
        self._unseen = 0
        self._is_short = False
        self._is_logged = False
        self._logged_ns: int | None = None
        self._unlogged = 0
        self._short_since_ns: int | None = None
        self._relieved_ns: int | None = None
        self._collected_ns: int | None = None
        self._last_known: int | None = None
        self._is_known = True
        self._full_since_ns: int | None = None
        self._is_too_small = False
        # Garbage has not been looked for of late; else, when the next look saw that it had.
        self._may_hoard = True
        self._tidied_ns: int | None = None
        metrics.memory_limit.set(limit_bytes)
        metrics.memory_state.observe = lambda: {(): float(self._is_short)}
        metrics.memory_resident.observe = lambda: {} if (known := self._resident()) is None else {(): known}

    @property
    def short_since_ns(self) -> int | None:
        """Since when requests have been refused, by the clock of `look`; `None` while they are not."""
        return self._short_since_ns

    def check(self) -> None:
        """Raise `StartError` when the limit leaves no room for requests beside what the process needs by itself."""
        self._allocator.trim()
        resident = self._read()
        if resident < self._resume:
            return
        needed = math.ceil(resident / _RESUME / _MIB)
        raise StartError(
            f"`memory.limit` is {self._limit // _MIB} MiB, and toolgauge needs {math.ceil(resident / _MIB)} MiB before it has "
            "taken anything: it would refuse all requests",
            hint=f"set it to more than {needed} MiB: requests are taken while less than {_RESUME:.0%} of it is in use",
        )

    def admits(self, size_bytes: int) -> bool:
        """Return whether there is memory for a request of this size."""
        self._unseen += size_bytes
        if not self._is_short and self._unseen > self._limit * _UNSEEN:
            self._note(self._read_after_tidying())
        return not self._is_short

    def look(self, now_ns: int, *, is_empty: bool) -> bool:
        """Look now; True when open state has to go. `is_empty`: there is nothing in the process that could leave it."""
        resident = self._read_after_tidying()
        if not self._may_hoard:
            if self._tidied_ns is None:
                self._tidied_ns = self._collected_ns = now_ns
            self._may_hoard = now_ns - self._tidied_ns >= _BETWEEN_COLLECTIONS_NS
        self._note(resident)
        if not self._is_short:
            self._full_since_ns = None
        else:
            if self._short_since_ns is None:
                self._short_since_ns = now_ns
            self._log_shortage(resident, now_ns)
            if is_empty:
                # Nothing would become less by waiting: what is taken in one at a time still leaves one at a time.
                if resident >= self._resume and _is_due(self._relieved_ns, now_ns, _BETWEEN_RELIEFS_NS):
                    # Free memory, such as that of messages given up halfway.
                    self._relieved_ns = now_ns
                    self._allocator.trim()
                    resident = self._read()
                self._log_too_small(resident, now_ns)
            elif resident >= self._resume:
                if not _is_due(self._relieved_ns, now_ns, _BETWEEN_RELIEFS_NS):
                    return False
                self._relieved_ns = now_ns
                if _is_due(self._collected_ns, now_ns, _BETWEEN_COLLECTIONS_NS):
                    self._collected_ns = now_ns
                    self._allocator.collect()
                self._allocator.trim()
                return resident >= self._limit or now_ns - self._short_since_ns >= _PATIENCE_NS
        self._is_short = False
        self._short_since_ns = None
        if resident < self._resume and self._is_logged:
            self._is_logged = False
            _LOG.info("%s in use: requests are taken again", self._share(resident))
        return False

    def _read(self) -> int:
        self._unseen = 0
        # It cannot be read either while there is no descriptor left, which is no time to stop watching.
        resident = self._last_known = self._resident() or self._last_known
        if resident is None:
            if self._is_known:
                _LOG.warning("this system does not report how much memory is in use: `memory.limit` does not hold")
            self._is_known = False
            return 0
        return resident

    def _read_after_tidying(self) -> int:
        """Read how much is in use, without garbage and freed memory that is only kept: neither is a reason to refuse."""
        resident = self._read()
        if resident < self._soft or self._is_short or not self._may_hoard:
            return resident
        self._may_hoard = False
        self._tidied_ns = None
        self._allocator.collect()
        self._allocator.trim()
        return self._read()

    def _note(self, resident: int) -> None:
        if resident >= self._soft and not self._is_short:
            self._is_short = True
            self._unlogged += 1

    def _log_shortage(self, resident: int, now_ns: int) -> None:
        """Log a shortage, unless one was logged a moment ago; a long one is then logged late."""
        if not self._is_logged and _is_due(self._logged_ns, now_ns, _BETWEEN_LINES_NS):
            others = repetitions(self._unlogged - 1)
            self._is_logged, self._logged_ns, self._unlogged = True, now_ns, 0
            _LOG.warning("%s in use: requests are refused with a retryable status%s", self._share(resident), others)

    def _log_too_small(self, resident: int, now_ns: int) -> None:
        if resident < self._soft:
            return
        if self._full_since_ns is None:
            # It may be messages that are not whole yet, which are not counted.
            self._full_since_ns = now_ns
        if not self._is_too_small and now_ns - self._full_since_ns >= _PATIENCE_NS:
            self._is_too_small = True
            _LOG.warning("more than 80 % of `memory.limit` is in use although nothing is waiting: raise it")

    def _share(self, resident: int) -> str:
        return f"{resident // _MIB} of {self._limit // _MIB} MiB of memory (`memory.limit`)"


def _is_due(last_ns: int | None, now_ns: int, every_ns: int) -> bool:
    return last_ns is None or now_ns - last_ns >= every_ns
