"""Several destinations at once: each has its own queue, retries and books; a dead one does not stop the others.

A request is refused, and comes back from its sender, only while none of the destinations that take its signal has room
for it: were one full queue enough, a dead destination would stop them all. What a full one misses meanwhile is dropped
there and counted. Without any destination senders' spans end here as consumed, and what toolgauge itself exports is dropped:
scores are then read from the metrics endpoint alone.
"""

import asyncio
from collections.abc import Sequence

from toolgauge.export.destination import Destination
from toolgauge.export.settings import SIGNALS
from toolgauge.model.delivery import Outgoing, Signal
from toolgauge.selfmetrics import SelfMetrics


class FanOut:
    """Puts each request into the queue of every destination that takes its signal. Implements `Outbox`."""

    def __init__(self, destinations: Sequence[Destination], metrics: SelfMetrics) -> None:
        self.destinations = tuple(destinations)
        self._takers: dict[Signal, tuple[Destination, ...]] = {
            signal: tuple(destination for destination in destinations if destination.forwards(signal))
            for signal in SIGNALS
        }
        self._metrics = metrics
        metrics.spans_queued.observe = lambda: (
            {(each.name,): each.spans_queued for each in self.destinations} or {("",): 0}
        )
        metrics.queue_bytes.observe = lambda: {(each.name,): each.bytes_queued for each in self.destinations}
        metrics.queue_capacity.observe = lambda: {(each.name,): each.queue_capacity_bytes for each in self.destinations}
        metrics.in_flight.observe = lambda: {(each.name,): each.requests_in_flight for each in self.destinations}

    @property
    def bytes_queued(self) -> int:
        """Bytes of requests that wait for any destination, senders' and our own."""
        return sum(destination.bytes_queued for destination in self.destinations)

    @property
    def spans_queued(self) -> int:
        """Senders' spans that wait for any destination; one that waits for two counts twice."""
        return sum(destination.spans_queued for destination in self.destinations)

    def forwards(self, signal: Signal) -> bool:
        """Return whether any destination takes the signal."""
        return bool(self._takers[signal])

    def has_room(self, signal: Signal, size_bytes: int) -> bool:
        """Return whether any destination that takes the signal has room for a senders' request of this size."""
        takers = self._takers[signal]
        return not takers or any(destination.has_room(size_bytes) for destination in takers)

    def put(self, outgoing: Outgoing) -> bool:
        """Queue the request where there is room; False when there is none anywhere (nothing was counted then)."""
        takers = self._takers[outgoing.signal]
        missed = [destination for destination in takers if not destination.put(outgoing)]
        if takers and len(missed) == len(takers):
            return False
        for destination in missed:
            destination.miss(outgoing)
        if not takers and outgoing.spans:
            self._metrics.spans.add(outgoing.spans, ("consumed", "", ""))
        return True

    async def start(self) -> None:
        """Start all; raise `StartError` when one cannot start, and leave none running then."""
        try:
            for destination in self.destinations:
                await destination.start()
        except BaseException:
            await self.close()
            raise

    def hurry(self) -> None:
        """Leave out the usual waits between attempts from here on."""
        for destination in self.destinations:
            destination.hurry()

    async def drain(self, timeout_s: float) -> int:
        """Send what is queued within the time; return how many spans and requests were lost, over all destinations."""
        return sum(await asyncio.gather(*(destination.drain(timeout_s) for destination in self.destinations)))

    async def close(self) -> None:
        """Stop all at once. May be called twice and without a start."""
        await asyncio.gather(*(destination.close() for destination in self.destinations))
