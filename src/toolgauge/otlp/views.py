"""Views of one raw span or log record, with its resource and scope; remembers what senders repeat.

Each is parsed alone: a part of a parsed request would keep the whole request alive. Short cuts answer only for forms they
checked exactly. A value that cannot be decoded reads as `None` and is counted at each look-up, which never raises into a dialect.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import cast

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
from toolgauge.otlp.bounds import FLAT, SPAN, VALUE, joined, parse, read_name
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

_ARRAY, _WHOLE = 0x2A, 0x18
_TEXT_OR_BYTES = (b"\n", b"\x3a")
_NESTED = (b"*", b"2")
# The length of a shorter text is one byte; tag and length of a text by the size of all three.
_SHORT, _QUICK = 0x82, 0x800
_TEXT_HEADS = [
    *(b"\n" + bytes((size - 2 & 0xFF,)) for size in range(_SHORT)),
    *(bytes((0x0A, size - 3 & 0x7F | 0x80, size - 3 >> 7)) for size in range(_SHORT, _QUICK)),
]
# Tag of `ArrayValue.values`.
_ELEMENT = 0x0A
# Names, ids and instructions repeat from span to span: to decode each of them again takes 6 % more CPU for reading.
_LONGEST_KNOWN, _MOST_KNOWN, _ENTRY_BYTES = 1 << 14, 1 << 20, 256
# Values of a larger record, or of one with more bytes of nested values, are decoded one at a time.
_LARGEST_AT_ONCE, _MOST_NESTED = 1 << 20, 4096
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


def value(raw: bytes) -> Value:
    """Decode the bytes of one AnyValue; raise `DecodeError` when they are not one."""
    is_flat = raw[:1] in _TEXT_OR_BYTES
    if len(raw) > _LARGEST_NESTED and not is_flat:
        raise DecodeError("the value is too large")
    return _from_message(parse(AnyValueMessage, raw, None if is_flat else VALUE))


def _from_message(message: AnyValueMessage) -> Value:
    match message.WhichOneof("value"):
        case "string_value":
            return message.string_value.decode("utf-8", "replace")
        case "bool_value" | "int_value" | "double_value" | "bytes_value" as name:
            return cast("Value", getattr(message, name))
        case "array_value":
            return [_from_message(element) for element in message.array_value.values]
        case "kvlist_value":
            entries = message.kvlist_value.values
            return {entry.key.decode("utf-8", "replace"): _from_message(entry.value) for entry in entries}
        case _:
            return None


class _Known(dict[bytes, Value]):
    """Decodes and remembers values; a definition that repeats is one object, whose hash is known."""

    # Bytes of further values.
    room = _MOST_KNOWN

    def __missing__(self, raw: bytes) -> Value:
        size = len(raw)
        if size < _QUICK and raw.startswith(_TEXT_HEADS[size]):
            found: Value = raw[2 if size < _SHORT else 3 :].decode("utf-8", "replace")
        # Counts of tokens, two on every model span.
        elif size == 3 and raw[0] == _WHOLE and raw[2] < 0x80 <= raw[1]:
            return raw[1] & 0x7F | raw[2] << 7
        elif size == 4 and raw[0] == _WHOLE and raw[3] < 0x80 <= raw[1] and raw[2] > 0x7F:
            return raw[1] & 0x7F | (raw[2] & 0x7F) << 7 | raw[3] << 14
        # Finish reasons: a list of one short text on every model span.
        elif (
            3 < size < _SHORT and raw[0] == _ARRAY and raw[1] == size - 2 and raw[2] == _ELEMENT and raw[3] == size - 4
        ):
            return [self[raw[4:]]]
        else:
            found = value(raw)
            if size > _LONGEST_KNOWN or isinstance(found, list | dict):
                # Spans share no list and no object.
                return found
        self.room -= size + _ENTRY_BYTES
        if self.room < 0:
            self.clear()
            self.room = _MOST_KNOWN
        self[raw] = found
        return found


class Values:
    """Decodes values, and counts values that could not be decoded."""

    __slots__ = ("known", "undecodable")

    def __init__(self) -> None:
        self.known = _Known()
        self.undecodable = 0

    def decode(self, raw: bytes) -> Value:
        """Decode one AnyValue; `None` when that cannot be done."""
        try:
            return value(raw)
        except DecodeError:
            self.undecodable += 1
            return None

    def attributes(self, raw: Mapping[str, bytes], size_bytes: int) -> Mapping[str, Value]:
        """Decode the attributes of a record of so many bytes, in the order of the keys."""
        keys = sorted(raw)
        if size_bytes <= _MOST_NESTED or (
            size_bytes <= _LARGEST_AT_ONCE
            and sum([len(each) for each in raw.values() if each[:1] in _NESTED]) <= _MOST_NESTED
        ):
            try:
                return dict(zip(keys, map(self.known.__getitem__, map(raw.__getitem__, keys)), strict=True))
            except DecodeError:
                pass
        return Attributes(keys, raw, self)


class Attributes(Mapping[str, Value]):
    """The attributes of a large record, or of one with a broken value, decoded when they are looked up."""

    __slots__ = ("_keys", "_raw", "_values")

    def __init__(self, keys: Sequence[str], raw: Mapping[str, bytes], values: Values) -> None:
        self._keys, self._raw, self._values = keys, raw, values

    # Never `self._raw[key]` alone: a protobuf map inserts a missing key.
    def __getitem__(self, key: str) -> Value:
        if key not in self:
            raise KeyError(key)
        return self._values.decode(self._raw[key])

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and key in self._raw

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


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
        message = parse(SpanMessage, raw, SPAN)
        trace_id, span_id, parent = message.trace_id, message.span_id, message.parent_span_id
        if not are_ids(trace_id, span_id):
            raise DecodeError("the span has no valid ids")
        flags, events = message.flags, message.events
        known = _STATUSES.get(message.status)
        if known is None:
            parsed = parse(StatusMessage, message.status)
            known = _STATUS_CODES.get(parsed.code, "unset"), parsed.message.decode("utf-8", "replace")
        return Span(
            ref=SpanRef(trace_id.hex(), span_id.hex()),
            parent_span_id=parent.hex() if parent and is_span_id(parent) else None,
            parent_is_remote=remote_flag(flags) if flags else None,
            name=read_name(message.name),
            kind=_KINDS.get(message.kind, "unspecified"),
            start_ns=message.start_time_unix_nano,
            end_ns=message.end_time_unix_nano,
            attributes=self.values.attributes(message.attributes, len(raw)),
            events=self._events(events) if events else (),
            status=known[0],
            status_message=known[1],
            resource=resource,
            scope=scope,
            size_bytes=len(raw),
            is_cut=message.dropped_attributes_count > 0 or message.dropped_events_count > 0,
        )

    def _events(self, raws: Sequence[bytes]) -> tuple[SpanEvent, ...]:
        """Parse events; one that cannot be parsed is left out and counted."""
        parsed: list[SpanEvent] = []
        for raw in raws:
            try:
                message = parse(EventMessage, raw, FLAT)
                name = read_name(message.name)
            except DecodeError:
                self.values.undecodable += 1
                continue
            attributes = self.values.attributes(message.attributes, len(raw))
            parsed.append(SpanEvent(name=name, time_ns=message.time_unix_nano, attributes=attributes))
        return tuple(parsed)

    def log_record(self, raw: bytes, resource: Resource, scope: Scope) -> LogRecord:
        """View a raw log record; raise `DecodeError` when it cannot be parsed or is beyond the bounds."""
        message = parse(LogRecordMessage, raw, FLAT)
        attributes = self.values.attributes(message.attributes, len(raw))
        event_name = read_name(message.event_name) or attributes.get(_EVENT_NAME)
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
            message = parse(ResourceMessage, raw, FLAT)
        except DecodeError:
            return Resource(service=None, attributes={})
        attributes = self.values.attributes(message.attributes, len(raw))
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
            name = read_name(message.name)
        except DecodeError:
            return KnownScope(Scope(name="", version=""), is_named=False, is_own=False)
        return KnownScope(
            Scope(name=name, version=message.version.decode("utf-8", "replace")),
            is_named=name.startswith(self._scope_names) or any(word in name.lower() for word in self._scope_words),
            is_own=name == _OWN_SCOPE,
        )


def _label(attributes: Mapping[str, Value], key: str) -> str:
    value = attributes.get(key)
    if value is None and key in _OLDER_NAMES:
        value = attributes.get(_OLDER_NAMES[key])
    if isinstance(value, bool):
        return "true" if value else "false"
    return fit_label(str(value)) if isinstance(value, str | int | float) else ""
