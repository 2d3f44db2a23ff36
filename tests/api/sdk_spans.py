"""A recorded trace request as the spans of the SDK that an application would have had."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, StatusCode, TraceFlags
from opentelemetry.trace import Status as SdkStatus

Attribute: TypeAlias = str | bool | int | float | Sequence[str] | Sequence[bool] | Sequence[int] | Sequence[float]
_CODES = {
    Status.STATUS_CODE_UNSET: StatusCode.UNSET,
    Status.STATUS_CODE_OK: StatusCode.OK,
    Status.STATUS_CODE_ERROR: StatusCode.ERROR,
}


def read_back(path: Path) -> list[ReadableSpan]:
    return [
        _span(
            span,
            Resource(_attributes(group.resource.attributes)),
            InstrumentationScope(scope.scope.name, scope.scope.version),
        )
        for group in ExportTraceServiceRequest.FromString(path.read_bytes()).resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


def _span(span: Span, resource: Resource, scope: InstrumentationScope) -> ReadableSpan:
    code = _CODES[span.status.code]
    return ReadableSpan(
        name=span.name,
        context=_context(span.trace_id, span.span_id),
        parent=_context(span.trace_id, span.parent_span_id) if span.parent_span_id else None,
        resource=resource,
        attributes=_attributes(span.attributes),
        events=[Event(event.name, _attributes(event.attributes), event.time_unix_nano) for event in span.events],
        kind=SpanKind(max(0, span.kind - 1)),
        status=SdkStatus(code, span.status.message if code is StatusCode.ERROR else None),
        start_time=span.start_time_unix_nano,
        end_time=span.end_time_unix_nano,
        instrumentation_scope=scope,
    )


def _context(trace_id: bytes, span_id: bytes) -> SpanContext:
    return SpanContext(
        int.from_bytes(trace_id), int.from_bytes(span_id), is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED)
    )


def _attributes(encoded: Iterable[KeyValue]) -> dict[str, Attribute]:
    return {attribute.key: _value(attribute.value) for attribute in encoded}


def _value(value: AnyValue) -> Attribute:
    kind = value.WhichOneof("value")
    assert kind is not None
    if kind == "array_value":
        return [_value(item) for item in value.array_value.values]  # pyright: ignore[reportReturnType] # of one kind each
    found = getattr(value, kind)
    assert isinstance(found, str | bool | int | float), f"no application sets {kind}"
    return found
