"""Byte patterns that tell, without decoding, whether a span or log record bears an attribute key somebody asks for.

The patterns are anchored at the tags in front of a key: plain substring tests cost as much as decoding everything.
A padded tag, or a value in front of its key, is legal and not seen: no producer writes so, and such a record goes on
untouched. The bound in a length is a must: unbounded, text full of multi-byte characters becomes quadratic.
"""

import re
from collections.abc import Collection, Sequence

_LENGTH = rb"[\x80-\xff]{0,4}[\x00-\x7f]"
_KEY = rb"\n"
_VALUE = rb"\x12"
_EVENT_NAME_KEY = b"event.name"

# An empty alternation would match everything.
_NEVER = re.compile(rb"(?!)")


def span_pattern(marks: Sequence[str], wanted: Collection[str]) -> re.Pattern[bytes]:
    """Match a span (or a request of spans) with a key that starts with a mark or is a wanted one."""
    keys = _keys(marks, wanted)
    return re.compile(b"J" + _LENGTH + _KEY + keys, re.DOTALL) if keys else _NEVER


def log_pattern(marks: Sequence[str], wanted: Collection[str]) -> re.Pattern[bytes]:
    """Match a log record with such a key, or with an event name (field or attribute) that starts with a mark."""
    keys = _keys(marks, wanted)
    if not keys:
        return _NEVER
    attribute = b"2" + _LENGTH + _KEY
    patterns = [attribute + keys]
    if marks:
        prefixes = _LENGTH + _any_of(marks)
        patterns.append(attribute + _exactly(_EVENT_NAME_KEY) + _VALUE + _LENGTH + _KEY + prefixes)
        patterns.append(b"b" + prefixes)
    return re.compile(b"|".join(patterns), re.DOTALL)


def _keys(marks: Sequence[str], wanted: Collection[str]) -> bytes:
    alternatives = [_exactly(key.encode()) for key in sorted(wanted)]
    if marks:
        alternatives.insert(0, _LENGTH + _any_of(marks))
    return b"(?:" + b"|".join(alternatives) + b")" if alternatives else b""


def _any_of(prefixes: Sequence[str]) -> bytes:
    return b"(?:" + b"|".join(re.escape(prefix.encode()) for prefix in prefixes) + b")"


def _exactly(key: bytes) -> bytes:
    """Match the key with its length in front, padded or not."""
    groups = [len(key) & 0x7F]
    rest = len(key) >> 7
    while rest:
        groups.append(rest & 0x7F)
        rest >>= 7
    head = b"".join(_byte(group | 0x80) for group in groups[:-1])
    last = groups[-1]
    return head + b"(?:" + _byte(last) + b"|" + _byte(last | 0x80) + rb"\x80{0,3}\x00)" + re.escape(key)


def _byte(number: int) -> bytes:
    return b"\\x%02x" % number
