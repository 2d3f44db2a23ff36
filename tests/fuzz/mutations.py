"""Sound inputs made unsound: bytes changed anywhere, or values of spans put where others belong."""

import random
from collections.abc import Callable

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

_TOKENS = (
    b"{", b"}", b"[", b"]", b'"', b"'", b"\\", b":", b",", b"null", b"NaN", b"-Infinity", b"1e999", b"true", b"\0",
    b"\xff", b"\xf0\x9f\x98\x80", b"\xed\xa0\x80", b"\\ud800", b"0" * 30, b"9" * 25, b"\n", b"\x1f\x8b\x08", b"\x78\x9c",
    b"&a ", b"*a", b"<<: ", b"!!python ", b"${env:X}", b"- ", b"? ", b"|\n", b"\x80\x80\x80\x80\x80\x01", b"None",
    b"ToolCall(", b"<x: 1>", b"set()", b"[" * 200, b'{"a":' * 200, b"(" * 200,
)  # fmt: skip


def mutated(chance: random.Random, target: str, data: bytes, other: bytes) -> bytes:
    """Change the data a little; `other` is another input to take from."""
    if target in ("traces", "logs", "pipeline") and chance.random() < 0.6:
        data = _spans_changed(chance, target, data)
        if chance.random() < 0.7:
            return data
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        chance.choice(_CHANGES)(chance, changed, other)
    return bytes(changed[: 1 << 20])


def _place(chance: random.Random, data: bytearray) -> int:
    return chance.randrange(len(data) + 1)


def _flip(chance: random.Random, data: bytearray, _other: bytes) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _set(chance: random.Random, data: bytearray, _other: bytes) -> None:
    if data:
        data[chance.randrange(len(data))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))


def _cut(chance: random.Random, data: bytearray, _other: bytes) -> None:
    del data[_place(chance, data) :]


def _remove(chance: random.Random, data: bytearray, _other: bytes) -> None:
    start = _place(chance, data)
    del data[start : start + chance.choice((1, 2, 8, 100))]


def _insert(chance: random.Random, data: bytearray, _other: bytes) -> None:
    place = _place(chance, data)
    data[place:place] = chance.choice(_TOKENS) * chance.choice((1, 1, 1, 3, 50))


def _repeat(chance: random.Random, data: bytearray, _other: bytes) -> None:
    start = _place(chance, data)
    data[start:start] = data[start : start + chance.choice((1, 10, 300))] * chance.choice((1, 2, 30))


def _splice(chance: random.Random, data: bytearray, other: bytes) -> None:
    place, start = _place(chance, data), chance.randrange(len(other) + 1)
    data[place : place + 50] = other[start : start + chance.choice((4, 50, 500))]


_CHANGES: tuple[Callable[[random.Random, bytearray, bytes], None], ...] = (
    _flip, _set, _cut, _remove, _insert, _insert, _repeat, _splice,
)  # fmt: skip


def _spans_changed(chance: random.Random, target: str, data: bytes) -> bytes:
    """Change attributes, events and ids of a sound request, so that dialects see what no producer writes."""
    request = ExportLogsServiceRequest() if target == "logs" else ExportTraceServiceRequest()
    try:
        request.ParseFromString(data)
    except DecodeError:
        return data
    records = list(_records(request))
    for _ in range(chance.choice((1, 3, 10, 40))):
        if records:
            _record_changed(chance, chance.choice(records), chance.choice(records))
    return request.SerializeToString()


def _records(request: ExportLogsServiceRequest | ExportTraceServiceRequest) -> list[Span | LogRecord]:
    if isinstance(request, ExportLogsServiceRequest):
        return [item for group in request.resource_logs for scope in group.scope_logs for item in scope.log_records]
    return [item for group in request.resource_spans for scope in group.scope_spans for item in scope.spans]


def _record_changed(chance: random.Random, record: Span | LogRecord, other: Span | LogRecord) -> None:
    if not record.attributes or not other.attributes:
        return
    attribute, taken = chance.choice(list(record.attributes)), chance.choice(list(other.attributes))
    match chance.randrange(7):
        case 0:
            attribute.value.CopyFrom(taken.value)
        case 1:
            attribute.value.CopyFrom(_strange_value(chance))
        case 2:
            attribute.key = taken.key
        case 3 | 4:
            _text_changed(chance, attribute)
        case 5:
            record.attributes.remove(attribute)
        case _:
            _ids_changed(chance, record, other)


def _text_changed(chance: random.Random, attribute: KeyValue) -> None:
    if attribute.value.HasField("string_value"):
        changed = bytearray(attribute.value.string_value.encode())
        chance.choice(_CHANGES)(chance, changed, b'[{"role":"x","tool_calls":[{"function":null,"id":1}],"content":[]}]')
        attribute.value.string_value = changed.decode("utf-8", "replace")


def _ids_changed(chance: random.Random, record: Span | LogRecord, other: Span | LogRecord) -> None:
    if isinstance(record, Span):
        record.parent_span_id = chance.choice((b"", record.span_id, other.span_id, b"x"))
        record.end_time_unix_nano = chance.choice((0, record.start_time_unix_nano, (1 << 64) - 1))
        record.name = chance.choice(("", record.name, other.name if isinstance(other, Span) else "execute_tool "))


def _strange_value(chance: random.Random) -> AnyValue:
    value = chance.choice(
        (
            AnyValue(),
            AnyValue(string_value=""),
            AnyValue(
                string_value=chance.choice(("{}", "[]", "null", "[null]", '[[{"a":1}]]', '{"messages":[[]]}', "\ud7ff"))
            ),
            AnyValue(bool_value=True),
            AnyValue(int_value=chance.choice((0, -1, 2**63 - 1, -(2**63)))),
            AnyValue(double_value=chance.choice((float("nan"), float("inf"), -0.0, 1e308))),
            AnyValue(bytes_value=b"\xff\xfe"),
        )
    )
    for _ in range(chance.choice((0, 0, 1, 2, 20))):
        outer = AnyValue()
        if chance.random() < 0.5:
            outer.array_value.values.append(value)
        else:
            outer.kvlist_value.values.add(key=chance.choice(("", "role", "content", "tool_calls"))).value.CopyFrom(
                value
            )
        value = outer
    return value
