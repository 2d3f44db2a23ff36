"""Counts the records and readings of each producer of a recording, and unread spans that look like tool calls."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError as NotProtobufError
from msgspec.structs import replace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from toolgauge.dialects.generic import GENERIC, draft
from toolgauge.model.content import NotRecorded
from toolgauge.model.errors import DecodeError
from toolgauge.model.json import JsonObject
from toolgauge.model.names import stable_name
from toolgauge.model.observations import (
    AgentRun,
    CallAnswered,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    MessageSeen,
    ModelCall,
    Reading,
)
from toolgauge.model.ports import Dialect
from toolgauge.model.records import SDK_LANGUAGE, LogRecord, Record, Span, SpanRef
from toolgauge.model.trajectory import Trajectory
from toolgauge.otlp.envelope import count_items
from toolgauge.recognize.mapped_dialect import SpanMapping
from toolgauge.recognize.recognizer import Recognizer
from toolgauge.recognize.shortfalls import Producer, producer_of
from toolgauge.recordings.recorded_requests import RecordedRequest
from toolgauge.report.terminal import PLAIN, Style, counted, shortened
from toolgauge.selfmetrics import SelfMetrics

_NAME_LENGTH = 200


def producer_object(producer: Producer) -> JsonObject:
    """Name a producer for `doctor --json`."""
    return {
        "service": producer.service or None,
        "scope": producer.scope,
        "version": producer.version or None,
        "language": producer.language or None,
    }


def producer_head(producer: Producer, length: int = _NAME_LENGTH) -> str:
    """Name a producer for a person, with at most `length` characters of each name."""
    scope = shortened(" ".join((producer.scope or "(no scope)", producer.version)).strip(), length)
    return f"{shortened(producer.service or 'unknown service', length)}: {scope}"


_WORD = r"(?:tool|function)s?"
_ACT = r"(?:call|run|use|invoke|invocation|execute|execution)"
_NAME = re.compile(rf"(?:^|[^a-z])(?:{_WORD}[ _.:/-]?{_ACT}|{_ACT}[ _.:/-]?{_WORD})(?:[^a-z]|$)", re.IGNORECASE)
# Of code, databases and serverless functions it is a function that is spoken of, and no tool.
_KEY = re.compile(
    r"(?:^|[._:-])tool(?:[._:-]?(?:call|use|invocation|definition))?s?"
    r"[._:-]?(?:name|id|args|arguments|input|parameters|params|result|output|response)$",
    re.IGNORECASE,
)
_SERVICE = "service.name"
_MAX_ATTRIBUTES = 128
# Spans that wait to be read, and different names of a producer that are kept.
_MAX_WAITING = 200_000
_MAX_NAMES, _TOOL_SCOPE_LENGTH = 3, 80


@dataclass(slots=True)
class UnreadTools:
    """The unread spans of one producer that look like tool calls, `alone` of them in traces without a wholly seen call."""

    producer: Producer
    spans: int = 0
    alone: int = 0
    names: Counter[str] = field(default_factory=Counter[str])

    @property
    def is_problem(self) -> bool:
        """Whether calls went unseen: where other spans of a trace show what became of calls, these are most likely the same."""
        return self.alone > 0


def looks_like_tool_call(span: SpanMessage) -> bool:
    """Return whether the span's name, or the key of an attribute, speaks of a tool's execution."""
    if _NAME.search(span.name[:_LONGEST_NAME]):
        return True
    return any(_KEY.search(pair.key[:_LONGEST_NAME]) for pair in span.attributes[:_MAX_ATTRIBUTES])


def unread_object(unread: UnreadTools) -> JsonObject:
    """Describe them for `doctor --json`."""
    return {
        **producer_object(unread.producer),
        "dialects": [],
        "not_read": {"spans": unread.spans, "alone": unread.alone, "names": [*unread.names]},
        "ok": not unread.is_problem,
    }


def unread_lines(unread: UnreadTools, style: Style = PLAIN) -> Iterator[str]:
    """Describe them for a person."""
    yield style.head(producer_head(unread.producer, _TOOL_SCOPE_LENGTH))
    word = style.bad("problem") if unread.is_problem else style.doubtful("note")
    names = ", ".join(f"`{shortened(name, _TOOL_SCOPE_LENGTH)}`" for name in unread.names)
    yield f"  {word}: toolgauge does not read {counted(unread.spans, 'span')} that look like tool calls: {names}"
    if unread.is_problem:
        yield f"    {unread.alone} of them in traces in which nothing else shows what became of a call"
        yield "    do: map their attributes in the section `dialects` of the configuration, or write a dialect"
    else:
        yield "    other spans of the same traces show calls, most likely the same ones"


_ANY_SPAN = SpanRef("f" * 32, "f" * 16)
# Observations of a model call whose content was recorded.
_CONTENT = (CallRequested, CallAnswered, CallExecuted, MessageSeen)
_OPERATION = "gen_ai.operation.name"
_LONGEST_NAME = 256
# Different names and operations of one producer's unread spans.
_MAX_UNREAD = 1000
_MAX_MAPPINGS = 100


@dataclass(slots=True)
class ProducerCounts:
    """What a producer sent. `without_trace` counts log records of calls and messages that name no trace: nothing can join them."""

    spans: int = 0
    log_records: int = 0
    without_trace: int = 0
    dialects: Counter[str] = field(default_factory=Counter[str])
    # The attributes that the generic dialect read.
    mappings: list[SpanMapping] = field(default_factory=list[SpanMapping])
    # Spans that a dialect claimed and found nothing on, by name and operation.
    unread: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    # Of these, the traces whose trajectories were not taken.
    unread_traces: set[str] = field(default_factory=set[str])
    # Runs of agents, and runs with an id in place of the agent's name.
    agent_runs: int = 0
    named_by_id: int = 0
    # Spans of which the producer dropped attributes or events.
    cut: int = 0
    # Steps of code agents, and how many failed by their own code.
    code_steps: int = 0
    failed_code_steps: int = 0
    # Executed calls by name; calls alone in their traces; calls in traces without a run of a model or an agent.
    names: Counter[str] = field(default_factory=Counter[str])
    lone: int = 0
    without_run: int = 0
    # Calls that models asked for and nothing ran, beside as many that ran unasked in the same runs.
    doubled_calls: int = 0
    # Results that read like errors that no span records, by whether their calls count as failed; and how the other texts begin.
    reported_errors: Counter[str] = field(default_factory=Counter[str])
    error_beginnings: Counter[str] = field(default_factory=Counter[str])

    def add(self, span: Span, reading: Reading) -> None:
        """Count a span, and remember its name where nothing was found on it."""
        self.spans += 1
        self.cut += span.is_cut
        mapping = draft(span) if reading.dialect == GENERIC else None
        if mapping is not None and mapping not in self.mappings and len(self.mappings) < _MAX_MAPPINGS:
            self.mappings.append(mapping)
        if all(isinstance(seen, ConversationSeen) for seen in reading.observations):
            operation = span.attributes.get(_OPERATION)
            key = (span.name[:_LONGEST_NAME], operation[:_LONGEST_NAME] if isinstance(operation, str) else "")
            if key in self.unread or len(self.unread) < _MAX_UNREAD:
                self.unread[key] += 1
                self.unread_traces.add(reading.ref.trace_id)


class Tally:
    """Counts the records of one pipeline, which has to be made with `recognizer`."""

    def __init__(self) -> None:
        self.producers: dict[Producer, ProducerCounts] = {}
        # Spans and log records of the recording.
        self.records = 0
        # The services that recorded model calls or agent runs.
        self.services_with_runs: set[str] = set()
        # Scopes of spans.
        self.scopes: Counter[str] = Counter()
        # Spans that look like tool calls and were not read, and the traces that show what became of calls.
        self._waiting: dict[SpanRef, tuple[Producer, str]] = {}
        self._seen: set[str] = set()
        self._metrics: SelfMetrics | None = None

    def recognizer(self, dialects: Sequence[Dialect], metrics: SelfMetrics, wanted: Collection[str] = ()) -> Recognizer:
        """Make a recognizer that counts its readings in this tally."""
        self._metrics = metrics
        return CountingRecognizer(dialects, metrics, wanted, self.note, self.note_without_trace)

    @property
    def undecodable(self) -> int:
        """Spans and log records that could not be decoded."""
        return 0 if self._metrics is None else int(sum(self._metrics.undecodable.cells.values()))

    @property
    def dialect_errors(self) -> int:
        """Spans and log records on which a dialect failed."""
        return 0 if self._metrics is None else int(sum(self._metrics.dialect_errors.cells.values()))

    def counted(self, recording: Iterable[RecordedRequest]) -> Iterator[RecordedRequest]:
        """Count all spans and log records of a recording, and pass it on."""
        for request in recording:
            with suppress(DecodeError):  # counted by the pipeline
                self.records += count_items(request.body)
            self._see(request)
            yield request

    def note(self, record: Record, reading: Reading) -> None:
        """Take note of what a dialect read from a record."""
        if reading.dialect is None:
            return
        producer = _producer(record)
        counts = self.producers.setdefault(producer, ProducerCounts())
        counts.dialects[reading.dialect] += 1
        if isinstance(record, Span):
            counts.add(record, reading)
            self._waiting.pop(reading.ref, None)
        else:
            counts.log_records += 1
        for observation in reading.observations:
            if isinstance(observation, ModelCall | AgentRun):
                self.services_with_runs.add(producer.service)
            if isinstance(observation, AgentRun):
                counts.agent_runs += 1
                counts.named_by_id += observation.named_by_id

    def note_without_trace(self, record: Record, reading: Reading) -> None:
        """Take note of a log record that a dialect could read and that names no trace."""
        if reading.dialect is not None and any(isinstance(seen, _CONTENT) for seen in reading.observations):
            counts = self.producers.setdefault(_producer(record), ProducerCounts())
            counts.dialects[reading.dialect] += 1
            counts.without_trace += 1

    def _see(self, request: RecordedRequest) -> None:
        """Take a request before its spans are read."""
        if request.signal != "traces":
            return
        try:
            body = ExportTraceServiceRequest.FromString(request.body)
        except NotProtobufError:
            return  # counted by the pipeline
        for group in body.resource_spans:
            known = {pair.key: pair.value.string_value for pair in group.resource.attributes}
            for scope_group in group.scope_spans:
                scope = scope_group.scope
                self.scopes[scope.name] += len(scope_group.spans)
                producer = producer_of(
                    stable_name(known.get(_SERVICE, "")), scope.name, scope.version, known.get(SDK_LANGUAGE, "")
                )
                for span in scope_group.spans:
                    if len(self._waiting) < _MAX_WAITING and looks_like_tool_call(span):
                        ref = SpanRef(span.trace_id.hex(), span.span_id.hex())
                        self._waiting[ref] = (producer, span.name[:_LONGEST_NAME])

    def add(self, trajectory: Trajectory) -> None:
        """Take note of the traces of a trajectory in which it was seen what became of calls."""
        known = (c for c in trajectory.calls if c.state != "requested_only" or not isinstance(c.result, NotRecorded))
        self._seen.update(call.span.trace_id for call in known)

    def unread_tools(self) -> list[UnreadTools]:
        """Return the spans that look like tool calls and were not read by producer, the most first."""
        found: dict[Producer, UnreadTools] = {}
        for ref, (producer, name) in self._waiting.items():
            unread = found.setdefault(producer, UnreadTools(producer))
            unread.spans += 1
            unread.alone += ref.trace_id not in self._seen
            if name in unread.names or len(unread.names) < _MAX_NAMES:
                unread.names[name] += 1
        return sorted(found.values(), key=lambda unread: (-unread.spans, unread.producer))


class CountingRecognizer(Recognizer):
    """A recognizer that reads every span when it arrives, and reports its readings; log records without a trace separately."""

    def __init__(
        self,
        dialects: Sequence[Dialect],
        metrics: SelfMetrics,
        wanted: Collection[str],
        note: Callable[[Record, Reading], None],
        note_without_trace: Callable[[Record, Reading], None] | None = None,
    ) -> None:
        super().__init__(dialects, metrics, wanted)
        self._note = note
        self._note_without_trace = note_without_trace

    def read(self, record: Record) -> Reading | None:
        """Read the record as any recognizer does."""
        reading = super().read(record)
        if reading is not None:
            self._note(record, reading)
        elif self._note_without_trace is not None and isinstance(record, LogRecord) and record.ref is None:
            placed = super().read(replace(record, ref=_ANY_SPAN))
            if placed is not None:
                self._note_without_trace(record, placed)
        return reading


def _producer(record: Record) -> Producer:
    return producer_of(record.resource.service, record.scope.name, record.scope.version, record.resource.language)
