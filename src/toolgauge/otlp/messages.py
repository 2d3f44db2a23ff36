"""Our own message classes for OTLP, built at run time and wire-compatible with the stock ones.

They differ in what is left as bytes: spans and log records in the envelope, attribute values in a view, and all
text that a sender might have filled with broken UTF-8 (one bad byte must not refuse 511 other spans). Field numbers
are those of opentelemetry-proto; the pool is our own, so nothing clashes with the stock classes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, Protocol, TypeVar, cast, overload

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError as ProtobufError
from google.protobuf.message import Message

from toolgauge.model.errors import DecodeError

_PACKAGE = "toolgauge.wire"
_TYPES = {
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
    "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
    "double": descriptor_pb2.FieldDescriptorProto.TYPE_DOUBLE,
    "fixed32": descriptor_pb2.FieldDescriptorProto.TYPE_FIXED32,
    "fixed64": descriptor_pb2.FieldDescriptorProto.TYPE_FIXED64,
    "int32": descriptor_pb2.FieldDescriptorProto.TYPE_INT32,
    "int64": descriptor_pb2.FieldDescriptorProto.TYPE_INT64,
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
}

# `*` in front: repeated; `|`: member of the oneof `value`; `map`: map<string, bytes>; a capital: a message of this table.
_MESSAGES: dict[str, tuple[tuple[int, str, str], ...]] = {
    # The same field numbers serve traces and logs.
    "Request": ((1, "resource_groups", "*ResourceGroup"),),
    # `resource` and `scope` are repeated: a singular field would drop an empty one and keep only the last of two.
    "ResourceGroup": (
        (1, "resource", "*bytes"),
        (2, "scope_groups", "*ScopeGroup"),
        (3, "schema_url", "bytes"),
    ),
    "ScopeGroup": ((1, "scope", "*bytes"), (2, "items", "*bytes"), (3, "schema_url", "bytes")),
    "Resource": ((1, "attributes", "map"),),
    "Scope": ((1, "name", "bytes"), (2, "version", "bytes")),
    "Span": (
        (1, "trace_id", "bytes"),
        (2, "span_id", "bytes"),
        (4, "parent_span_id", "bytes"),
        (5, "name", "bytes"),
        (6, "kind", "int32"),
        (7, "start_time_unix_nano", "fixed64"),
        (8, "end_time_unix_nano", "fixed64"),
        (9, "attributes", "map"),
        (11, "events", "*bytes"),
        (15, "status", "bytes"),
        (16, "flags", "fixed32"),
    ),
    "Status": ((2, "message", "bytes"), (3, "code", "int32")),
    "Event": ((1, "time_unix_nano", "fixed64"), (2, "name", "bytes"), (3, "attributes", "map")),
    "Head": (
        (1, "trace_id", "bytes"),
        (2, "span_id", "bytes"),
        (4, "parent_span_id", "bytes"),
        (6, "kind", "int32"),
        (16, "flags", "fixed32"),
    ),
    # A request of spans of which the heads alone are kept.
    "Heads": ((1, "resource_groups", "*HeadResourceGroup"),),
    "HeadResourceGroup": ((2, "scope_groups", "*HeadGroup"),),
    "HeadGroup": ((2, "items", "*Head"),),
    "SpanAttributes": ((9, "attributes", "*bytes"),),
    "LogRecord": (
        (1, "time_unix_nano", "fixed64"),
        (5, "body", "*bytes"),
        (6, "attributes", "map"),
        (9, "trace_id", "bytes"),
        (10, "span_id", "bytes"),
        (11, "observed_time_unix_nano", "fixed64"),
        (12, "event_name", "bytes"),
    ),
    # What shows that an item is a span.
    "SpanSigns": (
        (1, "trace_id", "bytes"),
        (2, "span_id", "bytes"),
        (5, "name", "bytes"),
        (6, "kind", "int32"),
        (7, "start_time_unix_nano", "fixed64"),
        (8, "end_time_unix_nano", "fixed64"),
    ),
    # Fields of log records and metrics, with wire types that a span does not have at these numbers.
    "ForeignToSpans": (
        (1, "time_unix_nano", "fixed64"),
        (2, "severity_number", "int32"),
        (6, "attributes", "bytes"),
        (7, "sum", "bytes"),
        (8, "flags", "fixed32"),
        (10, "span_id_or_exponential_histogram", "bytes"),
        (11, "observed_time_unix_nano", "fixed64"),
        (12, "event_name_or_metadata", "bytes"),
    ),
    # The same for fields of spans and metrics in place of a log record.
    "ForeignToLogs": (
        (1, "trace_id_or_name", "bytes"),
        (2, "span_id_or_description", "bytes"),
        (6, "kind", "int32"),
        (7, "start_time_unix_nano", "fixed64"),
        (8, "end_time_unix_nano", "fixed64"),
        (11, "event_or_summary", "bytes"),
    ),
    # The same for fields of spans and log records in place of a metric.
    "ForeignToMetrics": (
        (1, "time_unix_nano", "fixed64"),
        (2, "severity_number", "int32"),
        (7, "start_time_unix_nano", "fixed64"),
        (8, "end_time_unix_nano", "fixed64"),
        (11, "observed_time_unix_nano", "fixed64"),
    ),
    "AnyValue": (
        (1, "string_value", "|bytes"),
        (2, "bool_value", "|bool"),
        (3, "int_value", "|int64"),
        (4, "double_value", "|double"),
        (5, "array_value", "|ArrayValue"),
        (6, "kvlist_value", "|KeyValueList"),
        (7, "bytes_value", "|bytes"),
    ),
    "ArrayValue": ((1, "values", "*AnyValue"),),
    "KeyValueList": ((1, "values", "*KeyValue"),),
    "KeyValue": ((1, "key", "bytes"), (2, "value", "AnyValue")),
    "Key": ((1, "key", "bytes"),),
}


Element = TypeVar("Element")
Parsed = TypeVar("Parsed", covariant=True)


class Repeated(Protocol[Element]):
    """A repeated field."""

    def __iter__(self) -> Iterator[Element]: ...
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: int) -> Element: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Element]: ...
    def __delitem__(self, index: slice) -> None: ...
    def extend(self, elements: Iterable[Element]) -> None:
        """Append all."""
        ...


class RepeatedMessage(Repeated[Element], Protocol[Element]):
    """A repeated field of messages."""

    def add(self) -> Element:
        """Append an empty message and return it."""
        ...


class Wire(Protocol):
    """What every message can do."""

    def ByteSize(self) -> int:  # noqa: N802 protobuf's name
        """Count the bytes it would take."""
        ...

    def ClearField(self, field_name: str) -> None:  # noqa: N802 protobuf's name
        """Empty one field."""
        ...

    def DiscardUnknownFields(self) -> None:  # noqa: N802 protobuf's name
        """Drop what the message class does not name, here and in all that it contains."""
        ...

    def SerializeToString(self) -> bytes:  # noqa: N802 protobuf's name
        """Write it."""
        ...


class ScopeGroupMessage(Wire, Protocol):
    """ScopeSpans or ScopeLogs; `items` are the raw spans or log records."""

    scope: Repeated[bytes]
    items: Repeated[bytes]
    schema_url: bytes


class ResourceGroupMessage(Wire, Protocol):
    """ResourceSpans or ResourceLogs."""

    resource: Repeated[bytes]
    scope_groups: RepeatedMessage[ScopeGroupMessage]
    schema_url: bytes


class RequestMessage(Wire, Protocol):
    """ExportTraceServiceRequest or ExportLogsServiceRequest."""

    resource_groups: RepeatedMessage[ResourceGroupMessage]


class ResourceMessage(Protocol):
    """Resource."""

    attributes: Mapping[str, bytes]


class ScopeMessage(Protocol):
    """InstrumentationScope."""

    name: bytes
    version: bytes


class StatusMessage(Protocol):
    """Status of a span."""

    message: bytes
    code: int


class HeadMessage(Protocol):
    """The fields of a span that identify it and place it in its trace."""

    trace_id: bytes
    span_id: bytes
    parent_span_id: bytes
    kind: int
    flags: int


class HeadGroupMessage(Wire, Protocol):
    """ScopeSpans, of which the heads of the spans are kept."""

    items: Repeated[HeadMessage]


class HeadResourceGroupMessage(Wire, Protocol):
    """ResourceSpans, of which the same is kept."""

    scope_groups: Repeated[HeadGroupMessage]


class HeadsMessage(Wire, Protocol):
    """ExportTraceServiceRequest, of which the same is kept."""

    resource_groups: Repeated[HeadResourceGroupMessage]


class SpanMessage(HeadMessage, Protocol):
    """Span, its attribute values and events unread."""

    name: bytes
    start_time_unix_nano: int
    end_time_unix_nano: int
    attributes: Mapping[str, bytes]
    events: Repeated[bytes]
    status: bytes


class EventMessage(Protocol):
    """Event of a span."""

    time_unix_nano: int
    name: bytes
    attributes: Mapping[str, bytes]


class SpanAttributesMessage(Wire, Protocol):
    """Span, all but its attributes as unknown fields."""

    attributes: Repeated[bytes]


class LogRecordMessage(Protocol):
    """LogRecord; the body is repeated because joining the bytes merges it as a parser of the whole would."""

    time_unix_nano: int
    body: Repeated[bytes]
    attributes: Mapping[str, bytes]
    trace_id: bytes
    span_id: bytes
    observed_time_unix_nano: int
    event_name: bytes


class KeyValueMessage(Wire, Protocol):
    """KeyValue."""

    key: bytes
    value: "AnyValueMessage"


class SpanSignsMessage(Protocol):
    """The fields of an item that show that it is a span."""

    trace_id: bytes
    span_id: bytes
    name: bytes
    kind: int
    start_time_unix_nano: int
    end_time_unix_nano: int


class ForeignMessage(Protocol):
    """Fields of an item that its message does not have with these wire types."""

    def ListFields(self) -> Sequence[object]:  # noqa: N802 protobuf's name
        """List the fields that are set."""
        ...


class KeyMessage(Protocol):
    """KeyValue, its value as an unknown field: whatever is wrong with that, the key can be read."""

    key: bytes


class ArrayMessage(Wire, Protocol):
    """ArrayValue."""

    values: "RepeatedMessage[AnyValueMessage]"


class KeyValueListMessage(Wire, Protocol):
    """KeyValueList."""

    values: RepeatedMessage[KeyValueMessage]


Kind = Literal["string_value", "bool_value", "int_value", "double_value", "array_value", "kvlist_value", "bytes_value"]


class AnyValueMessage(Wire, Protocol):
    """AnyValue; text is bytes."""

    string_value: bytes
    bool_value: bool
    int_value: int
    double_value: float
    array_value: ArrayMessage
    kvlist_value: KeyValueListMessage
    bytes_value: bytes

    def WhichOneof(self, group: Literal["value"]) -> Kind | None:  # noqa: N802 protobuf's name
        """Name the field that is set."""
        ...


class MessageClass(Protocol[Parsed]):
    """A message class: call it for an empty message."""

    def __call__(self) -> Parsed: ...  # noqa: D102 the class says it
    def FromString(self, raw: bytes) -> Parsed:  # noqa: N802 protobuf's name
        """Read one."""
        ...


def parse(message_class: MessageClass[Parsed], raw: bytes) -> Parsed:
    """Parse one message; raise our `DecodeError` when the bytes are not one."""
    try:
        return message_class.FromString(raw)
    except ProtobufError as error:
        # protobuf's own words name the class that was asked, which means nothing to a sender.
        raise DecodeError("not a complete protobuf message of this kind") from error


def _add_field(message: descriptor_pb2.DescriptorProto, number: int, name: str, kind: str) -> None:
    field = message.field.add(name=name, number=number)
    field.label = field.LABEL_REPEATED if kind == "map" or kind[0] == "*" else field.LABEL_OPTIONAL
    if kind[0] == "|":
        field.oneof_index = 0
    bare = kind.lstrip("*|")
    if bare in _TYPES:
        field.type = _TYPES[bare]
        return
    field.type = field.TYPE_MESSAGE
    if bare != "map":
        field.type_name = f".{_PACKAGE}.{bare}"
        return
    entry = message.nested_type.add(name="AttributesEntry")
    entry.options.map_entry = True
    _add_field(entry, 1, "key", "string")
    _add_field(entry, 2, "value", "bytes")
    field.type_name = f".{_PACKAGE}.{message.name}.AttributesEntry"


def _classes() -> Mapping[str, type[Message]]:
    file = descriptor_pb2.FileDescriptorProto(name="toolgauge/wire.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        if any(kind[0] == "|" for _, _, kind in fields):
            message.oneof_decl.add(name="value")
        for number, field_name, kind in fields:
            _add_field(message, number, field_name, kind)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES
    }


_CLASSES = _classes()

# The casts: pyright cannot know the fields of a class that is built at run time; each protocol mirrors its table row.
REQUEST = cast("MessageClass[RequestMessage]", _CLASSES["Request"])
RESOURCE = cast("MessageClass[ResourceMessage]", _CLASSES["Resource"])
SCOPE = cast("MessageClass[ScopeMessage]", _CLASSES["Scope"])
SPAN = cast("MessageClass[SpanMessage]", _CLASSES["Span"])
HEAD = cast("MessageClass[HeadMessage]", _CLASSES["Head"])
HEADS = cast("MessageClass[HeadsMessage]", _CLASSES["Heads"])
STATUS = cast("MessageClass[StatusMessage]", _CLASSES["Status"])
EVENT = cast("MessageClass[EventMessage]", _CLASSES["Event"])
SPAN_ATTRIBUTES = cast("MessageClass[SpanAttributesMessage]", _CLASSES["SpanAttributes"])
SPAN_SIGNS = cast("MessageClass[SpanSignsMessage]", _CLASSES["SpanSigns"])
FOREIGN_TO_SPANS = cast("MessageClass[ForeignMessage]", _CLASSES["ForeignToSpans"])
FOREIGN_TO_LOGS = cast("MessageClass[ForeignMessage]", _CLASSES["ForeignToLogs"])
FOREIGN_TO_METRICS = cast("MessageClass[ForeignMessage]", _CLASSES["ForeignToMetrics"])
LOG_RECORD = cast("MessageClass[LogRecordMessage]", _CLASSES["LogRecord"])
KEY = cast("MessageClass[KeyMessage]", _CLASSES["Key"])
ANY_VALUE = cast("MessageClass[AnyValueMessage]", _CLASSES["AnyValue"])


# `join` takes eighty bytes of memory for each piece, and lets no other thread work until all are joined: two-byte pieces of
# one request would take gigabytes.
AT_ONCE = 4096


def joined(pieces: Sequence[bytes] | Repeated[bytes]) -> bytes:
    """Join pieces of bytes, however many."""
    count = len(pieces)
    if count <= AT_ONCE:
        return b"".join(pieces)
    return b"".join([b"".join(pieces[first : first + AT_ONCE]) for first in range(0, count, AT_ONCE)])
