"""What toolgauge itself exports: score metrics, evaluation events and scorecard spans, as cells and as requests to send.

Nothing here sends: requests leave through the same queue and retry as the senders' own. Every process has its own
`service.instance.id`: two replicas would otherwise overwrite each other's series.
"""

# pyright: reportUnknownMemberType=false

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.sdk.resources import OTELResourceDetector

from toolgauge.export.metric_data import add_metrics, snapshot
from toolgauge.export.redact import MAX_EXPLANATION, Redactor
from toolgauge.export.regression_events import RegressionEncoder
from toolgauge.export.results import EmitSettings
from toolgauge.export.score_metrics import ScoreMetrics
from toolgauge.export.scorecards import ScorecardEncoder
from toolgauge.model.delivery import Outgoing
from toolgauge.model.metrics import Metric, MetricRegistry
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.regressions import Regression
from toolgauge.otlp.encode import RequestWriter, fit_text
from toolgauge.selfmetrics import SelfMetrics


class Emitter:
    """Makes requests of what was scored: scorecard spans, evaluation events, and metrics, as OTLP.

    `start_ns` is when this process began to count. `record`, `requests`, `regressions`, `adopt` and `keep` belong to one thread, the
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
        self.resource = _own_attributes(instance_id, version, resource_attributes)
        self._resource = _encoded(self.resource)
        self._scope = InstrumentationScope(name="toolgauge", version=version)
        self._start_ns = start_ns
        self._registry = registry
        self._selfmetrics = selfmetrics
        self._scores = ScoreMetrics(settings.metrics, registry)
        self.adopt(settings, redactor)

    def adopt(self, settings: EmitSettings, redactor: Redactor) -> None:
        """Encode by these settings from here on; the caps of labels stay as they were at the start."""
        requests = RequestWriter(self._resource, self._scope)
        self._scorecards = ScorecardEncoder(redactor, settings, requests, self._count_judged)
        self._regressions = RegressionEncoder(requests, settings.trace_url)

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

    def regressions(self, regressions: Sequence[Regression]) -> Iterator[Outgoing]:
        """Encode the events of regressions that began or ended."""
        return self._regressions.encode(regressions)

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


def resource_from_environment() -> dict[str, str]:
    """Read `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME`."""
    return {key: str(value) for key, value in OTELResourceDetector().detect().attributes.items()}


def _own_attributes(instance_id: str, version: str, extra: Mapping[str, str]) -> dict[str, str]:
    """Describe this process; what the operator sets wins."""
    own = {"service.name": "toolgauge", "service.version": version, "service.instance.id": instance_id}
    return {fit_text(key, MAX_EXPLANATION): fit_text(value, MAX_EXPLANATION) for key, value in {**own, **extra}.items()}


def _encoded(attributes: Mapping[str, str]) -> Resource:
    resource = Resource()
    for key, value in attributes.items():
        resource.attributes.add(key=key).value.string_value = value
    return resource
