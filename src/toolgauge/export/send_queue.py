"""Requests that wait to be sent: first in, first out, bounded in bytes whatever happens downstream.

A request counts against the bound until it is acknowledged or dropped, not just until it is taken out:
otherwise retries would hold memory that nobody counts.
"""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from toolgauge.model.delivery import Outgoing, Signal
from toolgauge.net.throttle import QUIET_S, Throttle, repetitions

_log = logging.getLogger("toolgauge.export")


@dataclass(frozen=True, slots=True)
class Outage:
    """Why a destination does not take requests, in phrases of ours; of one `signal`, for good until a person helps."""

    reason: str
    lasted_s: float
    signal: Signal | None = None


class DestinationHealth:
    """Notes how attempts end, on a monotonic `clock`; logs at most once a minute when that changes."""

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

    def refusing(self) -> tuple[Outage, ...]:
        """Return the signals that the destination takes nothing of."""
        now_s = self._clock()
        return tuple(Outage(reason, now_s - since, signal) for signal, (reason, since) in self._refusing.items())

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


# A request costs memory beside its body; a flood of tiny ones is bounded by their number.
_SMALLEST_BYTES = 256
_FEW_REQUESTS = 1024


class SendQueue:
    """Feeds any number of waiting tasks."""

    def __init__(self, *, max_bytes: int, own_reserve_bytes: int) -> None:
        self._senders = _limits(max_bytes)
        self._own = _limits(max_bytes + own_reserve_bytes)
        self._waiting: deque[Outgoing] = deque()
        self._takers: deque[asyncio.Future[None]] = deque()
        # Of requests that are waiting or on their way; only senders' spans count.
        self.size_bytes = 0
        self.spans = 0
        self._closed = False
        # The worker thread puts, the event loop takes and releases.
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def has_room(self, size_bytes: int, *, own: bool) -> bool:
        """Return whether a request of this size fits. One that is alone always does, else it never would."""
        if self._closed:
            return False
        most_bytes, most_requests = self._own if own else self._senders
        fits = self.size_bytes + size_bytes <= most_bytes and len(self._waiting) < most_requests
        return fits or self.size_bytes == 0

    def put(self, outgoing: Outgoing) -> bool:
        """Queue a request; False when it does not fit."""
        with self._lock:
            if not self.has_room(len(outgoing.body), own=outgoing.own):
                return False
            self.size_bytes += len(outgoing.body)
            self.spans += outgoing.spans
            self._waiting.append(outgoing)
        if self._takers and self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake, 1)
        return True

    async def take(self) -> Outgoing | None:
        """Wait for the next request; `None` when the queue is closed and empty. Owes a `release`."""
        while not self._waiting:
            if self._closed:
                return None
            self._loop = asyncio.get_running_loop()
            taker = self._loop.create_future()
            self._takers.append(taker)
            if self._waiting:
                # Put between the look and here, by a thread that saw nobody wait.
                self._takers.remove(taker)
                break
            try:
                await taker
            except asyncio.CancelledError:
                # Woken and cancelled at once: the request is somebody else's to take.
                if taker.done() and not taker.cancelled():
                    self._wake(1)
                raise
        return self._waiting.popleft()

    def release(self, outgoing: Outgoing) -> None:
        """Give back the room of a request that is acknowledged or dropped."""
        with self._lock:
            self.size_bytes -= len(outgoing.body)
            self.spans -= outgoing.spans

    def close(self) -> None:
        """Accept no more; waiting requests can still be taken out."""
        self._closed = True
        self._wake(len(self._takers))

    def leftovers(self) -> list[Outgoing]:
        """Take out everything that is still waiting. Each owes a `release`."""
        left = list(self._waiting)
        self._waiting.clear()
        return left

    def _wake(self, count: int) -> None:
        while count and self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                count -= 1


def _limits(max_bytes: int) -> tuple[int, int]:
    return max_bytes, max(_FEW_REQUESTS, max_bytes // _SMALLEST_BYTES)
