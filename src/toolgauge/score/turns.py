"""Which calls answer which user turn, and how scores of turns become one."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeAlias

from msgspec.structs import replace

from toolgauge.model.expected import Expected, ExpectedCall
from toolgauge.model.outcomes import Difference, Errored, NotEvaluated, Outcome, Scored
from toolgauge.model.trajectory import Message, ToolCall, Trajectory
from toolgauge.score.selection import hidden_calls

ScoreTurn: TypeAlias = Callable[[Sequence[ExpectedCall], Sequence[ToolCall]], Outcome]

# Figures that are shares; all other parts are counts and add up over turns.
_SHARES = frozenset(("in_time", "precision", "recall", "arguments"))
_SHOWN_TURNS = 5
_MAX_DIFFERENCES = 50


def score_turns(trajectory: Trajectory, expected: Expected, calls: Sequence[ToolCall], score: ScoreTurn) -> Outcome:
    """Score all calls at once, or turn by turn: then the mean over the turns that could be scored."""
    if trajectory.hidden_turns:
        return hidden_calls(trajectory)
    if not expected.per_turn:
        return score(expected.calls, calls)
    turns = calls_by_turn(trajectory, calls, len(expected.turns))
    if turns is None:
        return NotEvaluated(
            reason="incomplete",
            explanation=f"{len(expected.turns)} user turns are expected and cannot be told apart in what was recorded",
        )
    outcomes: list[Outcome] = []
    unseen = 0
    for wanted, made in zip(expected.turns, turns, strict=True):
        outcome = score(wanted, made)
        if isinstance(outcome, NotEvaluated) and outcome.reason == "nothing_expected":
            names = {call.name for call in wanted}
            unseen += sum(call.name not in names for call in made)
        outcomes.append(outcome)
    return _with_unseen(mean_of_turns(outcomes), unseen)


def calls_by_turn(trajectory: Trajectory, calls: Sequence[ToolCall], turns: int) -> list[list[ToolCall]] | None:
    """Split the calls into as many user turns as expected; `None` when the record does not show that many.

    A user's message begins a turn. Where messages were not recorded, each trace of a conversation is one.
    """
    users = [message for message in trajectory.messages if message.role == "user"]
    for messages in (users, _without_echoes(users)):
        if messages and len(messages) == turns:
            return _split_at(messages, calls)
    traces = list(dict.fromkeys(call.span.trace_id for call in trajectory.calls))
    if not users and trajectory.scope == "conversation" and len(traces) == turns:
        return [[call for call in calls if call.span.trace_id == trace] for trace in traces]
    return [list(calls)] if turns == 1 else None


def _without_echoes(messages: Sequence[Message]) -> list[Message]:
    """Drop messages that repeat the one before: producers report the same one with every model call."""
    kept = list(messages[:1])
    kept += [message for before, message in pairwise(messages) if message.text != before.text]
    return kept


def _split_at(messages: Sequence[Message], calls: Sequence[ToolCall]) -> list[list[ToolCall]]:
    # What precedes the first message belongs to it: nobody else has spoken.
    starts = [-1, *(message.turn for message in messages[1:])]
    ends = [*starts[1:], None]
    return [
        [call for call in calls if call.turn >= start and (end is None or call.turn < end)]
        for start, end in zip(starts, ends, strict=True)
    ]


def mean_of_turns(outcomes: Sequence[Outcome]) -> Outcome:
    """Make one outcome of those of the turns; turns that could not be scored stay out of the mean."""
    numbered = [(number, outcome) for number, outcome in enumerate(outcomes, 1) if isinstance(outcome, Scored)]
    if not numbered:
        unscored = [outcome for outcome in outcomes if isinstance(outcome, NotEvaluated)]
        telling = [outcome for outcome in unscored if outcome.reason != "nothing_expected"]
        return (telling or unscored or [NotEvaluated(reason="nothing_expected", explanation="no turn is expected")])[0]
    scores = [scored for _, scored in numbered]
    below = [f"turn {number}: {scored.explanation}" for number, scored in numbered if scored.value < 1]
    more = f"; and {len(below) - _SHOWN_TURNS} more turns below 1" if len(below) > _SHOWN_TURNS else ""
    summary = f"mean over {len(scores)} of {len(outcomes)} user turns"
    differences = (_in_turn(number, difference) for number, scored in numbered for difference in scored.differences)
    return Scored(
        value=sum(scored.value for scored in scores) / len(scores),
        explanation="; ".join([summary, *below[:_SHOWN_TURNS]]) + more,
        parts={**_parts(scores), "turns": len(outcomes), "turns_scored": len(scores)},
        differences=tuple(differences)[:_MAX_DIFFERENCES],
    )


def _with_unseen(outcome: Outcome, calls: int) -> Outcome:
    """Tell of calls in turns that stay out of the mean because nothing was expected in them."""
    if not calls or isinstance(outcome, Errored):
        return outcome
    told = replace(outcome, explanation=f"{outcome.explanation}; {calls} calls in user turns without expected ones")
    if isinstance(told, Scored):
        return replace(told, parts={**told.parts, "unexpected": told.parts.get("unexpected", 0) + calls})
    return told


def _in_turn(number: int, difference: Difference) -> Difference:
    return Difference(
        where=f"turn {number}: {difference.where}",
        rule=difference.rule,
        expected=difference.expected,
        actual=difference.actual,
    )


def _parts(scores: Sequence[Scored]) -> dict[str, float]:
    figures: dict[str, list[float]] = {}
    for scored in scores:
        for name, figure in scored.parts.items():
            figures.setdefault(name, []).append(figure)
    return {name: sum(found) / len(found) if name in _SHARES else sum(found) for name, found in figures.items()}
