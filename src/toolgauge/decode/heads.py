"""Heads of spans that nobody views: ids, parent, and what tells whether the parent lives in another process.

Where a request is nobody's business, protobuf itself takes all of its spans apart: everything but the heads is
discarded, and what is left stands in one order whatever the sender's was, for one pattern to be cut along. Single spans
are read by fixed offsets where they begin as every known SDK writes them or end as the Collector does, which writes
fields back to front; otherwise through a message class. A fixed slice alone would be wrong for spans with other field
orders, so each tag and length byte is checked first.
"""

import re
import struct
from collections.abc import Iterable, Iterator

from toolgauge.decode.marks import is_back_to_front
from toolgauge.decode.messages import HEAD, HEADS, HeadGroupMessage, HeadsMessage, parse
from toolgauge.model.errors import DecodeError
from toolgauge.model.records import PackedHead, SpanHead, packed_head

# Tag and length of the three ids as little-endian numbers.
_TRACE, _SPAN, _PARENT = 0x100A, 0x0812, 0x0822
_PLAIN_BYTES = 44
_FLAGS_BYTES = 6
# Flags that tell of the parent, as they are written; the upper half of them is reserved.
_TELLING_FLAGS = frozenset(
    struct.pack("<HI", 0x0185, has_is_remote | trace_flags)
    for has_is_remote in (0x100, 0x300)
    for trace_flags in range(256)
)
_read_ids = struct.Struct("<H16sH8sH8s").unpack_from
_read_ids_at_end = struct.Struct("<H8sH8sH16s").unpack_from
_NO_TRACE_ID, _NO_SPAN_ID = bytes(16), bytes(8)
# A head as protobuf writes it, or all that stands from the first one on that is none.
_HEADS = re.compile(
    rb"\x12.\n\x10(.{16})\x12\x08(.{8}(?:\x22\x08.{8})?(?:0[\x00-\x7f])?(?:\x85\x01.{4})?)|.+", re.DOTALL
)
_LARGEST_BYTES = 48


def is_trace_id(raw: bytes) -> bool:
    """Tell whether the bytes are a trace id: 16 of them, not all zero."""
    return len(raw) == 16 and raw != _NO_TRACE_ID


def is_span_id(raw: bytes) -> bool:
    """Tell whether the bytes are a span id: 8 of them, not all zero."""
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


def read_head(raw: bytes) -> SpanHead | None:
    """Read the ids of a raw span; `None` when it has none or cannot be parsed."""
    size = len(raw)
    if size < _PLAIN_BYTES:
        return _parse_head(raw)
    trace_tag, trace_id, span_tag, span_id, parent_tag, parent_span_id = _read_ids(raw)
    if trace_tag == _TRACE:
        # Flags are the last field of SDKs that write fields in order.
        flags = raw[-_FLAGS_BYTES:]
        rest = raw[20:38] + flags
    elif is_back_to_front(raw):
        # The Collector goes by the order of declaration: the flags stand behind the parent.
        at = size - _PLAIN_BYTES
        parent_tag, parent_span_id, span_tag, span_id, trace_tag, trace_id = _read_ids_at_end(raw, at + _FLAGS_BYTES)
        flags = raw[at : at + _FLAGS_BYTES]
        rest = span_id + b'"\x08' + parent_span_id + flags
    else:
        return _parse_head(raw)
    is_plain = flags in _TELLING_FLAGS and trace_tag == _TRACE and span_tag == _SPAN and parent_tag == _PARENT
    if is_plain and trace_id != _NO_TRACE_ID and span_id != _NO_SPAN_ID and parent_span_id != _NO_SPAN_ID:
        return SpanHead(trace_id, rest)
    return _parse_head(raw)


def read_each(raws: Iterable[bytes]) -> Iterator[SpanHead]:
    """Read the ids of raw spans, one after the other; those that have none are left out."""
    return filter(None, map(read_head, raws))


def _parse_head(raw: bytes) -> SpanHead | None:
    try:
        message = parse(HEAD, raw)
    except DecodeError:
        return None
    trace_id, span_id, parent_span_id = message.trace_id, message.span_id, message.parent_span_id
    if not (is_trace_id(trace_id) and is_span_id(span_id)):
        return None
    if not is_span_id(parent_span_id):
        return packed_head(trace_id, span_id)
    return packed_head(trace_id, span_id, parent_span_id, kind=message.kind, flags=message.flags)
