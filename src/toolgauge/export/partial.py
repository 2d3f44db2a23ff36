"""Reads the answer to a delivered request: how many items did the destination reject for good?"""

from collections.abc import Callable

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from toolgauge.export.verdict import DELIVERED, Delivered
from toolgauge.model.delivery import Signal

# More than this is no answer but an attack, or somebody else's protocol.
MAX_RESPONSE_BYTES = 4 << 20


def delivered(signal: Signal, response: bytes) -> Delivered:
    """Make the verdict of a success. An answer that is not ours to read is still a success."""
    if not response:
        return DELIVERED
    try:
        rejected = _REJECTED[signal](response)
    except DecodeError:
        return DELIVERED
    return Delivered(rejected=max(0, rejected))


def _rejected_spans(response: bytes) -> int:
    return ExportTraceServiceResponse.FromString(response).partial_success.rejected_spans


def _rejected_points(response: bytes) -> int:
    return ExportMetricsServiceResponse.FromString(response).partial_success.rejected_data_points


def _rejected_records(response: bytes) -> int:
    return ExportLogsServiceResponse.FromString(response).partial_success.rejected_log_records


_REJECTED: dict[Signal, Callable[[bytes], int]] = {
    "traces": _rejected_spans,
    "metrics": _rejected_points,
    "logs": _rejected_records,
}
