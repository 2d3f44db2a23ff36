"""Spans that look like tool calls by their names or attributes, and that no dialect reads.

Arrive: the requests of a recording, then the spans that were read and the trajectories. Leaves: what is left over, by producer.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from toolgauge.model.content import NotRecorded
from toolgauge.model.json import JsonObject
from toolgauge.model.records import SDK_LANGUAGE, SpanRef
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.offline.replay.recordings import RecordedRequest
from toolgauge.recognize.producers import Producer, producer_of
from toolgauge.report.terminal import PLAIN, Style, counted, shortened

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
_LONGEST_NAME = 256
_MAX_ATTRIBUTES = 128
# Spans that wait to be read, and different names of a producer that are kept.
_MAX_WAITING = 200_000
_MAX_NAMES = 3
_NAME_LENGTH = 80


@dataclass(slots=True)
class UnreadTools:
    """What one producer sent that looks like tool calls and was not read: `alone` of it in traces of which no call was seen whole."""

    producer: Producer
    spans: int = 0
    alone: int = 0
    names: Counter[str] = field(default_factory=Counter[str])

    @property
    def is_problem(self) -> bool:
        """Whether calls went unseen: where other spans of a trace show what became of calls, these are most likely the same."""
        return self.alone > 0

    def add(self, name: str, *, is_alone: bool) -> None:
        """Count one span."""
        self.spans += 1
        self.alone += is_alone
        if name in self.names or len(self.names) < _MAX_NAMES:
            self.names[name] += 1


@dataclass(frozen=True, slots=True)
class _Waiting:
    producer: Producer
    name: str


class UnreadToolSpans:
    """Takes the spans of a recording, and knows at the end which of them look like tool calls and were not read."""

    def __init__(self) -> None:
        self._waiting: dict[SpanRef, _Waiting] = {}
        self._seen: set[str] = set()

    def see(self, request: RecordedRequest) -> None:
        """Take a request before its spans are read."""
        if request.signal != "traces":
            return
        try:
            body = ExportTraceServiceRequest.FromString(request.body)
        except DecodeError:
            return  # counted by the pipeline
        for group in body.resource_spans:
            for scope_group in group.scope_spans:
                for span in scope_group.spans:
                    if len(self._waiting) < _MAX_WAITING and looks_like_tool_call(span):
                        ref = SpanRef(span.trace_id.hex(), span.span_id.hex())
                        self._waiting[ref] = _Waiting(_producer(group, scope_group), span.name[:_LONGEST_NAME])

    def was_read(self, ref: SpanRef) -> None:
        """Take note of a span that a dialect read."""
        self._waiting.pop(ref, None)

    def add(self, trajectory: Trajectory) -> None:
        """Take note of the traces of a trajectory in which it was seen what became of calls."""
        self._seen.update(call.span.trace_id for call in trajectory.calls if _is_whole(call))

    def left_over(self) -> list[UnreadTools]:
        """Return what was not read, by producer, the most first."""
        found: dict[Producer, UnreadTools] = {}
        for ref, waiting in self._waiting.items():
            unread = found.setdefault(waiting.producer, UnreadTools(waiting.producer))
            unread.add(waiting.name, is_alone=ref.trace_id not in self._seen)
        return sorted(found.values(), key=lambda unread: (-unread.spans, unread.producer))


def _is_whole(call: ToolCall) -> bool:
    return call.state != "requested_only" or not isinstance(call.result, NotRecorded)


def looks_like_tool_call(span: Span) -> bool:
    """Return whether the span's name, or the key of an attribute, speaks of a tool's execution."""
    if _NAME.search(span.name[:_LONGEST_NAME]):
        return True
    return any(_KEY.search(pair.key[:_LONGEST_NAME]) for pair in span.attributes[:_MAX_ATTRIBUTES])


def _producer(group: ResourceSpans, scope_group: ScopeSpans) -> Producer:
    known = {pair.key: pair.value.string_value for pair in group.resource.attributes}
    return producer_of(
        known.get(_SERVICE), scope_group.scope.name, scope_group.scope.version, known.get(SDK_LANGUAGE, "")
    )


def unread_object(unread: UnreadTools) -> JsonObject:
    """Describe them for `doctor --json`."""
    return {
        "service": unread.producer.service or None,
        "scope": unread.producer.scope,
        "version": unread.producer.version or None,
        "language": unread.producer.language or None,
        "dialects": [],
        "not_read": {"spans": unread.spans, "alone": unread.alone, "names": [*unread.names]},
        "ok": not unread.is_problem,
    }


def unread_lines(unread: UnreadTools, style: Style = PLAIN) -> Iterator[str]:
    """Describe them for a person."""
    producer = unread.producer
    scope = shortened(" ".join((producer.scope or "(no scope)", producer.version)).strip(), _NAME_LENGTH)
    yield style.head(f"{shortened(producer.service or 'unknown service', _NAME_LENGTH)}: {scope}")
    word = style.bad("problem") if unread.is_problem else style.doubtful("note")
    names = ", ".join(f"`{shortened(name, _NAME_LENGTH)}`" for name in unread.names)
    yield f"  {word}: toolgauge does not read {counted(unread.spans, 'span')} that look like tool calls: {names}"
    if unread.is_problem:
        yield f"    {unread.alone} of them in traces in which nothing else shows what became of a call"
        yield "    do: map their attributes in the section `dialects` of the configuration, or write a dialect"
    else:
        yield "    other spans of the same traces show calls, most likely the same ones"
