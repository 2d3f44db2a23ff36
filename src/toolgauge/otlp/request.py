"""Whole requests: with a checked envelope, framed in a recording, and counted item by item.

All signals have the same envelope on the wire, so one of another signal must be refused, not acknowledged. In a recording, each
request is its size (a varint) and its bytes. One of log records or metrics begins with field 15, which OTLP does not have and
decoders skip, naming the signal; one of spans has none, as other tools write it.
"""

from collections.abc import Iterable, Iterator

from google.protobuf.message import DecodeError as ProtobufError
from google.protobuf.message import Message
from msgspec import Struct
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from toolgauge.model.delivery import Assignment, BrokerMessage, Signal, Source
from toolgauge.model.errors import DecodeError
from toolgauge.otlp.bounds import check_span, parse
from toolgauge.otlp.encode import varint
from toolgauge.otlp.envelope import parse_request
from toolgauge.otlp.wire_pb2 import (
    AnyValueMessage,
    ForeignToLogsMessage,
    ForeignToMetricsMessage,
    ForeignToSpansMessage,
    LogRecordMessage,
    RequestMessage,
    SpanSignsMessage,
)

_ITEMS: dict[Signal, str] = {"traces": "spans", "logs": "log records", "metrics": "metrics"}
_SPAN_ID_BYTES, _TRACE_ID_BYTES = 8, 16
_SIGNAL_FIELD = b"\x7a"  # number 15, with a length
_SIGNAL_MARKS: dict[Signal, bytes] = {
    signal: _SIGNAL_FIELD + bytes([len(signal)]) + signal.encode() for signal in _ITEMS
}
# Larger spans and log records are not parsed strictly, which may need a hundred times their size in memory.
_LARGEST_STRICT_BYTES = 1 << 20


class Request(Struct, frozen=True, eq=False):
    """One export request as received, with its parsed envelope and the number of its spans, records or metrics.

    `sender` is the same for requests of one connection; `entry` is the source from which it can be read again.
    """

    signal: Signal
    body: bytes
    envelope: RequestMessage
    count: int
    sender: str | None
    received_ns: int
    entry: Source | None = None

    @property
    def spans(self) -> int:
        """How many spans are in it, for the books."""
        return self.count if self.signal == "traces" else 0

    @property
    def assignment(self) -> Assignment | None:
        """The partition that it was read from, where it came from a message broker."""
        return self.entry.assignment if isinstance(self.entry, BrokerMessage) else None


def read_request(
    signal: Signal, body: bytes, received_ns: int, sender: str | None = None, entry: Source | None = None
) -> Request:
    """Parse the envelope; raise `DecodeError` when it is broken (cut off, trailing bytes) or of another signal."""
    envelope = parse_request(body)
    check_signal(signal, envelope)
    count = sum(len(group.items) for resource in envelope.resource_groups for group in resource.scope_groups)
    return Request(signal, body, envelope, count, sender, received_ns, entry)


def newest_time_ns(signal: Signal, body: bytes) -> int:
    """Return the newest end of a span, or time of a log record; 0 without one. Raise `DecodeError` for a broken envelope."""
    newest_ns = 0
    for raw in _items(read_request(signal, body, 0).envelope):
        try:
            if signal == "traces":
                time_ns = parse(SpanSignsMessage, raw).end_time_unix_nano
            else:
                record = parse(LogRecordMessage, raw)
                time_ns = record.time_unix_nano or record.observed_time_unix_nano
        except DecodeError:
            continue
        newest_ns = max(newest_ns, time_ns)
    return newest_ns


def _items(request: RequestMessage) -> Iterator[bytes]:
    return (raw for group in request.resource_groups for scope in group.scope_groups for raw in scope.items)


def check_signal(signal: Signal, request: RequestMessage) -> None:
    """Raise `DecodeError` when the request is of another signal than its endpoint.

    Rule: the first item with a field, or a wire type of a field, that only one signal has decides.
    """
    for raw in filter(None, _items(request)):
        try:
            is_foreign = _is_foreign(signal, raw)
        except DecodeError:
            continue
        if is_foreign:
            problem = f"it holds no {_ITEMS[signal]}: send each signal to its own endpoint"
            raise DecodeError(problem, reason="wrong_signal")
        if is_foreign is not None:
            return


def _is_foreign(signal: Signal, raw: bytes) -> bool | None:
    """Return whether an item is of another signal; `None` where nothing in it decides."""
    if signal == "metrics":
        return bool(parse(ForeignToMetricsMessage, raw).ListFields())
    if signal == "logs":
        if parse(ForeignToLogsMessage, raw).ListFields():
            return True
        return False if parse(ForeignToSpansMessage, raw).ListFields() else None
    signs = parse(SpanSignsMessage, raw)
    if signs.start_time_unix_nano or signs.end_time_unix_nano or len(signs.span_id) == _SPAN_ID_BYTES:
        return False
    if parse(ForeignToSpansMessage, raw).ListFields():
        return True
    if signs.kind:
        return False
    # Gauges, histograms and summaries differ from spans in nothing but the name that they have in place of a trace id.
    if signs.trace_id:
        return len(signs.trace_id) != _TRACE_ID_BYTES or signs.trace_id.isascii()
    # A log record may have only its body, under the field number of a span's name: no span is called like these bytes.
    if not signs.name:
        return None
    try:
        return True if parse(AnyValueMessage, signs.name).WhichOneof("value") is not None else None
    except DecodeError:
        return None


def framed(signal: Signal, body: bytes) -> bytes:
    """Encode one request of a recording."""
    # A sender's request may itself begin with that field: then it gets one of ours, which is the one taken off.
    mark = b"" if signal == "traces" and not body.startswith(_SIGNAL_FIELD) else _SIGNAL_MARKS[signal]
    return b"".join((varint(len(mark) + len(body)), mark, body))


def signal_and_body(request: bytes, otherwise: Signal) -> tuple[Signal, bytes]:
    """Split one request of a recording; `otherwise` is the signal of one that names none."""
    for signal, mark in _SIGNAL_MARKS.items():
        if request.startswith(mark):
            return signal, request[len(mark) :]
    return otherwise, request


def count_undecodable(signal: Signal, body: bytes) -> int:
    """Count items that a strict reader cannot decode, such as text that is not UTF-8, or those below such a group."""
    if signal == "metrics":
        return 0
    kind = Span if signal == "traces" else LogRecord
    try:
        request = parse_request(body)
    except DecodeError:  # its spans cannot be told apart
        return 0
    count = 0
    for group in request.resource_groups:
        is_broken = _undecodable(Resource, group.resource) > 0
        for scope in group.scope_groups:
            is_whole = is_broken or _undecodable(InstrumentationScope, scope.scope) > 0
            count += len(scope.items) if is_whole else _undecodable(kind, scope.items)
    return count


def _undecodable(kind: type[Message], raws: Iterable[bytes]) -> int:
    count = 0
    for raw in raws:
        if len(raw) <= _LARGEST_STRICT_BYTES:
            try:
                check_span(raw)
                kind.FromString(raw)
            except (DecodeError, ProtobufError):
                count += 1
    return count
