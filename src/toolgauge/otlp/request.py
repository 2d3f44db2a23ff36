"""A sender's request whose envelope has been checked: what the receivers hand to the pipeline.

The envelope is checked before a sender is answered, because what cannot be parsed must not be acknowledged. What is
inside a span is nobody's business until the pipeline reads it.
"""

from google.protobuf.message import DecodeError as ProtobufDecodeError
from msgspec import Struct
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from toolgauge.model.delivery import Assignment, Signal
from toolgauge.model.errors import DecodeError
from toolgauge.otlp.envelope import parse_request
from toolgauge.otlp.messages import RequestMessage


class Request(Struct, frozen=True, eq=False):
    """One export request: its bytes as received, its parsed envelope, and how many spans, records or metrics it holds.

    `sender` is the same for requests of one connection; `None` is a sender of this request alone. `received_ns` is when
    it came, `entry` its number in the journal, 0 without one.
    """

    signal: Signal
    body: bytes
    envelope: RequestMessage
    count: int
    sender: str | None
    received_ns: int
    entry: int = 0
    # The partition that it was read from, where it came from a message broker.
    assignment: Assignment | None = None

    @property
    def spans(self) -> int:
        """How many spans are in it, for the books."""
        return self.count if self.signal == "traces" else 0


def read_request(signal: Signal, body: bytes, received_ns: int, sender: str | None = None, entry: int = 0) -> Request:
    """Parse the envelope; raise `DecodeError` when it is broken (cut off, trailing bytes)."""
    envelope = parse_request(body)
    count = sum(len(group.items) for resource in envelope.resource_groups for group in resource.scope_groups)
    return Request(signal, body, envelope, count, sender, received_ns, entry)


# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false


def newest_time_ns(signal: Signal, body: bytes) -> int:
    """Return the newest end of a span, or time of a log record, in the request; 0 when it holds none.

    A recorded request left its producer at that time at the earliest.
    """
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
