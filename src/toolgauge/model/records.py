"""Views of one span or log record, its resource and its scope; decoding all attributes would cost more than all else together."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

from toolgauge.model.json import Value

SpanKind: TypeAlias = Literal["unspecified", "internal", "server", "client", "producer", "consumer"]
StatusCode: TypeAlias = Literal["unset", "ok", "error"]


VERSION, ENVIRONMENT = "service.version", "deployment.environment.name"
SDK_LANGUAGE = "telemetry.sdk.language"


class SpanRef(Struct, frozen=True, gc=False):
    """Names one span. Both ids are lower-case hex: 32 and 16 characters."""

    trace_id: str
    span_id: str


class Resource(Struct, frozen=True, kw_only=True, eq=False):
    """The producer. `service` is `service.name`, `None` when the producer did not set it.

    `labels` are the attributes by which metrics, events and detectors tell producers apart, as texts of a label's length.
    `language` is `telemetry.sdk.language`, "" when the producer did not set it.
    """

    service: str | None
    attributes: Mapping[str, Value]
    size_bytes: int = 0
    labels: Mapping[str, str] = {}
    language: str = ""


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
    """One span, viewed. `parent_is_remote` is `None` when not recorded (OTLP `Span.flags`, bits 8 and 9).

    `is_cut` when its producer dropped attributes or events.
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
    is_cut: bool = False


class LogRecord(Struct, frozen=True, kw_only=True, eq=False):
    """One log record, viewed. `ref` is its span; `event_name` is OTLP's, else the attribute `event.name`, else ""."""

    ref: SpanRef | None
    event_name: str
    time_ns: int
    body: Value
    attributes: Mapping[str, Value]
    resource: Resource
    scope: Scope
    size_bytes: int
    # Where it names a trace and no span.
    trace_id: str | None = None


Record: TypeAlias = Span | LogRecord


# The ids of a span as they pass from hand to hand, most of them unread: the trace id, and `SpanHead.rest`.
PackedHead: TypeAlias = tuple[bytes, bytes]

_ID_BYTES = 8
_PARENT, _KIND, _FLAGS = b'"\x08', b"0", b"\x85\x01"
_PARENT_FROM = _ID_BYTES + len(_PARENT)
_PARENT_TO = _PARENT_FROM + _ID_BYTES
_HAS_IS_REMOTE, _IS_REMOTE = 0x100, 0x200
_SERVER, _CONSUMER = 2, 5


def remote_flag(flags: int) -> bool | None:
    """Read from a span's flags whether its parent is remote; `None` when the flags have no answer."""
    return bool(flags & _IS_REMOTE) if flags & _HAS_IS_REMOTE else None


class SpanHead(NamedTuple):
    """The ids of a span that no dialect reads. `rest` is the span id, then parent, kind and flags as protobuf writes these fields."""

    trace_id: bytes
    rest: bytes

    @property
    def span_id(self) -> bytes:
        """The raw id, 8 bytes."""
        return self.rest[:_ID_BYTES]

    @property
    def parent_span_id(self) -> bytes:
        """The raw id; empty for a span without a parent."""
        if self.rest[_ID_BYTES:_PARENT_FROM] != _PARENT:
            return b""
        return self.rest[_PARENT_FROM:_PARENT_TO]

    @property
    def parent_is_remote(self) -> bool | None:
        """Whether the parent lives in another process; `None` without a parent."""
        if not self.parent_span_id:
            return None
        tail = self.rest[_PARENT_TO:]
        kind = tail[1] if tail[:1] == _KIND else 0
        has_flags = tail[-6:-4] == _FLAGS
        flag = remote_flag(int.from_bytes(tail[-4:], "little")) if has_flags else None
        # Producers without the flag: the parent of a server or consumer span is in another process.
        return kind in (_SERVER, _CONSUMER) if flag is None else flag


def packed_head(
    trace_id: bytes, span_id: bytes, parent_span_id: bytes = b"", *, kind: int = 0, flags: int = 0
) -> SpanHead:
    """Pack ids that are at hand one by one."""
    rest = span_id
    if parent_span_id:
        rest += _PARENT + parent_span_id
    if 0 < kind <= _CONSUMER:
        rest += _KIND + bytes((kind,))
    if flags:
        rest += _FLAGS + flags.to_bytes(4, "little")
    return SpanHead(trace_id, rest)
