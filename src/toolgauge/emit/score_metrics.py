"""From scorecards to metric cells: scores, outcomes, trajectories, tool calls.

A result that is no score goes to the counter and never into the histogram: its mean would move.
"""

from collections.abc import Collection, Iterator

from toolgauge.emit import names
from toolgauge.emit.annotations import sound
from toolgauge.emit.attributes import judged_agent
from toolgauge.emit.fit import fit_label
from toolgauge.emit.labels import LabelCaps
from toolgauge.emit.settings import EmitSettings
from toolgauge.model.metrics import Exemplar, Labels, MetricRegistry
from toolgauge.model.outcomes import NotEvaluated, Outcome, Result, Scorecard, Scored, outcome_word
from toolgauge.model.trajectory import Trajectory

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
# So many results or calls are counted without a pause.
_PAUSE_EVERY = 300
_CRITERION = slice(_STREAM_LABELS.index(names.CRITERION), _STREAM_LABELS.index(names.REVISION) + 1)


class ScoreMetrics:
    """The cells that every scorecard moves."""

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

    def recording(self, scorecard: Scorecard) -> Iterator[None]:
        """Count a scorecard; pause now and then."""
        # The first scorecard of a trajectory counts it; that of its judges comes after it.
        if not scorecard.by_judges:
            yield from self._counting_trajectory(scorecard.trajectory)
        for count, result in enumerate(scorecard.results, 1):
            self._count_result(scorecard, result, sound(result.outcome))
            if count % _PAUSE_EVERY == 0:
                yield

    def keep(self, streams: Collection[tuple[str, str]]) -> None:
        """Drop the cells of all criteria but these, given by name and revision."""
        kept = {(fit_label(name), fit_label(revision)) for name, revision in streams}
        for cells in (self._scores.cells, self._evaluations.cells):
            for labels in [labels for labels in cells if labels[_CRITERION] not in kept]:
                del cells[labels]
        self._caps.forget(lambda stream: bool(stream) and stream[:2] not in kept)

    def _counting_trajectory(self, trajectory: Trajectory) -> Iterator[None]:
        self._trajectories.add(1, (trajectory.closed_because,))
        if trajectory.scope == "trace":
            # A conversation's calls have been counted with their traces.
            yield from self._counting_calls(trajectory)

    def _counting_calls(self, trajectory: Trajectory) -> Iterator[None]:
        for count, call in enumerate(trajectory.calls, 1):
            who = self._caps.who(trajectory.service, call.agent, call.name)
            self._tool_calls.add(1, (*who, call.state, "false" if call.error is None else "true"))
            if count % _PAUSE_EVERY == 0:
                yield

    def _count_result(self, scorecard: Scorecard, result: Result, outcome: Outcome) -> None:
        labels = self._labels(scorecard.trajectory, result)
        reason = outcome.reason if isinstance(outcome, NotEvaluated) else ""
        self._evaluations.add(1, (*labels, outcome_word(outcome), reason))
        if isinstance(outcome, Scored):
            self._scores.record(float(outcome.value), labels, _exemplar(scorecard, result, outcome))

    def _labels(self, trajectory: Trajectory, result: Result) -> Labels:
        stream = (
            fit_label(result.criterion),
            fit_label(result.revision),
            result.level,
            "shadow" if result.enforce == "shadow" else "",
        )
        tool = result.call.name if result.call is not None else None
        return (*self._caps.who(trajectory.service, judged_agent(trajectory, result), tool, stream), *stream)


def _exemplar(scorecard: Scorecard, result: Result, outcome: Scored) -> Exemplar:
    target = result.target
    return Exemplar(
        value=float(outcome.value),
        time_ns=scorecard.scored_at_ns,
        trace_id=target.trace_id if target is not None else scorecard.trajectory.trace_id,
        span_id=target.span_id if target is not None else "",
    )
