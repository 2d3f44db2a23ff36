"""Heads of spans that nobody views: ids, parent, and whether the parent lives in another process.

Read by fixed offsets where the span begins as every known SDK writes it or ends as the Collector does, which writes
fields back to front; otherwise through a message class. A fixed slice alone would be wrong for spans with other field
orders, so each tag and length byte is checked first.
"""

import struct

from toolgauge.decode.marks import is_back_to_front
from toolgauge.decode.messages import HEAD, HeadMessage, parse
from toolgauge.model.errors import DecodeError
from toolgauge.model.records import Span, SpanHead

_HAS_IS_REMOTE, _IS_REMOTE = 0x100, 0x200
_SERVER, _CONSUMER = 2, 5
# Tag and length of the three ids as little-endian numbers.
_TRACE, _SPAN, _PARENT = 0x100A, 0x0812, 0x0822
_PLAIN_BYTES = 44
_FLAGS_BYTES = 6
# The bytes of flags that tell of the parent, with their tag; the upper half of them is reserved.
_REMOTE_BY_FLAGS = {
    struct.pack("<HI", 0x0185, _HAS_IS_REMOTE | remote | trace_flags): remote != 0
    for remote in (0, _IS_REMOTE)
    for trace_flags in range(256)
}
_read_ids = struct.Struct("<H16sH8sH8s").unpack_from
_read_ids_at_end = struct.Struct("<H8sH8sH16s").unpack_from
_NO_TRACE_ID, _NO_SPAN_ID = bytes(16), bytes(8)


def is_trace_id(raw: bytes) -> bool:
    """Tell whether the bytes are a trace id: 16 of them, not all zero."""
    return len(raw) == 16 and raw != _NO_TRACE_ID


def is_span_id(raw: bytes) -> bool:
    """Tell whether the bytes are a span id: 8 of them, not all zero."""
    return len(raw) == 8 and raw != _NO_SPAN_ID


def remote_flag(flags: int) -> bool | None:
    """Read from a span's flags whether its parent is remote; `None` when the producer did not say."""
    return bool(flags & _IS_REMOTE) if flags & _HAS_IS_REMOTE else None


def read_head(raw: bytes) -> SpanHead | None:
    """Read the ids of a raw span; `None` when it has none or cannot be parsed."""
    size = len(raw)
    if size < _PLAIN_BYTES:
        return _parse_head(raw)
    trace_tag, trace_id, span_tag, span_id, parent_tag, parent_span_id = _read_ids(raw)
    if trace_tag == _TRACE:
        # Flags are the last field of SDKs that write fields in order.
        remote = _REMOTE_BY_FLAGS.get(raw[-_FLAGS_BYTES:])
    elif is_back_to_front(raw):
        # The Collector goes by the order of declaration: the flags stand behind the parent.
        at = size - _PLAIN_BYTES
        parent_tag, parent_span_id, span_tag, span_id, trace_tag, trace_id = _read_ids_at_end(raw, at + _FLAGS_BYTES)
        remote = _REMOTE_BY_FLAGS.get(raw[at : at + _FLAGS_BYTES])
    else:
        return _parse_head(raw)
    is_plain = remote is not None and trace_tag == _TRACE and span_tag == _SPAN and parent_tag == _PARENT
    if is_plain and trace_id != _NO_TRACE_ID and span_id != _NO_SPAN_ID and parent_span_id != _NO_SPAN_ID:
        return SpanHead(trace_id, span_id, parent_span_id, remote)
    return _parse_head(raw)


def _parse_head(raw: bytes) -> SpanHead | None:
    try:
        message = parse(HEAD, raw)
    except DecodeError:
        return None
    trace_id, span_id, parent_span_id = message.trace_id, message.span_id, message.parent_span_id
    if not (is_trace_id(trace_id) and is_span_id(span_id)):
        return None
    if not is_span_id(parent_span_id):
        return SpanHead(trace_id, span_id, b"", None)
    return SpanHead(trace_id, span_id, parent_span_id, _is_remote(message))


def _is_remote(message: HeadMessage) -> bool:
    flag = remote_flag(message.flags)
    # Producers without the flag: the parent of a server or consumer span is in another process.
    return message.kind in (_SERVER, _CONSUMER) if flag is None else flag


def head_of(span: Span) -> SpanHead:
    """Give the ids of a span that was viewed."""
    return SpanHead(
        trace_id=bytes.fromhex(span.ref.trace_id),
        span_id=bytes.fromhex(span.ref.span_id),
        parent_span_id=bytes.fromhex(span.parent_span_id or ""),
        # Where the producer does not say, the parent of an incoming request is a remote one.
        parent_is_remote=span.kind in ("server", "consumer")
        if span.parent_is_remote is None
        else span.parent_is_remote,
    )
