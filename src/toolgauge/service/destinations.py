"""Config -> the destinations: those of `exporters.otlp`, Kafka, the recording, and the exporters that other packages bring."""

from collections.abc import Iterator, Sequence

from toolgauge import plugins
from toolgauge.config.model import Config, extensions
from toolgauge.export.destination import (
    HOP_HEADER,
    Destination,
    exporter_destination,
    otlp_destination,
)
from toolgauge.export.fan_out import FanOut
from toolgauge.export.recording_file import RecordingFile, Rotation
from toolgauge.export.sender import Sender
from toolgauge.export.settings import DestinationSettings
from toolgauge.model.ports import Exporter
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.state.ledger import Ledger


def make_outbox(
    config: Config, metrics: SelfMetrics, *, hop_id: str, user_agent: str, ledger: Ledger | None = None
) -> FanOut:
    """Make the destinations, or what stands in when there are none."""
    otlp = _otlp_destinations(config.exporters.otlp, metrics, hop_id, user_agent, ledger)
    kafka = _kafka_destinations(config, metrics, hop_id, ledger)
    return FanOut((*otlp, *kafka, *_of_plug_ins(config, metrics, ledger)), metrics, ledger=ledger)


def make_recording(config: Config, metrics: SelfMetrics) -> RecordingFile | None:
    """Make what writes requests to a file as they arrive, where the configuration wants that."""
    settings = config.exporters.file
    if settings is None:
        return None
    rotation = Rotation(max_bytes=settings.max_bytes, max_backups=settings.max_backups)
    recording = RecordingFile(settings.path, rotation=rotation)
    metrics.recording_dropped.observe = lambda: {(*labels,): count for labels, count in tuple(recording.losses.items())}
    return recording


def _kafka_destinations(
    config: Config, metrics: SelfMetrics, hop_id: str, ledger: Ledger | None
) -> Iterator[Destination]:
    settings = config.exporters.kafka
    if settings is not None:
        # Loaded by name: the client of the extra `kafka` takes 15 MB.
        sender: Sender = plugins.load(plugins.EXPORTERS, "kafka")(settings, headers=((HOP_HEADER, hop_id),))
        yield Destination(settings.as_destination, metrics, sender, ledger)


def _of_plug_ins(config: Config, metrics: SelfMetrics, ledger: Ledger | None) -> Iterator[Destination]:
    for name, settings in extensions(config.exporters):
        exporter: Exporter = plugins.exporter(name)(settings)
        yield exporter_destination(name, exporter, metrics, ledger)


def fan_out(exporters: Sequence[DestinationSettings], metrics: SelfMetrics, *, hop_id: str, user_agent: str) -> FanOut:
    """Make the destinations of `exporters.otlp`."""
    return FanOut([*_otlp_destinations(exporters, metrics, hop_id, user_agent, None)], metrics)


def _otlp_destinations(
    exporters: Sequence[DestinationSettings],
    metrics: SelfMetrics,
    hop_id: str,
    user_agent: str,
    ledger: Ledger | None,
) -> Iterator[Destination]:
    for number, exporter in enumerate(exporters, 1):
        yield otlp_destination(_named(exporter, number), metrics, hop_id, user_agent, ledger)


def renewed_destinations(
    config: Config,
    metrics: SelfMetrics,
    in_use: Sequence[Destination],
    *,
    hop_id: str,
    user_agent: str,
    ledger: Ledger | None = None,
) -> list[Destination]:
    """Make the destinations of `make_outbox`, but keep those in use whose settings stay as they are."""
    by_name = {destination.name: destination for destination in in_use if destination.is_of_otlp}
    destinations: list[Destination] = []
    for number, exporter in enumerate(config.exporters.otlp, 1):
        settings = _named(exporter, number)
        known = by_name.get(settings.name or "")
        if known is None or known.settings != settings:
            known = otlp_destination(settings, metrics, hop_id, user_agent, ledger)
        destinations.append(known)
    destinations.extend(destination for destination in in_use if not destination.is_of_otlp)
    return destinations


def _named(settings: DestinationSettings, number: int) -> DestinationSettings:
    """Give an entry of `exporters.otlp` without a name its number."""
    if settings.name is not None:
        return settings
    return settings.model_copy(update={"name": "otlp" if number == 1 else f"otlp/{number}"})
