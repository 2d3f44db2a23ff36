"""Heads of spans that nobody views: ids, parent, and whether the parent lives in another process.

Read by fixed offsets where the span begins as every known SDK writes it, otherwise through a message class. A fixed
slice alone would be wrong for spans with other field orders, so each tag and length byte is checked first.
"""

from toolgauge.decode.messages import HEAD, HeadMessage, parse
from toolgauge.model.errors import DecodeError
from toolgauge.model.records import SpanHead

_HAS_IS_REMOTE, _IS_REMOTE = 0x100, 0x200
_SERVER, _CONSUMER = 2, 5
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
    if _is_plain(raw):
        return _head(raw[2:18], raw[20:28], raw[30:38], remote=raw[-3] & 2 > 0)
    try:
        message = parse(HEAD, raw)
    except DecodeError:
        return None
    return _head(message.trace_id, message.span_id, message.parent_span_id, remote=_is_remote(message))


def _is_plain(raw: bytes) -> bool:
    # Flags are the last field of SDKs that write fields in order; the upper half of them is reserved.
    return (
        len(raw) >= 44
        and raw[:2] == b"\x0a\x10"
        and raw[18:20] == b"\x12\x08"
        and raw[28:30] == b"\x22\x08"
        and raw[-6:-4] == b"\x85\x01"
        and raw[-2:] == b"\x00\x00"
        and raw[-3] & 1 == 1
    )


def _is_remote(message: HeadMessage) -> bool:
    flag = remote_flag(message.flags)
    # Producers without the flag: the parent of a server or consumer span is in another process.
    return message.kind in (_SERVER, _CONSUMER) if flag is None else flag


def _head(trace_id: bytes, span_id: bytes, parent_span_id: bytes, *, remote: bool) -> SpanHead | None:
    if not (is_trace_id(trace_id) and is_span_id(span_id)):
        return None
    if not is_span_id(parent_span_id):
        return SpanHead(trace_id=trace_id, span_id=span_id, parent_span_id=b"", parent_is_remote=None)
    return SpanHead(trace_id=trace_id, span_id=span_id, parent_span_id=parent_span_id, parent_is_remote=remote)
