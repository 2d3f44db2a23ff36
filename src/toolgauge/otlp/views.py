"""Views of one raw span or log record, with its resource and scope; remembers what senders repeat.

Each is parsed alone: a part of a parsed request would keep the whole request alive. Short cuts answer only for forms they
checked exactly. A value that cannot be decoded reads as `None` and is counted: a look-up never raises into a dialect.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar, overload

from google.protobuf.internal.containers import RepeatedScalarFieldContainer
from msgspec import Struct

from toolgauge.model.errors import DecodeError
from toolgauge.model.json import Value
from toolgauge.model.metrics import fit_label
from toolgauge.model.names import stable_name
from toolgauge.model.records import (
    ENVIRONMENT,
    SDK_LANGUAGE,
    VERSION,
    LogRecord,
    Resource,
    Scope,
    Span,
    SpanEvent,
    SpanKind,
    SpanRef,
    StatusCode,
    remote_flag,
)
from toolgauge.otlp.bounds import SPAN, VALUE, check_entries, check_fields, check_name, joined, parse
from toolgauge.otlp.envelope import are_ids, is_span_id, is_trace_id
from toolgauge.otlp.wire_pb2 import (
    AnyValueMessage,
    EventMessage,
    LogRecordMessage,
    ResourceMessage,
    ScopeMessage,
    SpanMessage,
    StatusMessage,
)

_TEXT, _ARRAY, _WHOLE = 0x0A, 0x2A, 0x18
_TEXT_OR_BYTES = bytes((_TEXT, 0x3A))
# Tag of `ArrayValue.values`.
_ELEMENT = 0x0A
# Names and ids repeat from span to span: to decode each of them again takes 6 % more CPU for reading.
_LONGEST_KNOWN, _MOST_KNOWN = 64, 1024
_SHORTEST_LONG, _MOST_LONG = 1 << 10, 64
# A larger nested value is not read: no producer writes one.
_LARGEST_NESTED = 4 << 20

_OWN_SCOPE = "toolgauge"
_KINDS: dict[int, SpanKind] = {1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}
_STATUS_CODES: dict[int, StatusCode] = {1: "ok", 2: "error"}
# As nearly all spans have it: without a message.
_STATUSES: dict[bytes, tuple[StatusCode, str]] = {
    b"": ("unset", ""),
    b"\x18\x00": ("unset", ""),
    b"\x18\x01": ("ok", ""),
    b"\x18\x02": ("error", ""),
}
_SERVICE_NAME = "service.name"
# The names that older producers give to attributes.
_OLDER_NAMES = {ENVIRONMENT: "deployment.environment"}
_EVENT_NAME = "event.name"
# Scopes and resources come again with each request: to parse them each time takes 3 % more for requests of 8 spans.
_MOST_GROUPS = 512
_LONGEST_GROUP = 4096

Default = TypeVar("Default")


def text(raw: bytes) -> str:
    """Decode text; bytes that are not UTF-8 become U+FFFD."""
    return raw.decode("utf-8", "replace")


def value(raw: bytes) -> Value:
    """Decode the bytes of one AnyValue; raise `DecodeError` when they are not one."""
    size = len(raw)
    if 5 < size < 0x80 and raw[:6] == bytes((_ARRAY, size - 2, _ELEMENT, size - 4, _TEXT, size - 6)):
        # Finish reasons: a list of one short text on every model span.
        return [raw[6:].decode("utf-8", "replace")]
    if not raw:
        return None
    if size > _LARGEST_NESTED and raw[0] not in _TEXT_OR_BYTES:
        raise DecodeError("the value is too large")
    if raw[0] not in _TEXT_OR_BYTES:
        check_fields(raw, VALUE)
    return _from_message(parse(AnyValueMessage, raw))


def _from_message(message: AnyValueMessage) -> Value:
    match message.WhichOneof("value"):
        case "string_value":
            return text(message.string_value)
        case "bool_value":
            return message.bool_value
        case "int_value":
            return message.int_value
        case "double_value":
            return message.double_value
        case "bytes_value":
            return message.bytes_value
        case "array_value":
            return [_from_message(element) for element in message.array_value.values]
        case "kvlist_value":
            return {text(entry.key): _from_message(entry.value) for entry in message.kvlist_value.values}
        case _:
            return None


class Values:
    """Decodes values, and counts looked-up values that could not be decoded; `known` are short texts."""

    __slots__ = ("_long", "known", "undecodable")

    def __init__(self) -> None:
        self.known: dict[bytes, str] = {}
        # The newest text of each key.
        self._long: dict[str, tuple[bytes, str]] = {}
        self.undecodable = 0

    def decode(self, raw: bytes) -> Value:
        """Decode one AnyValue; `None` when that cannot be done."""
        try:
            return value(raw)
        except DecodeError:
            self.undecodable += 1
            return None

    def long(self, key: str, raw: bytes) -> str:
        """Decode a text of 1 to 16 KiB; definitions and instructions repeat, and are one object then, whose hash is known."""
        newest = self._long.get(key)
        if newest is None or newest[0] != raw:
            newest = raw, raw[3:].decode("utf-8", "replace")
            # The keys that dialects know are short, and few.
            if len(key) <= _LONGEST_KNOWN and (key in self._long or len(self._long) < _MOST_LONG):
                self._long[key] = newest
        return newest[1]


class Attributes(Mapping[str, Value]):
    """A read-only view of attributes, iterated in the order of the keys."""

    __slots__ = ("_keys", "_raw", "decoder")

    def __init__(self, raw: Mapping[str, bytes], values: Values) -> None:
        self._raw = raw
        self.decoder = values
        self._keys: list[str] | None = None

    # Never `self._raw[key]` alone: a protobuf map inserts a missing key.
    def __getitem__(self, key: str) -> Value:
        if key not in self._raw:
            raise KeyError(key)
        return self.get(key)

    @overload
    def get(self, key: str, default: None = None, /) -> Value: ...
    @overload
    def get(self, key: str, default: Value | Default, /) -> Value | Default: ...
    def get(self, key: str, default: Value | Default | None = None, /) -> Value | Default:
        """Look up a value; written out because the inherited one raises and catches for each missing key."""
        raw = self._raw
        if key not in raw:
            return default
        found = raw[key]
        size, values = len(found), self.decoder
        if size <= _LONGEST_KNOWN and (known := values.known.get(found)) is not None:
            return known
        # Text, as most values are: without this, half agent traces take 5 % more CPU.
        if size > 3 and found[0] == _TEXT:
            first = found[1]
            if first < 0x80:
                if first == size - 2:
                    decoded = found[2:].decode("utf-8", "replace")
                    if size <= _LONGEST_KNOWN:
                        if len(values.known) >= _MOST_KNOWN:
                            values.known.clear()
                        values.known[found] = decoded
                    return decoded
            elif found[2] < 0x80 and (first & 0x7F | found[2] << 7) == size - 3:
                return found[3:].decode("utf-8", "replace") if size < _SHORTEST_LONG else values.long(key, found)
        # Counts of tokens, two on every model span.
        elif 1 < size < 4 and found[0] == _WHOLE and found[-1] < 0x80 and (size == 2 or found[1] > 0x7F):
            return found[1] if size == 2 else found[1] & 0x7F | found[2] << 7
        return values.decode(found)

    def __contains__(self, key: object) -> bool:
        try:
            return key in self._raw
        except TypeError:  # no text, which protobuf refuses
            return False

    def __iter__(self) -> Iterator[str]:
        # Listed once: a protobuf map builds each key again on every walk.
        if self._keys is None:
            self._keys = sorted(self._raw)
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._raw)


class Events(Sequence[SpanEvent]):
    """The events of a span, parsed when the first of them is asked for; one that cannot be parsed is left out."""

    __slots__ = ("_parsed", "_raw", "_values")

    def __init__(self, raw: RepeatedScalarFieldContainer[bytes], values: Values) -> None:
        self._raw = raw
        self._values = values
        self._parsed: tuple[SpanEvent, ...] | None = None

    @overload
    def __getitem__(self, index: int) -> SpanEvent: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[SpanEvent]: ...
    def __getitem__(self, index: int | slice) -> SpanEvent | Sequence[SpanEvent]:
        return self._all()[index]

    def __iter__(self) -> Iterator[SpanEvent]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> tuple[SpanEvent, ...]:
        if self._parsed is None:
            parsed: list[SpanEvent] = []
            for raw in self._raw:
                try:
                    check_fields(raw)
                    message = parse(EventMessage, raw)
                    check_name(message.name)
                    check_entries(message, raw)
                except DecodeError:
                    self._values.undecodable += 1
                    continue
                attributes = Attributes(message.attributes, self._values)
                parsed.append(SpanEvent(name=text(message.name), time_ns=message.time_unix_nano, attributes=attributes))
            self._parsed = tuple(parsed)
        return self._parsed


class KnownScope(Struct, frozen=True, eq=False):
    """A scope; its records are always viewed (`is_named`), never viewed (`is_own`), or neither."""

    scope: Scope
    is_named: bool
    is_own: bool


class Views:
    """Builds views; always of scopes whose name begins with one of `scopes`, or has one of `scope_words` in it.

    `labels` are further labels of resources.
    """

    def __init__(self, scopes: Sequence[str], labels: Collection[str] = (), scope_words: Sequence[str] = ()) -> None:
        self._scope_names = tuple(scopes)
        self._scope_words = tuple(scope_words)
        self._label_keys = tuple(dict.fromkeys((VERSION, ENVIRONMENT, *labels)))
        self.values = Values()
        self._known_scope = lru_cache(_MOST_GROUPS)(self._parse_scope)
        self._known_resource = lru_cache(_MOST_GROUPS)(self._parse_resource)

    def span(self, raw: bytes, resource: Resource, scope: Scope) -> Span:
        """View a raw span; raise `DecodeError` when it cannot be parsed, is beyond the bounds, or has no valid ids."""
        check_fields(raw, SPAN)
        message = parse(SpanMessage, raw)
        trace_id, span_id, parent = message.trace_id, message.span_id, message.parent_span_id
        if not are_ids(trace_id, span_id):
            raise DecodeError("the span has no valid ids")
        name, flags, events = message.name, message.flags, message.events
        check_name(name)
        check_entries(message, raw)
        status, status_message = _STATUSES.get(message.status, ("unset", ""))
        if message.status not in _STATUSES:
            parsed = parse(StatusMessage, message.status)
            status, status_message = _STATUS_CODES.get(parsed.code, "unset"), text(parsed.message)
        return Span(
            ref=SpanRef(trace_id.hex(), span_id.hex()),
            parent_span_id=parent.hex() if is_span_id(parent) else None,
            parent_is_remote=remote_flag(flags) if flags else None,
            name=text(name),
            kind=_KINDS.get(message.kind, "unspecified"),
            start_ns=message.start_time_unix_nano,
            end_ns=message.end_time_unix_nano,
            attributes=Attributes(message.attributes, self.values),
            events=Events(events, self.values) if events else (),
            status=status,
            status_message=status_message,
            resource=resource,
            scope=scope,
            size_bytes=len(raw),
            is_cut=message.dropped_attributes_count > 0 or message.dropped_events_count > 0,
        )

    def log_record(self, raw: bytes, resource: Resource, scope: Scope) -> LogRecord:
        """View a raw log record; raise `DecodeError` when it cannot be parsed or is beyond the bounds."""
        check_fields(raw)
        message = parse(LogRecordMessage, raw)
        check_name(message.event_name)
        check_entries(message, raw)
        attributes = Attributes(message.attributes, self.values)
        event_name = text(message.event_name) or attributes.get(_EVENT_NAME)
        trace_id, span_id = message.trace_id, message.span_id
        has_span = are_ids(trace_id, span_id)
        return LogRecord(
            ref=SpanRef(trace_id.hex(), span_id.hex()) if has_span else None,
            event_name=event_name if isinstance(event_name, str) else "",
            time_ns=message.time_unix_nano or message.observed_time_unix_nano,
            body=self.values.decode(joined(message.body)),
            attributes=attributes,
            resource=resource,
            scope=scope,
            size_bytes=len(raw),
            trace_id=None if has_span or not is_trace_id(trace_id) else trace_id.hex(),
        )

    def resource(self, parts: RepeatedScalarFieldContainer[bytes]) -> Resource:
        """View a resource; joining what the sender wrote is merging it. A broken one reads as empty."""
        raw = joined(parts)
        return self._known_resource(raw) if len(raw) <= _LONGEST_GROUP else self._parse_resource(raw)

    def scope(self, parts: RepeatedScalarFieldContainer[bytes]) -> KnownScope:
        """View a scope. The answer holds for the scope alone: any span in it may still bear a mark."""
        raw = joined(parts)
        return self._known_scope(raw) if len(raw) <= _LONGEST_GROUP else self._parse_scope(raw)

    def _parse_resource(self, raw: bytes) -> Resource:
        try:
            check_fields(raw)
            message = parse(ResourceMessage, raw)
            check_entries(message, raw)
        except DecodeError:
            return Resource(service=None, attributes={})
        attributes = Attributes(message.attributes, self.values)
        service = attributes.get(_SERVICE_NAME)
        return Resource(
            service=(stable_name(service) or None) if isinstance(service, str) else None,
            attributes=attributes,
            size_bytes=len(raw),
            labels={key: label for key in self._label_keys if (label := _label(attributes, key))},
            language=_label(attributes, SDK_LANGUAGE),
        )

    def _parse_scope(self, raw: bytes) -> KnownScope:
        try:
            message = parse(ScopeMessage, raw)
            check_name(message.name)
        except DecodeError:
            return KnownScope(Scope(name="", version=""), is_named=False, is_own=False)
        name = text(message.name)
        return KnownScope(
            Scope(name=name, version=text(message.version)),
            is_named=name.startswith(self._scope_names) or any(word in name.lower() for word in self._scope_words),
            is_own=name == _OWN_SCOPE,
        )


def _label(attributes: Attributes, key: str) -> str:
    value = attributes.get(key)
    if value is None and key in _OLDER_NAMES:
        value = attributes.get(_OLDER_NAMES[key])
    if isinstance(value, bool):
        return "true" if value else "false"
    return fit_label(str(value)) if isinstance(value, str | int | float) else ""
