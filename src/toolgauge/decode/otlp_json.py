"""OTLP JSON in, the same request as protobuf bytes out.

OTLP's JSON differs from protobuf's own mapping (OTLP specification, "JSON Protobuf Encoding"): ids are hex in
either case, enums are integers, keys are lowerCamelCase only, unknown keys are ignored. protobuf's `json_format`
would read hex ids as base64 without a word, so the message descriptors are walked here instead.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import base64
import binascii
import math

import orjson
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from toolgauge.model.delivery import Signal
from toolgauge.model.errors import DecodeError
from toolgauge.model.json import Json, JsonObject

# protobuf itself refuses messages nested deeper than 100.
_MAX_DEPTH = 90
_REQUESTS: dict[Signal, type[Message]] = {
    "traces": ExportTraceServiceRequest,
    "logs": ExportLogsServiceRequest,
    "metrics": ExportMetricsServiceRequest,
}
_ID_BYTES = {"trace_id": 16, "span_id": 8, "parent_span_id": 8}
_SPECIAL_DOUBLES = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_INTEGERS = frozenset(
    {
        FieldDescriptor.CPPTYPE_INT32,
        FieldDescriptor.CPPTYPE_INT64,
        FieldDescriptor.CPPTYPE_UINT32,
        FieldDescriptor.CPPTYPE_UINT64,
        FieldDescriptor.CPPTYPE_ENUM,
    }
)


def requests_from_json(text: bytes) -> list[tuple[Signal, bytes]]:
    """Encode the trace and the log request in one JSON document; other signals are left out.

    Raise `DecodeError` naming the path of what is wrong.
    """
    document = _document(text)
    requests: list[tuple[Signal, bytes]] = []
    if "resourceSpans" in document:
        requests.append(("traces", _encode(document, ExportTraceServiceRequest())))
    if "resourceLogs" in document:
        requests.append(("logs", _encode(document, ExportLogsServiceRequest())))
    if not requests and "resourceMetrics" not in document and document:
        raise DecodeError("neither `resourceSpans` nor `resourceLogs` in it")
    return requests


def request_from_json(signal: Signal, text: bytes) -> bytes:
    """Encode one JSON request of a known signal. Raise `DecodeError` naming the path of what is wrong."""
    return _encode(_document(text), _REQUESTS[signal]())


def _document(text: bytes) -> JsonObject:
    try:
        document: Json = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise DecodeError(f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise DecodeError("not a JSON object")
    return document


def _encode(document: JsonObject, message: Message) -> bytes:
    _fill(message, document, "", 0)
    return message.SerializeToString()


def _fill(message: Message, values: JsonObject, path: str, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise DecodeError(f"`{path[:80]}...` is nested too deep")
    fields = message.DESCRIPTOR.fields_by_camelcase_name
    for key, value in values.items():
        field = fields.get(key)
        # upb finds a field by its snake_case name too. JSON null means the same as an absent key.
        if field is not None and field.camelcase_name == key and value is not None:
            _set(message, field, value, f"{path}.{key}" if path else key, depth)  # pyright: ignore[reportArgumentType]  # two names of one class


def _set(message: Message, field: FieldDescriptor, value: Json, path: str, depth: int) -> None:
    if field.is_repeated:
        if not isinstance(value, list):
            raise DecodeError(f"`{path}` must be an array")
        target = getattr(message, field.name)
        for index, item in enumerate(value):
            where = f"{path}[{index}]"
            if field.message_type is None:
                target.append(_scalar(field, item, where))
            else:
                _fill(target.add(), _object(item, where), where, depth + 1)
        return
    if field.message_type is None:
        setattr(message, field.name, _scalar(field, value, path))
        return
    target = getattr(message, field.name)
    # An empty object is present all the same: `{"stringValue": ""}` and `{}` differ from a missing value.
    target.SetInParent()
    _fill(target, _object(value, path), path, depth + 1)


def _object(value: Json, path: str) -> JsonObject:
    if not isinstance(value, dict):
        raise DecodeError(f"`{path}` must be an object")
    return value


def _scalar(field: FieldDescriptor, value: Json, path: str) -> bool | int | float | str | bytes:
    kind = field.cpp_type
    if kind in _INTEGERS:
        return _integer(field, value, path)
    if kind == FieldDescriptor.CPPTYPE_BOOL and isinstance(value, bool):
        return value
    if kind in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
        return _double(value, path)
    if kind == FieldDescriptor.CPPTYPE_STRING and isinstance(value, str):
        return _bytes(field, value, path) if field.type == FieldDescriptor.TYPE_BYTES else value
    raise DecodeError(f"`{path}` has the wrong type")


def _integer(field: FieldDescriptor, value: Json, path: str) -> int:
    if isinstance(value, str) and field.cpp_type != FieldDescriptor.CPPTYPE_ENUM:
        try:
            value = int(value)
        except ValueError:
            raise DecodeError(f"`{path}` must be an integer") from None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise DecodeError(f"`{path}` must be an integer")
    signed = field.cpp_type not in (FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64)
    wide = field.cpp_type in (FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64)
    bits = 64 if wide else 32
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if not low <= value <= high:
        raise DecodeError(f"`{path}` is out of range")
    return value


def _double(value: Json, path: str) -> float:
    if isinstance(value, str):
        special = _SPECIAL_DOUBLES.get(value)
        if special is not None:
            return special
        try:
            return float(value)
        except ValueError:
            raise DecodeError(f"`{path}` must be a number") from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DecodeError(f"`{path}` must be a number")
    return float(value)


def _bytes(field: FieldDescriptor, value: str, path: str) -> bytes:
    size = _ID_BYTES.get(field.name)
    try:
        if size is None:
            return base64.b64decode(value, validate=True)
        raw = bytes.fromhex(value)
    except (ValueError, binascii.Error):
        raise DecodeError(f"`{path}` must be {'base64' if size is None else 'hex'}") from None
    if (raw and len(raw) != size) or len(value) != 2 * len(raw):
        raise DecodeError(f"`{path}` must be {2 * (size or 0)} hex digits")
    return raw
