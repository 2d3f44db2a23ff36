"""When everything in memory is looked at for garbage: when nobody waits for it.

Nearly all that comes and goes is freed without that. A look at everything takes a second when very much is open, and
Python left to itself takes it in the middle of the work: whenever the number of objects has grown by a quarter.
"""

import gc
import time
from collections.abc import Callable

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
        """Look, if it is time and nobody waits."""
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
