"""A service that receives OTLP, writes it to a file, and counts its readings; where reading lags behind, it only writes."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from toolgauge.config.model import Config, Exporters, Receivers
from toolgauge.export.recording_file import RecordingFile
from toolgauge.model.delivery import Outgoing
from toolgauge.model.observations import Reading
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.ports import Dialect
from toolgauge.model.records import Record
from toolgauge.otlp.request import Request
from toolgauge.pipeline.stages import ignore_split
from toolgauge.recognize.recognizer import Recognizer
from toolgauge.recordings.stats import CountingRecognizer
from toolgauge.report.terminal import counted, shortened
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.pipeline_factory import make_pipeline
from toolgauge.service.serve import make_service
from toolgauge.service.service import Service
from toolgauge.state.settings import StateSettings

_NAME_LENGTH = 80
# Services beyond this many are counted together.
_MAX_SERVICES = 100
_OTHERS = "(other services)"


@dataclass(slots=True)
class ServiceCounts:
    """The readings, trajectories and calls of one service; `dialects` counts spans and log records."""

    dialects: Counter[str] = field(default_factory=Counter[str])
    read: int = 0
    trajectories: int = 0
    calls: int = 0


class Recognized:
    """A `pipeline.ScorecardSink` that counts; `on_first` gets a line for each new pair of a service and a dialect."""

    def __init__(self, on_first: Callable[[str], None]) -> None:
        self._on_first = on_first
        self.services: dict[str, ServiceCounts] = {}
        self.arrived = 0
        # Spans and log records.
        self.records = 0

    def recognizer(self, dialects: Sequence[Dialect], metrics: SelfMetrics, wanted: Collection[str] = ()) -> Recognizer:
        """Make a recognizer that counts here what it reads."""
        return CountingRecognizer(dialects, metrics, wanted, self.note)

    def accept(self, request: Request) -> None:
        """Count a request that was accepted."""
        self.arrived += 1
        if request.signal != "metrics":
            self.records += request.count

    def note(self, record: Record, reading: Reading) -> None:
        """Count a reading, and report the first one of a service and a dialect."""
        dialect, service = reading.dialect, record.resource.service
        if dialect is None:
            return
        counts = self._counts(service)
        if not counts.dialects[dialect]:
            scope = f"{record.scope.name} {record.scope.version or ''}".strip()
            shown = shortened(scope, _NAME_LENGTH) if scope else "no scope"
            self._on_first(f"service {_named(service)}: dialect {dialect} ({shown})")
        counts.dialects[dialect] += 1
        counts.read += 1

    def record(self, scorecard: Scorecard) -> None:
        """Count a trajectory that has closed."""
        counts = self._counts(scorecard.trajectory.service)
        counts.trajectories += 1
        counts.calls += len(scorecard.trajectory.calls)

    def requests(self, scorecards: Sequence[Scorecard]) -> list[Outgoing]:
        """Send nothing on."""
        del scorecards
        return []

    def counter(self) -> str:
        """Describe the counts in a few words."""
        services = tuple(self.services.values())
        read = sum(counts.read for counts in services)
        trajectories, calls = sum(counts.trajectories for counts in services), sum(counts.calls for counts in services)
        return (
            f"{counted(self.arrived, 'request')}, {self.records:,} spans and log records ({read:,} read), "
            f"{_work(trajectories, calls)}"
        )

    def lines(self) -> Iterator[str]:
        """Describe each service, the busiest first."""
        for service, counts in sorted(self.services.items(), key=lambda entry: -entry[1].read):
            dialects = ", ".join(f"{dialect} ({count})" for dialect, count in counts.dialects.most_common())
            yield f"  {_named(service)}: {_work(counts.trajectories, counts.calls)}; {dialects or 'no dialect'}"

    def _counts(self, service: str | None) -> ServiceCounts:
        name = service or ""
        if name not in self.services and len(self.services) >= _MAX_SERVICES:
            name = _OTHERS
        return self.services.setdefault(name, ServiceCounts())


def _work(trajectories: int, calls: int) -> str:
    return f"{counted(trajectories, 'trajectory', 'trajectories')}, {counted(calls, 'tool call')}"


def _named(service: str | None) -> str:
    return f"`{shortened(service, _NAME_LENGTH)}`" if service else "without a name"


def make_recorder(
    config: Config, recording: RecordingFile, on_first: Callable[[str], None]
) -> tuple[Service, Recognized]:
    """Make a service that scores nothing and sends nothing on, and what it recognizes."""
    recognized = Recognized(on_first)
    alone = config.model_copy(
        update={
            "receivers": Receivers(otlp=config.receivers.otlp),
            "exporters": Exporters(prometheus=None),
            "annotate": "off",
            "watch": config.watch.model_copy(update={"enabled": False}),
            "state": StateSettings(),
            "admin": None,
        }
    )
    service = make_service(
        alone,
        (),
        observing=lambda _sink: recognized,
        recording=recording,
        on_accepted=recognized.accept,
        put_together=partial(make_pipeline, make_recognizer=recognized.recognizer, on_split=ignore_split),
    )
    return service, recognized
