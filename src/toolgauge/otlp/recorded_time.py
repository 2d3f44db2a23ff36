"""When a recorded request left its producer: not before the newest span in it had ended."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from google.protobuf.message import DecodeError as ProtobufDecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from toolgauge.model.delivery import Signal
from toolgauge.model.errors import DecodeError


def newest_time_ns(signal: Signal, body: bytes) -> int:
    """Return the newest end of a span, or time of a log record, in the request; 0 when it holds none."""
    try:
        if signal == "traces":
            traces = ExportTraceServiceRequest.FromString(body)
            return max(
                (
                    span.end_time_unix_nano
                    for group in traces.resource_spans
                    for scope in group.scope_spans
                    for span in scope.spans
                ),
                default=0,
            )
        logs = ExportLogsServiceRequest.FromString(body)
        return max(
            (
                record.time_unix_nano or record.observed_time_unix_nano
                for group in logs.resource_logs
                for scope in group.scope_logs
                for record in scope.log_records
            ),
            default=0,
        )
    except ProtobufDecodeError as error:
        raise DecodeError(str(error)) from error
