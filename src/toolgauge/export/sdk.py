"""Our scorecard spans, events and metrics as objects of the OpenTelemetry SDK, for an application that has one.

Spans and events are encoded once and read back here. Counters and gauges are observed when the application collects;
a histogram cannot be observed, so each measurement is made twice: in our cell and in the instrument.
"""

# pyright: reportUnknownMemberType=false

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from opentelemetry._logs import Logger, LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.metrics import Histogram as Instrument
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope as OtlpScope
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from toolgauge.model.metrics import Counter, Exemplar, Gauge, Histogram, HistogramCell, Labels, MetricRegistry, present

_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


def trace_request(spans: Sequence[ReadableSpan]) -> bytes:
    """Encode spans of an application as a trace request, as its own OTLP exporter would."""
    return encode_spans(spans).SerializeToString()


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
    plain = ("string_value", "bool_value", "int_value", "double_value")
    return {
        each.key: getattr(each.value, kind) for each in encoded if (kind := each.value.WhichOneof("value")) in plain
    }


class _Mirrored(Histogram, kw_only=True):
    instrument: Instrument

    def add(self, cell: HistogramCell, labels: Labels, value: float, exemplar: Exemplar | None, times: int = 1) -> None:
        Histogram.add(self, cell, labels, value, exemplar, times)
        where = None if exemplar is None else span_context(exemplar.trace_id, exemplar.span_id)
        attributes = dict(present(self.labels, labels))
        for _ in range(times):
            self.instrument.record(value, attributes, context=where)


class SdkMetrics:
    """The instruments. They outlive a registry: after a fork the child counts from 0 in a registry of its own."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._histograms: dict[str, Instrument] = {}
        self._observed: dict[str, Counter | Gauge] = {}

    def registry(self, clock: Callable[[], int]) -> MetricRegistry:
        """Make an empty registry; `observe` it when everything is registered."""
        return MetricRegistry(clock, self._mirrored)

    def observe(self, registry: MetricRegistry) -> None:
        """Show this registry's counters and gauges from here on."""
        observed = {metric.name: metric for metric in registry if isinstance(metric, Counter | Gauge)}
        unseen = [metric for name, metric in observed.items() if name not in self._observed]
        self._observed = observed
        for metric in unseen:
            is_counter = isinstance(metric, Counter)
            create = self._meter.create_observable_counter if is_counter else self._meter.create_observable_gauge
            create(metric.name, [partial(self._read, metric.name)], metric.unit, metric.description)

    def _mirrored(self, **made: Any) -> Histogram:  # noqa: ANN401 (the fields of a histogram)
        name = made["name"]
        if name not in self._histograms:
            bounds = made["bounds"]
            self._histograms[name] = self._meter.create_histogram(
                name, made["unit"], made["description"], explicit_bucket_boundaries_advisory=bounds
            )
        return _Mirrored(**made, instrument=self._histograms[name])

    def _read(self, name: str, _options: CallbackOptions) -> Iterable[Observation]:
        metric = self._observed[name]
        # Copied first: the cells move on in another thread.
        cells = dict(metric.current())
        return [Observation(value, dict(present(metric.labels, labels))) for labels, value in cells.items()]
