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
# Tag and length of the three ids, tag of the flags, as little-endian numbers.
_PLAIN_TAGS = (0x100A, 0x0812, 0x0822, 0x0185)
_PLAIN_BYTES = 44
_FLAGS_BYTES = 6
_RESERVED_FLAGS = 0x10000
_BACK_TAGS = (0x0185, 0x0822, 0x0812, 0x100A)
_read_end = struct.Struct("<HIH8sH8sH16s").unpack_from
_read_ids = struct.Struct("<H16sH8sH8s").unpack_from
_read_flags = struct.Struct("<HI").unpack_from
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
    if len(raw) >= _PLAIN_BYTES:
        trace_tag, trace_id, span_tag, span_id, parent_tag, parent_span_id = _read_ids(raw)
        # Flags are the last field of SDKs that write fields in order; the upper half of them is reserved.
        flags_tag, flags = _read_flags(raw, len(raw) - _FLAGS_BYTES)
        if (
            (trace_tag, span_tag, parent_tag, flags_tag) == _PLAIN_TAGS
            and flags < _RESERVED_FLAGS
            and flags & _HAS_IS_REMOTE
        ):
            return _head(trace_id, span_id, parent_span_id, remote=flags & _IS_REMOTE != 0)
        if is_back_to_front(raw):
            return _read_back_to_front(raw)
    return _parse_head(raw)


def _read_back_to_front(raw: bytes) -> SpanHead | None:
    # The Collector goes by the order of declaration: the flags stand behind the parent.
    flags_tag, flags, parent_tag, parent_span_id, span_tag, span_id, trace_tag, trace_id = _read_end(
        raw, len(raw) - _PLAIN_BYTES
    )
    if (
        (flags_tag, parent_tag, span_tag, trace_tag) == _BACK_TAGS
        and flags < _RESERVED_FLAGS
        and flags & _HAS_IS_REMOTE
    ):
        return _head(trace_id, span_id, parent_span_id, remote=flags & _IS_REMOTE != 0)
    return _parse_head(raw)


def _parse_head(raw: bytes) -> SpanHead | None:
    try:
        message = parse(HEAD, raw)
    except DecodeError:
        return None
    return _head(message.trace_id, message.span_id, message.parent_span_id, remote=_is_remote(message))


def _is_remote(message: HeadMessage) -> bool:
    flag = remote_flag(message.flags)
    # Producers without the flag: the parent of a server or consumer span is in another process.
    return message.kind in (_SERVER, _CONSUMER) if flag is None else flag


def _head(trace_id: bytes, span_id: bytes, parent_span_id: bytes, *, remote: bool) -> SpanHead | None:
    if len(trace_id) != 16 or len(span_id) != 8 or trace_id == _NO_TRACE_ID or span_id == _NO_SPAN_ID:
        return None
    if len(parent_span_id) != 8 or parent_span_id == _NO_SPAN_ID:
        return SpanHead(trace_id=trace_id, span_id=span_id, parent_span_id=b"", parent_is_remote=None)
    return SpanHead(trace_id=trace_id, span_id=span_id, parent_span_id=parent_span_id, parent_is_remote=remote)


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
