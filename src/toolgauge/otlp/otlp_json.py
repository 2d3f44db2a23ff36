"""OTLP JSON in, the same request as protobuf bytes out.

OTLP's JSON differs from protobuf's own mapping (OTLP specification, "JSON Protobuf Encoding"): ids are hex in
either case, enums are integers, keys are lowerCamelCase only, unknown keys are ignored. protobuf's `json_format`
would read hex ids as base64 without a word, takes names of enums and snake_case, and is slow.

One writer a field is made once from the message's descriptor: looking at descriptors for each value costs more than
writing it. The path to a wrong value is put together only when there is one: each writer on the way out adds its piece.
"""

import re
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from typing import TypeAlias, TypeVar

import msgspec
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from toolgauge.model.delivery import Signal
from toolgauge.model.errors import DecodeError
from toolgauge.model.json import Json
from toolgauge.otlp.bounds import check_json
from toolgauge.otlp.encode import varint
from toolgauge.otlp.json_scalars import DELIMITED, Encode, WrongValueError, scalar
from toolgauge.otlp.messages import AT_ONCE, joined

# Adds a field to the parts of a message. The last argument is the depth of that message; raises `WrongValueError`.
_Writer: TypeAlias = Callable[[list[bytes], Json, int], None]

# protobuf itself refuses messages nested deeper than 100.
_MAX_DEPTH = 90
_REPLACEMENT = "\ufffd".encode()
_SHORT = tuple(bytes([number]) for number in range(128))


class _MessagePlan:
    """How one kind of message is written."""

    def __init__(self, descriptor: Descriptor) -> None:
        self._descriptor = descriptor
        self._writers: dict[str, _Writer] = {}

    def fill(self, plans: "_MessagePlans") -> None:
        """Make the writers; apart from the constructor, because messages hold messages of their own kind."""
        for field in self._descriptor.fields:
            self._writers[field.camelcase_name] = _writer(field, plans)

    def has_field(self, key: str) -> bool:
        """Return whether a key of the JSON object has a field."""
        return key in self._writers

    def encode(self, values: Json, depth: int) -> bytes:
        """Write a message; keys without a field are left out, and null is the same as an absent key."""
        if not isinstance(values, dict):
            raise WrongValueError("must be an object")
        if depth > _MAX_DEPTH:
            raise WrongValueError("is nested too deep")
        writers = self._writers
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


class _MessagePlans:
    """The plans of messages, each made when it is first needed."""

    def __init__(self) -> None:
        self._plans: dict[str, _MessagePlan] = {}

    def of(self, descriptor: Descriptor) -> _MessagePlan:
        """Find the plan of a kind of message, or make it and all that it needs."""
        plan = self._plans.get(descriptor.full_name)
        if plan is None:
            plan = self._plans[descriptor.full_name] = _MessagePlan(descriptor)
            plan.fill(self)
        return plan


class _SplitPlan:
    """How a request or one of its groups is written from its JSON text.

    `split` names the fields down to the items, which are decoded one at a time: objects that stand for a whole request
    take nine times its size.
    """

    def __init__(self, descriptor: Descriptor, split: tuple[str, ...], plans: _MessagePlans) -> None:
        field = next(field for field in descriptor.fields if field.camelcase_name == split[0])
        assert field.message_type is not None  # noqa: S101 - for the type checker
        self._plan = plans.of(descriptor)
        self._key = split[0]
        self._tag = _tag(field.number, DELIMITED)
        self._item = plans.of(field.message_type)
        self._group = _SplitPlan(field.message_type, split[1:], plans) if len(split) > 1 else None

    def encode(self, text: bytes | msgspec.Raw) -> bytes:
        """Write the message; raise `WrongValueError`, or `msgspec.DecodeError` where the text is no JSON."""
        parts: list[bytes] = []
        fields = _split_object(text)
        # An object with keys of which none is known is refused: nothing in it can be read, and its sender must not be told that it
        # was taken. An unknown key beside a known one is ignored, as OTLP demands.
        if fields and not any(map(self._plan.has_field, fields)):
            raise _unknown_keys(self._key, fields)
        for key, value in fields.items():
            if key == self._key and bytes(value) != b"null":
                try:
                    self._encode_each(value, parts)
                except WrongValueError as error:
                    error.pieces.append(f".{key}")
                    raise
            elif self._plan.has_field(key):
                parts.append(self._plan.encode({key: msgspec.json.decode(value)}, 0))
        return joined(parts)

    def _encode_each(self, items: msgspec.Raw, parts: list[bytes]) -> None:
        for index, item in enumerate(_split_array(items)):
            try:
                if self._group is not None:
                    body = self._group.encode(item)
                else:
                    body = self._item.encode(msgspec.json.decode(item), 0)
            except WrongValueError as error:
                error.pieces.append(f"[{index}]")
                raise
            parts += (self._tag, varint(len(body)), body)


_SIGNAL_KEYS = ("resourceSpans", "resourceLogs", "resourceMetrics")
_NO_REQUEST = "neither `resourceSpans` nor `resourceLogs` in it"
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


def _split_object(text: bytes | msgspec.Raw) -> dict[str, msgspec.Raw]:
    """Split the JSON text of an object into its values."""
    try:
        return _OBJECT.decode(text)
    except msgspec.ValidationError:
        raise WrongValueError("must be an object") from None


def _unknown_keys(known: str, keys: Collection[str]) -> WrongValueError:
    """Return the error of an object that has keys, but not `known` nor any other key of its message."""
    other = next((key for key in _SIGNAL_KEYS if key in keys), None)
    if known in _SIGNAL_KEYS and other is not None:
        problem = f"holds `{other}`, not `{known}`: send it to the endpoint of its own signal"
        return WrongValueError(problem, reason="wrong_signal")
    problem = f"has {_NO_REQUEST}" if known in ("resourceSpans", "resourceLogs") else f"has no `{known}` in it"
    snake_case = re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", known)
    if snake_case in keys:
        problem += f": OTLP JSON spells its keys in lowerCamelCase: `{known}`, not `{snake_case}`"
    return WrongValueError(problem, reason="unknown_keys")


def _split_array(text: msgspec.Raw) -> list[msgspec.Raw]:
    try:
        return _ARRAY.decode(text)
    except msgspec.ValidationError:
        raise WrongValueError("must be an array") from None


def _writer(field: FieldDescriptor, plans: _MessagePlans) -> _Writer:
    if field.message_type is not None:
        plan = plans.of(field.message_type)
        tag = _tag(field.number, DELIMITED)
        return _messages(tag, plan) if field.is_repeated else _message(tag, plan)
    wire, encode = scalar(field)
    tag = _tag(field.number, wire)
    if not field.is_repeated:
        return (
            _text(tag, skips_empty=not field.has_presence)
            if field.type == FieldDescriptor.TYPE_STRING
            else _single(tag, encode, None if field.has_presence else encode(_DEFAULTS[field.cpp_type]))
        )
    return _repeated(tag, encode) if wire == DELIMITED else _packed(_tag(field.number, DELIMITED), encode)


_DEFAULTS: dict[int, Json] = {
    FieldDescriptor.CPPTYPE_STRING: "",
    FieldDescriptor.CPPTYPE_BOOL: False,
    FieldDescriptor.CPPTYPE_DOUBLE: 0.0,
    FieldDescriptor.CPPTYPE_FLOAT: 0.0,
    FieldDescriptor.CPPTYPE_INT32: 0,
    FieldDescriptor.CPPTYPE_INT64: 0,
    FieldDescriptor.CPPTYPE_UINT32: 0,
    FieldDescriptor.CPPTYPE_UINT64: 0,
    FieldDescriptor.CPPTYPE_ENUM: 0,
}


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


_SPANS = ("resourceSpans", "scopeSpans", "spans")
_LOG_RECORDS = ("resourceLogs", "scopeLogs", "logRecords")
_METRICS = ("resourceMetrics", "scopeMetrics", "metrics")


def _made_plans() -> dict[Signal, _SplitPlan]:
    plans = _MessagePlans()
    return {
        "traces": _SplitPlan(ExportTraceServiceRequest.DESCRIPTOR, _SPANS, plans),
        "logs": _SplitPlan(ExportLogsServiceRequest.DESCRIPTOR, _LOG_RECORDS, plans),
        "metrics": _SplitPlan(ExportMetricsServiceRequest.DESCRIPTOR, _METRICS, plans),
    }


_PLANS = _made_plans()


_Encoded = TypeVar("_Encoded")


def requests_from_json(text: bytes) -> list[tuple[Signal, bytes]]:
    """Encode the trace and the log request in one JSON document; other signals are left out.

    Raise `DecodeError` with the path of the wrong value.
    """
    return _encoded(_encode_all, text)


def request_from_json(signal: Signal, text: bytes) -> bytes:
    """Encode one JSON request of a known signal. Raise `DecodeError` with the path of the wrong value."""
    return _encoded(_PLANS[signal].encode, text)


def _encode_all(text: bytes) -> list[tuple[Signal, bytes]]:
    fields = _split_object(text)
    requests: list[tuple[Signal, bytes]] = []
    if "resourceSpans" in fields:
        requests.append(("traces", _PLANS["traces"].encode(text)))
    if "resourceLogs" in fields:
        requests.append(("logs", _PLANS["logs"].encode(text)))
    if not requests and "resourceMetrics" not in fields and fields:
        raise DecodeError(_NO_REQUEST, reason="unknown_keys")
    return requests


def _encoded(encode: Callable[[bytes], _Encoded], text: bytes) -> _Encoded:
    with _as_decode_errors():
        check_json(text)
        try:
            return encode(text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            # Half an emoji must not lose a batch. Only a text that could not be decoded is searched for one.
            whole = _with_lone_surrogates_replaced(text)
            if whole == text:
                raise
        return encode(whole)


# An escape of a surrogate, or a surrogate that was encoded as if it were a character.
_LONE = rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\xed[\xa0-\xbf][\x80-\xbf]"
_PAIR = rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
# Each lone surrogate with everything in front of it; behind the last one, the rest. It matches everywhere, so that no search
# begins twice.
_SURROGATES = re.compile(
    rb"((?:[^\\\xed]++|" + _PAIR + rb"|(?!" + _LONE + rb")(?:\xed|\\(?:.|\Z)))*+)(?:(" + _LONE + rb")|\Z)", re.DOTALL
)


def _with_lone_surrogates_replaced(text: bytes) -> bytes:
    """Replace each lone surrogate in a JSON text, in keys and values alike, by U+FFFD."""
    return _SURROGATES.sub(lambda match: match[1] + (b"" if match[2] is None else _REPLACEMENT), text)


@contextmanager
def _as_decode_errors() -> Generator[None]:
    try:
        yield
    except WrongValueError as error:
        raise DecodeError(error.message(), reason=error.reason) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise DecodeError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise DecodeError("the values are nested too deeply") from error
