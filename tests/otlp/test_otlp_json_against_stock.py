"""Every valid document of every signal becomes the request that protobuf's own JSON parser makes of it."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import base64
import json

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from toolgauge.model.delivery import Signal
from toolgauge.model.json import Json
from toolgauge.otlp.otlp_json import request_from_json

_STOCK: dict[Signal, type[Message]] = {
    "traces": ExportTraceServiceRequest,
    "logs": ExportLogsServiceRequest,
    "metrics": ExportMetricsServiceRequest,
}
_ID_BYTES = {"traceId": 16, "spanId": 8, "parentSpanId": 8}
_SPECIAL = st.sampled_from(["NaN", "Infinity", "-Infinity"])


def _both(numbers: st.SearchStrategy[int]) -> st.SearchStrategy[Json]:
    return numbers | numbers.map(str)


_I32, _U32 = st.integers(-(2**31), 2**31 - 1), st.integers(0, 2**32 - 1)
_I64, _U64 = st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**64 - 1)
_VALUES: dict[int, st.SearchStrategy[Json]] = {
    FieldDescriptor.TYPE_BOOL: st.booleans(),
    FieldDescriptor.TYPE_STRING: st.text(max_size=140),
    FieldDescriptor.TYPE_DOUBLE: st.floats(allow_nan=False, allow_infinity=False) | _SPECIAL | _I32,
    FieldDescriptor.TYPE_ENUM: st.integers(0, 5),
    FieldDescriptor.TYPE_INT32: _both(_I32),
    FieldDescriptor.TYPE_SINT32: _both(_I32),
    FieldDescriptor.TYPE_UINT32: _both(_U32),
    FieldDescriptor.TYPE_FIXED32: _both(_U32),
    FieldDescriptor.TYPE_INT64: _both(_I64),
    FieldDescriptor.TYPE_SFIXED64: _both(_I64),
    FieldDescriptor.TYPE_UINT64: _both(_U64),
    FieldDescriptor.TYPE_FIXED64: _both(_U64),
}


def _value(draw: st.DrawFn, field: FieldDescriptor, depth: int) -> Json:
    if field.message_type is not None:
        return _object(draw, field.message_type, depth + 1)
    if field.type == FieldDescriptor.TYPE_BYTES:
        size = _ID_BYTES.get(field.camelcase_name)
        if size is None:
            return base64.b64encode(draw(st.binary(max_size=20))).decode()
        identity = draw(st.binary(min_size=size, max_size=size)).hex()
        return draw(st.sampled_from(["", identity, identity.upper()]))
    return draw(_VALUES[field.type])


def _object(draw: st.DrawFn, descriptor: Descriptor, depth: int) -> dict[str, Json]:
    document: dict[str, Json] = {}
    seen: set[str] = set()
    for field in draw(st.permutations(list(descriptor.fields))):
        group = None if field.containing_oneof is None else field.containing_oneof.name
        is_leaf = field.message_type is None
        # json_format refuses two members of one choice.
        if group in seen or (not is_leaf and depth > 7) or not draw(st.booleans()):
            continue
        seen.update(() if group is None else (group,))
        many = field.is_repeated
        document[field.camelcase_name] = (
            [_value(draw, field, depth) for _ in range(draw(st.integers(0, 2)))] if many else _value(draw, field, depth)
        )
    return document


@st.composite
def _documents(draw: st.DrawFn, signal: Signal) -> dict[str, Json]:
    return _object(draw, _STOCK[signal].DESCRIPTOR, 0)  # pyright: ignore[reportArgumentType]  # two names of one class


def _for_stock(value: Json) -> Json:
    """Write ids as protobuf's mapping wants them."""
    if isinstance(value, dict):
        return {
            key: base64.b64encode(bytes.fromhex(item)).decode()
            if key in _ID_BYTES and isinstance(item, str)
            else _for_stock(item)
            for key, item in value.items()
        }
    return [_for_stock(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("signal", ["traces", "logs", "metrics"])
@given(data=st.data())
def test_valid_document_becomes_what_the_stock_parser_makes_of_it(signal: Signal, data: st.DataObject):
    document = data.draw(_documents(signal))
    ours = request_from_json(signal, json.dumps(document).encode())
    stock = json_format.Parse(json.dumps(_for_stock(document)), _STOCK[signal]())
    # As bytes: NaN differs from itself.
    again = _STOCK[signal].FromString(ours)
    assert again.SerializeToString(deterministic=True) == stock.SerializeToString(deterministic=True)
