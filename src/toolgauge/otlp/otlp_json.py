"""OTLP JSON in, the same request as protobuf bytes out.

OTLP's JSON has hex ids and lowerCamelCase keys only, and ignores unknown keys: protobuf's `json_format` reads ids as base64
without an error, takes snake_case, and is slow. Here each field has one writer, made once. Names of enums are read as well.
"""

import base64
import binascii
import math
import re
import struct
from collections.abc import Callable, Collection
from functools import partial
from typing import TypeAlias, TypeVar

import msgspec
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from toolgauge.model.delivery import Signal
from toolgauge.model.errors import DecodeError, InvalidReason
from toolgauge.model.json import Json
from toolgauge.otlp.bounds import AT_ONCE, check_json, joined
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
        return DELIMITED, lambda value: _delimited(_text_of(value).encode())
    if field.type == FieldDescriptor.TYPE_BYTES:
        size = _ID_BYTES.get(field.name)
        return DELIMITED, _base64 if size is None else _id_writer(size)
    if field.type == FieldDescriptor.TYPE_BOOL:
        return VARINT, _bool
    if field.type == FieldDescriptor.TYPE_DOUBLE:
        return FIXED64, lambda value: struct.pack("<d", _double(value))
    if field.enum_type is not None:
        # Not legal in OTLP, but what generic mappings of protobuf to JSON write, and what the Collector reads.
        numbers: dict[Json, int] = {one.name: one.number for one in field.enum_type.values}
        return VARINT, lambda value: _enum(numbers.get(value, value) if isinstance(value, str) else value)
    raise NotImplementedError(f"OTLP has no fields such as `{field.full_name}`")


def _delimited(body: bytes) -> bytes:
    return varint(len(body)) + body


def _text_of(value: Json) -> str:
    if not isinstance(value, str):
        raise WrongValueError("has the wrong type")
    return value


def _bool(value: Json) -> bytes:
    if not isinstance(value, bool):
        raise WrongValueError("has the wrong type")
    return b"\x01" if value else b"\x00"


def _base64(value: Json) -> bytes:
    # Either alphabet, with padding or without (protobuf, "JSON Mapping"): writers differ.
    padded = _text_of(value) + "=" * (-len(_text_of(value)) % 4)
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


_LOW_32, _HIGH_32, _HIGH_U32 = -(1 << 31), (1 << 31) - 1, (1 << 32) - 1
_LOW_64, _HIGH_64, _HIGH_U64 = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1
_INTEGERS: dict[int, tuple[int, Encode]] = {
    FieldDescriptor.TYPE_INT32: (VARINT, _within(_integer, _LOW_32, _HIGH_32, varint)),
    FieldDescriptor.TYPE_INT64: (VARINT, _within(_integer, _LOW_64, _HIGH_64, varint)),
    FieldDescriptor.TYPE_UINT32: (VARINT, _within(_integer, 0, _HIGH_U32, varint)),
    FieldDescriptor.TYPE_UINT64: (VARINT, _within(_integer, 0, _HIGH_U64, varint)),
    FieldDescriptor.TYPE_SINT32: (
        VARINT,
        _within(_integer, _LOW_32, _HIGH_32, lambda number: varint(number << 1 ^ number >> 31)),
    ),
    FieldDescriptor.TYPE_FIXED32: (FIXED32, _within(_integer, 0, _HIGH_U32, struct.Struct("<I").pack)),
    FieldDescriptor.TYPE_FIXED64: (FIXED64, _within(_integer, 0, _HIGH_U64, struct.Struct("<Q").pack)),
    FieldDescriptor.TYPE_SFIXED64: (FIXED64, _within(_integer, _LOW_64, _HIGH_64, struct.Struct("<q").pack)),
}
_enum = _within(_number, _LOW_32, _HIGH_32, varint)

# Adds a field to the parts of a message. The last argument is the depth of that message; raises `WrongValueError`.
_Writer: TypeAlias = Callable[[list[bytes], Json, int], None]

# protobuf itself refuses messages nested deeper than 100. What is large is looked through once a level.
_MAX_DEPTH, _MAX_LARGE_DEPTH = 90, 20
_LARGE_TEXT = 1 << 18
_ARRAY_BEGINS = ord("[")
_REPLACEMENT = "\ufffd".encode()
_SHORT = tuple(bytes([number]) for number in range(128))


class _MessagePlan:
    def __init__(self) -> None:
        # By key. Filled later, because messages hold messages of their own kind.
        self.writers: dict[str, _Writer] = {}
        # Of the fields that hold messages: the tag, the plan, and whether there may be several.
        self.messages: dict[str, tuple[bytes, _MessagePlan, bool]] = {}
        # Splits a text into known fields, each left as text.
        self.split: msgspec.json.Decoder[msgspec.Struct] = msgspec.json.Decoder(msgspec.Struct)

    def encode(self, values: Json, depth: int) -> bytes:
        """Write a message; keys without a field are left out, and null is the same as an absent key."""
        if not isinstance(values, dict):
            raise WrongValueError("must be an object")
        if depth > _MAX_DEPTH:
            raise WrongValueError("is nested too deep")
        writers = self.writers
        parts: list[bytes] = []
        for key, value in values.items():
            writer = writers.get(key)
            if writer is None or value is None:
                continue
            try:
                writer(parts, value, depth)
            except WrongValueError as error:
                error.pieces.append(f".{key}")
                raise
        return b"".join(parts) if len(parts) <= AT_ONCE else joined(parts)

    def encode_text(self, text: bytes | msgspec.Raw, depth: int, split: tuple[str, ...] = ()) -> bytes:
        """Write a message from JSON; large parts of it, and items at the end of the path `split`, are decoded singly: the
        objects of a large text take up to eighteen times its size. Raise `WrongValueError`, or `msgspec.DecodeError` for no JSON.
        """
        if depth > _MAX_LARGE_DEPTH:
            raise WrongValueError("is nested too deep")
        try:
            fields = self.split.decode(text)
        except msgspec.ValidationError:
            raise WrongValueError("must be an object") from None
        known = [(key, value) for key in self.writers if isinstance(value := getattr(fields, key), msgspec.Raw)]
        # Refuse an object without any known key: nothing in it can be read, so it must not be acknowledged. An unknown key
        # beside a known one is ignored, as OTLP demands.
        if split and not known and (others := _split_object(text)):
            raise _unknown_keys(split[0], others)
        written = bytearray()
        for key, value in known:
            rest = split[1:] if split[:1] == (key,) else None
            if key in self.messages and (_is_large(value) or (rest is not None and bytes(value) != b"null")):
                try:
                    self._encode_each(key, value, depth, rest or (), written)
                except WrongValueError as error:
                    error.pieces.append(f".{key}")
                    raise
            else:
                if _is_large(value) and memoryview(value)[0] == _ARRAY_BEGINS:
                    raise WrongValueError(f"has too many elements in `{key}`")
                written += self.encode({key: msgspec.json.decode(value)}, depth)
        return bytes(written)

    def _encode_each(
        self, key: str, value: msgspec.Raw, depth: int, split: tuple[str, ...], written: bytearray
    ) -> None:
        tag, plan, is_repeated = self.messages[key]
        try:
            items = _ARRAY.decode(value) if is_repeated else [value]
        except msgspec.ValidationError:
            raise WrongValueError("must be an array") from None
        for index, item in enumerate(items):
            try:
                if split or _is_large(item):
                    body = plan.encode_text(item, depth + 1, split)
                else:
                    body = plan.encode(msgspec.json.decode(item), depth + 1)
            except WrongValueError as error:
                if is_repeated:
                    error.pieces.append(f"[{index}]")
                raise
            written += tag
            written += varint(len(body))
            written += body


def _is_large(text: msgspec.Raw) -> bool:
    return memoryview(text).nbytes > _LARGE_TEXT


# By the full name of the message.
_Plans: TypeAlias = dict[str, _MessagePlan]


def _plan_of(descriptor: Descriptor, plans: _Plans) -> _MessagePlan:
    plan = plans.get(descriptor.full_name)
    if plan is None:
        plan = plans[descriptor.full_name] = _MessagePlan()
        for field in descriptor.fields:
            key = field.camelcase_name
            if field.message_type is not None:
                tag = _tag(field.number, DELIMITED)
                plan.messages[key] = (tag, _plan_of(field.message_type, plans), field.is_repeated)
            plan.writers[key] = _writer(field, plans)
        known = [(key, msgspec.Raw | msgspec.UnsetType, msgspec.UNSET) for key in plan.writers]
        plan.split = msgspec.json.Decoder(msgspec.defstruct(descriptor.name, known))
    return plan


_SIGNAL_KEYS = ("resourceSpans", "resourceLogs", "resourceMetrics")
_NO_REQUEST = "neither `resourceSpans` nor `resourceLogs` in it"
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


def _split_object(text: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    try:
        return _OBJECT.decode(text)
    except msgspec.ValidationError:
        raise WrongValueError("must be an object") from None


def _unknown_keys(known: str, keys: Collection[str]) -> WrongValueError:
    other = next((key for key in _SIGNAL_KEYS if key in keys), None)
    if known in _SIGNAL_KEYS and other is not None:
        problem = f"holds `{other}`, not `{known}`: send it to the endpoint of its own signal"
        return WrongValueError(problem, reason="wrong_signal")
    problem = f"has {_NO_REQUEST}" if known in ("resourceSpans", "resourceLogs") else f"has no `{known}` in it"
    snake_case = re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", known)
    if snake_case in keys:
        problem += f": OTLP JSON spells its keys in lowerCamelCase: `{known}`, not `{snake_case}`"
    return WrongValueError(problem, reason="unknown_keys")


def _writer(field: FieldDescriptor, plans: _Plans) -> _Writer:
    if field.message_type is not None:
        plan = _plan_of(field.message_type, plans)
        tag = _tag(field.number, DELIMITED)
        return _messages(tag, plan) if field.is_repeated else _message(tag, plan)
    wire, encode = scalar(field)
    tag = _tag(field.number, wire)
    if not field.is_repeated:
        return (
            _text(tag, skips_empty=not field.has_presence)
            if field.type == FieldDescriptor.TYPE_STRING
            else _single(tag, encode, None if field.has_presence else _DEFAULTS[wire])
        )
    return _repeated(tag, encode) if wire == DELIMITED else _packed(_tag(field.number, DELIMITED), encode)


# How 0, false and the empty text are written.
_DEFAULTS = {VARINT: b"\x00", FIXED64: bytes(8), DELIMITED: b"\x00", FIXED32: bytes(4)}


def _message(tag: bytes, plan: _MessagePlan) -> _Writer:
    def write(parts: list[bytes], value: Json, depth: int) -> None:
        # An empty object is present all the same: `{"stringValue": ""}` and `{}` differ from a missing value.
        body = plan.encode(value, depth + 1)
        size = len(body)
        parts += (tag, _SHORT[size] if size < 128 else varint(size), body)

    return write


def _messages(tag: bytes, plan: _MessagePlan) -> _Writer:
    def write(parts: list[bytes], value: Json, depth: int) -> None:
        encode = plan.encode
        inner = depth + 1
        index = 0
        try:
            for item in _array(value):
                body = encode(item, inner)
                size = len(body)
                parts += (tag, _SHORT[size] if size < 128 else varint(size), body)
                index += 1
        except WrongValueError as error:
            if isinstance(value, list):
                error.pieces.append(f"[{index}]")
            raise

    return write


def _text(tag: bytes, *, skips_empty: bool) -> _Writer:
    def write(parts: list[bytes], value: Json, depth: int) -> None:  # noqa: ARG001 - as all writers
        if not isinstance(value, str):
            raise WrongValueError("has the wrong type")
        body = value.encode()
        size = len(body)
        if size or not skips_empty:
            parts += (tag, _SHORT[size] if size < 128 else varint(size), body)

    return write


def _single(tag: bytes, encode: Encode, default: bytes | None) -> _Writer:
    def write(parts: list[bytes], value: Json, depth: int) -> None:  # noqa: ARG001 - as all writers
        body = encode(value)
        if body != default:
            parts += (tag, body)

    return write


def _repeated(tag: bytes, encode: Encode) -> _Writer:
    def write(parts: list[bytes], value: Json, depth: int) -> None:  # noqa: ARG001 - as all writers
        for body in _each(value, encode):
            parts += (tag, body)

    return write


def _packed(tag: bytes, encode: Encode) -> _Writer:
    def write(parts: list[bytes], value: Json, depth: int) -> None:  # noqa: ARG001 - as all writers
        body = joined(_each(value, encode))
        if body:
            parts += (tag, varint(len(body)), body)

    return write


def _each(value: Json, encode: Encode) -> list[bytes]:
    bodies: list[bytes] = []
    for item in _array(value):
        try:
            bodies.append(encode(item))
        except WrongValueError as error:
            error.pieces.append(f"[{len(bodies)}]")
            raise
    return bodies


def _array(value: Json) -> list[Json]:
    if not isinstance(value, list):
        raise WrongValueError("must be an array")
    return value


def _tag(number: int, wire: int) -> bytes:
    return varint(number << 3 | wire)


_MADE: _Plans = {}
_PLANS: dict[Signal, tuple[_MessagePlan, tuple[str, ...]]] = {
    "traces": (_plan_of(ExportTraceServiceRequest.DESCRIPTOR, _MADE), ("resourceSpans", "scopeSpans", "spans")),
    "logs": (_plan_of(ExportLogsServiceRequest.DESCRIPTOR, _MADE), ("resourceLogs", "scopeLogs", "logRecords")),
    "metrics": (
        _plan_of(ExportMetricsServiceRequest.DESCRIPTOR, _MADE),
        ("resourceMetrics", "scopeMetrics", "metrics"),
    ),
}
_Encoded = TypeVar("_Encoded")


def requests_from_json(text: bytes) -> list[tuple[Signal, bytes]]:
    """Encode a document's trace and log requests; raise `DecodeError` with the path of a wrong value."""
    return _encoded(_encode_all, text)


def request_from_json(signal: Signal, text: bytes) -> bytes:
    """Encode one JSON request of a known signal. Raise `DecodeError` with the path of the wrong value."""
    return _encoded(partial(_encode_signal, signal), text)


def _encode_signal(signal: Signal, text: bytes) -> bytes:
    plan, split = _PLANS[signal]
    return plan.encode_text(text, 0, split)


def _encode_all(text: bytes) -> list[tuple[Signal, bytes]]:
    fields = _split_object(text)
    requests: list[tuple[Signal, bytes]] = []
    if "resourceSpans" in fields:
        requests.append(("traces", _encode_signal("traces", text)))
    if "resourceLogs" in fields:
        requests.append(("logs", _encode_signal("logs", text)))
    if not requests and "resourceMetrics" not in fields and fields:
        raise DecodeError(_NO_REQUEST, reason="unknown_keys")
    return requests


def _encoded(encode: Callable[[bytes], _Encoded], text: bytes) -> _Encoded:
    try:
        check_json(text)
        try:
            return encode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            # Half an emoji must not lose a batch. Only a text that could not be decoded is searched for one.
            whole = bytearray()
            for match in _SURROGATES.finditer(text):
                whole += match[1] if match[2] is None else match[1] + _REPLACEMENT
            if whole == text:
                raise
        return encode(bytes(whole))
    except WrongValueError as error:
        raise DecodeError(error.message(), reason=error.reason) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise DecodeError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise DecodeError("the values are nested too deeply") from error


# An escape of a surrogate, or a surrogate that was encoded as if it were a character.
_LONE = rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\xed[\xa0-\xbf][\x80-\xbf]"
_PAIR = rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
# Each lone surrogate with everything in front of it; behind the last one, the rest. It matches everywhere, so that no search
# begins twice.
_SURROGATES = re.compile(
    rb"((?:[^\\\xed]++|" + _PAIR + rb"|(?!" + _LONE + rb")(?:\xed|\\(?:.|\Z)))*+)(?:(" + _LONE + rb")|\Z)", re.DOTALL
)
