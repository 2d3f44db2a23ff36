"""Writes OTLP messages as bytes, for what is said once a result: through the message classes it costs five times as much.

A message is its fields one after the other, so what many messages share is encoded once and put in front of the rest.
Only writes; the tests read all of it with the stock classes.
"""

# pyright: reportUnknownMemberType=false

import struct
from collections.abc import Hashable, Iterable, Iterator
from typing import TypeAlias, TypeVar

from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from toolgauge.emit.fit import fit_text

Key = TypeVar("Key", bound=Hashable)
AttributeValue: TypeAlias = str | bool | int | float

_LENGTH_DELIMITED, _FIXED64 = 2, 1
_MAX_REMEMBERED = 2048
_UINT64 = 2**64 - 1
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
    """Write the tag of a field of type fixed64, for `time_field`."""
    return varint(number << 3 | _FIXED64)


def time_field(field_tag: bytes, time_ns: int) -> bytes:
    """Write a field of type fixed64."""
    return field_tag + _pack_fixed64(time_ns)


# Nearly all that is written once a result is shorter.
_SHORT = 0x800
_LENGTHS = tuple(varint(size) for size in range(_SHORT))
_FIRST, _SECOND = tag(1), tag(2)


class AttributeWriter:
    """Writes attributes, each with its length but without a tag: `elements` adds that of the message they are for.

    Criteria, tools, agents and explanations repeat: `repeated` remembers them. Ids never do and go through `one`.
    """

    def __init__(self) -> None:
        self._keys: dict[str, bytes] = {}
        self._remembered: dict[tuple[str, str | float], bytes] = {}

    def one(self, key: str, value: AttributeValue) -> bytes:
        """Write an attribute."""
        written = self._keys.get(key) or self._key(key)
        return field(b"", written + field(_SECOND, _any_value(value)))

    def repeated(self, key: str, text: str, limit: int) -> bytes:
        """Write an attribute whose text, here cut to `limit`, has probably been written before."""
        known = self._remembered.get((key, text))
        if known is None:
            known = self.one(key, fit_text(text, limit))
            if len(text) <= limit:
                # Texts come from spans: a process that runs for a year must not keep them all.
                _remember(self._remembered, (key, text), known)
        return known

    def figure(self, key: str, value: float) -> bytes:
        """Write an attribute whose value is a score: nearly all are 0 or 1."""
        known = self._remembered.get((key, value))
        if known is None:
            known = self.one(key, value)
            _remember(self._remembered, (key, value), known)
        return known

    def _key(self, key: str) -> bytes:
        # Keys may hold the name of a criterion, and criteria come and go with the configuration.
        written = field(_FIRST, key.encode("utf-8", "replace"))
        _remember(self._keys, key, written)
        return written


class RequestWriter:
    """Puts our own spans or log records into export requests of at most about `max_bytes`."""

    def __init__(self, resource: Resource, scope: InstrumentationScope, max_bytes: int) -> None:
        self._resource = field(_FIRST, resource.SerializeToString())
        self._scope = field(_FIRST, scope.SerializeToString())
        self._max_bytes = max_bytes

    def requests(self, messages: Iterable[bytes | None]) -> Iterator[bytes | None]:
        """Yield serialised requests; none without messages. Requests of spans and of log records look alike.

        Pauses (`None`) are passed on.
        """
        pieces: list[bytes] = []
        size = 0
        for message in messages:
            if message is None:
                yield None
                continue
            pieces += (_SECOND + length(len(message)), message)
            size += len(message)
            if size >= self._max_bytes:
                yield self._request(pieces)
                pieces, size = [], 0
        if pieces:
            yield self._request(pieces)

    def _request(self, pieces: list[bytes]) -> bytes:
        # Joined once: each further copy of some megabytes costs as much as encoding a tenth of them.
        of_scope = len(self._scope) + sum(map(len, pieces))
        before_scope = self._resource + _SECOND + length(of_scope)
        return b"".join((_FIRST, length(len(before_scope) + of_scope), before_scope, self._scope, *pieces))


def _remember(memo: dict[Key, bytes], key: Key, written: bytes) -> None:
    if len(memo) >= _MAX_REMEMBERED:
        memo.clear()
    memo[key] = written


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
