"""Parses messages, and checks bounds on the number of their fields before protobuf makes objects.

A field of two bytes can become an object of 160: without a bound, one request of 64 MiB takes gigabytes.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeAlias, TypeVar

from google.protobuf.internal.containers import RepeatedScalarFieldContainer
from google.protobuf.message import DecodeError as ProtobufError
from google.protobuf.message import Message

from toolgauge.model.errors import DecodeError
from toolgauge.otlp.wire_pb2 import EventMessage, LogRecordMessage, ResourceMessage, SpanMessage

_Parsed = TypeVar("_Parsed", bound=Message)
# The fields of a message that hold messages whose fields count as well, by field number.
_Nested: TypeAlias = "Mapping[int, _Nested]"

# Smaller ones are not counted: protobuf takes at most 2 MiB for such a record, and 30 MiB for such a request.
_SMALL_RECORD = 1 << 16
_SMALL_REQUEST = 1 << 20
# So many groups and items may be as small as they like; beyond that, each needs some bytes, as all that mean something do.
_FREE_ITEMS = 4096
_SMALLEST_ITEM = 16
_MOST_FIELDS = 105_000
# SDKs keep 128 attributes and events of a span, OpenInference 10,000. So many take 8 MB of memory and 0.1 s to read.
_MOST_ENTRIES = 10_000
_LONGEST_NAME = 1 << 14
_VARINT, _DELIMITED = 0, 2
_FIXED_BYTES = {1: 8, 5: 4}
_LONGEST_VARINT = 10
_DEEPEST = 101

# Each bracket that opens an object or a list, with all bytes in front; a text without an end is all the rest.
# It matches everywhere, so that no search begins twice.
_BRACKETS = re.compile(rb'(?:"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[^"{\[]++)*+(?:[{\[]|\Z)', re.DOTALL)

FLAT: _Nested = {}
# A span, with the fields of its events.
SPAN: _Nested = {11: FLAT}
_REQUEST: _Nested = {1: {2: FLAT}}
# A list or an object, with the elements of its elements.
VALUE: dict[int, _Nested] = {}
VALUE.update({5: {1: VALUE}, 6: {1: {2: VALUE}}})

# `join` takes eighty bytes of memory for each piece, and lets no other thread work until all are joined: two-byte pieces of
# one request would take gigabytes.
AT_ONCE = 4096


def varint(number: int) -> bytes:
    """Write an integer of 64 bits."""
    number &= (1 << 64) - 1
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def parse(message_class: type[_Parsed], raw: bytes, nested: "_Nested | None" = None) -> _Parsed:
    """Parse one message; raise our `DecodeError` when the bytes are not one.

    With `nested` also raise it when there are too many attributes, events or fields, counted also in the messages of `nested`.
    """
    if nested is not None and len(raw) >= _SMALL_RECORD:
        _check(raw, nested, _MOST_FIELDS)
    try:
        message = message_class.FromString(raw)
    except ProtobufError as error:
        # protobuf's own words name the class that was asked, which means nothing to a sender.
        raise DecodeError("not a complete protobuf message of this kind") from error
    if nested is not None and len(raw) > _MOST_ENTRIES:
        is_with_attributes = isinstance(message, SpanMessage | EventMessage | LogRecordMessage | ResourceMessage)
        if (is_with_attributes and len(message.attributes) > _MOST_ENTRIES) or (
            isinstance(message, SpanMessage) and len(message.events) > _MOST_ENTRIES
        ):
            raise _too_many("attributes or events")
    return message


def joined(pieces: Sequence[bytes] | RepeatedScalarFieldContainer[bytes]) -> bytes:
    """Join pieces of bytes, however many."""
    if len(pieces) <= AT_ONCE:
        return b"".join(pieces)
    return b"".join([b"".join(pieces[first : first + AT_ONCE]) for first in range(0, len(pieces), AT_ONCE)])


def check_request(body: bytes) -> None:
    """Raise `DecodeError` when a request has too many groups, spans, log records or metrics for its size."""
    if len(body) >= _SMALL_REQUEST:
        _check(body, _REQUEST, _FREE_ITEMS + len(body) // _SMALLEST_ITEM)


def check_json(text: bytes) -> None:
    """Raise `DecodeError` when a request in JSON has too many objects and lists for its size; brackets in texts do not count."""
    room = _FREE_ITEMS + len(text) // _SMALLEST_ITEM
    if text.count(b"{") + text.count(b"[") > room and next(islice(_BRACKETS.finditer(text), room, None), None):
        raise _too_many("objects and lists")


def read_name(name: bytes) -> str:
    """Decode the name of a span, an event or a scope; raise `DecodeError` when it is too long."""
    if len(name) > _LONGEST_NAME:
        raise DecodeError("the name is too long", reason="too_many_fields")
    return name.decode("utf-8", "replace")


def _too_many(what: str) -> DecodeError:
    return DecodeError(f"the message has too many {what}", reason="too_many_fields")


def _check(raw: bytes, nested: _Nested, room: int) -> None:
    # Deep first, as far as protobuf goes: a message that is nested deeper is broken for it.
    open_messages = [(_fields(raw, 0, len(raw)), nested)]
    while open_messages:
        fields, inner = open_messages[-1]
        for number, start, end in fields:
            room -= 1
            if room < 0:
                raise _too_many("fields")
            if number in inner and len(open_messages) < _DEEPEST:
                open_messages.append((_fields(raw, start, end), inner[number]))
                break
        else:
            open_messages.pop()


def _fields(raw: bytes, position: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the number of each field and its content's range, up to where the bytes are broken; groups are flattened."""
    while position < end:
        tag = raw[position]
        start = position + 1
        if tag > 0x7F:
            tag, start = _long_varint(raw, position)
        wire = tag & 7
        if wire == _DELIMITED and start < end:
            size = raw[start]
            if size > 0x7F:
                size, start = _long_varint(raw, start)
            else:
                start += 1
            position = start + size
        elif wire == _VARINT:
            position = _long_varint(raw, start)[1]
        else:
            position = start + _FIXED_BYTES.get(wire, 0)
        if position > end:
            return
        yield tag >> 3, start, position


def _long_varint(raw: bytes, position: int) -> tuple[int, int]:
    """Read a number; return it and where it ends, which is behind the end of `raw` when it is broken."""
    number = shift = 0
    for byte in raw[position : position + _LONGEST_VARINT]:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, position + shift // 7
    return 0, len(raw) + 1
