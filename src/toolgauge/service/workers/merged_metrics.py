"""The metrics of the front and of all workers as one: counters and histograms add up, and never go back when a worker dies.

The counts of a dead worker stay. Spans that it held are lost without a journal (`dropped`, `worker_died`). With one, its
successor takes them up: they wait as held until it has, and spans that it counts as received once more are not counted twice.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from msgspec.structs import replace

from toolgauge.model.metrics import Counter, Gauge, Histogram, HistogramCell, Labels, Metric, MetricRegistry
from toolgauge.service.health import ComponentHealth

_K = TypeVar("_K")
SPANS, RECOVERED = "toolgauge.spans", "toolgauge.spans.recovered"
HELD, QUEUED = "toolgauge.spans.held", "toolgauge.spans.queued"
_RECEIVED = ("received", "", "")
_REFUSED = ("refused", "worker", "")
_DIED = "worker_died"
# Measured by the front for all, or said of one process alone.
_OF_THE_FRONT = ("toolgauge.memory.", "process.uptime", "toolgauge.state.durable")
_LEAST = ("toolgauge.criteria.unmatched",)  # 1 as long as no worker has seen otherwise
_STATE = "{state}"  # Of these the largest is shown: 1 when it is so for any worker


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a worker: its metrics that have a cell, the health of its parts, and whether nothing is in it that could leave."""

    metrics: tuple[Metric, ...]
    health: Mapping[str, ComponentHealth]
    is_empty: bool


class MergedRegistry(MetricRegistry):
    """The front's own metrics, which are registered here, and with them the metrics of the workers."""

    def __init__(self, clock: Callable[[], int]) -> None:
        super().__init__(clock)
        self._of_workers: dict[int, Mapping[str, Metric]] = {}
        self._of_dead: dict[int, dict[str, Metric]] = {}  # What workers that are dead had counted
        # Spans that the journal of a dead worker has for its successor, and the spans that waited for each destination.
        self._left: dict[int, tuple[float, dict[str, float]]] = {}

    def take(self, worker: int, sent: Iterable[Metric]) -> None:
        """Replace the metrics of a worker; its predecessor's spans that it took up count once."""
        metrics = {metric.name: metric for metric in sent}
        with self.lock:
            if worker in self._left:
                # The successor counts the spans that it took up as received; the others had been sent.
                held, queued = self._left.pop(worker)
                lefts = [held + value for value in queued.values()] or [held]
                counted_again = min(_value(metrics, RECOVERED), *lefts)
                self._add(worker, _RECEIVED, -counted_again)
                if not queued:
                    self._add(worker, ("consumed", "", ""), held - counted_again)
                for name, value in queued.items():
                    self._add(worker, ("forwarded", "", name), held + value - counted_again)
            self._of_workers[worker] = metrics

    def bury(self, worker: int, *, accepted: int, refused: int, keeps: bool) -> float:
        """Keep the counts of a dead worker; return how many spans are lost: none where its journal `keeps` them."""
        with self.lock:
            metrics = self._of_workers.pop(worker, {})
            spans = _cells(metrics.get(SPANS))
            counted_refused = sum(value for labels, value in spans.items() if labels[0] == "refused")
            counted = spans.get(_RECEIVED, 0) - counted_refused - _value(metrics, RECOVERED)
            unseen = max(0.0, accepted - counted)
            unseen_refused = max(0.0, refused - counted_refused)
            held = _value(metrics, HELD) + unseen
            queued = {labels[0]: value for labels, value in _cells(metrics.get(QUEUED)).items()}
            dead = self._of_dead.setdefault(worker, {})
            for name, metric in metrics.items():
                if not isinstance(metric, Gauge):
                    dead[name] = _merged(metric, dead[name]) if name in dead else metric
            self._add(worker, _RECEIVED, unseen + unseen_refused)
            self._add(worker, _REFUSED, unseen_refused)
            if keeps:
                earlier, waiting = self._left.get(worker, (0.0, {}))
                self._left[worker] = (held + earlier, _sums(queued, waiting))
                return 0.0
            self._add(worker, ("dropped", _DIED, ""), held)
            for name, value in queued.items():
                self._add(worker, ("dropped", _DIED, name), value)
            return held + max(queued.values(), default=0.0)

    def __iter__(self) -> Iterator[Metric]:
        with self.lock:
            merged: dict[str, list[Metric]] = {}
            for metric in super().__iter__():
                if not isinstance(metric, Histogram):
                    # With the cells that are observed.
                    metric = replace(metric, cells=dict(metric.current()), observe=None)  # noqa: PLW2901 (its copy)
                merged[metric.name] = [metric]
            for metrics in (*self._of_dead.values(), self._left_gauges(), *self._of_workers.values()):
                for name, metric in metrics.items():
                    merged.setdefault(name, []).append(metric)
            return iter([_of_all(name, metrics) for name, metrics in merged.items()])

    def _left_gauges(self) -> dict[str, Metric]:
        """Count the spans in the journal of a dead worker as held and queued, until its successor has them."""
        held = sum(left for left, _ in self._left.values())
        queued: dict[Labels, float] = {}
        for _, waiting in self._left.values():
            queued = _sums(queued, {(name,): value for name, value in waiting.items()})
        gauges = Gauge(name=HELD, unit="{span}", description="", cells={(): held})
        return {HELD: gauges, QUEUED: replace(gauges, name=QUEUED, labels=("toolgauge.destination",), cells=queued)}

    def _add(self, worker: int, labels: Labels, amount: float) -> None:
        if amount:
            labelled = ("toolgauge.outcome", "toolgauge.reason", "toolgauge.destination")
            more = Counter(name=SPANS, unit="{span}", description="", labels=labelled)
            more.cells[labels], more.created[labels] = amount, self.clock()
            dead = self._of_dead.setdefault(worker, {})
            dead[SPANS] = _merged(dead[SPANS], more) if SPANS in dead else more


def _cells(metric: Metric | None) -> dict[Labels, float]:
    return {} if metric is None or isinstance(metric, Histogram) else metric.cells


def _value(metrics: Mapping[str, Metric], name: str) -> float:
    return _cells(metrics.get(name)).get((), 0.0)


def _of_all(name: str, metrics: list[Metric]) -> Metric:
    first, *others = metrics
    if name.startswith(_OF_THE_FRONT):
        return first
    if name in _LEAST:
        if not isinstance(first, Gauge):
            return first
        of_workers = [_cells(other) for other in others]
        names = of_workers[0] if of_workers else {}
        return replace(first, cells={labels: min(each.get(labels, 0.0) for each in of_workers) for labels in names})
    for other in others:
        first = _merged(first, other)
    return first


def _merged(first: Metric, second: Metric) -> Metric:
    match first, second:
        case Counter(), Counter():
            created = {**first.created, **second.created}
            for labels in first.created.keys() & second.created.keys():
                created[labels] = min(first.created[labels], second.created[labels])
            exemplars = {**first.exemplars, **second.exemplars}
            return replace(first, cells=_sums(first.cells, second.cells), created=created, exemplars=exemplars)
        case Gauge(), Gauge():
            if first.unit == _STATE:
                labels = {**first.cells, **second.cells}
                largest = {key: max(first.cells.get(key, 0), second.cells.get(key, 0)) for key in labels}
                return replace(first, cells=largest)
            return replace(first, cells=_sums(first.cells, second.cells))
        case Histogram(), Histogram():
            cells = dict(first.cells)
            for labels, cell in second.cells.items():
                cells[labels] = _merged_cell(cells[labels], cell) if labels in cells else cell
            return replace(first, cells=cells)
        case _:
            return first


def _sums(first: Mapping[_K, float], second: Mapping[_K, float]) -> dict[_K, float]:
    return {key: first.get(key, 0) + second.get(key, 0) for key in (*first, *second)}


def _merged_cell(first: HistogramCell, second: HistogramCell) -> HistogramCell:
    if first.bounds != second.bounds:
        # A reload has changed them for one worker before the other.
        return first if first.count >= second.count else second
    newest = [
        one if other is None or (one is not None and one.time_ns >= other.time_ns) else other
        for one, other in zip(first.exemplars, second.exemplars, strict=True)
    ]
    return HistogramCell(
        counts=[one + other for one, other in zip(first.counts, second.counts, strict=True)],
        exemplars=newest,
        sum=first.sum + second.sum,
        bounds=first.bounds,
        created_ns=min(first.created_ns, second.created_ns),
    )
