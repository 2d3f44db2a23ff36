"""Heads of spans that are not viewed: ids, parent, and what shows whether the parent lives in another process.

Where a request is nobody's business, protobuf itself takes all of its spans apart: everything but the heads is
discarded, and what is left stands in one order whatever the sender's was, for one pattern to be cut along. Single spans
with a parent are read by fixed offsets where they begin as every known SDK writes them or end as the Collector does,
which writes fields back to front; all others through a message class: to tell from the bytes alone that no parent stands
further on takes longer, in a large span ten times as long. A fixed slice alone would be wrong for spans with other field
orders, so each tag and length byte is checked first. What is wrong further on in such a span is not looked for.
"""

import re
from collections.abc import Iterable, Iterator

from toolgauge.model.errors import DecodeError
from toolgauge.model.records import PackedHead, packed_head
from toolgauge.otlp.envelope import Container, encode_spans
from toolgauge.otlp.marks import is_back_to_front
from toolgauge.otlp.messages import HEAD, HEADS, HeadGroupMessage, HeadsMessage, parse

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
        return parse(HEADS, body)
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
    return _parse_head(raw)


def read_each(raws: Iterable[bytes]) -> Iterator[PackedHead]:
    """Read the ids of raw spans, one after the other; those that have none are left out."""
    return filter(None, map(read_head, raws))


def encode_heads(heads: Iterable[PackedHead]) -> bytes:
    """Write a request of spans that have nothing but these ids."""
    spans = [(_AROUND_HEADS, b"\n\x10" + trace_id + b"\x12\x08" + rest) for trace_id, rest in heads]
    return encode_spans(spans)


def _parse_head(raw: bytes) -> PackedHead | None:
    try:
        message = parse(HEAD, raw)
    except DecodeError:
        return _first_ids(raw)
    trace_id, span_id, parent_span_id = message.trace_id, message.span_id, message.parent_span_id
    if not are_ids(trace_id, span_id):
        return None
    if not is_span_id(parent_span_id):
        return packed_head(trace_id, span_id)
    return packed_head(trace_id, span_id, parent_span_id, kind=message.kind, flags=message.flags)


def _first_ids(raw: bytes) -> PackedHead | None:
    """Read the ids with which a broken span begins; `None` where bytes in it may be those of a parent."""
    # (`in` first tries to read what it looks for as a number, and fails at length.)
    if raw.find(b'"\x08') >= 0 or raw.find(b'"\x88') >= 0 or _begins_with_ids(raw) is None:
        return None
    return raw[2:18], raw[20:28]
