"""The pages of health (parts, counts of spans, metrics that need attention) and of results that were not evaluated.

MetricValues are copied at one moment, so that sums add up; gaps are found as `toolgauge doctor` finds them, in kept trajectories.
"""

import math
import platform
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Self, TypeAlias

from msgspec import Struct

from toolgauge.model.metrics import Histogram, MetricRegistry, snapshot
from toolgauge.model.outcomes import MEANINGS
from toolgauge.recognize.shortfalls import advice
from toolgauge.report.html import duration
from toolgauge.selfmetrics import PROBLEMS, drop_reason
from toolgauge.service.health import ComponentHealth
from toolgauge.service.pipeline_factory import VERSION
from toolgauge.web.pages import PageContent, PageRequest

_DESTINATION = "toolgauge.destination"
_REASON = "toolgauge.reason"
REPORTED_ERRORS = "toolgauge.calls.told_errors"
_CRITERION = "gen_ai.evaluation.name"
_OUTCOME, _WHY = "toolgauge.outcome", "toolgauge.not_evaluated.reason"
_MOST_PRODUCERS = 50
_UNITS = ("B", "KiB", "MiB", "GiB")

# Criterion, reason, results that are `not_evaluated` for this reason, and all results of the criterion.
Gap: TypeAlias = tuple[str, str, int, int]


class MetricValue(Struct, frozen=True, kw_only=True):
    """One number with the labels that have a value."""

    metric: str
    labels: Mapping[str, str]
    value: float
    description: str


class MetricValues(Struct, frozen=True):
    """Counters and gauges by their names."""

    figures: Mapping[str, tuple[MetricValue, ...]] = {}

    @classmethod
    def of(cls, registry: MetricRegistry) -> Self:
        """Copy the counters and gauges of a registry."""
        return cls(
            {
                metric.name: tuple(
                    MetricValue(
                        metric=metric.name,
                        labels={name: value for name, value in zip(metric.labels, values, strict=False) if value},
                        value=number,
                        description=metric.description,
                    )
                    for values, number in metric.current().items()
                )
                for metric in snapshot(registry)
                if not isinstance(metric, Histogram)
            }
        )

    def each(self, metric: str, **labels: str) -> Iterator[MetricValue]:
        """Yield the numbers with these labels, written with `_` for the dots and without `toolgauge.`."""
        for figure in self.figures.get(metric, ()):
            known = {name.removeprefix("toolgauge.").replace(".", "_"): value for name, value in figure.labels.items()}
            if all(known.get(name, "") == value for name, value in labels.items()):
                yield figure

    def total(self, metric: str, **labels: str) -> int:
        """Add up the numbers with these labels."""
        return int(sum(figure.value for figure in self.each(metric, **labels)))


class Books(Struct, frozen=True, kw_only=True):
    """Where the spans are that were received, for one destination; its name is empty where nothing is sent on."""

    destination: str
    received: int
    forwarded: int
    consumed: int
    held: int
    queued: int
    refused: int
    dropped: tuple[tuple[str, int, str], ...]

    @property
    def difference(self) -> int:
        """The spans that the right side of the equation lacks; 0 when the books balance."""
        dropped = sum(count for _, count, _ in self.dropped)
        known = self.forwarded + self.consumed + self.held + self.queued + self.refused + dropped
        return self.received - known


def health(shown: PageContent, request: PageRequest) -> str | None:
    """Show the health of the process."""
    running = shown.running
    if len(request.path) > 1:
        return None
    if running is None:
        return shown.page("health.html", section="health", title="Health", running=None)
    state, figures = running.health, MetricValues.of(running.registry)
    components = running.components()
    queues = figures.each("toolgauge.send.queue.capacity")
    capacities = {each.labels.get(_DESTINATION, ""): int(each.value) for each in queues}
    return shown.page(
        "health.html",
        section="health",
        title="Health",
        running=running,
        phase=state.phase,
        is_well=state.is_ready and all(each.status == "StatusOK" for each in components.values()),
        components=sorted(components.items()),
        uptime=duration(running.clock() - state.started_ns),
        version=VERSION,
        python=platform.python_version(),
        books=tuple(books(figures)),
        size=size_text,
        queues=[
            {
                "destination": name,
                "size_bytes": figures.total("toolgauge.send.queue.bytes", destination=name),
                "capacity_bytes": capacity_bytes,
                "in_flight": figures.total("toolgauge.send.in_flight", destination=name),
                # `None` where it is unknown.
                "health": components.get(f"exporter:{name}"),
            }
            for name, capacity_bytes in capacities.items()
        ],
        gauges=tuple(_gauges(figures, components)),
        problems=tuple(problems(figures)),
    )


def books(figures: MetricValues) -> Iterator[Books]:
    """Keep the books of each destination, or of none."""
    received = figures.total("toolgauge.spans", outcome="received")
    names = {figure.labels.get(_DESTINATION, "") for figure in figures.each("toolgauge.spans")} - {""}
    for name in sorted(names) or ("",):
        dropped = Counter[str]()
        for destination in {"", name}:
            for figure in figures.each("toolgauge.spans", outcome="dropped", destination=destination):
                dropped[figure.labels.get(_REASON, "")] += int(figure.value)
        yield Books(
            destination=name,
            received=received,
            forwarded=figures.total("toolgauge.spans", outcome="forwarded", destination=name),
            consumed=figures.total("toolgauge.spans", outcome="consumed", destination=""),
            held=figures.total("toolgauge.spans.held"),
            queued=figures.total("toolgauge.spans.queued", destination=name),
            refused=figures.total("toolgauge.spans", outcome="refused", destination=""),
            dropped=tuple((reason, count, drop_reason(reason)) for reason, count in sorted(dropped.items()) if count),
        )


def problems(figures: MetricValues) -> Iterator[MetricValue]:
    """Yield the numbers that should be 0 but are not; their descriptions name the remedy. Spans that `keep` leaves out are not lost."""
    for metric, labels in PROBLEMS:
        for figure in figures.each(metric, **labels):
            if figure.value and figure.labels.get(_REASON) != "sampled":
                yield figure


def size_text(size_bytes: float) -> str:
    """Write a number of bytes for people."""
    place = min(int(math.log(max(size_bytes, 1), 1024)), len(_UNITS) - 1)
    return f"{size_bytes / 1024**place:.{1 if place else 0}f} {_UNITS[place]}"


def _gauges(figures: MetricValues, components: Mapping[str, ComponentHealth]) -> Iterator[tuple[str, str]]:
    """Yield the sizes of all that waits, for a person."""
    resident, limit = figures.total("toolgauge.memory.resident"), figures.total("toolgauge.memory.limit")
    if resident and limit:
        yield "Memory", f"{size_text(resident)} of {size_text(limit)}; from 80 % on requests are refused"
    yield "Inbox", f"{size_text(figures.total('toolgauge.inbox.bytes'))} of requests wait to be read"
    open_bytes = size_text(figures.total("toolgauge.traces.open.bytes"))
    yield "Open trajectories", f"{figures.total('toolgauge.traces.open')}, about {open_bytes}"
    yield "Waiting to be scored", f"{figures.total('toolgauge.queue.size')} trajectories"
    if "extension:journal" in components:
        entries, held_bytes = figures.total("toolgauge.state.entries"), figures.total("toolgauge.state.bytes")
        yield "Journal", f"{entries} requests, {size_text(held_bytes)}"
    durable = figures.total("toolgauge.state.durable")
    yield "Baselines", "survive a restart" if durable else "are lost with this process"


def not_evaluated(shown: PageContent, request: PageRequest) -> str | None:
    """Show the results that were not evaluated."""
    if len(request.path) > 1:
        return None
    running = shown.running
    trajectories = [kept.trajectory for kept in shown.store.newest()]
    producers = advice(trajectories)
    # The most frequent reasons come first.
    totals, unseen = Counter[str](), Counter[tuple[str, str]]()
    for figure in () if running is None else MetricValues.of(running.registry).each("toolgauge.evaluations"):
        criterion = figure.labels.get(_CRITERION, "")
        totals[criterion] += int(figure.value)
        if figure.labels.get(_OUTCOME) == "not_evaluated" and figure.value:
            unseen[criterion, figure.labels.get(_WHY, "")] += int(figure.value)
    # The most frequent reasons come first.
    by_reason: defaultdict[str, list[Gap]] = defaultdict(list)
    for gap in ranked(totals, unseen):
        by_reason[gap[1]].append(gap)
    return shown.page(
        "gaps.html",
        section="gaps",
        title="Not evaluated",
        reasons=sorted(by_reason.items(), key=lambda each: -sum(count for _, _, count, _ in each[1])),
        meanings={str(reason): meaning for reason, meaning in MEANINGS.items()},
        producers=producers[:_MOST_PRODUCERS],
        more_producers=len(producers[_MOST_PRODUCERS:]),
        trajectories=sum(trajectory.scope == "trace" for trajectory in trajectories),
    )


def ranked(totals: Counter[str], unseen: Counter[tuple[str, str]]) -> list[Gap]:
    """Return the gaps, the most frequent first; `totals` counts results by criterion, `unseen` by criterion and reason."""
    ordered = sorted(unseen.items(), key=lambda entry: (-entry[1], entry[0]))
    return [(criterion, reason, count, totals[criterion]) for (criterion, reason), count in ordered]
