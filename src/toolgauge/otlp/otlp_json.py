"""OTLP JSON in, the same request as protobuf bytes out.

OTLP's JSON has hex ids and lowerCamelCase keys only, and ignores unknown keys: protobuf's `json_format` reads ids as base64
without an error, takes snake_case, and is slow. Here each field has one writer, made once. Names of enums are read as well.
"""

import base64
import binascii
import math
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import msgspec
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from toolgauge.model.delivery import Signal
from toolgauge.model.errors import DecodeError, InvalidReason
from toolgauge.model.json import Json
from toolgauge.otlp.bounds import AT_ONCE, check_json, joined, varint
from toolgauge.otlp.encode import length

# Makes the bytes of one value, without its tag and its length.
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


def _text(value: Json) -> bytes:
    if not isinstance(value, str):
        raise WrongValueError("has the wrong type")
    return value.encode()


def _bool(value: Json) -> bytes:
    if not isinstance(value, bool):
        raise WrongValueError("has the wrong type")
    return b"\x01" if value else b"\x00"


def _base64(value: Json) -> bytes:
    # Either alphabet, with padding or without (protobuf, "JSON Mapping"): writers differ.
    written = _text(value)
    try:
        return base64.b64decode(written + b"=" * (-len(written) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise WrongValueError("must be base64") from None


def _id(size: int) -> Encode:
    """Write an id of `size` bytes from its hex digits; an empty text is an absent id."""

    def encode(value: Json) -> bytes:
        if not isinstance(value, str):
            raise WrongValueError("has the wrong type")
        try:
            raw = bytes.fromhex(value)
        except ValueError:
            raise WrongValueError("must be hex") from None
        # `fromhex` skips white space.
        if value and (len(raw) != size or len(value) != 2 * size):
            raise WrongValueError(f"must be {2 * size} hex digits")
        return raw

    return encode


def _double(value: Json) -> bytes:
    try:
        if isinstance(value, str):
            # `float` reads `1_0` and ` 1` too, which no JSON number is.
            is_number = value.isascii() and value.strip("0123456789+-.eE") == ""
            number = _SPECIAL_DOUBLES[value] if value in _SPECIAL_DOUBLES else float(value if is_number else "")
        elif isinstance(value, bool) or not isinstance(value, int | float):
            raise WrongValueError("must be a number")
        else:
            number = float(value)
    except ValueError:
        raise WrongValueError("must be a number") from None
    except OverflowError:
        raise WrongValueError("is out of range") from None
    return struct.pack("<d", number)


def _integer(low: int, high: int, write: Callable[[int], bytes], names: Mapping[str, int] | None = None) -> Encode:
    """Write an integer of a range from a number, or from a text: its digits, or one of the `names` of an enum."""

    def encode(value: Json) -> bytes:
        number: int | None = None
        if isinstance(value, str) and names is not None:
            number = names.get(value)
        elif isinstance(value, str):
            digits = value.removeprefix("-")
            # `int` reads `1_0`, ` 1` and the digits of other scripts too.
            if digits.isascii() and digits.isdecimal() and len(digits) <= 20:
                number = int(value)
        elif isinstance(value, int) and not isinstance(value, bool):
            number = value
        elif isinstance(value, float) and value.is_integer():
            number = int(value)
        if number is None:
            raise WrongValueError("must be an integer")
        if not low <= number <= high:
            raise WrongValueError("is out of range")
        return write(number)

    return encode


_LOW_32, _HIGH_32, _HIGH_U32 = -(1 << 31), (1 << 31) - 1, (1 << 32) - 1
_LOW_64, _HIGH_64, _HIGH_U64 = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1
# By the type of a field: its wire type, and the function that writes one of its values.
_SCALARS: dict[int, tuple[int, Encode]] = {
    FieldDescriptor.TYPE_STRING: (DELIMITED, _text),
    FieldDescriptor.TYPE_BYTES: (DELIMITED, _base64),
    FieldDescriptor.TYPE_BOOL: (VARINT, _bool),
    FieldDescriptor.TYPE_DOUBLE: (FIXED64, _double),
    FieldDescriptor.TYPE_INT32: (VARINT, _integer(_LOW_32, _HIGH_32, varint)),
    FieldDescriptor.TYPE_INT64: (VARINT, _integer(_LOW_64, _HIGH_64, varint)),
    FieldDescriptor.TYPE_UINT32: (VARINT, _integer(0, _HIGH_U32, varint)),
    FieldDescriptor.TYPE_UINT64: (VARINT, _integer(0, _HIGH_U64, varint)),
    FieldDescriptor.TYPE_SINT32: (
        VARINT,
        _integer(_LOW_32, _HIGH_32, lambda number: varint(number << 1 ^ number >> 31)),
    ),
    FieldDescriptor.TYPE_FIXED32: (FIXED32, _integer(0, _HIGH_U32, struct.Struct("<I").pack)),
    FieldDescriptor.TYPE_FIXED64: (FIXED64, _integer(0, _HIGH_U64, struct.Struct("<Q").pack)),
    FieldDescriptor.TYPE_SFIXED64: (FIXED64, _integer(_LOW_64, _HIGH_64, struct.Struct("<q").pack)),
}
# The bytes of 0, false and the empty text.
_DEFAULTS = {VARINT: b"\x00", FIXED64: bytes(8), DELIMITED: b"", FIXED32: bytes(4)}

# protobuf itself refuses messages nested deeper than 100. A large text is searched once for each level.
_MAX_DEPTH, _MAX_LARGE_DEPTH = 90, 20
_LARGE_TEXT = 1 << 18
_ARRAY_BEGINS = ord("[")
_REPLACEMENT = "\ufffd".encode()
_SIGNAL_KEYS = ("resourceSpans", "resourceLogs", "resourceMetrics")
_NO_REQUEST = "neither `resourceSpans` nor `resourceLogs` in it"
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


class _Message:
    """Writes messages of one kind."""

    def __init__(self) -> None:
        # By key. Filled later, because messages hold messages of their own kind.
        self.fields: dict[str, _Field] = {}
        # Splits a text into known fields, each left as text.
        self.split: msgspec.json.Decoder[msgspec.Struct] = msgspec.json.Decoder(msgspec.Struct)

    def encode(self, values: Json, depth: int) -> bytes:
        """Write a message; keys without a field are left out, and null is the same as an absent key."""
        if not isinstance(values, dict):
            raise WrongValueError("must be an object")
        if depth > _MAX_DEPTH:
            raise WrongValueError("is nested too deep")
        parts: list[bytes] = []
        for key, value in values.items():
            field = self.fields.get(key)
            if field is None or value is None:
                continue
            items: Iterable[Json] = value if field.is_repeated and isinstance(value, list) else (value,)
            count, packed, inner = 0, list[bytes](), field.message
            try:
                if items is not value and field.is_repeated:
                    raise WrongValueError("must be an array")
                for item in items:
                    body = field.encode(item) if inner is None else inner.encode(item, depth + 1)
                    count += 1
                    if field.is_packed:
                        packed.append(body)
                    elif body != field.default:
                        parts += (field.tag, length(len(body)), body) if field.is_delimited else (field.tag, body)
            except WrongValueError as error:
                if items is value:
                    error.pieces.append(f"[{count}]")
                error.pieces.append(f".{key}")
                raise
            if packed:
                body = joined(packed)
                parts += (field.tag, length(len(body)), body)
        return b"".join(parts) if len(parts) <= AT_ONCE else joined(parts)

    def encode_text(self, text: bytes | msgspec.Raw, depth: int, split: tuple[str, ...] = ()) -> bytes:
        """Write a message from JSON; large parts, and items at the end of the path `split`, are decoded singly: the
        objects of a large text take up to eighteen times its size. Raise `WrongValueError`, or `msgspec.DecodeError` for no JSON.
        """
        if depth > _MAX_LARGE_DEPTH:
            raise WrongValueError("is nested too deep")
        try:
            fields = self.split.decode(text)
        except msgspec.ValidationError:
            raise WrongValueError("must be an object") from None
        known = [(key, value) for key in self.fields if isinstance(value := getattr(fields, key), msgspec.Raw)]
        # Refuse an object without any known key: nothing in it can be read, so it must not be acknowledged. An unknown key
        # beside a known one is ignored, as OTLP demands.
        if split and not known and (others := _OBJECT.decode(text)):
            raise _unknown_keys(split[0], others)
        written = bytearray()
        for key, value in known:
            field, is_on_path = self.fields[key], split[:1] == (key,)
            if field.message is not None and (_is_large(value) or (is_on_path and bytes(value) != b"null")):
                rest = split[1:] if is_on_path else ()
                count = 0
                try:
                    for item in _array(value) if field.is_repeated else (value,):
                        if rest or _is_large(item):
                            body = field.message.encode_text(item, depth + 1, rest)
                        else:
                            body = field.message.encode(msgspec.json.decode(item), depth + 1)
                        count += 1
                        written += field.tag
                        written += length(len(body))
                        written += body
                except WrongValueError as error:
                    if field.is_repeated and memoryview(value)[0] == _ARRAY_BEGINS:
                        error.pieces.append(f"[{count}]")
                    error.pieces.append(f".{key}")
                    raise
            elif _is_large(value) and memoryview(value)[0] == _ARRAY_BEGINS:
                raise WrongValueError(f"has too many elements in `{key}`")
            else:
                written += self.encode({key: msgspec.json.decode(value)}, depth)
        return bytes(written)


class _Field(msgspec.Struct, frozen=True):
    """How a field is written; `default` is the value that is left out."""

    tag: bytes
    is_delimited: bool
    is_repeated: bool
    is_packed: bool
    default: bytes | None
    encode: Encode
    message: _Message | None


def _is_large(text: msgspec.Raw) -> bool:
    return memoryview(text).nbytes > _LARGE_TEXT


def _array(text: msgspec.Raw) -> list[msgspec.Raw]:
    try:
        return _ARRAY.decode(text)
    except msgspec.ValidationError:
        raise WrongValueError("must be an array") from None


def _message_of(descriptor: Descriptor, made: dict[str, _Message]) -> _Message:
    """Prepare the fields of a message; `made` holds by full name the messages that are prepared already."""
    if descriptor.full_name in made:
        return made[descriptor.full_name]
    message = made[descriptor.full_name] = _Message()
    for field in descriptor.fields:
        inner = None if field.message_type is None else _message_of(field.message_type, made)
        wire, encode = _SCALARS.get(field.type, (DELIMITED, _text))
        if field.name in _ID_BYTES:
            encode = _id(_ID_BYTES[field.name])
        elif field.enum_type is not None:
            # Not legal in OTLP, but what generic mappings of protobuf to JSON write, and what the Collector reads.
            names = {one.name: one.number for one in field.enum_type.values}
            wire, encode = VARINT, _integer(_LOW_32, _HIGH_32, varint, names)
        is_packed = field.is_repeated and wire != DELIMITED
        is_always_written = inner is not None or field.has_presence or field.is_repeated
        message.fields[field.camelcase_name] = _Field(
            tag=varint(field.number << 3 | (DELIMITED if is_packed else wire)),
            is_delimited=is_packed or wire == DELIMITED,
            is_repeated=field.is_repeated,
            is_packed=is_packed,
            default=None if is_always_written else _DEFAULTS[wire],
            encode=encode,
            message=inner,
        )
    known = [(key, msgspec.Raw | msgspec.UnsetType, msgspec.UNSET) for key in message.fields]
    message.split = msgspec.json.Decoder(msgspec.defstruct(descriptor.name, known))
    return message


def _unknown_keys(known: str, keys: Mapping[str, object]) -> WrongValueError:
    other = next((key for key in _SIGNAL_KEYS if key in keys), None)
    if known in _SIGNAL_KEYS and other is not None:
        problem = f"holds `{other}`, not `{known}`: send it to the endpoint of its own signal"
        return WrongValueError(problem, reason="wrong_signal")
    problem = f"has {_NO_REQUEST}" if known in ("resourceSpans", "resourceLogs") else f"has no `{known}` in it"
    snake_case = re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", known)
    if snake_case in keys:
        problem += f": OTLP JSON spells its keys in lowerCamelCase: `{known}`, not `{snake_case}`"
    return WrongValueError(problem, reason="unknown_keys")


_MADE: dict[str, _Message] = {}
_REQUESTS: dict[Signal, tuple[_Message, tuple[str, ...]]] = {
    "traces": (_message_of(ExportTraceServiceRequest.DESCRIPTOR, _MADE), ("resourceSpans", "scopeSpans", "spans")),
    "logs": (_message_of(ExportLogsServiceRequest.DESCRIPTOR, _MADE), ("resourceLogs", "scopeLogs", "logRecords")),
    "metrics": (
        _message_of(ExportMetricsServiceRequest.DESCRIPTOR, _MADE),
        ("resourceMetrics", "scopeMetrics", "metrics"),
    ),
}


def request_from_json(signal: Signal, text: bytes) -> bytes:
    """Encode one JSON request of a known signal. Raise `DecodeError` with the path of the wrong value."""
    return requests_from_json(text, signal)[0][1]


def requests_from_json(text: bytes, signal: Signal | None = None) -> list[tuple[Signal, bytes]]:
    """Encode a document's trace and log requests, or that of one signal; raise `DecodeError` with the path of a wrong value."""
    try:
        check_json(text)
        try:
            return _encode(signal, text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            # Half an emoji must not lose a batch. Only a text that could not be decoded is searched for one.
            whole = bytearray()
            for match in _SURROGATES.finditer(text):
                whole += match[1] if match[2] is None else match[1] + _REPLACEMENT
            if whole == text:
                raise
        return _encode(signal, bytes(whole))
    except WrongValueError as error:
        path = "".join(reversed(error.pieces)).removeprefix(".")
        shown = path if len(path) <= _MAX_PATH else f"{path[:_MAX_PATH]}..."
        problem = f"`{shown}` {error.problem}" if path else f"the document {error.problem}"
        raise DecodeError(problem, reason=error.reason) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise DecodeError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise DecodeError("the values are nested too deeply") from error


def _encode(signal: Signal | None, text: bytes) -> list[tuple[Signal, bytes]]:
    """Encode the request of a signal; without one, the requests of traces and logs in the text."""
    found: Iterable[Signal] = () if signal is None else (signal,)
    if signal is None:
        try:
            fields = _OBJECT.decode(text)
        except msgspec.ValidationError:
            raise WrongValueError("must be an object") from None
        found = [one for one, (_, (key, *_)) in _REQUESTS.items() if key in fields]
        if fields and not found:
            raise DecodeError(_NO_REQUEST, reason="unknown_keys")
    encoded: list[tuple[Signal, bytes]] = []
    for one in found:
        message, split = _REQUESTS[one]
        if signal is not None or one != "metrics":
            encoded.append((one, message.encode_text(text, 0, split)))
    return encoded


# An escape of a surrogate, or a surrogate that was encoded as if it were a character.
_LONE = rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\xed[\xa0-\xbf][\x80-\xbf]"
_PAIR = rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
# Each lone surrogate with everything in front of it; behind the last one, the rest. It matches everywhere, so that no search
# begins twice.
_SURROGATES = re.compile(
    rb"((?:[^\\\xed]++|" + _PAIR + rb"|(?!" + _LONE + rb")(?:\xed|\\(?:.|\Z)))*+)(?:(" + _LONE + rb")|\Z)", re.DOTALL
)
