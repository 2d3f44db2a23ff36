"""From what we say ourselves, as it is encoded for the wire, to objects of the OpenTelemetry SDK.

Inside an application our scorecard spans leave through its own exporter and our events through its own logger. They
are encoded once, in one place, and read back here: measurements are rare enough there.
"""

# pyright: reportUnknownMemberType=false

from collections.abc import Iterable, Iterator

from opentelemetry._logs import Logger, LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope as OtlpScope
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


def scorecard_spans(body: bytes, resource: Resource) -> list[ReadableSpan]:
    """Make the spans of one of our trace requests, as spans of the application that `resource` describes."""
    return [
        _readable(span, scope.scope, resource)
        for group in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


def emit_events(body: bytes, logger: Logger) -> None:
    """Emit the records of one of our log requests."""
    for group in ExportLogsServiceRequest.FromString(body).resource_logs:
        for scope in group.scope_logs:
            for record in scope.log_records:
                logger.emit(
                    LogRecord(
                        timestamp=record.time_unix_nano,
                        observed_timestamp=record.observed_time_unix_nano,
                        context=span_context(record.trace_id.hex(), record.span_id.hex()),
                        severity_text=record.severity_text,
                        severity_number=SeverityNumber(record.severity_number),
                        attributes=_attributes(record.attributes),
                        event_name=record.event_name,
                    )
                )


def span_context(trace_id: str, span_id: str) -> Context:
    """Make the context in which the span of these ids is the current one."""
    return set_span_in_context(NonRecordingSpan(_context(trace_id, span_id)), Context())


def _context(trace_id: str, span_id: str) -> SpanContext:
    return SpanContext(int(trace_id or "0", 16), int(span_id or "0", 16), is_remote=False, trace_flags=_SAMPLED)


def _readable(span: Span, scope: OtlpScope, resource: Resource) -> ReadableSpan:
    trace_id = span.trace_id.hex()
    return ReadableSpan(
        name=span.name,
        context=_context(trace_id, span.span_id.hex()),
        parent=_context(trace_id, span.parent_span_id.hex()) if span.parent_span_id else None,
        resource=resource,
        attributes=_attributes(span.attributes),
        events=tuple(Event(event.name, _attributes(event.attributes), event.time_unix_nano) for event in span.events),
        links=tuple(Link(_context(link.trace_id.hex(), link.span_id.hex())) for link in span.links),
        start_time=span.start_time_unix_nano,
        end_time=span.end_time_unix_nano,
        instrumentation_scope=InstrumentationScope(scope.name, scope.version),
    )


def _attributes(encoded: Iterable[KeyValue]) -> dict[str, str | bool | int | float]:
    return dict(_plain(encoded))


def _plain(encoded: Iterable[KeyValue]) -> Iterator[tuple[str, str | bool | int | float]]:
    """Read attributes; ours are text, booleans and numbers."""
    for attribute in encoded:
        value = attribute.value
        match value.WhichOneof("value"):
            case "string_value":
                yield attribute.key, value.string_value
            case "bool_value":
                yield attribute.key, value.bool_value
            case "int_value":
                yield attribute.key, value.int_value
            case "double_value":
                yield attribute.key, value.double_value
            case _:
                continue
