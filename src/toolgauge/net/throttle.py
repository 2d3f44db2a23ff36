"""Keeps a fault that repeats from filling the log: said at once, then once in a while with how often it came since.

Keys must come from a small set (a kind of exception, a place in the code), never from what senders send.
"""

import time
from collections.abc import Callable

QUIET_S = 60.0


class Throttle:
    """Tells when something may be said again; `clock` is monotonic, in seconds."""

    def __init__(self, quiet_s: float = QUIET_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._quiet_s = quiet_s
        self._clock = clock
        self._said: dict[str, tuple[float, int]] = {}

    def unsaid(self, key: str) -> int | None:
        """Return how often it came without being said since the last time; `None` when it is not to be said now."""
        now_s = self._clock()
        said = self._said.get(key)
        if said is not None and now_s - said[0] < self._quiet_s:
            self._said[key] = (said[0], said[1] + 1)
            return None
        self._said[key] = (now_s, 0)
        return 0 if said is None else said[1]


def times(unsaid: int) -> str:
    """Say how often something came in silence; nothing when it did not."""
    return f" ({unsaid} more since it was last told)" if unsaid else ""
