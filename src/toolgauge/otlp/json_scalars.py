"""Scalar values of OTLP JSON in, their protobuf bytes out.

Integers may be numbers or text, ids are hex, bytes are base64, enums are numbers. One function a kind of value; what a field
cannot hold raises `WrongValueError`, to which the messages around it add the way to it.
"""

import base64
import binascii
import math
import struct
from collections.abc import Callable
from typing import TypeAlias

from google.protobuf.descriptor import FieldDescriptor

from toolgauge.model.delivery import InvalidReason
from toolgauge.model.json import Json
from toolgauge.otlp.encode import varint

# Makes the bytes of one value, without its tag.
Encode: TypeAlias = Callable[[Json], bytes]

VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5
_MAX_PATH = 200
_ID_BYTES = {"trace_id": 16, "span_id": 8, "parent_span_id": 8}
_SPECIAL_DOUBLES = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class WrongValueError(Exception):
    """A value that its field cannot hold. `pieces` name the way to it, the innermost first."""

    def __init__(self, problem: str, *, reason: InvalidReason = "undecodable") -> None:
        super().__init__(problem)
        self.problem = problem
        self.reason: InvalidReason = reason
        self.pieces: list[str] = []

    def message(self) -> str:
        """Return the path and the problem; a long path is cut."""
        if not self.pieces:
            return f"the document {self.problem}"
        path = "".join(reversed(self.pieces)).removeprefix(".")
        shown = path if len(path) <= _MAX_PATH else f"{path[:_MAX_PATH]}..."
        return f"`{shown}` {self.problem}"


def scalar(field: FieldDescriptor) -> tuple[int, Encode]:
    """Choose the wire type of a field, and what writes one value of it."""
    integer = _INTEGERS.get(field.type)
    if integer is not None:
        return integer
    if field.type == FieldDescriptor.TYPE_STRING:
        return DELIMITED, _string
    if field.type == FieldDescriptor.TYPE_BYTES:
        size = _ID_BYTES.get(field.name)
        return DELIMITED, _base64 if size is None else _id_writer(size)
    if field.type == FieldDescriptor.TYPE_BOOL:
        return VARINT, _bool
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        return FIXED64, lambda value: struct.pack("<d", _double(value))
    raise NotImplementedError(f"OTLP has no fields such as `{field.full_name}`")


def _delimited(body: bytes) -> bytes:
    return varint(len(body)) + body


def _string(value: Json) -> bytes:
    if not isinstance(value, str):
        raise WrongValueError("has the wrong type")
    return _delimited(value.encode())


def _bool(value: Json) -> bytes:
    if not isinstance(value, bool):
        raise WrongValueError("has the wrong type")
    return b"\x01" if value else b"\x00"


def _base64(value: Json) -> bytes:
    if not isinstance(value, str):
        raise WrongValueError("has the wrong type")
    # Either alphabet, with padding or without (protobuf, "JSON Mapping"): writers differ.
    padded = value + "=" * (-len(value) % 4)
    try:
        return _delimited(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, binascii.Error):
        raise WrongValueError("must be base64") from None


def _id_writer(size: int) -> Encode:
    prefix = bytes([size])
    digits = 2 * size

    def encode(value: Json) -> bytes:
        if not isinstance(value, str):
            raise WrongValueError("has the wrong type")
        if not value:
            return b"\x00"
        try:
            raw = bytes.fromhex(value)
        except ValueError:
            raise WrongValueError("must be hex") from None
        # `fromhex` skips white space.
        if len(raw) != size or len(value) != digits:
            raise WrongValueError(f"must be {digits} hex digits")
        return prefix + raw

    return encode


def _double(value: Json) -> float:
    if isinstance(value, str):
        special = _SPECIAL_DOUBLES.get(value)
        if special is not None:
            return special
        try:
            # `float` reads `1_0` and ` 1` too, which no JSON number is.
            return float(value if value.isascii() and value.strip("0123456789+-.eE") == "" else "")
        except ValueError:
            raise WrongValueError("must be a number") from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WrongValueError("must be a number")
    try:
        return float(value)
    except OverflowError:
        raise WrongValueError("is out of range") from None


def _integer(value: Json) -> int:
    if isinstance(value, str):
        digits = value.removeprefix("-")
        # `int` reads `1_0`, ` 1` and the digits of other scripts too.
        if not (digits.isascii() and digits.isdecimal() and len(digits) <= 20):
            raise WrongValueError("must be an integer")
        return int(value)
    return _number(value)


def _number(value: Json) -> int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise WrongValueError("must be an integer")
    return value


def _within(read: Callable[[Json], int], low: int, high: int, write: Callable[[int], bytes]) -> Encode:
    def encode(value: Json) -> bytes:
        number = read(value)
        if not low <= number <= high:
            raise WrongValueError("is out of range")
        return write(number)

    return encode


def _signed(number: int) -> bytes:
    return varint(number & (1 << 64) - 1)


def _zigzag(number: int) -> bytes:
    return varint(number * 2 if number >= 0 else -number * 2 - 1)


_LOW_32, _HIGH_32, _HIGH_U32 = -(1 << 31), (1 << 31) - 1, (1 << 32) - 1
_LOW_64, _HIGH_64, _HIGH_U64 = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1
_INTEGERS: dict[int, tuple[int, Encode]] = {
    FieldDescriptor.TYPE_INT32: (VARINT, _within(_integer, _LOW_32, _HIGH_32, _signed)),
    FieldDescriptor.TYPE_INT64: (VARINT, _within(_integer, _LOW_64, _HIGH_64, _signed)),
    FieldDescriptor.TYPE_UINT32: (VARINT, _within(_integer, 0, _HIGH_U32, varint)),
    FieldDescriptor.TYPE_UINT64: (VARINT, _within(_integer, 0, _HIGH_U64, varint)),
    FieldDescriptor.TYPE_SINT32: (VARINT, _within(_integer, _LOW_32, _HIGH_32, _zigzag)),
    FieldDescriptor.TYPE_FIXED32: (FIXED32, _within(_integer, 0, _HIGH_U32, struct.Struct("<I").pack)),
    FieldDescriptor.TYPE_FIXED64: (FIXED64, _within(_integer, 0, _HIGH_U64, struct.Struct("<Q").pack)),
    FieldDescriptor.TYPE_SFIXED64: (FIXED64, _within(_integer, _LOW_64, _HIGH_64, struct.Struct("<q").pack)),
    # Names of enums are not legal in OTLP, nor are numbers as text.
    FieldDescriptor.TYPE_ENUM: (VARINT, _within(_number, _LOW_32, _HIGH_32, _signed)),
}
