"""Collects the spans and log records of one test at a time, in process, from providers of the OpenTelemetry SDK.

A provider can't remove its processor, so ours idles between tests. A span belongs to the test in which it began.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias
from weakref import WeakSet

from opentelemetry import trace
from opentelemetry._logs import get_logger_provider, set_logger_provider
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.sdk._logs import LoggerProvider, LogRecordProcessor
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

ExportRequest: TypeAlias = ExportTraceServiceRequest | ExportLogsServiceRequest
_SpanId: TypeAlias = tuple[int, int]
_ADD_SPANS, _ADD_RECORDS = "add_span_processor", "add_log_record_processor"


class Collection:
    """The spans and log records of one test. Any thread may add to it. Records are the SDK's, whose type has another name in each version."""

    def __init__(self) -> None:
        self._open: dict[_SpanId, str] = {}
        self._traces: set[int] = set()
        self._spans: list[ReadableSpan] = []
        self._records: list[Any] = []

    def begin(self, span: ReadableSpan) -> None:
        """Take note of a span of this test."""
        span_id = _span_id(span)
        self._open[span_id] = span.name
        self._traces.add(span_id[0])

    def end(self, span: ReadableSpan) -> None:
        """Take a span that began in this test, once: several processors may see it."""
        if self._open.pop(_span_id(span), None) is not None:
            self._spans.append(span)

    def add(self, record: object) -> None:
        """Take a log record."""
        self._records.append(record)

    def clear(self) -> None:
        """Forget the spans and records that have ended."""
        self._spans.clear()
        self._records.clear()

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """The spans that have ended, in the order in which they did."""
        return tuple(self._spans)

    @property
    def unfinished(self) -> tuple[str, ...]:
        """The names of the spans that have not ended yet."""
        return tuple(self._open.values())

    @property
    def size(self) -> int:
        """How much was collected: it grows with every span and record."""
        return len(self._spans) + len(self._records)

    def requests(self, attributes: Mapping[str, str]) -> Iterator[ExportRequest]:
        """Encode the collected spans and records, with attributes set on their resources."""
        if self._spans:
            traces = encode_spans(self.spans)
            _set(traces, attributes)
            yield traces
        # A thread of an earlier test may still write; records outside of any trace hold no tool call.
        records = [record for record in tuple(self._records) if record.log_record.trace_id in self._traces]
        if records:
            logs = encode_logs(records)
            _set(logs, attributes)
            yield logs


class Collector(SpanProcessor, LogRecordProcessor):
    """Fills the collection of the test that is `current`; without one, nothing is kept."""

    def __init__(self) -> None:
        self.current: Collection | None = None
        self._known: WeakSet[object] = WeakSet()

    def begin(self) -> Collection:
        """Collect for a test from now on, also from the global providers, which are set if missing."""
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            # Tests look at every run, even where `OTEL_TRACES_SAMPLER` samples few in production.
            trace.set_tracer_provider(TracerProvider(sampler=ALWAYS_ON, shutdown_on_exit=False))
        # The API's placeholder, until a provider is set; its class is not public.
        if type(get_logger_provider()).__name__ == "ProxyLoggerProvider":
            set_logger_provider(LoggerProvider(shutdown_on_exit=False))
        self.collect(trace.get_tracer_provider())
        self.collect(get_logger_provider())
        self.current = Collection()
        return self.current

    def collect(self, provider: object) -> bool:
        """Collect from a provider, too; return whether it takes processors at all."""
        # A provider of the SDK, or one that stands for it.
        adding = [getattr(provider, name) for name in (_ADD_SPANS, _ADD_RECORDS) if hasattr(provider, name)]
        if adding and provider not in self._known:
            self._known.add(provider)
            for add in adding:
                add(self)
        return bool(adding)

    def end(self) -> None:
        """Collect no more for the test."""
        self.current = None

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002 (the SDK's interface)
        """Take note of a span that begins."""
        if self.current is not None:
            self.current.begin(span)

    def on_end(self, span: ReadableSpan) -> None:
        """Take a span that has ended."""
        if self.current is not None:
            self.current.end(span)

    def on_emit(self, log_record: object) -> None:
        """Take a log record."""
        if self.current is not None:
            self.current.add(log_record)


def obstacle() -> str | None:
    """Return why the global tracer provider gives no spans, where that can be seen."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return "`OTEL_SDK_DISABLED` is set, which switches all tracing off"
    provider = trace.get_tracer_provider()
    if hasattr(provider, _ADD_SPANS):
        return None
    kind = type(provider)
    return f"the global tracer provider, `{kind.__module__}.{kind.__qualname__}`, takes no span processors"


def _span_id(span: ReadableSpan) -> _SpanId:
    context = span.get_span_context() or trace.INVALID_SPAN_CONTEXT
    return (context.trace_id, context.span_id)


def _set(request: ExportRequest, attributes: Mapping[str, str]) -> None:
    of = request.resource_spans if isinstance(request, ExportTraceServiceRequest) else request.resource_logs
    for resource in (each.resource.attributes for each in of):
        kept = [attribute for attribute in resource if attribute.key not in attributes]
        del resource[:]
        resource.extend(kept)
        resource.extend(KeyValue(key=key, value=AnyValue(string_value=value)) for key, value in attributes.items())
