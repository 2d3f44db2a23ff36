"""Writes the OTLP messages of each result as bytes: through the message classes they cost five times the CPU.

What many messages share is written once and put beside the rest. Texts and times from spans are made fit for the wire here:
a lone surrogate makes protobuf raise, a NUL makes some stores refuse the whole request.
"""

import re
import struct
from binascii import unhexlify
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from toolgauge.model.errors import DecodeError
from toolgauge.model.feedback import OWN_IDENTIFIER
from toolgauge.otlp.bounds import parse
from toolgauge.otlp.marks import LONG, has_feedback_mark, span_marks
from toolgauge.otlp.wire_pb2 import KeyMessage, KeyValueMessage, SpanAttributesMessage

# pyright: reportUnknownMemberType=false


AttributeValue: TypeAlias = str | bool | int | float

MAX_IDENTIFIER = 256

_LENGTH_DELIMITED, _FIXED64 = 2, 1
_UINT64_MAX, _INT64_MAX = 2**64 - 1, 2**63 - 1
_REPLACEMENT = "\ufffd"
_UNFIT_FOR_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_pack_double = struct.Struct("<d").pack
# Writes the number behind a `time_tag`.
fixed64 = struct.Struct("<Q").pack

_OURS = "toolgauge."
_OUR_TEXT = _OURS.encode()
_OUR_MARKS = span_marks((_OURS,))
_OUR_EVALUATION = OWN_IDENTIFIER.encode()
_EVALUATION_SLOT = re.compile(rb"((?:trace\.|session\.)?evaluations\.\d{1,9})\.evaluation\.")


def varint(number: int) -> bytes:
    """Write an integer of 64 bits."""
    number &= _UINT64_MAX
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def tag(number: int) -> bytes:
    """Write the tag of a field that holds bytes: text, an id or a message."""
    return varint(number << 3 | _LENGTH_DELIMITED)


def field(field_tag: bytes, content: bytes) -> bytes:
    """Write a field that holds bytes."""
    size = len(content)
    return field_tag + (_LENGTHS[size] if size < _SHORT else varint(size)) + content


def length(size: int) -> bytes:
    """Write the length that stands between a tag and its bytes."""
    return _LENGTHS[size] if size < _SHORT else varint(size)


def elements(field_tag: bytes, written: Iterable[bytes]) -> bytes:
    """Write a repeated field from its elements, each with its length in front; there must be one at least."""
    return field_tag + field_tag.join(written)


def time_tag(number: int) -> bytes:
    """Write the tag of a field of type fixed64."""
    return varint(number << 3 | _FIXED64)


# Nearly all that is written once a result is shorter. Without the table encoding takes a third longer: 4 % of all CPU.
_SHORT = 0x800
_LENGTHS = tuple(varint(size) for size in range(_SHORT))
_FIRST, _SECOND = tag(1), tag(2)


def attribute(key: str, value: AttributeValue) -> bytes:
    """Write an attribute, with its length but without a tag: `elements` adds that of the message it is for."""
    return field(b"", _key(key) + field(_SECOND, _any_value(value)))


# Keys are few: ours, and those of each criterion.
@lru_cache(maxsize=1024)
def _key(key: str) -> bytes:
    return field(_FIRST, key.encode("utf-8", "replace"))


def text_attribute(key: str, text: str) -> bytes:
    """Write an attribute whose text comes from a span, cut and cleaned."""
    value = fit_text(text, MAX_IDENTIFIER).encode()
    return _before_text(key, len(value)) + value


# Without the two caches an attribute takes twice as long: 8 % of scoring and encoding.
@lru_cache(maxsize=1024)
def _before_text(key: str, size: int) -> bytes:
    before = _FIRST + length(size)
    return before_value(key, len(before) + size) + before


@lru_cache(maxsize=1024)
def before_value(key: str, size: int) -> bytes:
    """Begin an attribute, with its length but without a tag; an `AnyValue` of this size comes behind it."""
    before = _key(key) + _SECOND + length(size)
    return length(len(before) + size) + before


def _any_value(value: AttributeValue) -> bytes:
    match value:
        case str():
            return field(_FIRST, value.encode("utf-8", "replace"))
        case bool():  # before int: a bool is one
            return b"\x10\x01" if value else b"\x10\x00"
        case int():
            # The nine bytes of a time cost three times as much by hand.
            return AnyValue(int_value=min(value, _INT64_MAX)).SerializeToString()
        case float():
            return b"\x21" + _pack_double(value)


class RequestWriter:
    """Puts our own spans or log records into export requests; `resource` and `scope` are who we are."""

    def __init__(self, resource: Resource, scope: InstrumentationScope) -> None:
        self._resource = field(_FIRST, resource.SerializeToString())
        self._scope = field(_FIRST, scope.SerializeToString())

    def request(self, items: Sequence[bytes]) -> bytes:
        """Write a request of spans or log records, each of them a field of its scope."""
        # Joined once: each further copy of some megabytes costs as much as encoding a tenth of them.
        of_scope = len(self._scope) + sum(map(len, items))
        before_scope = self._resource + _SECOND + length(of_scope)
        return b"".join((_FIRST, length(len(before_scope) + of_scope), before_scope, self._scope, *items))


def fit_text(text: str, limit: int) -> str:
    """Cut to `limit` characters and replace what cannot travel; line breaks and tabs stay."""
    cut = text[:limit]
    return cut if cut.isascii() and cut.isprintable() else _UNFIT_FOR_TEXT.sub(_REPLACEMENT, cut)


def fit_time(time_ns: int) -> int:
    """Keep a time in the range of OTLP's fixed64: recorded times may be anything."""
    return min(max(time_ns, 0), _UINT64_MAX)


def raw_id(hex_id: str, size: int) -> bytes:
    """Turn a hex id into its bytes; empty when it is not an id of `size` bytes."""
    try:
        raw = unhexlify(hex_id)
    except ValueError:
        return b""
    return raw if len(raw) == size else b""


# Adds attributes to a raw span by appending bytes: nothing of the sender's span is rebuilt from decoded fields.
#
# Parsers merge repeated fields, so a serialised `Span{attributes}` behind a span is the span with these attributes.
# A key must not occur twice, though: what another toolgauge left on the span goes first.


def annotate(raw: bytes, written: bytes) -> bytes:
    """Append a serialised span of our attributes to a raw span, in place of those that another toolgauge left on it."""
    # The plain test settles it for nearly all short ones, at a tenth of what the pattern costs.
    # (`in` first tries to read it as a number, and fails at length.)
    if len(raw) > LONG or raw.find(_OUR_TEXT) >= 0:
        raw = _without_ours(raw)
    return raw + written


def _without_ours(raw: bytes) -> bytes:
    if not _OUR_MARKS.found_in(raw):
        return raw
    try:
        message = parse(SpanAttributesMessage, raw)
    except DecodeError:
        return raw
    ours = (_OUR_TEXT, *(slot + b"." for slot in _our_slots(raw)))
    kept = [entry for entry in message.attributes if not _begins_with(entry, ours)]
    del message.attributes[:]
    message.attributes.extend(kept)
    return message.SerializeToString()


def _begins_with(entry: bytes, prefixes: tuple[bytes, ...]) -> bool:
    try:
        return parse(KeyMessage, entry).key.startswith(prefixes)
    except DecodeError:
        return False


def taken_slots(raw: bytes) -> frozenset[bytes]:
    """Return the `evaluations.<i>` of a raw span that others wrote, those with a `trace.` or `session.` in front included."""
    if not has_feedback_mark(raw):
        return frozenset()
    # Also what only looks like a key: an index too many is no harm, one that is taken would overwrite.
    return frozenset(_EVALUATION_SLOT.findall(raw)) - _our_slots(raw)


def _our_slots(raw: bytes) -> frozenset[bytes]:
    if raw.find(_OUR_EVALUATION) < 0:
        return frozenset()
    try:
        pairs = [parse(KeyValueMessage, entry) for entry in parse(SpanAttributesMessage, raw).attributes]
    except DecodeError:
        return frozenset()
    found = [_EVALUATION_SLOT.match(pair.key) for pair in pairs if pair.value.string_value.startswith(_OUR_EVALUATION)]
    return frozenset(slot[1] for slot in found if slot is not None and slot.string.endswith(b".identifier"))
