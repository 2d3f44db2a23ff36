"""From scorecards to histograms of the tokens, time and cost of runs, by their outcome."""

from collections.abc import Collection

from msgspec import Struct

from toolgauge.export import results
from toolgauge.export.label_caps import OTHER, LabelCaps, LabelSet, Producer, Who
from toolgauge.export.results import BoundedCache
from toolgauge.export.run_usage import CostSettings, Measure, RunOutcome, RunUsageReader
from toolgauge.model.metrics import MAX_LABEL, HistogramCell, Labels, MetricRegistry
from toolgauge.model.outcomes import Scorecard

_DESCRIBED: dict[Measure, tuple[str, str, tuple[float, ...]]] = {
    "tokens": ("{token}", "Tokens of a run, in and out.", (1e3, 3e3, 1e4, 3e4, 1e5, 3e5, 1e6)),
    "duration": ("s", "Seconds from the start of a run to its end.", (1, 3, 10, 30, 60, 300, 900, 3600)),
    "cost": ("{cost}", "Cost of a run, recorded or by `costs.prices`.", (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10)),
}
_LABELS_BYTES = 1200


class _Series(Struct):
    """Where the runs of an agent with one outcome are counted; cells begin with the first run that recorded the measure."""

    labels: Labels
    label_set: LabelSet
    cells: dict[str, HistogramCell] = {}


class RunMetrics:
    """The histograms of runs. Belongs to the thread that records scorecards."""

    def __init__(self, registry: MetricRegistry, keys: tuple[str, ...], costs: CostSettings, caps: LabelCaps) -> None:
        labels = (results.SERVICE, *keys, results.AGENT, results.OUTCOME)
        self._histograms = tuple(
            registry.histogram(f"toolgauge.trajectory.{measure}", *described, labels)
            for measure, described in _DESCRIBED.items()
        )
        self._caps = caps
        self._usages = RunUsageReader(costs)
        # The same few agents run all day long. Without it: 1 % of all CPU.
        self._known: BoundedCache[tuple[Producer, str | None, RunOutcome], _Series] = BoundedCache()

    def adopt(self, costs: CostSettings) -> None:
        """Read runs by these settings from here on."""
        self._usages = RunUsageReader(costs)

    def record(self, scorecard: Scorecard, producer: Producer) -> None:
        """Count a run."""
        usage = self._usages.read(scorecard)
        if usage is None:
            return
        trajectory, now_ns = scorecard.trajectory, scorecard.scored_at_ns
        agent = trajectory.agents[0][:MAX_LABEL] if trajectory.agents else None
        key = (producer, agent, usage.outcome)
        series = self._known.get(key)
        if series is None:
            who, label_set = self._caps.find(producer, agent, None, rule=(), now_ns=now_ns)
            series = _Series((*who[:-1], usage.outcome), label_set or LabelSet(who, (), now_ns))
            if label_set is not None and OTHER not in who:
                self._known.keep(key, series, _LABELS_BYTES)
        series.label_set.used_ns = now_ns
        for histogram, value in zip(self._histograms, (usage.tokens, usage.duration, usage.cost), strict=True):
            if value is not None:
                cell = series.cells.get(histogram.name)
                if cell is None:
                    cell = series.cells[histogram.name] = histogram.begin(series.labels, histogram.bounds)
                histogram.add(cell, series.labels, value, None)

    def drop(self, whose: Collection[Who]) -> None:
        """Forget the cells of agents of which no label set is left."""
        agents = {who[:-1] for who in whose if not who[-1]}
        for histogram in self._histograms:
            for labels in [labels for labels in histogram.cells if labels[:-1] in agents]:
                histogram.cells.pop(labels)
        self._known = BoundedCache()
