"""Byte patterns that show, without decoding, whether a span or log record may have an attribute key a dialect asks for.

Anchored at the tag in front of a key: substring tests cost as much as decoding. Lengths are bounded, or multi-byte text
becomes quadratic. The Collector writes a value in front of its key; such records are anchored at the key alone.
"""

# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeAlias, cast

import re2

from toolgauge.otlp.bounds import varint

_LENGTH = rb"[\x80-\xff]{0,4}[\x00-\x7f]"
_KEY = rb"\n"
_VALUE = rb"\x12"
_SHORT = rb"[\x01-\x7f]"
# The length of a text of 128 bytes or more; the tokens of JSON, and the white space between tokens.
_LONG = rb"[\x80-\xff]{1,3}[\x01-\x7f]"
_TOKEN, _SPACE = re.compile(rb"[{}\[\]:,]|[^{}\[\]:,]+"), rb"[ \n]*"
# How keys of other conventions begin, where no producer writes what models and tools got or gave.
_OTHERS = (
    *("aws", "cli", "clo", "cod", "db.", "ela", "end", "err", "exc", "faa", "graphq", "hos", "htt", "k8s"),
    *("messagi", "net", "pee", "proc", "rpc", "serv", "thr", "url", "user_"),
)
_EVENT_NAME_KEY = b"event.name"
# Spans and log records of more bytes are searched as requests are.
LONG = 4096
# The tag of a log record's attributes. In order, spans begin with their trace id, log records with time, severity or body.
_LATE = b"2"

Search: TypeAlias = Callable[[bytes], object]


class _Pattern:
    __slots__ = ("found_in", "found_in_long")

    def __init__(self, pattern: bytes) -> None:
        self.found_in: Search = re.compile(pattern, re.DOTALL).search if pattern else lambda _raw: None
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1  # bytes, not UTF-8
        options.dot_nl = True
        options.log_errors = False
        # It comes without types. It takes longer to begin, and jumps to where a match may begin.
        self.found_in_long = cast("Search", re2.compile(pattern, options).search) if pattern else self.found_in


# In the bytes of every span with a verdict. A plain search for the two takes ten times as long.
_FEEDBACK = _Pattern(rb"\.(?:evalu|annot)ation\.").found_in_long


def has_feedback_mark(raw: bytes) -> bool:
    """Return whether a span, or a request of spans, may hold a verdict."""
    return _FEEDBACK(raw) is not None


class Marks:
    """What to look for in spans, or in log records, in either order of their fields."""

    __slots__ = ("_back_to_front", "_in_order")

    def __init__(self, in_order: bytes, back_to_front: bytes) -> None:
        self._in_order = _Pattern(in_order)
        self._back_to_front = _Pattern(back_to_front)

    def found_in(self, raw: bytes) -> bool:
        """Return whether one raw span or log record might bear a mark."""
        return self.search_like(raw)(raw) is not None

    def search_like(self, raw: bytes) -> Search:
        """Give the search for records that are written as this one is, and are about as long."""
        pattern = self._back_to_front if raw[:1] >= _LATE else self._in_order
        return pattern.found_in_long if len(raw) > LONG else pattern.found_in

    def found_in_request(self, body: bytes, samples: Iterable[bytes]) -> bool:
        """Return whether any record of the request, or of some joined, might bear a mark; `samples` has one of each group, or its beginning."""
        pattern = self._back_to_front if any(map(is_back_to_front, samples)) else self._in_order
        return pattern.found_in_long(body) is not None


def is_back_to_front(raw: bytes) -> bool:
    """Return whether a raw span or log record begins with one of its later fields."""
    return raw[:1] >= _LATE


def span_marks(
    marks: Sequence[str], wanted: Collection[str] = (), objects: Sequence[str] = (), words: Sequence[str] = ()
) -> Marks:
    """Look for spans with a key that starts with a mark or is a wanted one, or with long JSON of `objects` that begin so.

    Spans with one of `words` anywhere in a short key, or in the value of a kind or type, are looked for with `objects`.
    """
    keys = _keys(marks, wanted)
    if not objects:
        return Marks(b"J" + _LENGTH + _KEY + keys, _KEY + keys) if keys else Marks(b"", b"")
    text = (
        _LONG
        + rb"\[?(?:"
        + b"|".join([_SPACE.join(map(re.escape, _TOKEN.findall(json.encode()))) for json in objects])
        + b")"
    )
    # Keys of other namespaces are not walked: with them, a span without a mark takes 6 % more CPU instead of 1 %.
    long = _LONG + rb"\n[\x01-\x7f](?:" + _unlike(_OTHERS) + rb")[!-~]*\x12" + _LONG + rb"\n" + text
    labels = _labels(words)
    return Marks(
        b"J(?:" + b"|".join([long, _LENGTH + _KEY + keys, *labels]) + b")",
        b"\n(?:" + b"|".join([text, keys, *(label.removeprefix(_SHORT + _KEY) for label in labels)]) + b")",
    )


def _labels(words: Sequence[str]) -> list[bytes]:
    """Match a short attribute with a word in its key, or in the value of a kind, type or operation."""
    if not words:
        return []
    named = (
        rb"(?:"
        + b"|".join(re.escape(form.encode()) for word in words for form in (word, word.upper(), word.capitalize()))
        + b")"
    )
    key = _SHORT + _KEY + _SHORT + b"(?:" + _unlike(_OTHERS) + rb")[!-~]*"
    return [
        key
        + rb"(?:"
        + named
        + rb"|(?:kind|type|operation\.name)\x12"
        + _SHORT
        + rb"\n"
        + _SHORT
        + rb"[!-~]*"
        + named
        + b")"
    ]


def _unlike(prefixes: Collection[str]) -> bytes:
    """Match a printable text up to where it differs from all prefixes, which RE2 has no word for."""
    firsts = sorted({prefix[0] for prefix in prefixes})
    found = [rb"[^\x00-\x20\x7f-\xff" + "".join(firsts).encode() + b"]"]
    for first in firsts:
        rest = [prefix[1:] for prefix in prefixes if prefix[0] == first]
        if all(rest):
            found.append(re.escape(first.encode()) + b"(?:" + _unlike(rest) + b")")
    return b"|".join(found)


def log_marks(marks: Sequence[str], wanted: Collection[str] = ()) -> Marks:
    """Look for log records with such a key, or with an event name (field or attribute) that starts with a mark."""
    keys = _keys(marks, wanted)
    attribute = b"2" + _LENGTH + _KEY
    in_order = [attribute + keys] if keys else []
    back_to_front = [_KEY + keys] if keys else []
    if marks:
        prefixes = _LENGTH + _any_of(marks)
        in_order.append(attribute + _exactly(_EVENT_NAME_KEY) + _VALUE + _LENGTH + _KEY + prefixes)
        in_order.append(b"b" + prefixes)
        # A value that begins with a mark, the event's name as an attribute, looks like a key.
        back_to_front.append(b"b" + prefixes)
    return Marks(b"|".join(in_order), b"|".join(back_to_front))


def _keys(marks: Sequence[str], wanted: Collection[str]) -> bytes:
    alternatives = [_exactly(key.encode()) for key in sorted(wanted)]
    if marks:
        alternatives.insert(0, _LENGTH + _any_of(marks))
    return b"(?:" + b"|".join(alternatives) + b")" if alternatives else b""


def _any_of(prefixes: Sequence[str]) -> bytes:
    return b"(?:" + b"|".join(re.escape(prefix.encode()) for prefix in prefixes) + b")"


def _exactly(key: bytes) -> bytes:
    """Match the key with its length in front, padded or not."""
    *head, last = varint(len(key))
    return (
        b"".join(map(_byte, head))
        + b"(?:"
        + _byte(last)
        + b"|"
        + _byte(last | 0x80)
        + rb"\x80{0,3}\x00)"
        + re.escape(key)
    )


def _byte(number: int) -> bytes:
    return b"\\x%02x" % number
