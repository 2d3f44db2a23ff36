"""Views of one raw span or log record, with its resource and scope; remembers what senders repeat.

Each is parsed alone: a part of a parsed request would keep the whole request alive for as long as its span waits.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from toolgauge.model.errors import DecodeError
from toolgauge.model.records import LogRecord, Resource, Scope, Span, SpanKind, SpanRef, StatusCode, remote_flag
from toolgauge.otlp.bounds import check_events, check_name, check_record, check_span
from toolgauge.otlp.heads import are_ids, is_span_id
from toolgauge.otlp.messages import LOG_RECORD, RESOURCE, SCOPE, SPAN, Repeated, parse
from toolgauge.otlp.pieces import joined
from toolgauge.otlp.values import Attributes, Events, Values, text

Known = TypeVar("Known")

_OWN_SCOPE = "toolgauge"
# What is not among these says nothing.
_KINDS: dict[int, SpanKind] = {1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}
_STATUS_CODES: dict[int, StatusCode] = {1: "ok", 2: "error"}
_SERVICE_NAME = "service.name"
_EVENT_NAME = "event.name"
_MEMO_ENTRIES = 512
_MEMO_KEY_BYTES = 4096


@dataclass(slots=True, eq=False)
class KnownScope:
    """A scope and what it means for its records: always viewed (`is_named`), never viewed (`is_own`), or neither."""

    scope: Scope
    is_named: bool
    is_own: bool


class Views:
    """Builds views. `scopes` are the prefixes of scope names that are always viewed."""

    def __init__(self, scopes: Sequence[str]) -> None:
        self._scope_names = tuple(scopes)
        self._values = Values()
        self._scopes: dict[bytes, KnownScope] = {}
        self._resources: dict[bytes, Resource] = {}

    @property
    def undecodable_values(self) -> int:
        """Values and events that could not be decoded when they were looked up, ever."""
        return self._values.undecodable

    def span(self, raw: bytes, resource: Resource, scope: Scope) -> Span:
        """View a raw span; raise `DecodeError` when it cannot be parsed, is beyond the bounds, or has no valid ids."""
        check_span(raw)
        message = parse(SPAN, raw)
        trace_id, span_id, parent = message.trace_id, message.span_id, message.parent_span_id
        if not are_ids(trace_id, span_id):
            raise DecodeError("the span has no valid ids")
        name, status, events, flags = message.name, message.status, message.events, message.flags
        check_name(name)
        check_events(len(events))
        status_message = status.message
        return Span(
            ref=SpanRef(trace_id.hex(), span_id.hex()),
            parent_span_id=parent.hex() if is_span_id(parent) else None,
            parent_is_remote=remote_flag(flags) if flags else None,
            name=text(name),
            kind=_KINDS.get(message.kind, "unspecified"),
            start_ns=message.start_time_unix_nano,
            end_ns=message.end_time_unix_nano,
            attributes=Attributes(message.attributes, self._values),
            events=Events(events, self._values) if events else (),
            status=_STATUS_CODES.get(status.code, "unset"),
            status_message=text(status_message) if status_message else "",
            resource=resource,
            scope=scope,
            size_bytes=len(raw),
        )

    def log_record(self, raw: bytes, resource: Resource, scope: Scope) -> LogRecord:
        """View a raw log record; raise `DecodeError` when it cannot be parsed or is beyond the bounds."""
        check_record(raw)
        message = parse(LOG_RECORD, raw)
        check_name(message.event_name)
        attributes = Attributes(message.attributes, self._values)
        event_name = text(message.event_name) or attributes.get(_EVENT_NAME)
        trace_id, span_id = message.trace_id, message.span_id
        has_span = are_ids(trace_id, span_id)
        return LogRecord(
            ref=SpanRef(trace_id.hex(), span_id.hex()) if has_span else None,
            event_name=event_name if isinstance(event_name, str) else "",
            time_ns=message.time_unix_nano or message.observed_time_unix_nano,
            body=self._values.decode(joined(message.body)),
            attributes=attributes,
            resource=resource,
            scope=scope,
            size_bytes=len(raw),
        )

    def resource(self, parts: Repeated[bytes]) -> Resource:
        """View a resource; joining what the sender wrote is merging it. A broken one reads as empty."""
        raw = joined(parts)
        known = self._resources.get(raw) if len(raw) <= _MEMO_KEY_BYTES else None
        if known is None:
            known = self._parse_resource(raw)
            if len(raw) <= _MEMO_KEY_BYTES:
                _remember(self._resources, raw, known)
        return known

    def scope(self, parts: Repeated[bytes]) -> KnownScope:
        """View a scope. The answer holds for the scope alone: any span in it may still bear a mark."""
        raw = joined(parts)
        known = self._scopes.get(raw) if len(raw) <= _MEMO_KEY_BYTES else None
        if known is None:
            known = self._parse_scope(raw)
            if len(raw) <= _MEMO_KEY_BYTES:
                _remember(self._scopes, raw, known)
        return known

    def _parse_resource(self, raw: bytes) -> Resource:
        try:
            check_record(raw)
            attributes = Attributes(parse(RESOURCE, raw).attributes, self._values)
        except DecodeError:
            return Resource(service=None, attributes={})
        service = attributes.get(_SERVICE_NAME)
        return Resource(service=service if isinstance(service, str) and service else None, attributes=attributes)

    def _parse_scope(self, raw: bytes) -> KnownScope:
        try:
            message = parse(SCOPE, raw)
            check_name(message.name)
        except DecodeError:
            return KnownScope(Scope(name="", version=""), is_named=False, is_own=False)
        name = text(message.name)
        return KnownScope(
            Scope(name=name, version=text(message.version)),
            is_named=name.startswith(self._scope_names),
            is_own=name == _OWN_SCOPE,
        )


def _remember(memo: dict[bytes, Known], raw: bytes, known: Known) -> None:
    if len(memo) >= _MEMO_ENTRIES:
        memo.clear()
    memo[raw] = known
