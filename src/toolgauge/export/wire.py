"""Writes OTLP messages as bytes, for what is said once a result: through the message classes it costs five times as much.

A message is its fields one after the other, so what many messages share is written once and put beside the rest.
Only writes; the tests read all of it with the stock classes.
"""

# pyright: reportUnknownMemberType=false

import struct
from collections.abc import Iterable
from typing import TypeAlias

from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope, KeyValue, KeyValueList
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from toolgauge.export.fit import fit_text

AttributeValue: TypeAlias = str | bool | int | float

_LENGTH_DELIMITED, _FIXED64 = 2, 1
_UINT64, _INT64_MAX = 2**64 - 1, 2**63 - 1
_pack_double = struct.Struct("<d").pack
_pack_fixed64 = struct.Struct("<Q").pack


def varint(number: int) -> bytes:
    """Write an integer of 64 bits."""
    number &= _UINT64
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
    return field_tag + length(len(content)) + content


def length(size: int) -> bytes:
    """Write the length that stands between a tag and its bytes."""
    return _LENGTHS[size] if size < _SHORT else varint(size)


def elements(field_tag: bytes, written: Iterable[bytes]) -> bytes:
    """Write a repeated field from its elements, of which each has its length in front; there must be one at least."""
    return field_tag + field_tag.join(written)


def time_tag(number: int) -> bytes:
    """Write the tag of a field of type fixed64."""
    return varint(number << 3 | _FIXED64)


def fixed64(number: int) -> bytes:
    """Write what stands behind such a tag."""
    return _pack_fixed64(number)


# Nearly all that is written once a result is shorter.
_SHORT = 0x800
_LENGTHS = tuple(varint(size) for size in range(_SHORT))
_FIRST, _SECOND = tag(1), tag(2)


class Frames(dict[int, bytes]):
    """What stands in front of a message inside another one, its tag and its length, by the size of the message."""

    __slots__ = ("_tag",)

    def __init__(self, field_tag: bytes) -> None:
        super().__init__((size, field_tag + written) for size, written in enumerate(_LENGTHS))
        self._tag = field_tag

    def __missing__(self, size: int) -> bytes:
        """Write it for a size that is not worth remembering."""
        return self._tag + varint(size)


def attribute(key: str, value: AttributeValue) -> bytes:
    """Write an attribute, with its length but without a tag: `elements` adds that of the message it is for."""
    return field(b"", field(_FIRST, key.encode("utf-8", "replace")) + field(_SECOND, _any_value(value)))


def _any_value(value: AttributeValue) -> bytes:
    match value:
        case str():
            return field(_FIRST, value.encode("utf-8", "replace"))
        case bool():  # before int: a bool is one
            return b"\x10\x01" if value else b"\x10\x00"
        case int():
            return b"\x18" + varint(value)
        case float():
            return b"\x21" + _pack_double(value)


class TextAttribute:
    """Writes attributes with this key, whose values are texts that seldom repeat, as `attribute` does."""

    __slots__ = ("_heads", "_key", "_limit", "_tag")

    def __init__(self, key: str, limit: int, field_tag: bytes = b"") -> None:
        """Texts are cut to `limit` characters. With a tag, attributes are whole fields of a message."""
        self._tag = field_tag
        self._key = field(_FIRST, key.encode())
        self._limit = limit
        # All but the text itself depends on nothing but how long it is.
        self._heads = tuple(map(self._head, range(limit + 1)))

    def written(self, text: str) -> bytes:
        """Write the attribute with this text, cut and cleaned."""
        if len(text) > self._limit or not (text.isascii() and text.isprintable()):
            text = fit_text(text, self._limit)
        content = text.encode()
        size = len(content)
        # One character may take four bytes.
        return (self._heads[size] if size <= self._limit else self._head(size)) + content

    def plain(self, text: str) -> bytes:
        """Write the attribute with this text, which is short and has nothing in it but ASCII letters and digits."""
        return self._heads[len(text)] + text.encode()

    def _head(self, size: int) -> bytes:
        of_value = _FIRST + length(size)
        before = self._key + _SECOND + length(len(of_value) + size) + of_value
        return self._tag + length(len(before) + size) + before


class IntegerAttribute:
    """Writes attributes with this key, whose values are integers of many bits, as `attribute` does."""

    __slots__ = ("_message", "_value")

    def __init__(self, key: str) -> None:
        # One message, filled again and again: the nine bytes of a time cost three times as much by hand.
        self._message = KeyValueList(values=[KeyValue(key=key)])
        self._value = self._message.values[0].value

    def written(self, number: int) -> bytes:
        """Write the attribute; the integer is cut to what 64 bits can hold."""
        self._value.int_value = number if number <= _INT64_MAX else _INT64_MAX
        # All but the tag of the list's element.
        return self._message.SerializeToString()[1:]


class Around:
    """What stands around our own spans or log records in a request: who we are."""

    def __init__(self, resource: Resource, scope: InstrumentationScope) -> None:
        self._resource = field(_FIRST, resource.SerializeToString())
        self._scope = field(_FIRST, scope.SerializeToString())

    def request(self, items: list[bytes]) -> bytes:
        """Write a request of spans or log records, each with its frame."""
        # Joined once: each further copy of some megabytes costs as much as encoding a tenth of them.
        of_scope = len(self._scope) + sum(map(len, items))
        before_scope = self._resource + _SECOND + length(of_scope)
        return b"".join((_FIRST, length(len(before_scope) + of_scope), before_scope, self._scope, *items))


# Of a span or log record in its group.
ITEM = Frames(_SECOND)


class Requests:
    """Collects spans or log records into export requests of at most about `max_bytes`, which look alike."""

    __slots__ = ("_around", "_items", "_max_bytes", "_size")

    def __init__(self, around: Around, max_bytes: int) -> None:
        self._around = around
        self._max_bytes = max_bytes
        self._items: list[bytes] = []
        self._size = 0

    def add(self, items: bytes) -> bytes | None:
        """Add some items, each with its frame; return the request that they fill up."""
        self._items.append(items)
        self._size += len(items)
        return self.rest() if self._size >= self._max_bytes else None

    def rest(self) -> bytes | None:
        """Return a request with what was added since the last one; `None` when that is nothing."""
        items, self._items = self._items, []
        is_empty = not self._size
        self._size = 0
        return None if is_empty else self._around.request(items)
