"""From scorecards to metric cells: scores, outcomes, trajectories, tool calls.

A result that is no score goes to the counter and never into the histogram: its mean would move. Tool, agent and service
names come from clients: without caps one hostile or careless client (a tool name with an id in it) fills the metrics
store. What is over a cap becomes `_other` and is counted.
"""

from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias

from msgspec import Struct

from toolgauge.export.results import (
    AGENT,
    CLOSED_BECAUSE,
    CRITERION,
    ERROR_TYPE,
    LEVEL,
    OTHER_ERROR,
    OUTCOME,
    REASON,
    REVISION,
    SERVICE,
    TOOL,
    BoundedCache,
    sound,
)
from toolgauge.export.settings import MetricsSettings
from toolgauge.model.metrics import MAX_LABEL, Counter, Exemplar, Labels, MetricRegistry, fit_label
from toolgauge.model.outcomes import NotEvaluated, Outcome, Scorecard, Scored, outcome_word
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ToolCall, Trajectory

OTHER = "_other"
_ENFORCE = "toolgauge.enforce"
SCORE_BOUNDS = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
_STREAM_LABELS = (
    SERVICE,
    AGENT,
    TOOL,
    CRITERION,
    REVISION,
    LEVEL,
    _ENFORCE,
)
_CRITERION = slice(_STREAM_LABELS.index(CRITERION), _STREAM_LABELS.index(REVISION) + 1)
Who: TypeAlias = tuple[str, str, str]
LABEL_SETS = "label_sets"
MAX_ERROR_TYPES = 20


class CappedNames:
    """The first `limit` distinct values of one label; all others are `other`."""

    def __init__(self, label: str, limit: int, capped: Counter, other: str = OTHER) -> None:
        self._label = label
        self._limit = limit
        self._capped = capped
        self._other = other
        self._known: dict[str, str] = {}

    def fit(self, raw: str | None) -> str:
        """Clean and cap a value; empty when it is not known."""
        if not raw:
            return ""
        # Cut before it is kept: the key must not hold a megabyte of somebody's name.
        key = raw[:MAX_LABEL]
        known = self._known.get(key)
        if known is not None:
            return known
        if len(self._known) >= self._limit:
            self._capped.add(1, (self._label,))
            return self._other
        known = self._known[key] = fit_label(key)
        return known


class LabelCaps:
    """Decides under which service, agent and tool something is counted."""

    def __init__(self, settings: MetricsSettings, registry: MetricRegistry) -> None:
        self.capped = registry.counter(
            "toolgauge.labels.capped",
            "{measurement}",
            "Measurements counted under `_other` because a cap was reached, by what was capped. "
            "Find the client whose names are not a small set, or raise the cap under `metrics`.",
            ("toolgauge.label",),
        )
        registry.gauge(
            "toolgauge.labels.label_sets",
            "{label_set}",
            "Label sets in use, outcomes not counted; `metrics.max_label_sets` is the cap.",
        ).observe = lambda: {(): len(self._label_sets)}
        self._services = CappedNames(SERVICE, settings.max_services, self.capped)
        self._agents = CappedNames(AGENT, settings.max_agents, self.capped)
        self._tools = CappedNames(TOOL, settings.max_tools, self.capped)
        self._max_label_sets = settings.max_label_sets
        self._label_sets: set[tuple[Who, Labels]] = set()

    def who(self, service: str | None, agent: str | None, tool: str | None, stream: Labels = ()) -> Who:
        """Fit the three names; all are `_other` when they would begin a label set over the cap.

        `stream` is what else tells label sets apart. Outcomes are no part of it: all outcomes of a
        stream must be counted in the same place, or its pass ratio is wrong.
        """
        fitted = (self._services.fit(service), self._agents.fit(agent), self._tools.fit(tool))
        label_set = (fitted, stream)
        if label_set in self._label_sets:
            return fitted
        if len(self._label_sets) < self._max_label_sets:
            self._label_sets.add(label_set)
            return fitted
        self.capped.add(1, (LABEL_SETS,))
        service_label, agent_label, tool_label = fitted
        return (_folded(service_label), _folded(agent_label), _folded(tool_label))

    def are_kept(self, who: Who, stream: Labels = ()) -> bool:
        """Return whether nothing of what `who` returned was capped: the same will be returned again, and nothing counted."""
        return OTHER not in who and (who, stream) in self._label_sets

    def forget(self, is_gone: Callable[[Labels], bool]) -> None:
        """Give back the label sets of streams that are gone."""
        self._label_sets = {label_set for label_set in self._label_sets if not is_gone(label_set[1])}


def _folded(label: str) -> str:
    # An absent label stays absent: `_other` would make a tool of it.
    return OTHER if label else ""


class _Series(Struct, frozen=True):
    """Where results are counted that are alike: as evaluations, and with their scores if they are any."""

    evaluations: Labels
    scores: Labels


# What labels are made of: service, agent, tool; then state and type of error, or else criterion, revision,
# level, enforcement, outcome and reason.
_Call: TypeAlias = tuple[str | None, str | None, str | None, str, str]
_Evaluated: TypeAlias = tuple[str | None, str | None, str | None, str, str, str, str, str, str]
# What labels take beside the names they are made of, and what a character of these may take.
_LABELS_BYTES = 800
_CHARACTER_BYTES = 4


class ScoreMetrics:
    """The cells that every scorecard moves. Belongs to the thread that records scorecards; any thread may read the cells."""

    def __init__(self, settings: MetricsSettings, registry: MetricRegistry) -> None:
        self._scores = registry.histogram(
            "toolgauge.evaluation.score", "1", "Scores from 0 to 1, by criterion.", SCORE_BOUNDS, _STREAM_LABELS
        )
        self._evaluations = registry.counter(
            "toolgauge.evaluations",
            "{evaluation}",
            "Evaluations by outcome. `not_evaluated` says why in its reason; `error` is a fault of the evaluation.",
            (*_STREAM_LABELS, OUTCOME, REASON),
        )
        self._trajectories = registry.counter(
            "toolgauge.trajectories", "{trajectory}", "Closed trajectories by what closed them.", (CLOSED_BECAUSE,)
        )
        self._tool_calls = registry.counter(
            "toolgauge.tool_calls",
            "{call}",
            "Tool calls of traces, by what became of them.",
            (SERVICE, AGENT, TOOL, "toolgauge.state", ERROR_TYPE),
        )
        self._caps = LabelCaps(settings, registry)
        self._error_types = CappedNames(ERROR_TYPE, MAX_ERROR_TYPES, self._caps.capped, OTHER_ERROR)
        self._error_types.fit(OTHER_ERROR)
        # The same few tools are called and judged by the same criteria all day long. Without it: 4 % of all CPU.
        self._known: BoundedCache[_Evaluated, _Series] = BoundedCache()
        self._known_calls: BoundedCache[_Call, Labels] = BoundedCache()

    def record(self, scorecard: Scorecard) -> None:
        """Count a scorecard."""
        # The first scorecard of a trajectory counts it; that of its judges comes after it.
        if not scorecard.by_judges:
            self._count_trajectory(scorecard.trajectory)
        self._count_results(scorecard)

    def keep(self, streams: Collection[tuple[str, str]]) -> None:
        """Drop the cells of all criteria but these, given by name and revision."""
        kept = {(fit_label(name), fit_label(revision)) for name, revision in streams}
        for cells in (self._scores.cells, self._evaluations.cells):
            for labels in [labels for labels in list(cells) if labels[_CRITERION] not in kept]:
                del cells[labels]
        self._caps.forget(lambda stream: bool(stream) and stream[:2] not in kept)
        self._known = BoundedCache()

    def _count_trajectory(self, trajectory: Trajectory) -> None:
        self._trajectories.add(1, (trajectory.closed_because,))
        # A conversation's calls have been counted with their traces.
        if trajectory.scope == "trace":
            self._count_calls(trajectory.service, trajectory.calls)

    def _count_calls(self, service: str | None, calls: Iterable[ToolCall]) -> None:
        # As the counter's `add` does; this is done of every call.
        known, counted = self._known_calls, self._tool_calls.cells
        for call in calls:
            key = (
                service,
                call.agent,
                call.name,
                call.state,
                "" if call.error is None else call.error.kind or OTHER_ERROR,
            )
            labels = known.get(key) or self._call_labels(key)
            counted[labels] = counted.get(labels, 0) + 1

    def _call_labels(self, call: _Call) -> Labels:
        service, agent, tool, state, error_type = call
        who = self._caps.who(service, agent, tool)
        labels = (*who, state, self._error_types.fit(error_type))
        if self._caps.are_kept(who) and (labels[-1] != OTHER_ERROR or error_type == OTHER_ERROR):
            self._known_calls.keep(call, labels, _size_bytes(call))
        return labels

    def _count_results(self, scorecard: Scorecard) -> None:
        trajectory, scored_at_ns = scorecard.trajectory, scorecard.scored_at_ns
        service, nowhere = trajectory.service, SpanRef(trajectory.trace_id, "")
        first_agent = trajectory.agents[0] if trajectory.agents else None
        # As the counter's `add` does; this is done of every result.
        known, counted, record = self._known, self._evaluations.cells, self._scores.record
        for result in scorecard.results:
            outcome, call = result.outcome, result.call
            # Nearly all are scores, and sound ones.
            score = outcome if isinstance(outcome, Scored) and 0.0 <= outcome.value <= 1.0 else None
            word, reason = _other(outcome) if score is None else ("pass" if score.passed else "fail", "")
            agent, tool = (first_agent, None) if call is None else (call.agent, call.name)
            key = (service, agent, tool, result.criterion, result.revision, result.level, result.enforce, word, reason)
            series = known.get(key) or self._series(key)
            counted[series.evaluations] = counted.get(series.evaluations, 0) + 1
            if score is not None:
                value, judged = float(score.value), result.target or nowhere
                record(value, series.scores, Exemplar(value, scored_at_ns, judged.trace_id, judged.span_id))

    def _series(self, evaluated: _Evaluated) -> _Series:
        service, agent, tool, criterion, revision, level, enforce, word, reason = evaluated
        rule = (fit_label(criterion), fit_label(revision), level, "shadow" if enforce == "shadow" else "")
        who = self._caps.who(service, agent, tool, rule)
        stream = (*who, *rule)
        series = _Series((*stream, word, reason), stream)
        if self._caps.are_kept(who, rule):
            self._known.keep(evaluated, series, _size_bytes(evaluated))
        return series


def _other(outcome: Outcome) -> tuple[str, str]:
    """Return the outcome of an evaluation, and the reason when there is no score."""
    outcome = sound(outcome)
    return outcome_word(outcome), outcome.reason if isinstance(outcome, NotEvaluated) else ""


def _size_bytes(made_of: Iterable[str | None]) -> int:
    return _LABELS_BYTES + _CHARACTER_BYTES * sum([len(name) for name in made_of if name])
