"""Config -> the destinations: those of `exporters.otlp`, and the exporters that other packages bring."""

from collections.abc import Iterator, Sequence

from toolgauge import plugins
from toolgauge.config.model import Config, extensions
from toolgauge.export.destination import Destination, exporter_destination, otlp_destination
from toolgauge.export.fan_out import FanOut
from toolgauge.export.settings import DestinationSettings
from toolgauge.model.ports import Exporter
from toolgauge.selfmetrics import SelfMetrics


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


def renewed_destinations(
    config: Config, metrics: SelfMetrics, in_use: Sequence[Destination], *, hop_id: str, user_agent: str
) -> list[Destination]:
    """Make the destinations of `make_outbox`, but keep those in use whose settings stay as they are."""
    by_name = {destination.name: destination for destination in in_use if destination.is_built_in}
    destinations: list[Destination] = []
    for number, exporter in enumerate(config.exporters.otlp, 1):
        settings = _named(exporter, number)
        known = by_name.get(settings.name or "")
        if known is None or known.settings != settings:
            known = otlp_destination(settings, metrics, hop_id, user_agent)
        destinations.append(known)
    destinations.extend(destination for destination in in_use if not destination.is_built_in)
    return destinations


def _named(settings: DestinationSettings, number: int) -> DestinationSettings:
    """Give an entry of `exporters.otlp` without a name its number."""
    if settings.name is not None:
        return settings
    return settings.model_copy(update={"name": "otlp" if number == 1 else f"otlp/{number}"})
