"""What `decode` hands to the dialects: one span or log record, its resource and its scope.

Attributes, events and bodies are views that decode a value when it is looked up: decoding all
attributes of all spans costs more than everything else in the process together.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

from toolgauge.model.json import Value

SpanKind: TypeAlias = Literal["unspecified", "internal", "server", "client", "producer", "consumer"]
StatusCode: TypeAlias = Literal["unset", "ok", "error"]


class SpanRef(Struct, frozen=True, gc=False):
    """Names one span. Both ids are lower-case hex: 32 and 16 characters."""

    trace_id: str
    span_id: str


class Resource(Struct, frozen=True, kw_only=True, eq=False):
    """The producer. `service` is `service.name`, `None` when the producer did not set it."""

    service: str | None
    attributes: Mapping[str, Value]


class Scope(Struct, frozen=True, kw_only=True, eq=False, gc=False):
    """The instrumentation scope; the best hint of how values are encoded."""

    name: str
    version: str


class SpanEvent(Struct, frozen=True, kw_only=True, eq=False):
    """One event of a span."""

    name: str
    time_ns: int
    attributes: Mapping[str, Value]


class Span(Struct, frozen=True, kw_only=True, eq=False):
    """One span, viewed. `parent_span_id` is `None` for a span without a parent id.

    `parent_is_remote` is `None` when the producer did not say (OTLP `Span.flags`, bits 8 and 9).
    """

    ref: SpanRef
    parent_span_id: str | None
    parent_is_remote: bool | None
    name: str
    kind: SpanKind
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Value]
    events: Sequence[SpanEvent]
    status: StatusCode
    status_message: str
    resource: Resource
    scope: Scope
    size_bytes: int


class LogRecord(Struct, frozen=True, kw_only=True, eq=False):
    """One log record, viewed. `ref` is the span it belongs to, `None` when it names none.

    `event_name` is OTLP `LogRecord.event_name`, else the attribute `event.name`, else "".
    """

    ref: SpanRef | None
    event_name: str
    time_ns: int
    body: Value
    attributes: Mapping[str, Value]
    resource: Resource
    scope: Scope
    size_bytes: int


Record: TypeAlias = Span | LogRecord


class SpanHead(NamedTuple):
    """The ids of a span that no dialect cares about: enough to complete a chain of parents.

    Ids are raw bytes (16, 8 and 8 long; `parent_span_id` is empty for a span without a parent):
    turning them to hex for every span of a pipeline would cost more than reading them. A tuple, which is built in
    half the time of an object.
    """

    trace_id: bytes
    span_id: bytes
    parent_span_id: bytes
    parent_is_remote: bool | None
