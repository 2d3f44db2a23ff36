"""Counts of recorded traffic while it arrives: services, dialects, trajectories and tool calls.

The worker's thread reads and counts; the event loop counts requests, and looks at all of it in passing.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from toolgauge.model.delivery import Outgoing
from toolgauge.model.json import Value
from toolgauge.model.observations import Reading
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.ports import Dialect
from toolgauge.model.records import Record
from toolgauge.otlp.request import Request
from toolgauge.recognize.recognizer import Recognizer
from toolgauge.report.terminal import counted, shortened
from toolgauge.selfmetrics import SelfMetrics

_NAME_LENGTH = 80
# Services beyond this many are counted together.
_MAX_SERVICES = 100
_OTHERS = "(other services)"


@dataclass(slots=True)
class ServiceCounts:
    """What was recognised of one service; `dialects` counts spans and log records."""

    dialects: Counter[str] = field(default_factory=Counter[str])
    read: int = 0
    trajectories: int = 0
    calls: int = 0


class Recognized:
    """Counts the readings and trajectories of one pipeline, whose `pipeline.ScorecardSink` it is.

    `on_first` gets a line for each new pair of a service and a dialect.
    """

    def __init__(self, on_first: Callable[[str], None]) -> None:
        self._on_first = on_first
        self.services: dict[str, ServiceCounts] = {}
        self.arrived = 0
        # Spans and log records.
        self.records = 0

    def recognizer(self, dialects: Sequence[Dialect], metrics: SelfMetrics, wanted: Collection[str] = ()) -> Recognizer:
        """Make a recognizer that counts here what it reads."""
        return _CountingRecognizer(dialects, metrics, wanted, self.note)

    def accept(self, request: Request) -> None:
        """Count a request that was accepted."""
        self.arrived += 1
        if request.signal != "metrics":
            self.records += request.count

    def note(self, record: Record, dialect: str) -> None:
        """Count what a dialect read."""
        service = record.resource.service
        counts = self._counts(service)
        if not counts.dialects[dialect]:
            self._on_first(f"service {_named(service)}: dialect {dialect} ({_scope(record)})")
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


class _CountingRecognizer(Recognizer):
    """A recognizer that reports what it reads."""

    def __init__(
        self,
        dialects: Sequence[Dialect],
        metrics: SelfMetrics,
        wanted: Collection[str],
        note: Callable[[Record, str], None],
    ) -> None:
        super().__init__(dialects, metrics, wanted)
        self._note = note

    def operation(self, attributes: Mapping[str, Value], name: str, scope: str) -> None:
        """Have all spans read when they arrive: that is where they are counted."""
        del attributes, name, scope

    def read(self, record: Record) -> Reading | None:
        """Read the record as any recognizer does."""
        reading = super().read(record)
        if reading is not None and reading.dialect is not None:
            self._note(record, reading.dialect)
        return reading


def _work(trajectories: int, calls: int) -> str:
    return f"{counted(trajectories, 'trajectory', 'trajectories')}, {counted(calls, 'tool call')}"


def _named(service: str | None) -> str:
    return f"`{shortened(service, _NAME_LENGTH)}`" if service else "without a name"


def _scope(record: Record) -> str:
    name = f"{record.scope.name} {record.scope.version or ''}".strip()
    return shortened(name, _NAME_LENGTH) if name else "no scope"
