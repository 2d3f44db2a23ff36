"""Who told what in a recording: what the recognizer read, counted by producer and, until its end, by trace.

A recording's spans pass as they do live; the recognizer made here tells of each on the side. What is kept of a trace
is the producer of each of its spans, until the trace is taken.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from toolgauge.model.errors import DecodeError
from toolgauge.model.observations import (
    AgentRun,
    CallAnswered,
    CallExecuted,
    CallRequested,
    MessageSeen,
    ModelCall,
    Reading,
)
from toolgauge.model.ports import Dialect
from toolgauge.model.records import LogRecord, Record, SpanRef
from toolgauge.offline.replay.recordings import RecordedRequest
from toolgauge.otlp.envelope import parse_request
from toolgauge.otlp.views import Views
from toolgauge.recognize.recognizer import Recognizer
from toolgauge.selfmetrics import SelfMetrics

_SOMEWHERE = SpanRef("f" * 32, "f" * 16)
# What tells that a model call has not kept its content to itself.
_TELLING = (CallRequested, CallAnswered, CallExecuted, MessageSeen)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Producer:
    """Who writes spans: a library (`scope`, `version`) in a service. Each is "" where it was not told."""

    service: str
    scope: str
    version: str


@dataclass(slots=True)
class Heard:
    """What a producer sent. `nowhere` counts agent log records that name no trace, so that nothing can join them."""

    spans: int = 0
    log_records: int = 0
    nowhere: int = 0
    dialects: Counter[str] = field(default_factory=Counter[str])


@dataclass(slots=True)
class TraceHeard:
    """What was heard of one trace. `runs` are the producers that told of model calls or agent runs."""

    spans: dict[str, Producer] = field(default_factory=dict[str, Producer])
    runs: set[Producer] = field(default_factory=set[Producer])
    model_calls: Counter[Producer] = field(default_factory=Counter[Producer])
    tells_content: bool = False

    def producer(self, span: SpanRef | None) -> Producer | None:
        """Name the producer of a span."""
        return None if span is None else self.spans.get(span.span_id)


class Tally:
    """Counts what goes through one pipeline; give `recognizer` to what makes the pipeline."""

    def __init__(self) -> None:
        self.producers: dict[Producer, Heard] = {}
        # By scope: spans and log records in the recording, and how many of them some dialect read.
        self.in_recording: Counter[str] = Counter()
        self.read: Counter[str] = Counter()
        self.dialects: Counter[str] = Counter()
        self._metrics: SelfMetrics | None = None
        self._traces: dict[str, TraceHeard] = {}
        self._views = Views(())

    def recognizer(self, dialects: Sequence[Dialect], metrics: SelfMetrics, wanted: Collection[str] = ()) -> Recognizer:
        """Make a recognizer that tells this tally what it reads."""
        self._metrics = metrics
        return _Telling(dialects, metrics, wanted, self)

    @property
    def undecodable(self) -> int:
        """Spans and log records that could not be decoded."""
        return 0 if self._metrics is None else int(self._metrics.undecodable.value())

    @property
    def dialect_errors(self) -> int:
        """Spans and log records on which a dialect failed."""
        return 0 if self._metrics is None else int(sum(self._metrics.dialect_errors.cells.values()))

    def counted(self, recording: Iterable[RecordedRequest]) -> Iterator[RecordedRequest]:
        """Count all spans and log records of a recording by their scope, and pass it on."""
        for request in recording:
            self._count_scopes(request.body)
            yield request

    def take(self, trace_id: str) -> TraceHeard:
        """Hand over what was heard of a trace, and forget it."""
        return self._traces.pop(trace_id, TraceHeard())

    def note(self, record: Record, reading: Reading) -> None:
        """Take note of what a dialect read from a record."""
        if reading.dialect is None:
            return
        producer = _producer(record)
        heard = self._heard(producer)
        heard.dialects[reading.dialect] += 1
        self.dialects[reading.dialect] += 1
        self.read[producer.scope] += 1
        if reading.is_log:
            heard.log_records += 1
        else:
            heard.spans += 1
        self._note_trace(reading, producer)

    def note_lost(self, record: Record, reading: Reading) -> None:
        """Take note of a log record that a dialect could read and that names no trace."""
        if reading.dialect is not None and reading.observations:
            heard = self._heard(_producer(record))
            heard.dialects[reading.dialect] += 1
            heard.nowhere += 1

    def _heard(self, producer: Producer) -> Heard:
        return self.producers.setdefault(producer, Heard())

    def _note_trace(self, reading: Reading, producer: Producer) -> None:
        trace = self._traces.setdefault(reading.ref.trace_id, TraceHeard())
        if not reading.is_log:
            trace.spans[reading.ref.span_id] = producer
        for observation in reading.observations:
            if isinstance(observation, ModelCall | AgentRun):
                trace.runs.add(producer)
            if isinstance(observation, ModelCall) and not reading.is_log:
                trace.model_calls[producer] += 1
            if isinstance(observation, _TELLING):
                trace.tells_content = True

    def _count_scopes(self, body: bytes) -> None:
        try:
            request = parse_request(body)
        except DecodeError:
            return  # the pipeline says so
        for resource_group in request.resource_groups:
            for group in resource_group.scope_groups:
                if group.items:
                    self.in_recording[self._views.scope(group.scope).scope.name] += len(group.items)


class _Telling(Recognizer):
    """A recognizer that tells what it reads."""

    def __init__(
        self, dialects: Sequence[Dialect], metrics: SelfMetrics, wanted: Collection[str], tally: Tally
    ) -> None:
        super().__init__(dialects, metrics, wanted)
        self._tally = tally

    def read(self, record: Record) -> Reading | None:
        """Read the record as any recognizer does."""
        reading = super().read(record)
        if reading is not None:
            self._tally.note(record, reading)
        elif isinstance(record, LogRecord) and record.ref is None:
            lost = super().read(replace(record, ref=_SOMEWHERE))
            if lost is not None:
                self._tally.note_lost(record, lost)
        return reading


def _producer(record: Record) -> Producer:
    return Producer(service=record.resource.service or "", scope=record.scope.name, version=record.scope.version)
