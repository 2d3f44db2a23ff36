"""The endpoint that Prometheus scrapes.

OpenMetrics with exemplars where the client accepts it, the classic text otherwise. Names are those that Prometheus' own
translation of our OTLP metrics yields: the same metric must not have two names by two ways. Cells are copied first and
written as text in a thread: tens of thousands of lines take longer than receivers may stand still.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# prometheus_client's OpenMetrics writer and number format are not annotated.

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from aiohttp import web
from prometheus_client import generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.samples import Exemplar as PrometheusExemplar
from prometheus_client.utils import floatToGoString

from toolgauge.export.metric_data import present, snapshot
from toolgauge.export.settings import PrometheusSettings
from toolgauge.model.metrics import (
    Counter,
    Exemplar,
    Gauge,
    Histogram,
    HistogramCell,
    Labels,
    MetricRegistry,
    fit_label,
)
from toolgauge.model.metrics import Metric as Registered
from toolgauge.net.listen import IDLE_TIMEOUT_S, HttpEndpoint
from toolgauge.otlp.encode import raw_id

CLASSIC_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE = openmetrics.CONTENT_TYPE_LATEST

_UNITS = {"s": "seconds", "ms": "milliseconds", "By": "bytes"}
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]+")


class MetricsEndpoint(HttpEndpoint):
    """Serves metrics to Prometheus.

    `GET /metrics` at the endpoint of the settings; port 0 takes any free one.
    """

    def __init__(
        self,
        settings: PrometheusSettings,
        registry: MetricRegistry,
        resource: Mapping[str, str],
        *,
        start_ns: int,
        idle_timeout_s: float = IDLE_TIMEOUT_S,
    ) -> None:
        super().__init__(settings, idle_timeout_s=idle_timeout_s)
        self._registry = registry
        self._resource = resource
        self._start_ns = start_ns
        # One scrape is written at a time: clients that ask all at once share no core but wait.
        self._writing = asyncio.Lock()

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Write all metrics, in the format that the client accepts."""
        if request.path != "/metrics":
            return web.Response(status=404, text="no such path; there is `/metrics`")
        accept = ",".join(request.headers.getall("Accept", []))
        async with self._writing:
            metrics = snapshot(self._registry)
            body, content_type = await asyncio.to_thread(
                render, metrics, self._resource, accept=accept, start_ns=self._start_ns
            )
        return web.Response(body=body, headers={"Content-Type": content_type})


@dataclass(frozen=True, slots=True)
class Families:
    """Metric families; has the one method that prometheus_client asks of a registry."""

    families: tuple[Metric, ...]

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        return iter(self.families)


def render(
    metrics: Iterable[Registered], resource: Mapping[str, str], *, accept: str, start_ns: int
) -> tuple[bytes, str]:
    """Write a snapshot as the client accepts it; returns the text and its content type."""
    target = InfoMetricFamily("target", "Who is speaking: toolgauge's own resource.")
    target.add_metric((), {_name(key): fit_label(value) for key, value in resource.items()})
    start = GaugeMetricFamily("process_start_time_seconds", "Since when this process counts, in Unix time.")
    start.add_metric((), start_ns / 1e9)
    families = Families((target, start, *(_family(metric) for metric in metrics)))
    if accepts_openmetrics(accept):
        text: bytes = openmetrics.generate_latest(families)
        return text, OPENMETRICS_TYPE
    return generate_latest(families), CLASSIC_TYPE


def accepts_openmetrics(accept: str) -> bool:
    """Return whether OpenMetrics is named and not liked less than plain text."""
    likings: dict[str, float] = {}
    for entry in accept.split(","):
        media_type, *parameters = (part.strip().lower() for part in entry.split(";"))
        likings[media_type] = max(likings.get(media_type, 0.0), _quality(parameters))
    openmetrics_liking = likings.get("application/openmetrics-text", 0.0)
    return openmetrics_liking > 0 and openmetrics_liking >= likings.get("text/plain", 0.0)


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def _family(metric: Counter | Gauge | Histogram) -> Metric:
    match metric:
        case Counter():
            family = _empty_family(metric, "counter")
            for labels, value in metric.cells.items():
                family.add_sample(family.name + "_total", _labels(metric.labels, labels), value)
        case Gauge():
            family = _empty_family(metric, "gauge")
            for labels, value in metric.cells.items():
                family.add_sample(family.name, _labels(metric.labels, labels), value)
        case Histogram():
            family = _empty_family(metric, "histogram")
            bounds = (*(floatToGoString(bound) for bound in metric.bounds), "+Inf")
            for labels, cell in metric.cells.items():
                _add_cell(family, bounds, _labels(metric.labels, labels), cell)
    return family


def _empty_family(metric: Counter | Gauge | Histogram, kind: str) -> Metric:
    return Metric(_name(metric.name), metric.description, kind, _UNITS.get(metric.unit, ""))


def _add_cell(family: Metric, bounds: Labels, labels: dict[str, str], cell: HistogramCell) -> None:
    rows = zip(bounds, accumulate(cell.counts), cell.exemplars, strict=True)
    for bound, count, exemplar in rows:
        family.add_sample(family.name + "_bucket", {**labels, "le": bound}, count, exemplar=_exemplar(exemplar))
    family.add_sample(family.name + "_count", labels, cell.count)
    family.add_sample(family.name + "_sum", labels, cell.sum)


def _exemplar(exemplar: Exemplar | None) -> PrometheusExemplar | None:
    # An exemplar without a trace leads nowhere.
    if exemplar is None or not raw_id(exemplar.trace_id, 16):
        return None
    labels = {"trace_id": exemplar.trace_id}
    if raw_id(exemplar.span_id, 8):
        labels["span_id"] = exemplar.span_id
    return PrometheusExemplar(labels, exemplar.value, exemplar.time_ns / 1e9)


def _labels(names: Labels, values: Labels) -> dict[str, str]:
    return {_name(name): fit_label(str(value)) for name, value in present(names, values)}


def _name(name: str) -> str:
    fitted = _NOT_IN_NAMES.sub("_", name)
    return "_" + fitted if not fitted or fitted[0].isdigit() else fitted
