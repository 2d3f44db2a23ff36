"""Counters, gauges and histograms as plain cells: a dict from label values to a number.

A measurement through the OpenTelemetry SDK costs 14 to 27 us and a score makes several; a cell costs under
one. Cells are written out as OTLP metric data and as OpenMetrics by `export`, once a push or scrape.

Threads: any thread adds to a counter and sets a gauge; one thread alone records in a histogram, the worker or the event
loop. Cells move while they are written out: `snapshot` copies them first, whatever thread it is called in.
"""

import re
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from typing import TypeAlias, TypeVar

from msgspec import Struct, field

Labels: TypeAlias = tuple[str, ...]

MAX_LABEL = 128
_REPLACEMENT = "\ufffd"
# A line break in a label value breaks tools that read the exposition by line.
_UNFIT_FOR_LABEL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def fit_label(text: str) -> str:
    """Cut to the length of a label value and replace all control characters."""
    cut = text[:MAX_LABEL]
    if cut.isascii() and cut.isprintable():
        return cut
    return _UNFIT_FOR_LABEL.sub(_REPLACEMENT, cut)


class Exemplar(Struct, frozen=True, gc=False):
    """One measurement with the span it was made for; `time_ns` is wall-clock time."""

    value: float
    time_ns: int
    trace_id: str
    span_id: str


class HistogramCell(Struct):
    """Counts per bucket (one more than there are bounds: the last is the overflow) and the newest exemplar of each."""

    counts: list[int]
    exemplars: list[Exemplar | None]
    sum: float = 0.0

    @property
    def count(self) -> int:
        """Number of measurements."""
        return sum(self.counts)


class Counter(Struct, kw_only=True):
    """A sum that only grows. `labels` are attribute names in OTel spelling; a cell's key holds their values.

    An empty label value means that the label is absent. Either added to, or read through `observe` when written out.
    """

    name: str
    unit: str
    description: str
    labels: tuple[str, ...] = ()
    cells: dict[Labels, float] = {}
    observe: Callable[[], Mapping[Labels, float]] | None = None
    # The worker and the event loop count spans in the same cells; between reading and writing a cell threads may switch.
    _adding: Lock = field(default_factory=Lock)

    def add(self, amount: float = 1, labels: Labels = ()) -> None:
        """Add to one cell."""
        with self._adding:
            self.cells[labels] = self.cells.get(labels, 0) + amount

    def value(self, labels: Labels = ()) -> float:
        """Read one cell; 0 when nothing was added."""
        return self.cells.get(labels, 0)

    def current(self) -> Mapping[Labels, float]:
        """Read all cells."""
        return self.observe() if self.observe is not None else self.cells


class Gauge(Struct, kw_only=True):
    """A value that moves; either `set`, or read through `observe` when written out."""

    name: str
    unit: str
    description: str
    labels: tuple[str, ...] = ()
    cells: dict[Labels, float] = {}
    observe: Callable[[], Mapping[Labels, float]] | None = None

    def set(self, value: float, labels: Labels = ()) -> None:
        """Set one cell."""
        self.cells[labels] = value

    def current(self) -> Mapping[Labels, float]:
        """Read all cells."""
        return self.observe() if self.observe is not None else self.cells


class Histogram(Struct, kw_only=True):
    """A distribution over `bounds` (upper bounds, inclusive, ascending)."""

    name: str
    unit: str
    description: str
    bounds: tuple[float, ...]
    labels: tuple[str, ...] = ()
    cells: dict[Labels, HistogramCell] = {}

    def record(self, value: float, labels: Labels = (), exemplar: Exemplar | None = None) -> None:
        """Add one measurement to a cell."""
        cell = self.cells.get(labels)
        if cell is None:
            size = len(self.bounds) + 1
            cell = self.cells[labels] = HistogramCell(counts=[0] * size, exemplars=[None] * size)
        bucket = bisect_left(self.bounds, value)
        cell.counts[bucket] += 1
        cell.sum += value
        if exemplar is not None:
            cell.exemplars[bucket] = exemplar


Metric: TypeAlias = Counter | Gauge | Histogram
_M = TypeVar("_M", Counter, Gauge, Histogram)


class MetricRegistry:
    """All metrics of one process, in order of registration."""

    def __init__(self) -> None:
        self._metrics: dict[str, Metric] = {}
        # Held while related numbers change together, and while all are read.
        self.lock = threading.RLock()

    def counter(self, name: str, unit: str, description: str, labels: tuple[str, ...] = ()) -> Counter:
        """Register a counter."""
        return self._register(Counter(name=name, unit=unit, description=description, labels=labels))

    def gauge(self, name: str, unit: str, description: str, labels: tuple[str, ...] = ()) -> Gauge:
        """Register a gauge."""
        return self._register(Gauge(name=name, unit=unit, description=description, labels=labels))

    def histogram(
        self, name: str, unit: str, description: str, bounds: tuple[float, ...], labels: tuple[str, ...] = ()
    ) -> Histogram:
        """Register a histogram."""
        return self._register(Histogram(name=name, unit=unit, description=description, bounds=bounds, labels=labels))

    def __iter__(self) -> Iterator[Metric]:
        # A copy: a plug-in may register while another thread writes the metrics out.
        return iter(tuple(self._metrics.values()))

    def _register(self, metric: _M) -> _M:
        if metric.name in self._metrics:
            raise ValueError(f"metric `{metric.name}` is registered twice")
        self._metrics[metric.name] = metric
        return metric
