"""The endpoint that Prometheus scrapes: OpenMetrics with exemplars where the client accepts it, else the classic text.

Names follow Prometheus' own translation of our OTLP metrics, and the process metrics of stock dashboards.
Cells are copied first and written as text in a thread: tens of thousands of lines take longer than receivers may wait.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# prometheus_client's OpenMetrics writer and number format are not annotated.

import asyncio
import gzip
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from itertools import accumulate

from aiohttp import web
from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.samples import Exemplar as PrometheusExemplar
from prometheus_client.utils import floatToGoString

from toolgauge.export.settings import PrometheusSettings
from toolgauge.model.metrics import (
    Counter,
    Exemplar,
    Gauge,
    Histogram,
    HistogramCell,
    MetricRegistry,
    fit_label,
    present,
    snapshot,
)
from toolgauge.model.metrics import Metric as Registered
from toolgauge.net.listen import IDLE_TIMEOUT_S, HttpEndpoint, accepts_gzip, preferences
from toolgauge.otlp.encode import raw_id

CLASSIC_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE = openmetrics.CONTENT_TYPE_LATEST

_UNITS = {"s": "seconds", "ms": "milliseconds", "By": "bytes"}
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_]+")

# Beyond it each level takes twice the time for a few per cent.
_GZIP_LEVEL = 4
_PROCESS = "process."
_START_TIME = "process_start_time_seconds"


class MetricsEndpoint(HttpEndpoint):
    """Serves metrics to Prometheus, and on port 0 at one that is free."""

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
        # Called before metrics are read: it fetches counts of other processes.
        self.refresh: Callable[[], Awaitable[None]] | None = None
        # One scrape is written at a time: clients that ask all at once share no core but wait.
        self._writing = asyncio.Lock()

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Write all metrics, in the format that the client accepts."""
        if request.path != "/metrics":
            return web.Response(status=404, text="no such path; there is `/metrics`")
        accept = ",".join(request.headers.getall("Accept", []))
        zipped = accepts_gzip(",".join(request.headers.getall("Accept-Encoding", [])))
        async with self._writing:
            if self.refresh is not None:
                await self.refresh()
            metrics = snapshot(self._registry)
            body, content_type = await asyncio.to_thread(
                render, metrics, self._resource, accept=accept, start_ns=self._start_ns
            )
            if zipped:
                body = await asyncio.to_thread(gzip.compress, body, _GZIP_LEVEL, mtime=0)
        headers = {"Content-Type": content_type, "Vary": "Accept, Accept-Encoding"}
        return web.Response(body=body, headers={**headers, "Content-Encoding": "gzip"} if zipped else headers)


class Families(tuple[Metric, ...]):
    """Metric families; has the one method that prometheus_client asks of a registry."""

    __slots__ = ()

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        return iter(self)


def render(
    metrics: Iterable[Registered], resource: Mapping[str, str], *, accept: str, start_ns: int
) -> tuple[bytes, str]:
    """Write a snapshot as the client accepts it; returns the text and its content type."""
    target = InfoMetricFamily("target", "Who is speaking: toolgauge's own resource.")
    target.add_metric((), {_name(key): fit_label(value) for key, value in resource.items()})
    measured = [metric for metric in metrics if not metric.name.startswith(_PROCESS)]
    families = Families((target, *_process(start_ns), *map(_family, measured)))
    if accepts_openmetrics(accept):
        text: bytes = openmetrics.generate_latest(families)
        return text, OPENMETRICS_TYPE
    return generate_latest(families), CLASSIC_TYPE


def _process(start_ns: int) -> Iterator[Metric]:
    families = tuple(ProcessCollector(registry=None).collect())
    if _START_TIME not in {family.name for family in families}:
        start = GaugeMetricFamily(_START_TIME, "Start time of the process since unix epoch in seconds.")
        start.add_metric((), start_ns / 1e9)
        yield start
    yield from families


def accepts_openmetrics(accept: str) -> bool:
    """Return whether OpenMetrics is named and not liked less than plain text."""
    likings = preferences(accept)
    openmetrics_liking = likings.get("application/openmetrics-text", 0.0)
    return openmetrics_liking > 0 and openmetrics_liking >= likings.get("text/plain", 0.0)


def _family(metric: Counter | Gauge | Histogram) -> Metric:
    """Write a metric; without `_created`, which Prometheus stores as a further series of each cell."""
    kind = "counter" if isinstance(metric, Counter) else "gauge" if isinstance(metric, Gauge) else "histogram"
    family = Metric(_name(metric.name), metric.description, kind, _UNITS.get(metric.unit, ""))
    for labels, cell in metric.cells.items():
        written = {_name(name): fit_label(str(value)) for name, value in present(metric.labels, labels)}
        if isinstance(cell, HistogramCell):
            bounds = (*(floatToGoString(bound) for bound in cell.bounds), "+Inf")
            for bound, count, exemplar in zip(bounds, accumulate(cell.counts), cell.exemplars, strict=True):
                in_bucket = {**written, "le": bound}
                family.add_sample(family.name + "_bucket", in_bucket, count, exemplar=_exemplar(exemplar))
            family.add_sample(family.name + "_count", written, cell.count)
            family.add_sample(family.name + "_sum", written, cell.sum)
        elif isinstance(metric, Counter):
            exemplar = _exemplar(metric.exemplars.get(labels))
            family.add_sample(family.name + "_total", written, cell, exemplar=exemplar)
        else:
            family.add_sample(family.name, written, cell)
    return family


def _exemplar(exemplar: Exemplar | None) -> PrometheusExemplar | None:
    # An exemplar without a trace leads nowhere.
    if exemplar is None or not raw_id(exemplar.trace_id, 16):
        return None
    labels = {"trace_id": exemplar.trace_id}
    if raw_id(exemplar.span_id, 8):
        labels["span_id"] = exemplar.span_id
    return PrometheusExemplar(labels, exemplar.value, exemplar.time_ns / 1e9)


def _name(name: str) -> str:
    fitted = _NOT_IN_NAMES.sub("_", name)
    return "_" + fitted if not fitted or fitted[0].isdigit() else fitted
