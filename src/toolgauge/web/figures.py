"""The counters of this process as pages read them: all copied at one moment, so that sums of them add up."""

from collections.abc import Iterator, Mapping
from typing import Self

from msgspec import Struct

from toolgauge.export.metric_data import snapshot
from toolgauge.model.metrics import Histogram, MetricRegistry


class Figure(Struct, frozen=True, kw_only=True):
    """One number with the labels that have a value."""

    metric: str
    labels: Mapping[str, str]
    value: float
    description: str


class Figures:
    """Counters and gauges by their names."""

    def __init__(self, figures: Mapping[str, tuple[Figure, ...]]) -> None:
        self._figures = figures

    @classmethod
    def of(cls, registry: MetricRegistry) -> Self:
        """Copy the counters and gauges of a registry."""
        return cls(
            {
                metric.name: tuple(
                    Figure(
                        metric=metric.name,
                        labels={name: value for name, value in zip(metric.labels, values, strict=True) if value},
                        value=number,
                        description=metric.description,
                    )
                    for values, number in metric.current().items()
                )
                for metric in snapshot(registry)
                if not isinstance(metric, Histogram)
            }
        )

    def each(self, metric: str, **labels: str) -> Iterator[Figure]:
        """Yield the numbers with these labels, written with `_` for the dots and without `toolgauge.`."""
        for figure in self._figures.get(metric, ()):
            known = {name.removeprefix("toolgauge.").replace(".", "_"): value for name, value in figure.labels.items()}
            if all(known.get(name, "") == value for name, value in labels.items()):
                yield figure

    def total(self, metric: str, **labels: str) -> int:
        """Add up the numbers with these labels."""
        return int(sum(figure.value for figure in self.each(metric, **labels)))
