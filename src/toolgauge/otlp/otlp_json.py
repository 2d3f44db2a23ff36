"""OTLP JSON in, the same request as protobuf bytes out.

OTLP's JSON differs from protobuf's own mapping (OTLP specification, "JSON Protobuf Encoding"): ids are hex in
either case, enums are integers, keys are lowerCamelCase only, unknown keys are ignored. protobuf's `json_format`
would read hex ids as base64 without a word, takes names of enums and snake_case, and is slow.
"""

import msgspec
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from toolgauge.model.delivery import Signal
from toolgauge.model.errors import DecodeError
from toolgauge.model.json import Json, JsonObject
from toolgauge.otlp.json_writers import MessagePlan, MessagePlans, WrongValueError


def _made_plans() -> dict[Signal, MessagePlan]:
    plans = MessagePlans()
    return {
        "traces": plans.of(ExportTraceServiceRequest.DESCRIPTOR),
        "logs": plans.of(ExportLogsServiceRequest.DESCRIPTOR),
        "metrics": plans.of(ExportMetricsServiceRequest.DESCRIPTOR),
    }


_PLANS = _made_plans()


def requests_from_json(text: bytes) -> list[tuple[Signal, bytes]]:
    """Encode the trace and the log request in one JSON document; other signals are left out.

    Raise `DecodeError` naming the path of what is wrong.
    """
    document = _document(text)
    requests: list[tuple[Signal, bytes]] = []
    if "resourceSpans" in document:
        requests.append(("traces", _encode(document, "traces")))
    if "resourceLogs" in document:
        requests.append(("logs", _encode(document, "logs")))
    if not requests and "resourceMetrics" not in document and document:
        raise DecodeError("neither `resourceSpans` nor `resourceLogs` in it")
    return requests


def request_from_json(signal: Signal, text: bytes) -> bytes:
    """Encode one JSON request of a known signal. Raise `DecodeError` naming the path of what is wrong."""
    return _encode(_document(text), signal)


def _document(text: bytes) -> JsonObject:
    try:
        document: Json = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise DecodeError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise DecodeError("the values are nested too deeply") from error
    if not isinstance(document, dict):
        raise DecodeError("not a JSON object")
    return document


def _encode(document: JsonObject, signal: Signal) -> bytes:
    try:
        return _PLANS[signal].encode(document, 0)
    except WrongValueError as error:
        raise DecodeError(error.told()) from None
