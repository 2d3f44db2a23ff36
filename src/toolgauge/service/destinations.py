"""Config -> the destinations: OTLP, Kafka, the recording, backends of scores, and the exporters that other packages bring."""

from collections.abc import Sequence

from toolgauge import plugins
from toolgauge.backends.score_sender import ScoreDestination
from toolgauge.backends.vendors import backend_destination
from toolgauge.config.model import Config, backends, extensions
from toolgauge.export.destination import HOP_HEADER, Destination, exporter_destination, otlp_destination
from toolgauge.export.fan_out import FanOut
from toolgauge.export.recording_file import RecordingFile, Rotation
from toolgauge.export.sender import Sender
from toolgauge.export.settings import DestinationSettings
from toolgauge.model.ports import Exporter
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.pipeline_factory import VERSION
from toolgauge.settings import redacted_url
from toolgauge.state.ledger import NO_LEDGER, Ledger

USER_AGENT = f"toolgauge/{VERSION}"


def make_outbox(config: Config, metrics: SelfMetrics, *, hop_id: str, ledger: Ledger = NO_LEDGER) -> FanOut:
    """Make the destinations, or what stands in when there are none."""
    others: list[Destination] = []
    kafka = config.exporters.kafka
    if kafka is not None:
        # Loaded by name: the client of the extra `kafka` takes 15 MB.
        sender: Sender = plugins.load(plugins.EXPORTERS, "kafka")(kafka, headers=((HOP_HEADER, hop_id),))
        others.append(Destination(kafka.as_destination, metrics, sender, ledger))
    for name, settings in extensions(config.exporters):
        exporter: Exporter = plugins.exporter(name)(settings)
        others.append(exporter_destination(name, exporter, metrics, ledger))
    destinations = renewed_destinations(config, metrics, others, hop_id=hop_id, ledger=ledger)
    outbox = FanOut(destinations, metrics, ledger=ledger)
    metrics.scores_waiting.observe = lambda: {
        (each.name,): each.waiting for each in outbox.destinations if isinstance(each, ScoreDestination)
    }
    return outbox


def otlp_fan_out(exporters: Sequence[DestinationSettings], metrics: SelfMetrics, *, hop_id: str) -> FanOut:
    """Make the destinations of `exporters.otlp` alone."""
    named = [_named(exporter, number) for number, exporter in enumerate(exporters, 1)]
    return FanOut([otlp_destination(each, metrics, hop_id, USER_AGENT) for each in named], metrics)


def renewed_destinations(
    config: Config, metrics: SelfMetrics, in_use: Sequence[Destination], *, hop_id: str, ledger: Ledger = NO_LEDGER
) -> list[Destination]:
    """Make the destinations of OTLP and of scores, but keep those in use whose settings stay as they are, and all others."""
    by_name = {destination.name: destination for destination in in_use if destination.is_of_otlp}
    by_backend = {each.name: each for each in in_use if isinstance(each, ScoreDestination)}
    destinations: list[Destination] = []
    for number, exporter in enumerate(config.exporters.otlp, 1):
        settings = _named(exporter, number)
        known = by_name.get(settings.name or "")
        if known is None or known.settings != settings:
            known = otlp_destination(settings, metrics, hop_id, USER_AGENT, ledger)
        destinations.append(known)
    for name, backend in backends(config.exporters).items():
        known = by_backend.get(name)
        # The key in a file may have changed.
        if known is None or known.backend != backend or backend.api_key_file is not None:
            known = backend_destination(name, backend, metrics, USER_AGENT, ledger)
        destinations.append(known)
    renewed = {*by_name.values(), *by_backend.values()}
    destinations.extend(destination for destination in in_use if destination not in renewed)
    return destinations


def _named(settings: DestinationSettings, number: int) -> DestinationSettings:
    """Give an entry of `exporters.otlp` without a name its number."""
    if settings.name is not None:
        return settings
    return settings.model_copy(update={"name": "otlp" if number == 1 else f"otlp/{number}"})


def make_recording(config: Config, metrics: SelfMetrics) -> RecordingFile | None:
    """Make the file that requests are written to as they arrive, where the configuration has one."""
    settings = config.exporters.file
    if settings is None:
        return None
    rotation = Rotation(max_bytes=settings.max_bytes, max_backups=settings.max_backups)
    recording = RecordingFile(settings.path, rotation=rotation)
    metrics.recording_dropped.observe = lambda: {(*labels,): count for labels, count in tuple(recording.losses.items())}
    return recording


def destination_names(config: Config) -> list[str]:
    """Name the destinations of `make_outbox` for people: by URL, by brokers, or by the name of the plug-in."""
    names = [redacted_url(url) or "" for exporter in config.exporters.otlp for url in exporter.endpoints]
    if config.exporters.kafka is not None:
        names.append(f"Kafka at {', '.join(config.exporters.kafka.brokers)}")
    return [*names, *(f"`{name}`" for name, _ in extensions(config.exporters))]


def announced_destinations(config: Config) -> list[str]:
    """Name everything that `exporters` writes to, the recording and backends of scores included."""
    file = config.exporters.file
    tables = [
        f"`{name}` at {redacted_url(each.endpoint)} (scores)" for name, each in backends(config.exporters).items()
    ]
    return (
        destination_names(config)
        + tables
        + ([] if file is None else [f"the file `{file.path}` (requests as received)"])
    )
