"""Wall-clock time that never jumps: one reading of the wall clock, carried on by the monotonic one."""

import time


class SteadyClock:
    """Nanoseconds since the epoch as they were at the start, plus what has passed since."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.monotonic_ns()

    def __call__(self) -> int:
        """Return the current time in nanoseconds since the epoch."""
        return self._offset_ns + time.monotonic_ns()
