"""Several destinations: each has its own queue, retries and counts; a dead one does not stop the others.

A request is refused only while no destination that takes its signal has room; a full one misses requests, which are
counted. Without any destination senders' spans end here as consumed, and our own exports are dropped.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from toolgauge.export.destination import Destination, Undelivered
from toolgauge.export.settings import SIGNALS
from toolgauge.export.tail_sampling import Keepers
from toolgauge.model.delivery import Outgoing, Signal
from toolgauge.model.metrics import Labels
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.state.ledger import NO_LEDGER, Ledger

_LOG = logging.getLogger("toolgauge.export")
# A removed destination may take this long for its waiting requests.
_HANDOVER_S = 30.0


class FanOut:
    """Puts each request into the queue of every destination that takes its signal. An `Outbox` of one event loop."""

    def __init__(
        self,
        destinations: Sequence[Destination],
        metrics: SelfMetrics,
        *,
        handover_s: float = _HANDOVER_S,
        ledger: Ledger = NO_LEDGER,
    ) -> None:
        self._ledger = ledger
        self.destinations = tuple(destinations)
        self._takers = self._takers_of(destinations)
        self._removed: dict[Destination, asyncio.Task[None]] = {}
        self._metrics = metrics
        self._handover_s = handover_s
        self.keepers = Keepers(
            lambda: [each.keep for each in self.destinations if each.keep is not None], metrics.registry.lock
        )
        # One figure a name: a destination may replace another one of its name.
        metrics.spans_queued.observe = lambda: self._by_name(lambda each: each.spans_waiting) or {("",): 0}
        metrics.queue_bytes.observe = lambda: self._by_name(lambda each: each.queue.size_bytes)
        metrics.keep_bytes.observe = lambda: {
            (each.name,): each.keep.size_bytes for each in self._all() if each.keep is not None
        }
        metrics.in_flight.observe = lambda: self._by_name(lambda each: each.requests_in_flight)
        metrics.queue_capacity.observe = lambda: {
            (each.name,): each.settings.queue.max_bytes for each in self.destinations
        }

    @property
    def bytes_queued(self) -> int:
        """Bytes of requests that wait for any destination, senders' and our own, removed destinations included."""
        return sum(destination.queue.size_bytes for destination in self._all())

    @property
    def bytes_waiting(self) -> int:
        """The same, with requests that wait for the results of their trace."""
        return self.bytes_queued + sum(each.keep.size_bytes for each in self._all() if each.keep is not None)

    def forwards(self, signal: Signal) -> bool:
        """Return whether any destination takes the signal."""
        return bool(self._takers[signal])

    def has_room(self, signal: Signal, size_bytes: int) -> bool:
        """Return whether any destination that takes the signal has room for a senders' request of this size."""
        takers = self._takers[signal]
        return not takers or any(destination.has_room(size_bytes) for destination in takers)

    def put(self, outgoing: Outgoing) -> bool:
        """Queue the request where there is room; False where no destination has room (nothing was counted then)."""
        takers = self._takers[outgoing.signal]
        # Claimed before: one may be quicker than we are.
        self._ledger.claim_deliveries(outgoing.entries, len(takers))
        missed = [destination for destination in takers if not destination.put(outgoing)]
        for _ in missed:
            self._ledger.settle(outgoing.entries)
        # Scores are never held back for a backend: without room it loses them, and counts them.
        if takers and len(missed) == len(takers) and outgoing.signal != "scores":
            return False
        self._ledger.settle(outgoing.entries)
        for destination in missed:
            destination.miss(outgoing)
        if not takers and outgoing.spans:
            self._metrics.spans.add(outgoing.spans, ("consumed", "", ""))
        return True

    async def start(self) -> None:
        """Start all destinations; raise `StartError` when one cannot start, and leave none running then."""
        await _start(self.destinations)

    async def replace(self, destinations: Sequence[Destination]) -> None:
        """Send to these destinations from now on; change nothing and raise `StartError` when one of them cannot start."""
        before = self.destinations
        await _start([destination for destination in destinations if destination not in before])
        # Not while the worker puts something into the removed ones.
        with self._metrics.lock:
            self.destinations, self._takers = tuple(destinations), self._takers_of(destinations)
            keeps = {each.name: each.keep for each in before if each not in destinations}
            for destination in destinations:
                earlier = keeps.get(destination.name)
                if destination.keep is not None and earlier is not None:
                    destination.keep.follow(earlier)
        for destination in before:
            if destination not in destinations:
                self._removed[destination] = asyncio.create_task(self._retire(destination))

    def hurry(self) -> None:
        """Leave out the usual waits between attempts from here on."""
        for destination in self.destinations:
            destination.hurry()

    async def drain(self, timeout_s: float) -> tuple[tuple[str, Undelivered], ...]:
        """Send the queued requests within the time; return the losses by the names of destinations that lost anything."""
        draining = tuple(self._all())
        for task in self._removed.values():
            task.cancel()
        lost = await asyncio.gather(*(destination.drain(timeout_s) for destination in draining))
        return tuple((destination.name, each) for destination, each in zip(draining, lost, strict=True) if each)

    @property
    def kept(self) -> tuple[tuple[str, Undelivered], ...]:
        """The requests that the journal keeps for the next process, by the names of their destinations."""
        return tuple((destination.name, destination.kept) for destination in self._all() if destination.kept)

    async def close(self) -> None:
        """Stop all at once. May be called twice and without a start."""
        tasks = tuple(self._removed.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(destination.close() for destination in self._all()))
        self._removed.clear()

    async def _retire(self, destination: Destination) -> None:
        lost = await destination.drain(self._handover_s, "destination_removed")
        if lost:
            _LOG.error(
                "destination %s was removed from the configuration; %s could not be delivered to it and were dropped",
                destination.name,
                lost,
                extra={"destination": destination.name, "spans": lost.spans},
            )
        await destination.close()
        del self._removed[destination]

    def _all(self) -> Iterator[Destination]:
        yield from self.destinations
        yield from self._removed

    def _takers_of(self, destinations: Sequence[Destination]) -> dict[Signal, tuple[Destination, ...]]:
        def is_dropped(trace_id: str) -> bool:
            with self._metrics.lock:
                keeps = [each.keep for each in self._takers["traces"]]
                return bool(keeps) and all(keep is not None and keep.drops(trace_id) for keep in keeps)

        for destination in destinations:
            destination.is_dropped = is_dropped
        return {
            signal: tuple(each for each in destinations if signal in each.settings.signals)
            for signal in (*SIGNALS, "scores")
        }

    def _by_name(self, read: Callable[[Destination], int]) -> dict[Labels, float]:
        totals: defaultdict[Labels, float] = defaultdict(float)
        for destination in self._all():
            totals[(destination.name,)] += read(destination)
        return totals


async def _start(destinations: Sequence[Destination]) -> None:
    try:
        for destination in destinations:
            await destination.start()
    except BaseException:
        for destination in destinations:
            await destination.close()
        raise
