"""Our metrics as instruments of a MeterProvider, for an application that has one.

Counters and gauges are observed when the application collects, which costs nothing before; a histogram cannot be
observed, so each measurement is made twice: in our cell and in the instrument.
"""

# pyright: reportUnknownMemberType=false

from collections.abc import Callable, Iterable

from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.metrics import Histogram as Instrument

from toolgauge.export.metric_data import present
from toolgauge.export.sdk import span_context
from toolgauge.model.metrics import Counter, Exemplar, Gauge, Histogram, Labels, MetricRegistry


class _Mirrored(Histogram, kw_only=True):
    instrument: Instrument

    def record(self, value: float, labels: Labels = (), exemplar: Exemplar | None = None) -> None:
        """Add one measurement to a cell and to the instrument."""
        Histogram.record(self, value, labels, exemplar)
        where = None if exemplar is None else span_context(exemplar.trace_id, exemplar.span_id)
        self.instrument.record(value, dict(present(self.labels, labels)), context=where)


class _MirroredRegistry(MetricRegistry):
    def __init__(self, instrument: Callable[[str, str, str, tuple[float, ...]], Instrument]) -> None:
        super().__init__()
        self._instrument = instrument

    def histogram(
        self, name: str, unit: str, description: str, bounds: tuple[float, ...], labels: tuple[str, ...] = ()
    ) -> Histogram:
        """Register a histogram that has an instrument as well."""
        return self._register(
            _Mirrored(
                name=name,
                unit=unit,
                description=description,
                bounds=bounds,
                labels=labels,
                instrument=self._instrument(name, unit, description, bounds),
            )
        )


class SdkMetrics:
    """The instruments. They outlive a registry: after a fork the child counts from 0 in a registry of its own."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._histograms: dict[str, Instrument] = {}
        self._observed: dict[str, Counter | Gauge] = {}

    def registry(self) -> MetricRegistry:
        """Make an empty registry; `observe` it when everything is registered."""
        return _MirroredRegistry(self._histogram)

    def observe(self, registry: MetricRegistry) -> None:
        """Show this registry's counters and gauges from here on."""
        observed = {metric.name: metric for metric in registry if isinstance(metric, Counter | Gauge)}
        unseen = [metric for name, metric in observed.items() if name not in self._observed]
        self._observed = observed
        for metric in unseen:
            create = (
                self._meter.create_observable_counter
                if isinstance(metric, Counter)
                else self._meter.create_observable_gauge
            )
            create(metric.name, [self._callback(metric.name)], metric.unit, metric.description)

    def _histogram(self, name: str, unit: str, description: str, bounds: tuple[float, ...]) -> Instrument:
        if name not in self._histograms:
            self._histograms[name] = self._meter.create_histogram(
                name, unit, description, explicit_bucket_boundaries_advisory=bounds
            )
        return self._histograms[name]

    def _callback(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_options: CallbackOptions) -> Iterable[Observation]:
            metric = self._observed[name]
            cells = metric.current()
            # Copied first: the cells move on in another thread.
            return [Observation(value, dict(present(metric.labels, labels))) for labels, value in dict(cells).items()]

        return observe
