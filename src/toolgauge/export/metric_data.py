"""From the registry's cells to OTLP metric data.

Cumulative, each cell since it began to count: a lost interval heals, and a restart is seen as one.
"""

# pyright: reportUnknownMemberType=false

import math
from collections.abc import Iterable, Iterator

from msgspec.structs import replace
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    HistogramDataPoint,
    NumberDataPoint,
    ScopeMetrics,
)

from toolgauge.model.metrics import Counter, Exemplar, Gauge, Histogram, Labels, MetricRegistry
from toolgauge.model.metrics import Metric as Registered
from toolgauge.otlp.encode import fit_time, raw_id

_CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE


def snapshot(registry: MetricRegistry) -> tuple[Registered, ...]:
    """Copy all finite cells, in any thread. A histogram's sum may lack, or have, the measurement being made."""
    # What changes together is copied together.
    with registry.lock:
        return tuple(_copy(metric) for metric in registry)


def _copy(metric: Registered) -> Registered:
    match metric:
        case Counter():
            cells = dict(metric.current())
            # After the cells: each of these has begun.
            created, exemplars = metric.created.copy(), metric.exemplars.copy()
            return replace(metric, cells=cells, created=created, exemplars=exemplars, observe=None)
        case Gauge():
            finite = {labels: value for labels, value in dict(metric.current()).items() if math.isfinite(value)}
            return replace(metric, cells=finite, observe=None)
        case Histogram():
            cells = {
                labels: replace(cell, counts=cell.counts.copy(), exemplars=cell.exemplars.copy())
                for labels, cell in metric.cells.copy().items()
            }
            return replace(metric, cells=cells)


def add_metrics(target: ScopeMetrics, metrics: Iterable[Registered], start_ns: int, now_ns: int) -> None:
    """Append every metric that has data. No cell began before `start_ns`."""
    for registered in metrics:
        if not registered.cells:
            continue
        metric = target.metrics.add(name=registered.name, unit=registered.unit, description=registered.description)
        match registered:
            case Counter():
                metric.sum.aggregation_temporality = _CUMULATIVE
                metric.sum.is_monotonic = True
                for labels, value in registered.cells.items():
                    point = metric.sum.data_points.add()
                    began_ns = max(registered.created.get(labels, 0), start_ns)
                    _fill_number(point, value, registered.labels, labels, began_ns, now_ns)
                    _fill_exemplars(point, (registered.exemplars.get(labels),))
            case Gauge():
                for labels, value in registered.cells.items():
                    point = metric.gauge.data_points.add()
                    _fill_number(point, value, registered.labels, labels, start_ns, now_ns)
            case Histogram():
                metric.histogram.aggregation_temporality = _CUMULATIVE
                for labels, cell in registered.cells.items():
                    point = metric.histogram.data_points.add()
                    _fill_point(point, registered.labels, labels, max(cell.created_ns, start_ns), now_ns)
                    point.count = cell.count
                    point.sum = cell.sum
                    point.bucket_counts.extend(cell.counts)
                    point.explicit_bounds.extend(cell.bounds)
                    _fill_exemplars(point, cell.exemplars)


def _fill_point(
    point: NumberDataPoint | HistogramDataPoint, names: Labels, labels: Labels, began_ns: int, now_ns: int
) -> None:
    point.time_unix_nano = fit_time(now_ns)
    point.start_time_unix_nano = min(fit_time(began_ns), point.time_unix_nano)
    for name, value in present(names, labels):
        point.attributes.add(key=name).value.string_value = value


def _fill_number(
    point: NumberDataPoint, value: float, names: Labels, labels: Labels, began_ns: int, now_ns: int
) -> None:
    _fill_point(point, names, labels, began_ns, now_ns)
    if isinstance(value, int) and abs(value) < 2**63:
        point.as_int = value
    else:
        point.as_double = value


def _fill_exemplars(point: NumberDataPoint | HistogramDataPoint, exemplars: Iterable[Exemplar | None]) -> None:
    for exemplar in filter(None, exemplars):
        target = point.exemplars.add()
        target.as_double = exemplar.value
        target.time_unix_nano = fit_time(exemplar.time_ns)
        target.trace_id = raw_id(exemplar.trace_id, 16)
        target.span_id = raw_id(exemplar.span_id, 8)


def present(names: Labels, labels: Labels) -> Iterator[tuple[str, str]]:
    """Pair label names with values; an empty value means that the label is absent."""
    return ((name, value) for name, value in zip(names, labels, strict=False) if value)
