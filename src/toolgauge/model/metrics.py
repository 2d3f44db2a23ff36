"""Counters, gauges and histograms as plain cells: the OpenTelemetry SDK takes 14 to 27 us a measurement, a cell under one.

Any thread adds to a counter and sets a gauge; one thread alone records in a histogram. Cells move while they are written out:
`snapshot` copies them first, in any thread.
"""

import math
import re
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from threading import Lock
from typing import TypeAlias, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

Labels: TypeAlias = tuple[str, ...]

MAX_LABEL = 128
# The value of a property of runs, by which regressions are explained.
MAX_PROPERTY = 64
_REPLACEMENT = "\ufffd"
# A line break in a label value breaks tools that read the exposition by line.
_UNFIT_FOR_LABEL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def fit_label(text: str) -> str:
    """Cut to the length of a label value and replace all control characters."""
    cut = text[:MAX_LABEL]
    if cut.isascii() and cut.isprintable():
        return cut
    return _UNFIT_FOR_LABEL.sub(_REPLACEMENT, cut)


def short_hash(text: str) -> str:
    """Return a hash that stands for a text, and from which the text cannot be read."""
    return blake2b(text.encode(errors="replace"), digest_size=4).hexdigest()


class Exemplar(Struct, frozen=True, gc=False):
    """One measurement with the span it was made for; `time_ns` is wall-clock time."""

    value: float
    time_ns: int
    trace_id: str
    span_id: str


class HistogramCell(Struct):
    """Counts per bucket, the last of them the overflow, and the newest exemplar of each; `created_ns` is 0 without a clock."""

    counts: list[int]
    exemplars: list[Exemplar | None]
    sum: float = 0.0
    bounds: tuple[float, ...] = ()
    created_ns: int = 0

    @property
    def count(self) -> int:
        """Number of measurements."""
        return sum(self.counts)


def _no_clock() -> int:
    return 0


class _Instrument(Struct, kw_only=True):
    """A counter or a gauge. `labels` are attribute names in OTel spelling; a cell's key holds their values."""

    name: str
    unit: str
    description: str
    labels: tuple[str, ...] = ()
    cells: dict[Labels, float] = {}
    observe: Callable[[], Mapping[Labels, float]] | None = None

    def current(self) -> Mapping[Labels, float]:
        """Read all cells."""
        return self.observe() if self.observe is not None else self.cells


class Counter(_Instrument, kw_only=True):
    """A sum that only grows.

    An empty label value means that the label is absent. Either added to, or read through `observe` when written out.
    `created` holds when cells began to count, 0 where no clock was given; `exemplars` the newest one of a cell.
    """

    created: dict[Labels, int] = {}
    exemplars: dict[Labels, Exemplar] = {}
    clock: Callable[[], int] = _no_clock
    # The worker and the event loop count spans in the same cells; between reading and writing a cell threads may switch.
    _adding: Lock = field(default_factory=Lock)

    def add(self, amount: float = 1, labels: Labels = (), exemplar: Exemplar | None = None) -> None:
        """Add to one cell."""
        with self._adding:
            before = self.cells.get(labels)
            if before is None:
                before, self.created[labels] = 0, self.clock()
            self.cells[labels] = before + amount
            if exemplar is not None:
                self.exemplars[labels] = exemplar

    def begin(self, *cells: Labels) -> None:
        """Make these cells count from 0, unless they count already: a counter that appears at 1 has no increase to alert on."""
        with self._adding:
            for labels in cells:
                if labels not in self.cells:
                    self.created[labels] = self.clock()
                    self.cells[labels] = 0

    def drop(self, cells: Iterable[Labels]) -> None:
        """Forget these cells."""
        with self._adding:
            for labels in cells:
                self.cells.pop(labels, None)
                self.created.pop(labels, None)
                self.exemplars.pop(labels, None)

    def value(self, labels: Labels = ()) -> float:
        """Read one cell; 0 when nothing was added."""
        return self.cells.get(labels, 0)


class Gauge(_Instrument, kw_only=True):
    """A value that moves; either `set`, or read through `observe` when written out."""

    def set(self, value: float, labels: Labels = ()) -> None:
        """Set one cell."""
        self.cells[labels] = value


class Histogram(Struct, kw_only=True):
    """A distribution over `bounds` (upper bounds, inclusive, ascending); a cell may have others."""

    name: str
    unit: str
    description: str
    bounds: tuple[float, ...]
    labels: tuple[str, ...] = ()
    cells: dict[Labels, HistogramCell] = {}
    clock: Callable[[], int] = _no_clock

    def begin(self, labels: Labels, bounds: tuple[float, ...]) -> HistogramCell:
        """Begin a cell with bounds of its own, unless it has begun; return it."""
        cell = self.cells.get(labels)
        if cell is None:
            size = len(bounds) + 1
            cell = HistogramCell(counts=[0] * size, exemplars=[None] * size, bounds=bounds, created_ns=self.clock())
            self.cells[labels] = cell
        return cell

    def record(self, value: float, labels: Labels = (), exemplar: Exemplar | None = None) -> None:
        """Add one measurement to a cell."""
        self.add(self.cells.get(labels) or self.begin(labels, self.bounds), labels, value, exemplar)

    def add(
        self,
        cell: HistogramCell,
        labels: Labels,  # noqa: ARG002 (for instruments of the SDK, which mirror it)
        value: float,
        exemplar: Exemplar | None,
        times: int = 1,
    ) -> None:
        """Add equal measurements to the cell of these labels."""
        bucket = bisect_left(cell.bounds, value)
        cell.counts[bucket] += times
        cell.sum += times * value
        if exemplar is not None:
            cell.exemplars[bucket] = exemplar


Metric: TypeAlias = Counter | Gauge | Histogram
_M = TypeVar("_M", Counter, Gauge, Histogram)


class MetricRegistry:
    """All metrics of one process, in order of registration. `clock` returns wall-clock nanoseconds."""

    def __init__(
        self, clock: Callable[[], int] = _no_clock, make_histogram: Callable[..., Histogram] = Histogram
    ) -> None:
        self.clock = clock
        self._make_histogram = make_histogram
        self._metrics: dict[str, Metric] = {}
        # Held while related numbers change together, and while all are read.
        self.lock = threading.RLock()

    def counter(self, name: str, unit: str, description: str, labels: tuple[str, ...] = ()) -> Counter:
        """Register a counter; one without labels counts from 0 at once."""
        counter = Counter(name=name, unit=unit, description=description, labels=labels, clock=self.clock)
        if not labels:
            counter.begin(())
        return self._register(counter)

    def gauge(self, name: str, unit: str, description: str, labels: tuple[str, ...] = ()) -> Gauge:
        """Register a gauge."""
        return self._register(Gauge(name=name, unit=unit, description=description, labels=labels))

    def histogram(
        self, name: str, unit: str, description: str, bounds: tuple[float, ...], labels: tuple[str, ...] = ()
    ) -> Histogram:
        """Register a histogram."""
        return self._register(
            self._make_histogram(
                name=name, unit=unit, description=description, bounds=bounds, labels=labels, clock=self.clock
            )
        )

    def __iter__(self) -> Iterator[Metric]:
        # A copy: a plug-in may register while another thread writes the metrics out.
        return iter(tuple(self._metrics.values()))

    def _register(self, metric: _M) -> _M:
        if metric.name in self._metrics:
            raise ValueError(f"metric `{metric.name}` is registered twice")
        self._metrics[metric.name] = metric
        return metric


def snapshot(registry: MetricRegistry) -> tuple[Metric, ...]:
    """Copy all finite cells, in any thread. A histogram's sum may lack, or have, the measurement being made."""
    # What changes together is copied together.
    with registry.lock:
        return tuple(_copy(metric) for metric in registry)


def _copy(metric: Metric) -> Metric:
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


def present(names: Labels, labels: Labels) -> Iterator[tuple[str, str]]:
    """Pair label names with values; an empty value means that the label is absent."""
    return ((name, value) for name, value in zip(names, labels, strict=False) if value)
