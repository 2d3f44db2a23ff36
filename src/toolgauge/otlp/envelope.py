"""The envelope of a request: its groups of spans or log records, each of them left as bytes.

Writes requests from raw spans. Nothing here looks into a span, so whatever a sender put into one goes on unchanged.
"""

import re
from collections.abc import Iterable, Iterator
from copy import copy

from google.protobuf.internal.containers import RepeatedScalarFieldContainer
from google.protobuf.message import Message
from msgspec import Struct

from toolgauge.model.errors import DecodeError
from toolgauge.model.records import PackedHead, packed_head
from toolgauge.otlp.bounds import check_request, joined, parse
from toolgauge.otlp.marks import is_back_to_front
from toolgauge.otlp.wire_pb2 import (
    HeadGroupMessage,
    HeadMessage,
    HeadsMessage,
    RequestMessage,
    ResourceGroupMessage,
)

# Taking items out one by one copies none of them, but moves all that stand behind: beyond this it takes milliseconds.
_MOVED_AT_MOST = 1_000_000
# A resource or scope is written once.
_MOST_WRITTEN = 16


class Container(Struct, eq=False):
    """Resource and scope around a span, as copied bytes: an element for each time the field was written, or one for all.
    Compared by identity. `request` is equal within a request, `origin` also for all requests of one connection.
    """

    resource: tuple[bytes, ...]
    resource_schema_url: bytes
    scope: tuple[bytes, ...]
    scope_schema_url: bytes
    request: object = None
    origin: object = None


def copied(written: RepeatedScalarFieldContainer[bytes]) -> tuple[bytes, ...]:
    """Copy a resource or scope as it was written; more than anybody writes are joined, which is merging them."""
    return tuple(written) if len(written) <= _MOST_WRITTEN else (joined(written),)


def parse_request(body: bytes) -> RequestMessage:
    """Parse the envelope of a request; raise `DecodeError` when it is broken or has too many items for its size."""
    check_request(body)
    return parse(RequestMessage, body)


def count_items(body: bytes) -> int:
    """Count the spans or log records of a request; raise `DecodeError` when its envelope is broken."""
    return sum(len(scope.items) for group in parse_request(body).resource_groups for scope in group.scope_groups)


def encode_spans(spans: Iterable[tuple[Container, bytes]]) -> bytes:
    """Write one request from raw spans: one scope group a container, in the order in which they first occur."""
    by_container: dict[Container, list[bytes]] = {}
    for around, raw in spans:
        by_container.setdefault(around, []).append(raw)
    request = RequestMessage()
    by_resource: dict[tuple[tuple[bytes, ...], bytes], ResourceGroupMessage] = {}
    for around, raws in by_container.items():
        key = (around.resource, around.resource_schema_url)
        group = by_resource.get(key)
        if group is None:
            group = by_resource[key] = request.resource_groups.add()
            group.resource.extend(around.resource)
            group.schema_url = around.resource_schema_url
        scope_group = group.scope_groups.add()
        scope_group.scope.extend(around.scope)
        scope_group.schema_url = around.scope_schema_url
        scope_group.items.extend(raws)
    return request.SerializeToString()


def without_items(request: RequestMessage, places: Iterable[tuple[int, int, int]]) -> bytes:
    """Write the request without these items, and without the groups that this empties, unless they have unknown fields."""
    gone: dict[tuple[int, int], list[int]] = {}
    for resource_index, scope_index, index in places:
        gone.setdefault((resource_index, scope_index), []).append(index)
    # From the end, so that dropping a group leaves the other indexes valid.
    for resource_index, scope_index in sorted(gone, reverse=True):
        group, indexes = request.resource_groups[resource_index], gone[resource_index, scope_index]
        scope = group.scope_groups[scope_index]
        items = scope.items
        if len(indexes) * len(items) <= _MOVED_AT_MOST:
            for index in sorted(indexes, reverse=True):
                del items[index : index + 1]
        else:
            left_out = frozenset(indexes)
            kept = [raw for index, raw in enumerate(items) if index not in left_out]
            del items[:]
            items.extend(kept)
        if not items and not _has_unknown_fields(scope, ("scope", "schema_url")):
            del group.scope_groups[scope_index : scope_index + 1]
        if not group.scope_groups and not _has_unknown_fields(group, ("resource", "schema_url")):
            del request.resource_groups[resource_index : resource_index + 1]
    return request.SerializeToString()


def _has_unknown_fields(emptied: Message, known_fields: tuple[str, ...]) -> bool:
    known = copy(emptied)
    for name in known_fields:
        known.ClearField(name)
    return known.ByteSize() > 0


_NO_TRACE_ID, _NO_SPAN_ID = bytes(16), bytes(8)
# A head as protobuf writes it, or all that stands from the first one on that is none.
# (`{n}+` and `|)` do what `{n}` and `)?` do, without a way back being noted for each.)
_HEADS = re.compile(
    rb"\x12.\n\x10(.{16}+)\x12\x08(.{8}+(?:\x22\x08.{8}+|)(?:0[\x00-\x7f]|)(?:\x85\x01.{4}+|))|.+", re.DOTALL
)
_LARGEST_BYTES = 48
_AROUND_HEADS = Container(resource=(), resource_schema_url=b"", scope=(), scope_schema_url=b"")
# The ids of a span with a parent, tags and lengths included, none of them all zero.
_TRACE, _SPAN, _PARENT = rb"\n\x10(?!\x00{16}).{16}", rb"\x12\x08(?!\x00{8}).{8}", rb"\x22\x08(?!\x00{8}).{8}"
# Flags that tell of the parent, as they are written; the upper half of them is reserved.
_FLAGS = rb"\x85\x01.[\x01\x03]\x00\x00"
# Flags are the last field of SDKs that write fields in order.
_is_in_order = re.compile(_TRACE + _SPAN + _PARENT + rb".{6,}+(?<=" + _FLAGS + rb")", re.DOTALL).match
_begins_with_ids = re.compile(_TRACE + _SPAN, re.DOTALL).match
# The Collector goes by the order of declaration: the flags stand behind the parent.
_ends_in_ids = re.compile(_FLAGS + _PARENT + _SPAN + _TRACE, re.DOTALL).fullmatch


def are_ids(trace_id: bytes, span_id: bytes) -> bool:
    """Return whether the bytes are a trace id and a span id: 16 and 8 of them, neither all zero."""
    return len(trace_id) == 16 and len(span_id) == 8 and trace_id != _NO_TRACE_ID and span_id != _NO_SPAN_ID


def is_trace_id(raw: bytes) -> bool:
    """Return whether the bytes are a trace id: 16 of them, not all zero."""
    return len(raw) == 16 and raw != _NO_TRACE_ID


def is_span_id(raw: bytes) -> bool:
    """Return whether the bytes are a span id: 8 of them, not all zero."""
    return len(raw) == 8 and raw != _NO_SPAN_ID


def parse_heads(body: bytes) -> HeadsMessage | None:
    """Parse a request of spans for its heads alone; `None` when one of the spans is broken."""
    try:
        return parse(HeadsMessage, body)
    except DecodeError:
        return None


def read_heads(group: HeadGroupMessage) -> list[PackedHead] | None:
    """Read the heads of a group; `None` when one of its spans has ids that are not as they should be."""
    group.DiscardUnknownFields()
    written, count = group.SerializeToString(), len(group.items)
    # Eight zeros may be half of a trace id that somebody widened, or no id: told by looking at each.
    if len(written) > count * _LARGEST_BYTES or _NO_SPAN_ID in written:
        return None
    heads: list[PackedHead] = _HEADS.findall(written)
    # One that is none has no trace id. Two that are none may look like one, which nothing makes up for then.
    return heads if len(heads) == count and (not heads or heads[-1][0]) else None


def read_head(raw: bytes) -> PackedHead | None:
    """Read the ids of a raw span; `None` when it has none or cannot be parsed."""
    if _is_in_order(raw) is not None:
        return raw[2:18], raw[20:38] + raw[-6:]
    if is_back_to_front(raw) and _ends_in_ids(raw[-44:]) is not None:
        return raw[-16:], raw[-26:-18] + raw[-38:-28] + raw[-44:-38]
    try:
        message = parse(HeadMessage, raw)
    except DecodeError:
        # Read the ids with which a broken span begins; `None` where bytes in it may be those of a parent.
        # (`in` first tries to read what it looks for as a number, and fails at length.)
        if raw.find(b'"\x08') >= 0 or raw.find(b'"\x88') >= 0 or _begins_with_ids(raw) is None:
            return None
        return raw[2:18], raw[20:28]
    trace_id, span_id, parent_span_id = message.trace_id, message.span_id, message.parent_span_id
    if not are_ids(trace_id, span_id):
        return None
    if not is_span_id(parent_span_id):
        return packed_head(trace_id, span_id)
    return packed_head(trace_id, span_id, parent_span_id, kind=message.kind, flags=message.flags)


def read_each(raws: Iterable[bytes]) -> Iterator[PackedHead]:
    """Read the ids of raw spans, one after the other; those that have none are left out."""
    return filter(None, map(read_head, raws))


def encode_heads(heads: Iterable[PackedHead]) -> bytes:
    """Write a request of spans that have nothing but these ids."""
    spans = [(_AROUND_HEADS, b"\n\x10" + trace_id + b"\x12\x08" + rest) for trace_id, rest in heads]
    return encode_spans(spans)
