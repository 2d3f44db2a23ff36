"""Keeps a repeated fault from filling the log. Keys must come from a small set, never from what senders send."""

import time
from collections.abc import Callable

QUIET_S = 60.0


class Throttle:
    """Decides when a line may be logged again; `clock` is monotonic, in seconds."""

    def __init__(self, quiet_s: float = QUIET_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._quiet_s = quiet_s
        self._clock = clock
        # By key: when it was logged last, and how often it was suppressed since.
        self._logged: dict[str, tuple[float, int]] = {}

    def suppressed(self, key: str) -> int | None:
        """Return how often the key was suppressed since it was logged last; `None` when it is suppressed once more."""
        now_s = self._clock()
        logged = self._logged.get(key)
        if logged is not None and now_s - logged[0] < self._quiet_s:
            self._logged[key] = (logged[0], logged[1] + 1)
            return None
        self._logged[key] = (now_s, 0)
        return 0 if logged is None else logged[1]


def repetitions(suppressed: int) -> str:
    """Write how often a line was suppressed; nothing when it was not."""
    return f" ({suppressed} more since the last such line)" if suppressed else ""
