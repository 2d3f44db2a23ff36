"""From scorecards to metric cells: scores, outcomes, trajectories, tool calls, and tokens, time and cost of runs.

A result without a score stays out of the histogram. Series begin with the series they count with; `pass` and `fail` of a criterion
that can fail begin together, so that a first failure is an increase. Names come from clients: one tool name with an id in it would
fill the metrics store. The first values of a label have series; a value over a cap becomes `_other` and is counted, unless
places were unused for an hour. Times come from scorecards.
"""

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.export import results
from toolgauge.export.results import BoundedCache
from toolgauge.export.run_usage import CostSettings, RunUsageReader
from toolgauge.export.settings import MetricsSettings
from toolgauge.model.metrics import (
    MAX_LABEL,
    Counter,
    Exemplar,
    Gauge,
    Histogram,
    HistogramCell,
    Labels,
    MetricRegistry,
    fit_label,
)
from toolgauge.model.names import stable_tool
from toolgauge.model.observations import OTHER_ERROR
from toolgauge.model.outcomes import Finding, Observed, Scorecard
from toolgauge.model.records import ENVIRONMENT, SpanRef
from toolgauge.model.regressions import ToolChangeKind, ToolDefinitionChange
from toolgauge.model.trajectory import CallState, ClosedBecause, Trajectory, recovered
from toolgauge.selfmetrics import MetricSection
from toolgauge.settings import HOUR

TOOL_CHANGE_KIND = "toolgauge.tool_definition.kind"
# The buckets of criteria whose scores are 0 or 1 alone; the first bucket is exactly 0, the overflow is 1.
BINARY_BOUNDS = (0.0,)
OTHER = "_other"
LABEL_SETS = "label_sets"
TOOL_DEFINITIONS = "tool_definitions"
# Of each attribute of a service's resource and runs: releases, models and prompts that are in use at the same time.
_MAX_VALUES = 10
_MAX_ERROR_TYPES = 20
# Labels of the producer and of the called tool: service, attributes of resource and run, agent, tool.
Who: TypeAlias = tuple[str, ...]
# The same as they came, which may be absent. That of a producer alone ends before the agent.
Names: TypeAlias = tuple[str | None, ...]


class LabelSet(Struct, gc=False):
    """Labels of series but their outcomes, counted together or pass ratios would be wrong. No `rule` means tool calls."""

    who: Who
    rule: Labels
    used_ns: int


class LabelCaps:
    """Decides under which labels something is counted; `on_dropped` gets the label sets that are given up."""

    def __init__(
        self,
        settings: MetricsSettings,
        capped: Counter,
        in_use: Gauge,
        on_dropped: Callable[[Collection[LabelSet]], None],
    ) -> None:
        values = (*settings.resource_attributes, *settings.run_attributes)
        # The labels of `Who` in their order, and how many values each may have; attributes for each service.
        self._limits = (
            (results.SERVICE, settings.max_services),
            *((key, _MAX_VALUES) for key in values),
            (results.AGENT, settings.max_agents),
            (results.TOOL, settings.max_tools),
        )
        self.capped = capped
        labels = [label for label, _ in self._limits]
        self.capped.begin(*((label,) for label in (*labels, results.ERROR_TYPE, LABEL_SETS, TOOL_DEFINITIONS)))
        in_use.observe = lambda: {(): len(self.label_sets)}
        # The values that have series, by the index of their label and, of attributes, the service.
        self._known: dict[tuple[int, str], set[str]] = {}
        # The labels of names of which each has a series. The same few tools are called all day long. Without it: 3 % of all CPU.
        self.fitted: BoundedCache[Names, Who] = BoundedCache()
        self._error_types: dict[str, set[str]] = {}
        self.label_sets: dict[tuple[Who, Labels], LabelSet] = {}
        self._max_label_sets = settings.max_label_sets
        # Before this time no place has been unused for an hour.
        self._idle_from_ns = 0
        self._on_dropped = on_dropped

    def find(self, names: Names, now_ns: int, rule: Labels = (), times: int = 1) -> tuple[Who, LabelSet | None]:
        """Fit the labels; all are `_other`, without a label set, when a new one would be over the cap."""
        who, capped = self._fitted(names)
        found = self.label_sets.get((who, rule))
        is_full = len(self.label_sets) >= self._max_label_sets
        if (capped or (is_full and found is None)) and now_ns >= self._idle_from_ns:
            self._sweep(now_ns)
            who, capped = self._fitted(names)
            found = self.label_sets.get((who, rule))
        for label in capped:
            self.capped.add(times, (label,))
        if found is None:
            if len(self.label_sets) >= self._max_label_sets:
                self.capped.add(times, (LABEL_SETS,))
                return tuple((OTHER if label else "") for label in who), None
            found = self.label_sets[who, rule] = LabelSet(who, rule, now_ns)
        found.used_ns = max(found.used_ns, now_ns)
        return who, found

    def error_type(self, service: str, raw: str) -> str:
        """Fit the type of an error: the first 20 of a service, by its label, then `_OTHER`; empty without one."""
        if not raw:
            return ""
        label, known = fit_label(raw), self._error_types.setdefault(service, {OTHER_ERROR})
        if label not in known:
            if len(known) > _MAX_ERROR_TYPES:
                self.capped.add(1, (results.ERROR_TYPE,))
                return OTHER_ERROR
            known.add(label)
        return label

    def drop(self, gone: Collection[LabelSet]) -> None:
        """Give up label sets."""
        for found in gone:
            del self.label_sets[found.who, found.rule]
        if gone:
            self._on_dropped(gone)

    def _fitted(self, names: Names) -> tuple[Who, Sequence[str]]:
        """Fit names, with the labels whose cap was reached."""
        if (fitted := self.fitted.get(names)) is not None:
            return fitted, ()
        who: list[str] = []
        capped: list[str] = []
        for place, (raw, (label, limit)) in enumerate(zip(names, self._limits, strict=True)):
            value = fit_label(raw) if raw else ""
            if value:
                known = self._known.setdefault((place, who[0] if 0 < place < len(names) - 2 else ""), set())
                if value not in known and len(known) >= limit:
                    capped.append(label)
                    value = OTHER
                else:
                    known.add(value)
            who.append(value)
        fitted = tuple(who)
        if not capped:
            self.fitted.keep(names, fitted, _size_bytes(*filter(None, names), *who))
        return fitted, capped

    def _sweep(self, now_ns: int) -> None:
        """Give up the label sets that were not used for an hour, and the values that only they had."""
        self.drop([found for found in self.label_sets.values() if now_ns - found.used_ns >= HOUR])
        self._known, self.fitted = {}, BoundedCache()
        for who in {found.who for found in self.label_sets.values()}:
            for place, value in enumerate(who):
                if value not in ("", OTHER):
                    key = (place, who[0] if 0 < place < len(who) - 2 else "")
                    self._known.setdefault(key, set()).add(value)
        self._idle_from_ns = HOUR + min((found.used_ns for found in self.label_sets.values()), default=now_ns)
        services = self._known.get((0, ""), ())
        self._error_types = {name: types for name, types in self._error_types.items() if name in services}


class _Series(Struct, frozen=True):
    """Where tool calls or results that are alike are counted; `scores` is the cell of their score, in `stream`, if they have one."""

    counted: Labels
    # A series of folded names has a label set that no cap knows.
    label_set: LabelSet
    stream: Labels = ()
    scores: HistogramCell | None = None
    is_failure: bool = False


# Names of a call, its state, type of error and recovery.
_Called: TypeAlias = tuple[Names, CallState, str, str]
_FAILURES = frozenset(("fail", "error"))
# Bytes of labels beside their names, and of a character of these.
_LABELS_BYTES = 800
_CHARACTER_BYTES = 4


class ScoreMetrics(MetricSection):
    """The cells that every scorecard moves. Belongs to the thread that records scorecards; any thread may read the cells."""

    section = "scores"
    scores: Histogram
    evaluations: Counter
    trajectories: Counter
    tool_calls: Counter
    unobserved: Counter
    tool_changes: Counter
    capped: Counter
    label_sets: Gauge
    tokens: Histogram
    duration: Histogram
    cost: Histogram

    def __init__(self, settings: MetricsSettings, registry: MetricRegistry, costs: CostSettings | None = None) -> None:
        self._resource_keys, self._run_keys = settings.resource_attributes, settings.run_attributes
        super().__init__(registry, {"whose": (results.SERVICE, *self._resource_keys, *self._run_keys)})
        self.trajectories.begin(*((because,) for because in get_args(ClosedBecause)))
        # The number of labels before the kind of a change, and before the outcome.
        self._who, self._stream = len(self.tool_changes.labels) - 1, len(self.scores.labels)
        self._caps = LabelCaps(settings, self.capped, self.label_sets, self._drop)
        self._of_runs = self.tokens, self.duration, self.cost
        self._currency = "currency"
        self.adopt(costs or CostSettings())
        # The same few tools are judged by the same criteria all day long. Without it: 4 % of all CPU.
        self._known: BoundedCache[tuple[Who | None, Finding], _Series] = BoundedCache()
        self._known_calls: BoundedCache[_Called, _Series] = BoundedCache()

    def adopt(self, costs: CostSettings) -> None:
        """Read runs by these settings from here on."""
        self._usages = RunUsageReader(costs)
        texts = [text.replace(self._currency, costs.currency) for text in (self.cost.unit, self.cost.description)]
        self.cost.unit, self.cost.description = texts
        self._currency = costs.currency

    def record(self, scorecard: Scorecard) -> None:
        """Count a scorecard."""
        trajectory, now_ns = scorecard.trajectory, scorecard.scored_at_ns
        service = trajectory.service
        # Cut as labels are: a key must not hold a megabyte of somebody's name.
        whose: Names = (
            service and service[:MAX_LABEL],
            *map(trajectory.resource.get, self._resource_keys),
            *map(trajectory.properties.get, self._run_keys),
        )
        agent = trajectory.agents[0][:MAX_LABEL] if trajectory.agents else None
        # The first scorecard of a trajectory counts it; that of its judges comes after it.
        if not scorecard.by_judges:
            self.trajectories.add(1, (trajectory.closed_because,))
            # A conversation's calls have been counted with their traces.
            if trajectory.scope == "trace" and trajectory.calls:
                self._count_calls(trajectory, whose, now_ns)
            if trajectory.scope == "trace" and trajectory.hidden_turns:
                who, _ = self._caps.find((*whose, agent, None), now_ns)
                self.unobserved.add(trajectory.hidden_turns, (*who[:-1], "no_content"))
        for verdict, subjects in scorecard.verdicts.items():
            judged = subjects[-1].target or SpanRef(trajectory.trace_id, "")
            self._count((*whose, verdict.agent, verdict.tool), verdict.findings, len(subjects), now_ns, judged)
        # Last: scores come first where labels are capped.
        usage = self._usages.read(scorecard)
        if usage is not None:
            who, _ = self._caps.find((*whose, agent, None), now_ns)
            labels = (*who[:-1], usage.outcome)
            for histogram, value in zip(self._of_runs, (usage.tokens, usage.duration, usage.cost), strict=True):
                if value is not None:
                    histogram.record(value, labels)

    def count_tool_changes(self, changes: Sequence[ToolDefinitionChange], capped: int) -> None:
        """Count changes of tools, and the tools and definitions that a cap left out of comparison."""
        self._caps.capped.add(capped, (TOOL_DEFINITIONS,))
        for change in changes:
            values = [
                change.environment if key == ENVIRONMENT else None for key in (*self._resource_keys, *self._run_keys)
            ]
            who, _ = self._caps.find((change.service, *values, change.agent, change.tool), change.time_ns)
            self.tool_changes.begin(*((*who, kind) for kind in get_args(ToolChangeKind)))
            self.tool_changes.add(1, (*who, change.kind))

    def keep(self, streams: Collection[tuple[str, str]]) -> None:
        """Drop the cells of all criteria but these, given by name and revision."""
        kept = {(fit_label(name), fit_label(revision)) for name, revision in streams}
        of_criterion = slice(self._who, self._who + 2)
        cells = [labels for labels in self.evaluations.cells if labels[of_criterion] not in kept]
        self._drop_streams({labels[: self._stream] for labels in cells})
        sets = self._caps.label_sets.values()
        self._caps.drop([found for found in sets if found.rule and found.rule[:2] not in kept])

    def _drop(self, gone: Collection[LabelSet]) -> None:
        whose = {found.who for found in gone if not found.rule}
        if whose:
            calls, unobserved = self.tool_calls, self.unobserved
            for counter in (calls, self.tool_changes):
                counter.drop([labels for labels in counter.cells if labels[: self._who] in whose])
            # An agent is counted as long as any of its tools is, or its runs.
            left = {labels[: self._who - 1] for labels in calls.cells}
            agents = {who[:-1] for who in whose} - left
            unobserved.drop([labels for labels in unobserved.cells if labels[:-1] in agents])
            runs = {who[:-1] for who in whose if not who[-1]}
            for histogram in self._of_runs:
                for labels in [labels for labels in histogram.cells if labels[:-1] in runs]:
                    histogram.cells.pop(labels)
        self._drop_streams({(*found.who, *found.rule) for found in gone if found.rule})
        self._known_calls = BoundedCache()

    def _drop_streams(self, streams: Collection[Labels]) -> None:
        if streams:
            evaluations = self.evaluations
            evaluations.drop([labels for labels in evaluations.cells if labels[: self._stream] in streams])
            for stream in streams:
                self.scores.cells.pop(stream, None)
        self._known = BoundedCache()

    def _count_calls(self, trajectory: Trajectory, whose: Names, now_ns: int) -> None:
        known = self._known_calls
        # As the counter's `add` does; this is done of every call.
        counted = self.tool_calls.cells
        missing = Observed(trajectory).missing
        recoveries = recovered(trajectory)
        for call in trajectory.calls:
            error_type = "" if call.error is None else call.error.kind or OTHER_ERROR
            # Rule: a failed call that was made good in the same trace is `true`; no other call has the label.
            is_recovered = "true" if call.order in recoveries else ""
            key = ((*whose, call.agent, stable_tool(call.name)), call.state, error_type, is_recovered)
            series = known.get(key)
            if series is None:
                series, known = self._call_series(key, now_ns), self._known_calls
            series.label_set.used_ns = now_ns
            counted[series.counted] += 1
            for reason in missing(call):
                self.unobserved.add(1, (*series.counted[: self._who - 1], reason))
            if error_type:
                exemplar = Exemplar(1.0, now_ns, call.span.trace_id, call.span.span_id)
                self.tool_calls.exemplars[series.counted] = exemplar

    def _call_series(self, called: _Called, now_ns: int) -> _Series:
        names, state, error, is_recovered = called
        who, label_set = self._caps.find(names, now_ns)
        error_type = self._caps.error_type(who[0], error)
        labels = (*who, state, error_type, is_recovered)
        self.tool_calls.begin(labels)
        series = _Series(labels, label_set or LabelSet(who, (), now_ns))
        if label_set is not None and OTHER not in who and error_type == fit_label(error):
            self._known_calls.keep(called, series, _size_bytes(*filter(None, names), error))
        return series

    def _count(self, names: Names, findings: Sequence[Finding], times: int, now_ns: int, judged: SpanRef) -> None:
        counted, who = self.evaluations.cells, self._caps.fitted.get(names)
        # As the counter's `add` does. One exemplar a cell and scorecard, that of the last call.
        exemplar = Exemplar(1.0, now_ns, judged.trace_id, judged.span_id)
        for finding in findings:
            series = self._known.get((who, finding)) or self._series(names, finding, times, now_ns)
            series.label_set.used_ns = now_ns
            counted[series.counted] += times
            cell, value = series.scores, finding.value
            if cell is not None and value is not None:
                of_value = exemplar if value == 1.0 else replace(exemplar, value=value)
                self.scores.add(cell, series.stream, value, of_value, times)
            if series.is_failure:
                self.evaluations.exemplars[series.counted] = exemplar

    def _series(self, names: Names, finding: Finding, times: int, now_ns: int) -> _Series:
        """Begin the series of so many results with a finding."""
        enforce = "shadow" if finding.enforce == "shadow" else ""
        rule = (fit_label(finding.criterion), fit_label(finding.revision), finding.level, enforce)
        who, label_set = self._caps.find(names, now_ns, rule, times)
        stream, scores = (*who, *rule), None
        counted = (*stream, finding.word, finding.reason)
        others = (
            ((*stream, "pass", ""), (*stream, "fail", "")) if finding.value is not None and finding.can_fail else ()
        )
        self.evaluations.begin(counted, *others)
        if finding.value is not None:
            bounds = () if not finding.can_fail else BINARY_BOUNDS if finding.is_binary else self.scores.bounds
            scores = self.scores.begin(stream, bounds)
        place, is_failure = label_set or LabelSet(who, rule, now_ns), finding.word in _FAILURES
        series = _Series(counted, place, stream, scores, is_failure)
        # Where a cap was reached, the next time may be another.
        if label_set is not None and OTHER not in who:
            self._known.keep((who, finding), series, _size_bytes(*counted))
        return series


def _size_bytes(*made_of: str) -> int:
    return _LABELS_BYTES + _CHARACTER_BYTES * sum(map(len, made_of))
