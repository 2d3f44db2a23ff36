"""OTLP JSON in, the same request as protobuf bytes out.

OTLP's JSON differs from protobuf's own mapping (OTLP specification, "JSON Protobuf Encoding"): ids are hex in
either case, enums are integers, keys are lowerCamelCase only, unknown keys are ignored. protobuf's `json_format`
would read hex ids as base64 without a word, takes names of enums and snake_case, and is slow.
"""

from collections.abc import Generator
from contextlib import contextmanager

import msgspec
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from toolgauge.model.delivery import Signal
from toolgauge.model.errors import DecodeError
from toolgauge.otlp.bounds import check_json
from toolgauge.otlp.json_writers import MessagePlans, SplitPlan, WrongValueError, split_object

_SPANS = ("resourceSpans", "scopeSpans", "spans")
_LOG_RECORDS = ("resourceLogs", "scopeLogs", "logRecords")
_METRICS = ("resourceMetrics", "scopeMetrics", "metrics")


def _made_plans() -> dict[Signal, SplitPlan]:
    plans = MessagePlans()
    return {
        "traces": SplitPlan(ExportTraceServiceRequest.DESCRIPTOR, _SPANS, plans),
        "logs": SplitPlan(ExportLogsServiceRequest.DESCRIPTOR, _LOG_RECORDS, plans),
        "metrics": SplitPlan(ExportMetricsServiceRequest.DESCRIPTOR, _METRICS, plans),
    }


_PLANS = _made_plans()


def requests_from_json(text: bytes) -> list[tuple[Signal, bytes]]:
    """Encode the trace and the log request in one JSON document; other signals are left out.

    Raise `DecodeError` naming the path of what is wrong.
    """
    with _as_decode_errors():
        check_json(text)
        fields = split_object(text)
        requests: list[tuple[Signal, bytes]] = []
        if "resourceSpans" in fields:
            requests.append(("traces", _PLANS["traces"].encode(text)))
        if "resourceLogs" in fields:
            requests.append(("logs", _PLANS["logs"].encode(text)))
        if not requests and "resourceMetrics" not in fields and fields:
            raise DecodeError("neither `resourceSpans` nor `resourceLogs` in it")
        return requests


def request_from_json(signal: Signal, text: bytes) -> bytes:
    """Encode one JSON request of a known signal. Raise `DecodeError` naming the path of what is wrong."""
    with _as_decode_errors():
        check_json(text)
        return _PLANS[signal].encode(text)


@contextmanager
def _as_decode_errors() -> Generator[None]:
    try:
        yield
    except WrongValueError as error:
        raise DecodeError(error.message()) from None
    except (msgspec.DecodeError, UnicodeError) as error:
        raise DecodeError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise DecodeError("the values are nested too deeply") from error
