"""What we say ourselves: score metrics, evaluation events and scorecard spans, as cells and as requests to send.

Nothing here sends: requests leave through the same queue and retry as the senders' own.
"""

# pyright: reportUnknownMemberType=false

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from toolgauge.export.emit_settings import EmitSettings
from toolgauge.export.encode import ScorecardEncoder
from toolgauge.export.metric_data import add_metrics, snapshot
from toolgauge.export.redact import Redactor
from toolgauge.export.resource import own_attributes, own_resource, own_scope
from toolgauge.export.score_metrics import ScoreMetrics
from toolgauge.export.wire import Around
from toolgauge.model.delivery import Outgoing
from toolgauge.model.metrics import Metric, MetricRegistry
from toolgauge.model.outcomes import Scorecard
from toolgauge.selfmetrics import SelfMetrics


class Emitter:
    """Says what was scored: scorecard spans, evaluation events, and metrics, as OTLP.

    `start_ns` is when this process began to count. `record`, `requests`, `adopt` and `keep` belong to one thread, the
    worker; `metrics`, `snapshot` and `metrics_request` may be called in any.
    """

    def __init__(
        self,
        settings: EmitSettings,
        registry: MetricRegistry,
        selfmetrics: SelfMetrics,
        redactor: Redactor,
        instance_id: str,
        version: str,
        resource_attributes: Mapping[str, str],
        *,
        start_ns: int,
    ) -> None:
        self.resource = own_attributes(instance_id, version, resource_attributes)
        self._resource = own_resource(self.resource)
        self._scope = own_scope(version)
        self._start_ns = start_ns
        self._registry = registry
        self._selfmetrics = selfmetrics
        self._scores = ScoreMetrics(settings, registry)
        self.adopt(settings, redactor)

    def adopt(self, settings: EmitSettings, redactor: Redactor) -> None:
        """Say what comes from here on by these settings; the caps of labels stay as they were at the start."""
        around = Around(self._resource, self._scope)
        self._scorecards = ScorecardEncoder(redactor, settings, around, self._count_judged)

    def _count_judged(self, spans: int) -> None:
        self._selfmetrics.annotations.add(spans, ("scorecard",))

    def keep(self, streams: Collection[tuple[str, str]]) -> None:
        """Drop the score metrics of all criteria but these (name and revision), or reloads would add up."""
        self._scores.keep(streams)

    def record(self, scorecard: Scorecard) -> None:
        """Count the scorecard in the metrics."""
        self._scores.record(scorecard)

    def requests(self, scorecards: Sequence[Scorecard]) -> Iterator[Outgoing]:
        """Encode scorecard spans and events: one request a signal, several when it would become too large."""
        return self._scorecards.encode(scorecards)

    def metrics(self, now_ns: int) -> Outgoing:
        """Encode the whole registry."""
        return self.metrics_request(self.snapshot(), now_ns)

    def snapshot(self) -> tuple[Metric, ...]:
        """Copy the whole registry: the short part of `metrics`."""
        return snapshot(self._registry)

    def metrics_request(self, metrics: Iterable[Metric], now_ns: int) -> Outgoing:
        """Encode a snapshot: the long part of `metrics`, tens of milliseconds at the caps; may run in a thread."""
        request = ExportMetricsServiceRequest()
        resource_metrics = request.resource_metrics.add()
        resource_metrics.resource.CopyFrom(self._resource)
        scope_metrics = resource_metrics.scope_metrics.add()
        scope_metrics.scope.CopyFrom(self._scope)
        add_metrics(scope_metrics, metrics, self._start_ns, now_ns)
        return Outgoing(signal="metrics", body=request.SerializeToString(), spans=0, own=True)
