"""The demo's destination: takes what arrives over the wire and keeps what is worth showing."""

# pyright: reportUnknownMemberType=false

from collections import Counter

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from toolgauge.model.delivery import Accepted, Answer, Signal

_OWN_PREFIX = "toolgauge."
_OWN_SCOPE = "toolgauge"


class Arrivals:
    """A `model.delivery.Consumer` at the far end of the pipeline."""

    def __init__(self) -> None:
        self.spans = 0
        self.annotated: list[Span] = []
        self.scorecards: list[Span] = []
        self.events: Counter[str] = Counter()
        self.metrics: set[str] = set()

    async def consume(self, signal: Signal, body: bytes, sender: str | None) -> Answer:
        """Take one request."""
        del sender
        match signal:
            case "traces":
                self._take_spans(ExportTraceServiceRequest.FromString(body))
            case "logs":
                self._take_events(ExportLogsServiceRequest.FromString(body))
            case "metrics":
                self._take_metrics(ExportMetricsServiceRequest.FromString(body))
        return Accepted()

    def _take_spans(self, request: ExportTraceServiceRequest) -> None:
        for group in request.resource_spans:
            for scope in group.scope_spans:
                if scope.scope.name == _OWN_SCOPE:
                    self.scorecards.extend(scope.spans)
                    continue
                self.spans += len(scope.spans)
                self.annotated.extend(span for span in scope.spans if _is_annotated(span))

    def _take_events(self, request: ExportLogsServiceRequest) -> None:
        for group in request.resource_logs:
            for scope in group.scope_logs:
                self.events.update(record.event_name for record in scope.log_records)

    def _take_metrics(self, request: ExportMetricsServiceRequest) -> None:
        for group in request.resource_metrics:
            for scope in group.scope_metrics:
                self.metrics.update(metric.name for metric in scope.metrics)


def _is_annotated(span: Span) -> bool:
    return any(attribute.key.startswith(_OWN_PREFIX) for attribute in span.attributes)
