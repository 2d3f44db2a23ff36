"""Config -> the destinations: OTLP, Kafka, the recording, backends of scores, and the exporters that other packages bring."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

from toolgauge import plugins
from toolgauge.backends.score_sender import ScoreDestination
from toolgauge.backends.settings import BackendSettings
from toolgauge.backends.vendors import backend_destination
from toolgauge.config.model import Config, backends, extensions
from toolgauge.export.destination import HOP_HEADER, Destination, exporter_destination, otlp_destination
from toolgauge.export.fan_out import FanOut
from toolgauge.export.recording_file import RecordingFile
from toolgauge.export.score_lines import ScoreLines
from toolgauge.export.sender import Sender
from toolgauge.export.settings import DestinationSettings
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.ports import Exporter
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.pipeline_factory import VERSION, redactor
from toolgauge.settings import SECOND, redacted_url
from toolgauge.state.ledger import NO_LEDGER, Ledger

USER_AGENT = f"toolgauge/{VERSION}"


def make_outbox(config: Config, metrics: SelfMetrics, *, hop_id: str, ledger: Ledger = NO_LEDGER) -> FanOut:
    """Make the outbox with all destinations."""
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
    """Make the destinations of OTLP and of scores, but keep unchanged ones in use, and all others."""
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
    recording = RecordingFile(settings.path, max_bytes=settings.max_bytes, max_backups=settings.max_backups)
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


# All spans of a backlog have arrived; a person waits.
_LATE_NS = 30 * SECOND
_TOGETHER = 100
_LOOK_AGAIN_S = 0.1
_CLOSING_S = 5.0


class ScoreBacklog:
    """Sends the scores of recorded traffic to backends, on the thread that scores: while `add` is called, and the rest at the end.
    `on_wait` gets the number of waiting scores. Raises `StartError`."""

    def __init__(
        self, config: Config, to: Mapping[str, BackendSettings], on_wait: Callable[[int], None] = lambda _waiting: None
    ) -> None:
        metrics = SelfMetrics(MetricRegistry())
        self._scores = metrics.scores
        self._destinations: list[ScoreDestination] = []
        for name, settings in to.items():
            late = settings.late if "late" in settings.model_fields_set else min(settings.late, _LATE_NS)
            patient = settings.model_copy(update={"late": late})
            self._destinations.append(backend_destination(name, patient, metrics, USER_AGENT))
        self._half_bytes = min(settings.queue.max_bytes for settings in to.values()) // 2
        self._outbox = FanOut(self._destinations, metrics)
        self._lines = ScoreLines(redactor(config), [settings.scores for settings in to.values()])
        self._scorecards: list[Scorecard] = []
        self._on_wait = on_wait
        self._loop = asyncio.new_event_loop()

    def __enter__(self) -> Self:
        self._loop.run_until_complete(self._outbox.start())
        return self

    def __exit__(
        self, error: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self._put()
                self._loop.run_until_complete(self._sent(at_most=0))
                self._loop.run_until_complete(self._outbox.drain(_CLOSING_S))
        finally:
            self._loop.run_until_complete(self._outbox.close())
            self._loop.close()

    def add(self, scorecard: Scorecard) -> None:
        """Send the scores of a scorecard; wait while the backends are behind."""
        self._scorecards.append(scorecard)
        if len(self._scorecards) >= _TOGETHER:
            self._put()
            self._loop.run_until_complete(self._sent(at_most=self._half_bytes))

    def counts(self) -> dict[str, Counter[str]]:
        """Count the scores of each backend by outcome, dropped ones by reason."""
        counted = {each.name: Counter[str]() for each in self._destinations}
        for (name, outcome, reason), count in self._scores.cells.items():
            counted[name][reason or outcome] += int(count)
        return counted

    def _put(self) -> None:
        scorecards, self._scorecards = self._scorecards, []
        for outgoing in self._lines.requests(scorecards):
            self._outbox.put(outgoing)

    async def _sent(self, *, at_most: int) -> None:
        await asyncio.sleep(0)
        while any(each.queue.size_bytes > at_most for each in self._destinations):
            self._on_wait(int(max(each.waiting for each in self._destinations)))
            await asyncio.sleep(_LOOK_AGAIN_S)
