"""The stock protobuf classes as the oracle, and recorded requests to try things on."""

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from google.protobuf.message import Message
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from toolgauge.model.json import Value
from toolgauge.model.records import PackedHead
from toolgauge.otlp.decoder import Decoder, Place, ViewedSpan
from toolgauge.otlp.envelope import parse_request

CORPUS = Path(__file__).parents[1] / "corpus"
TRACE_ID = bytes.fromhex("0102030405060708090a0b0c0d0e0f10")
SPAN_ID = bytes.fromhex("1112131415161718")
PARENT_ID = bytes.fromhex("2122232425262728")


def recorded_traces() -> list[Path]:
    """All recorded requests of spans."""
    return sorted(path for path in CORPUS.rglob("*.otlp.pb") if not path.name.endswith(".logs.otlp.pb"))


def recorded_logs() -> list[Path]:
    """All recorded requests of log records."""
    return sorted(CORPUS.rglob("*.logs.otlp.pb"))


class ReadTraces:
    """A request of spans that was read to its end, all of its views at once."""

    def __init__(self, decoder: Decoder, body: bytes, sender: str | None) -> None:
        self._decoded = decoder.traces(body, sender)
        self.request = self._decoded.request
        self.span_count = self._decoded.span_count
        self.viewed: tuple[ViewedSpan, ...] = tuple(self._decoded.viewed)
        self.heads: tuple[PackedHead, ...] = tuple(self._decoded.heads)
        self.undecodable = self._decoded.undecodable.total()
        self.reasons = dict(self._decoded.undecodable)

    def body(self, without: Collection[Place] = ()) -> bytes | None:
        return self._decoded.body(without)


def read_traces(decoder: Decoder, body: bytes, sender: str | None = None) -> ReadTraces:
    """Read a request of spans to its end."""
    return ReadTraces(decoder, body, sender)


def raw_items(body: bytes) -> Iterator[bytes]:
    """The raw spans or log records of a request."""
    for group in parse_request(body).resource_groups:
        for scope in group.scope_groups:
            yield from scope.items


def recorded_spans() -> list[bytes]:
    """All recorded spans, raw."""
    return [raw for path in recorded_traces() for raw in raw_items(path.read_bytes())]


def plain_value(message: AnyValue) -> Value:
    """Decode a stock AnyValue the long way."""
    match message.WhichOneof("value"):
        case "array_value":
            return [plain_value(element) for element in message.array_value.values]
        case "kvlist_value":
            return plain_attributes(message.kvlist_value.values)
        case "string_value":
            return message.string_value
        case "bool_value":
            return message.bool_value
        case "int_value":
            return message.int_value
        case "double_value":
            return message.double_value
        case "bytes_value":
            return message.bytes_value
        case _:
            return None


def plain_attributes(entries: Iterable[KeyValue]) -> dict[str, Value]:
    """Decode stock attributes to a dict; the last of two equal keys wins."""
    return {entry.key: plain_value(entry.value) for entry in entries}


def key_value(key: str, text: str = "x") -> KeyValue:
    """A text attribute."""
    return KeyValue(key=key, value=AnyValue(string_value=text))


def span(*entries: KeyValue, name: str = "step", parent: bytes = b"") -> Span:
    """A span with ids."""
    return Span(trace_id=TRACE_ID, span_id=SPAN_ID, parent_span_id=parent, name=name, attributes=entries)


def request_of(raws: Iterable[bytes], scope: bytes = b"") -> bytes:
    """A request with these raw spans (or log records) in one group, written by hand: a stock class would refuse some."""
    items = b"".join(field(2, raw) for raw in raws)
    return field(1, field(1, b"") + field(2, field(1, scope) + items))


def field(number: int, payload: bytes) -> bytes:
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def varint(number: int) -> bytes:
    """A varint, as short as it gets."""
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def request(*scope_groups: ScopeSpans) -> ExportTraceServiceRequest:
    """A stock request with one resource."""
    return ExportTraceServiceRequest(resource_spans=[ResourceSpans(scope_spans=scope_groups)])


def back_to_front(message: Message) -> bytes:
    """Write a message as the Collector does: what is declared last comes first, at every depth; repeats keep their order."""
    written = b""
    for descriptor, value in sorted(message.ListFields(), key=lambda item: -item[0].index):
        repeated = descriptor.is_repeated
        for element in value if repeated else (value,):
            if descriptor.message_type is not None:
                written += field(descriptor.number, back_to_front(element))
                continue
            alone = type(message)()
            if repeated:
                getattr(alone, descriptor.name).append(element)
            else:
                setattr(alone, descriptor.name, element)
            written += alone.SerializeToString()
    return written
