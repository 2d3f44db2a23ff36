"""Whether a destination takes requests; logged once an outage, not once a request. Never shows content."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from toolgauge.model.delivery import Signal
from toolgauge.net.throttle import QUIET_S, Throttle, repetitions

_log = logging.getLogger("toolgauge.export")


@dataclass(frozen=True, slots=True)
class Outage:
    """A destination does not take requests: why, in phrases of ours, and for how long."""

    reason: str
    lasted_s: float


@dataclass(frozen=True, slots=True)
class Refusing:
    """A destination takes nothing of a signal, and will not before somebody does something."""

    signal: Signal
    reason: str
    lasted_s: float


class DestinationHealth:
    """Notes how attempts end; logs when a destination stops or starts taking requests, at most once a minute.

    `clock` is monotonic; `endpoint` is for the log, without secrets.
    """

    def __init__(self, name: str, clock: Callable[[], float], endpoint: str = "") -> None:
        self._name = name
        self._where = f"{name} ({endpoint})" if endpoint else name
        self._clock = clock
        self._failing_since: float | None = None
        self._reason = ""
        self._refusing: dict[Signal, tuple[str, float]] = {}
        self._warned = False
        self._last_warned_s: float | None = None
        self._dropped = Throttle(QUIET_S, clock)

    def now(self) -> Outage | None:
        """Return the outage that lasts; `None` while there is none."""
        since = self._failing_since
        return None if since is None else Outage(self._reason, self._clock() - since)

    def refusing(self) -> tuple[Refusing, ...]:
        """Return the signals that the destination takes nothing of."""
        now_s = self._clock()
        return tuple(Refusing(signal, reason, now_s - since) for signal, (reason, since) in self._refusing.items())

    def refused(self, signal: Signal, reason: str) -> None:
        """A request was refused, and so will be the next one of its signal."""
        _, since = self._refusing.get(signal, ("", self._clock()))
        self._refusing[signal] = reason, since

    def taken(self, signal: Signal) -> None:
        """A request of the signal was taken."""
        self._refusing.pop(signal, None)

    def failed(self, reason: str, cause: str = "") -> None:
        """An attempt failed and will be repeated; `cause` is more on the reason, where it is known."""
        now_s = self._clock()
        self._reason = f"{reason}: {cause}" if cause else reason
        if self._failing_since is None:
            self._failing_since = now_s
        if self._warned or (self._last_warned_s is not None and now_s - self._last_warned_s < QUIET_S):
            return
        self._warned = True
        self._last_warned_s = now_s
        extra = {"destination": self._name, "reason": reason}
        _log.warning("destination %s does not take requests (%s); trying again", self._where, self._reason, extra=extra)

    def succeeded(self) -> None:
        """An attempt worked."""
        since, self._failing_since = self._failing_since, None
        if self._warned and since is not None:
            _log.info("destination %s takes requests again after %.0f s", self._name, self._clock() - since)
        self._warned = False

    def dropped(self, signal: Signal, reason: str, spans: int) -> None:
        """A request was given up."""
        suppressed = self._dropped.suppressed(reason)
        if suppressed is not None:
            _log.warning(
                "destination %s: a request %s was dropped (%s); toolgauge.spans and toolgauge.own.dropped count%s",
                self._where,
                f"with {spans} spans" if spans else f"of {signal}",
                reason,
                repetitions(suppressed),
                extra={"destination": self._name, "reason": reason},
            )
