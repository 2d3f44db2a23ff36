"""Tells people about a destination in trouble: once an outage, not once a request. Never shows content."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

_log = logging.getLogger("toolgauge.forward")
_QUIET_S = 60.0


@dataclass(frozen=True, slots=True)
class Outage:
    """A destination does not take requests: why, and for how long."""

    reason: str
    lasted_s: float


class OutageLog:
    """Speaks when a destination stops or starts taking requests, at most once a minute; `clock` is monotonic."""

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self._name = name
        self._clock = clock
        self._failing_since: float | None = None
        self._reason = ""
        self._warned = False
        self._last_warned_s: float | None = None
        self._dropped_said: dict[str, float] = {}

    def now(self) -> Outage | None:
        """Tell of an outage that lasts."""
        since = self._failing_since
        return None if since is None else Outage(self._reason, self._clock() - since)

    def failed(self, reason: str) -> None:
        """An attempt failed and will be repeated."""
        now_s = self._clock()
        self._reason = reason
        if self._failing_since is None:
            self._failing_since = now_s
        if self._warned or (self._last_warned_s is not None and now_s - self._last_warned_s < _QUIET_S):
            return
        self._warned = True
        self._last_warned_s = now_s
        _log.warning("destination %s does not take requests (%s); trying again", self._name, reason)

    def succeeded(self) -> None:
        """An attempt worked."""
        since, self._failing_since = self._failing_since, None
        if self._warned and since is not None:
            _log.info("destination %s takes requests again after %.0f s", self._name, self._clock() - since)
        self._warned = False

    def dropped(self, reason: str, spans: int) -> None:
        """A request was given up."""
        now_s = self._clock()
        said_s = self._dropped_said.get(reason)
        if said_s is not None and now_s - said_s < _QUIET_S:
            return
        self._dropped_said[reason] = now_s
        _log.warning(
            "destination %s: a request with %d spans was dropped (%s); toolgauge.spans and toolgauge.own.dropped count",
            self._name,
            spans,
            reason,
        )
