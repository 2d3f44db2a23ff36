"""Whole requests: with a checked envelope, framed in a recording, counted item by item, and split by trace or worker.

All signals have the same envelope, so one of another signal must be refused. In a recording, each request is its size (a
varint) and its bytes, after field 15 with the signal's name if not spans. With conversation ids, a trace goes to the worker
of the conversation that its first request shows, else to that of the trace id; later spans follow it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeAlias
from zlib import crc32

from google.protobuf.message import Message
from msgspec import Struct
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from toolgauge.model.delivery import NO_ENTRY, Assignment, BrokerMessage, Signal, Source
from toolgauge.model.errors import DecodeError
from toolgauge.model.records import SpanHead
from toolgauge.otlp.bounds import SPAN, joined, parse, varint
from toolgauge.otlp.envelope import Container, copied, encode_spans, is_trace_id, parse_request, read_head
from toolgauge.otlp.marks import is_back_to_front
from toolgauge.otlp.wire_pb2 import (
    AnyValueMessage,
    ForeignToLogsMessage,
    ForeignToMetricsMessage,
    ForeignToSpansMessage,
    LogRecordMessage,
    RequestMessage,
    ResourceGroupMessage,
    SpanSignsMessage,
)

Item: TypeAlias = tuple[Container, bytes]


class TraceRequest(Struct, frozen=True):
    """A request of one trace. `trace_id` is lower-case hex, `None` where its items have none; `count` of spans or log records."""

    trace_id: str | None
    body: bytes
    count: int
    # Whether one of its spans has no parent.
    has_root: bool = False


def split_by_trace(signal: Signal, body: bytes, max_bytes: int) -> Iterator[TraceRequest]:
    """Yield requests of one trace each, divided between items over `max_bytes`; metrics stay whole. Raise `DecodeError`."""
    if signal == "metrics":
        yield TraceRequest(None, body, 0)
        return
    by_trace: dict[str | None, list[Item]] = {}
    rooted: set[str | None] = set()
    for around, raw in copied_items(body):
        trace_id, is_root = _place(signal, raw)
        by_trace.setdefault(trace_id, []).append((around, raw))
        if is_root:
            rooted.add(trace_id)
    if len(by_trace) == 1 and len(body) <= max_bytes:
        for trace_id, items in by_trace.items():
            yield TraceRequest(trace_id, body, len(items), trace_id in rooted)
        return
    for trace_id, items in by_trace.items():
        yield from _fitting(trace_id, items, max_bytes, has_root=trace_id in rooted)


def copied_items(body: bytes) -> Iterator[Item]:
    """Yield the spans or log records of a request, each with its container. Raise `DecodeError` when the envelope is broken."""
    request = object()
    for group in parse_request(body).resource_groups:
        resource = copied(group.resource)
        for scope_group in group.scope_groups:
            scope = copied(scope_group.scope)
            around = Container(resource, group.schema_url, scope, scope_group.schema_url, request, request)
            for raw in scope_group.items:
                yield around, raw


def _fitting(trace_id: str | None, items: Sequence[Item], max_bytes: int, *, has_root: bool) -> Iterator[TraceRequest]:
    body = encode_spans(items)
    if len(body) <= max_bytes or len(items) == 1:
        yield TraceRequest(trace_id, body, len(items), has_root)
        return
    middle = len(items) // 2
    yield from _fitting(trace_id, items[:middle], max_bytes, has_root=has_root)
    yield from _fitting(trace_id, items[middle:], max_bytes, has_root=has_root)


def _place(signal: Signal, raw: bytes) -> tuple[str | None, bool]:
    """Return the trace id of a span or log record, and whether it is a span without a parent."""
    if signal == "traces":
        head = read_head(raw)
        return (None, False) if head is None else (head[0].hex(), not SpanHead(*head).parent_span_id)
    try:
        trace_id = parse(LogRecordMessage, raw).trace_id
    except DecodeError:
        return None, False
    return trace_id.hex() if is_trace_id(trace_id) else None, False


# Beyond them the oldest are forgotten: their later spans go by trace id.
_MAX_TRACES = 100_000
# The tag and the length of a trace id in a span.
_TRACE_ID = b"\n\x10"


def _written_trace_id(signal: Signal, raw: bytes) -> bytes:
    """Return the trace id of a span or log record as it is written, which may be no id; empty where none is found."""
    if signal == "traces":
        # As SDKs write a span, and as the Collector does, back to front. In all others the id is looked for.
        if raw[:2] == _TRACE_ID:
            return raw[2:18]
        if raw[-18:-16] == _TRACE_ID and is_back_to_front(raw):
            return raw[-16:]
    found, _ = _place(signal, raw)
    return b"" if found is None else bytes.fromhex(found)


class Part(Struct, frozen=True):
    """What of a request one worker is to have; `items` counts its spans or log records."""

    worker: int
    body: bytes
    items: int


class Divider:
    """Divides requests between `workers`, on one thread, by trace id or by the first of `conversation_keys` that a trace has."""

    def __init__(self, workers: int, conversation_keys: Sequence[str] = ()) -> None:
        self._workers = workers
        self.adopt(conversation_keys)
        # The worker of each trace that goes by its conversation, the oldest first.
        self._of_trace: dict[str, int] = {}

    @property
    def remembers(self) -> bool:
        """Whether traces go by conversations, and where they go is remembered: requests are divided on one thread then."""
        return bool(self._searches)

    def adopt(self, conversation_keys: Sequence[str]) -> None:
        """Divide by these keys from here on; known traces stay with their workers."""
        # An attribute with the key; the group is the length of a text of 1 to 125 bytes.
        written = [re.escape(bytes((len(key.encode()),)) + key.encode()) for key in conversation_keys]
        patterns = [b"\n" + key + b"\x12[\x03-\x7f]\n([\x01-\x7d])" for key in written]
        self._searches = tuple(re.compile(pattern, re.DOTALL).search for pattern in patterns)

    def divide(self, signal: Signal, body: bytes) -> list[Part]:
        """Return a request's parts, items without a trace id at one worker; raise `DecodeError` when it is broken."""
        if signal == "metrics":
            return [Part(0, body, 0)]
        request = parse_request(body)
        check_signal(signal, request)
        if self._searches:
            self._remember_conversations(signal, request)
        # Only numbers are kept for all items: their groups and bytes as objects take up to sixteen times the memory of the request.
        workers: list[int] = []
        of_trace: dict[bytes, int] = {}
        for raw in _items(request):
            written = _written_trace_id(signal, raw)
            if written not in of_trace:
                of_trace[written] = self.worker_of(written.hex() if is_trace_id(written) else None)
            workers.append(of_trace[written])
        counts = Counter(workers)
        if len(counts) <= 1:
            return [Part(worker, body, counts[worker]) for worker in counts or (0,)]
        parts = _divided(request, iter(workers))
        return [Part(worker, parts.pop(worker).SerializeToString(), count) for worker, count in counts.items()]

    def worker_of(self, trace_id: str | None) -> int:
        """Return the worker of the trace with this id, `None` for items without a trace."""
        if trace_id is None:
            return 0
        known = self._of_trace.get(trace_id)
        return crc32(trace_id.encode()) % self._workers if known is None else known

    def _remember_conversations(self, signal: Signal, request: RequestMessage) -> None:
        begun: dict[str, bytes | None] = {}
        settled: set[bytes] = set()
        for group in request.resource_groups:
            of_resource: list[bytes | None] = []
            for raw in chain.from_iterable([scope_group.items for scope_group in group.scope_groups]):
                written = _written_trace_id(signal, raw)
                if written in settled:
                    continue
                trace_id = written.hex()
                if is_trace_id(written) and trace_id not in self._of_trace:
                    found = self._conversation(raw)
                    if found is None:
                        of_resource = of_resource or [self._conversation(joined(group.resource))]
                        found = of_resource[0]
                    begun[trace_id] = found
                    if found is None:
                        continue
                settled.add(written)
        for trace_id, conversation in begun.items():
            key = trace_id.encode() if conversation is None else conversation
            self._of_trace[trace_id] = crc32(key) % self._workers
        while len(self._of_trace) > _MAX_TRACES:
            del self._of_trace[next(iter(self._of_trace))]

    def _conversation(self, raw: bytes) -> bytes | None:
        for search in self._searches:
            found = search(raw)
            if found is not None:
                start, size = found.end(), found[1][0]
                return raw[start : start + size]
        return None


def _divided(request: RequestMessage, workers: Iterator[int]) -> defaultdict[int, RequestMessage]:
    """Return the part of each worker; `workers` has one element for each item, in order."""
    parts: defaultdict[int, RequestMessage] = defaultdict(RequestMessage)
    for group in request.resource_groups:
        begun: dict[int, ResourceGroupMessage] = {}
        for scope_group in group.scope_groups:
            divided: defaultdict[int, list[bytes]] = defaultdict(list)
            for raw, worker in zip(scope_group.items, workers, strict=False):
                divided[worker].append(raw)
            for worker, raws in divided.items():
                if worker not in begun:
                    begun[worker] = parts[worker].resource_groups.add(schema_url=group.schema_url)
                    begun[worker].resource.extend(copied(group.resource))
                scope = begun[worker].scope_groups.add(schema_url=scope_group.schema_url)
                scope.scope.extend(copied(scope_group.scope))
                scope.items.extend(raws)
    return parts


# Names of gRPC.
SERVICES: dict[Signal, str] = {
    "traces": "opentelemetry.proto.collector.trace.v1.TraceService",
    "metrics": "opentelemetry.proto.collector.metrics.v1.MetricsService",
    "logs": "opentelemetry.proto.collector.logs.v1.LogsService",
}
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
    entry: Source = NO_ENTRY

    @property
    def spans(self) -> int:
        """How many spans are in it, for the books."""
        return self.count if self.signal == "traces" else 0

    @property
    def assignment(self) -> Assignment | None:
        """The partition that it was read from, where it came from a message broker."""
        return self.entry.assignment if isinstance(self.entry, BrokerMessage) else None


def read_request(
    signal: Signal, body: bytes, received_ns: int, sender: str | None = None, entry: Source = NO_ENTRY
) -> Request:
    """Parse the envelope; raise `DecodeError` when it is broken (cut off, trailing bytes) or of another signal."""
    envelope = parse_request(body)
    check_signal(signal, envelope)
    count = sum(len(scope.items) for group in envelope.resource_groups for scope in group.scope_groups)
    return Request(signal, body, envelope, count, sender, received_ns, entry)


def newest_time_ns(signal: Signal, body: bytes) -> int:
    """Return the newest end of a span, or time of a log record; 0 without one. Raise `DecodeError` for a broken envelope."""
    newest_ns = 0
    for raw in _items(read_request(signal, body, 0).envelope):
        try:
            if signal == "traces":
                signs = parse(SpanSignsMessage, raw)
                # A copy of a running span has no end.
                time_ns = max(signs.start_time_unix_nano, signs.end_time_unix_nano)
            else:
                record = parse(LogRecordMessage, raw)
                time_ns = record.time_unix_nano or record.observed_time_unix_nano
        except DecodeError:
            continue
        newest_ns = max(newest_ns, time_ns)
    return newest_ns


def _items(request: RequestMessage) -> Iterator[bytes]:
    for group in request.resource_groups:
        for scope in group.scope_groups:
            yield from scope.items


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
                parse(kind, raw, SPAN)
            except DecodeError:
                count += 1
    return count
