"""Config -> the destinations, and the way out while its destinations change: those that stay go on undisturbed, those that go send what they have.

Whatever waits for a destination that goes is sent in the background, for a limited time; what is left then is counted
as dropped, and said.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from toolgauge import plugins
from toolgauge.config.extensions import extensions
from toolgauge.config.model import Config
from toolgauge.export.destination import Destination, exporter_destination, otlp_destination
from toolgauge.export.fan_out import FanOut
from toolgauge.export.settings import DestinationSettings
from toolgauge.model.delivery import Outgoing, Signal
from toolgauge.model.metrics import Labels
from toolgauge.model.ports import Exporter
from toolgauge.selfmetrics import SelfMetrics

_LOG = logging.getLogger("toolgauge.export")
# How long a destination that goes may take for what waits for it.
_HANDOVER_S = 30.0


class Exporters:
    """An outbox in front of the one that is in use. Implements `model.delivery.Outbox`; belongs to one event loop."""

    def __init__(self, outbox: FanOut, metrics: SelfMetrics, *, handover_s: float = _HANDOVER_S) -> None:
        self._outbox = outbox
        self._metrics = metrics
        self._handover_s = handover_s
        self._leaving: dict[Destination, asyncio.Task[None]] = {}
        self._observe()

    @property
    def destinations(self) -> tuple[Destination, ...]:
        """The destinations that are in use."""
        return self._outbox.destinations

    @property
    def spans_queued(self) -> int:
        """Senders' spans that wait for any destination, also for one that goes."""
        return sum(destination.spans_queued for destination in self._all())

    @property
    def bytes_queued(self) -> int:
        """Bytes of requests that wait for any destination, also for one that goes."""
        return sum(destination.bytes_queued for destination in self._all())

    def forwards(self, signal: Signal) -> bool:
        """Return whether any destination takes the signal."""
        return self._outbox.forwards(signal)

    def has_room(self, signal: Signal, size_bytes: int) -> bool:
        """Return whether a senders' request of this signal and size would be taken now."""
        return self._outbox.has_room(signal, size_bytes)

    def put(self, outgoing: Outgoing) -> bool:
        """Queue the request; False when there is no room."""
        return self._outbox.put(outgoing)

    async def start(self) -> None:
        """Start all destinations; raise `StartError` when one cannot start, and leave none running then."""
        await self._outbox.start()

    async def replace(self, outbox: FanOut) -> None:
        """Send through another outbox from here on; destinations that both have go on as they are.

        Raises `StartError` when a destination cannot start; everything stays as it was then.
        """
        in_use = self._outbox.destinations
        try:
            await _start([destination for destination in outbox.destinations if destination not in in_use])
            # Not while the worker puts something into those that go.
            with self._metrics.lock:
                self._outbox = outbox
        finally:
            # Whoever made the outbox has left its own eyes on the queues.
            self._observe()
        for destination in in_use:
            if destination not in outbox.destinations:
                self._leaving[destination] = asyncio.create_task(self._let_go(destination))

    def hurry(self) -> None:
        """Leave out the usual waits between attempts from here on."""
        self._outbox.hurry()

    async def drain(self, timeout_s: float) -> int:
        """Send what is queued within the time; return how many spans and requests were lost, over all destinations."""
        leaving = tuple(self._leaving)
        for task in self._leaving.values():
            task.cancel()
        lost = await asyncio.gather(
            self._outbox.drain(timeout_s), *(destination.drain(timeout_s) for destination in leaving)
        )
        return sum(lost)

    async def close(self) -> None:
        """Stop all at once. May be called twice and without a start."""
        tasks = tuple(self._leaving.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(self._outbox.close(), *(destination.close() for destination in self._leaving))
        self._leaving.clear()

    async def _let_go(self, destination: Destination) -> None:
        lost = await destination.retire(self._handover_s)
        if lost:
            _LOG.error(
                "destination %s is gone from the configuration; %d spans or requests could not be delivered to it and "
                "are lost",
                destination.name,
                lost,
                extra={"destination": destination.name, "lost": lost},
            )
        await destination.close()
        del self._leaving[destination]

    def _all(self) -> Iterator[Destination]:
        yield from self._outbox.destinations
        yield from self._leaving

    def _observe(self) -> None:
        """Show what waits, under one name where a destination goes and another one of that name comes."""
        metrics = self._metrics
        metrics.spans_queued.observe = lambda: self._by_name(lambda each: each.spans_queued) or {("",): 0}
        metrics.queue_bytes.observe = lambda: self._by_name(lambda each: each.bytes_queued)
        metrics.in_flight.observe = lambda: self._by_name(lambda each: each.requests_in_flight)
        metrics.queue_capacity.observe = lambda: {
            (each.name,): each.queue_capacity_bytes for each in self._outbox.destinations
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


def make_outbox(config: Config, metrics: SelfMetrics, *, hop_id: str, user_agent: str) -> FanOut:
    """Make the destinations, or what stands in when there are none."""
    otlp = fan_out(config.exporters.otlp, metrics, hop_id=hop_id, user_agent=user_agent)
    return FanOut((*otlp.destinations, *_of_plug_ins(config, metrics)), metrics)


def _of_plug_ins(config: Config, metrics: SelfMetrics) -> Iterator[Destination]:
    for name, settings in extensions(config.exporters):
        exporter: Exporter = plugins.exporter(name)(settings)
        yield exporter_destination(name, exporter, metrics)


def fan_out(exporters: Sequence[DestinationSettings], metrics: SelfMetrics, *, hop_id: str, user_agent: str) -> FanOut:
    """Make the destinations of `exporters.otlp`."""
    destinations = [
        otlp_destination(_named(exporter, number), metrics, hop_id, user_agent)
        for number, exporter in enumerate(exporters, 1)
    ]
    return FanOut(destinations, metrics)


def renewed_outbox(
    config: Config, metrics: SelfMetrics, in_use: Sequence[Destination], *, hop_id: str, user_agent: str
) -> FanOut:
    """Make what `make_outbox` makes, with those of the destinations in use that stay as they are."""
    by_name = {destination.name: destination for destination in in_use if destination.is_built_in}
    destinations: list[Destination] = []
    for number, exporter in enumerate(config.exporters.otlp, 1):
        settings = _named(exporter, number)
        known = by_name.get(settings.name or "")
        if known is None or known.settings != settings:
            known = otlp_destination(settings, metrics, hop_id, user_agent)
        destinations.append(known)
    destinations.extend(destination for destination in in_use if not destination.is_built_in)
    return FanOut(destinations, metrics)


def _named(settings: DestinationSettings, number: int) -> DestinationSettings:
    """Give an entry of `exporters.otlp` without a name its number."""
    if settings.name is not None:
        return settings
    return settings.model_copy(update={"name": "otlp" if number == 1 else f"otlp/{number}"})
