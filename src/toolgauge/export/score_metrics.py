"""From scorecards to metric cells: scores, outcomes, trajectories, tool calls.

A result that is no score goes to the counter and never into the histogram: its mean would move.
"""

from collections.abc import Collection, Iterable
from typing import TypeAlias

from msgspec import Struct

from toolgauge.export import names
from toolgauge.export.annotations import sound
from toolgauge.export.emit_settings import EmitSettings
from toolgauge.export.fit import fit_label
from toolgauge.export.labels import LabelCaps
from toolgauge.export.memo import Memo
from toolgauge.model.metrics import Exemplar, Labels, MetricRegistry
from toolgauge.model.outcomes import NotEvaluated, Outcome, Scorecard, Scored, outcome_word
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ToolCall, Trajectory

SCORE_BOUNDS = (0.0, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
_STREAM_LABELS = (
    names.SERVICE,
    names.AGENT,
    names.TOOL,
    names.CRITERION,
    names.REVISION,
    names.LEVEL,
    names.ENFORCE,
)
_CRITERION = slice(_STREAM_LABELS.index(names.CRITERION), _STREAM_LABELS.index(names.REVISION) + 1)


class _Series(Struct, frozen=True):
    """Where results are counted that are alike: as evaluations, and with their scores if they are any."""

    evaluations: Labels
    scores: Labels


# What labels are made of: service, agent, tool; then state and whether there was an error, or else criterion, revision,
# level, enforcement, outcome and reason.
_Call: TypeAlias = tuple[str | None, str | None, str | None, str, str]
_Evaluated: TypeAlias = tuple[str | None, str | None, str | None, str, str, str, str, str, str]
# What labels take beside the names they are made of, and what a character of these may take.
_LABELS_BYTES = 800
_CHARACTER_BYTES = 4


class ScoreMetrics:
    """The cells that every scorecard moves. Belongs to the thread that records scorecards; any thread may read the cells."""

    def __init__(self, settings: EmitSettings, registry: MetricRegistry) -> None:
        self._scores = registry.histogram(
            "toolgauge.evaluation.score", "1", "Scores from 0 to 1, by criterion.", SCORE_BOUNDS, _STREAM_LABELS
        )
        self._evaluations = registry.counter(
            "toolgauge.evaluations",
            "{evaluation}",
            "Evaluations by outcome. `not_evaluated` says why in its reason; `error` is a fault of the evaluation.",
            (*_STREAM_LABELS, names.OUTCOME, names.REASON),
        )
        self._trajectories = registry.counter(
            "toolgauge.trajectories", "{trajectory}", "Closed trajectories by what closed them.", ("closed_because",)
        )
        self._tool_calls = registry.counter(
            "toolgauge.tool_calls",
            "{call}",
            "Tool calls of traces, by what became of them.",
            (names.SERVICE, names.AGENT, names.TOOL, "state", "error"),
        )
        self._caps = LabelCaps(settings, registry)
        # The same few tools are called and judged by the same criteria all day long.
        self._known: Memo[_Evaluated, _Series] = Memo()
        self._known_calls: Memo[_Call, Labels] = Memo()

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
        self._known = Memo()

    def _count_trajectory(self, trajectory: Trajectory) -> None:
        self._trajectories.add(1, (trajectory.closed_because,))
        # A conversation's calls have been counted with their traces.
        if trajectory.scope == "trace":
            self._count_calls(trajectory.service, trajectory.calls)

    def _count_calls(self, service: str | None, calls: Iterable[ToolCall]) -> None:
        # As the counter's `add` does; this is done of every call.
        known, counted = self._known_calls, self._tool_calls.cells
        for call in calls:
            key = (service, call.agent, call.name, call.state, "false" if call.error is None else "true")
            labels = known.get(key) or self._call_labels(key)
            counted[labels] = counted.get(labels, 0) + 1

    def _call_labels(self, call: _Call) -> Labels:
        service, agent, tool, state, failed = call
        who = self._caps.who(service, agent, tool)
        labels = (*who, state, failed)
        if self._caps.are_kept(who):
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
    """Say what came of an evaluation that is no score, and why."""
    outcome = sound(outcome)
    return outcome_word(outcome), outcome.reason if isinstance(outcome, NotEvaluated) else ""


def _size_bytes(made_of: Iterable[str | None]) -> int:
    return _LABELS_BYTES + _CHARACTER_BYTES * sum([len(name) for name in made_of if name])
