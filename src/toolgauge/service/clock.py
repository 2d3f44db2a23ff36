"""Wall-clock time that never jumps: one reading of the wall clock, carried on by a clock that nobody sets."""

import time


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
