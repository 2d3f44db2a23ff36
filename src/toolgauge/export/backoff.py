"""How long to wait before the next attempt: exponential, jittered, never shorter than the destination asked for."""

from collections.abc import Callable

from toolgauge.export.destination_settings import RetrySettings


class Backoff:
    """The waits of one request. `random` yields floats in [0, 1)."""

    def __init__(self, settings: RetrySettings, random: Callable[[], float]) -> None:
        self._settings = settings
        self._random = random
        self._interval_s = settings.initial_interval_s

    def next_wait_s(self, *, elapsed_s: float, told_s: float | None) -> float | None:
        """Return the wait before the next attempt, `None` when the time for retries would be over by then."""
        settings = self._settings
        spread = settings.randomization_factor * (2 * self._random() - 1)
        wait_s = max(self._interval_s * (1 + spread), told_s or 0.0)
        self._interval_s = min(self._interval_s * settings.multiplier, settings.max_interval_s)
        if settings.max_elapsed_time_s and elapsed_s + wait_s > settings.max_elapsed_time_s:
            return None
        return wait_s
