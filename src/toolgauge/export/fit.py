"""Values from spans, made fit for the wire: bounded, and without what protobuf or a database refuses.

A lone surrogate makes protobuf raise, a NUL makes some stores refuse the whole request, a line break in a
label value breaks tools that read the exposition by line.
"""

import re

MAX_LABEL = 128
MAX_IDENTIFIER = 256
MAX_EXPLANATION = 1024

_UINT64_MAX = 2**64 - 1
_REPLACEMENT = "\ufffd"
_UNFIT_FOR_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_UNFIT_FOR_LABEL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def fit_text(text: str, limit: int) -> str:
    """Cut to `limit` characters and replace what cannot travel; line breaks and tabs stay."""
    cut = text[:limit]
    if cut.isascii() and cut.isprintable():
        return cut
    return _UNFIT_FOR_TEXT.sub(_REPLACEMENT, cut)


def fit_label(text: str) -> str:
    """Cut to the length of a label value and replace all control characters."""
    cut = text[:MAX_LABEL]
    if cut.isascii() and cut.isprintable():
        return cut
    return _UNFIT_FOR_LABEL.sub(_REPLACEMENT, cut)


def raw_id(hex_id: str, size: int) -> bytes:
    """Turn a hex id into its bytes; empty when it is not an id of `size` bytes."""
    try:
        raw = bytes.fromhex(hex_id)
    except ValueError:
        return b""
    return raw if len(raw) == size else b""


def fit_time(time_ns: int) -> int:
    """Keep a time in the range of OTLP's fixed64: recorded times may be anything."""
    return time_ns if 0 <= time_ns <= _UINT64_MAX else 0 if time_ns < 0 else _UINT64_MAX
