"""Which calls count: by the parameters `tools` and `failed_calls`, and by user turn."""

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Literal, TypeAlias

from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict

from toolgauge.model.content import NotRecorded, Recorded, Unparsed
from toolgauge.model.expected import Expected, ExpectedCall
from toolgauge.model.outcomes import Difference, Errored, NotEvaluated, Outcome, Scored
from toolgauge.model.trajectory import Message, ToolCall, Trajectory
from toolgauge.score.patterns import Globs

# Names and globs; those that change state; `None` is all of them.
Tools: TypeAlias = tuple[str, ...] | Literal["writes"] | None
FailedCalls: TypeAlias = Literal["count", "ignore"]

_SHOWN_LENGTH = 80
_MAX_VERDICTS = 256


class Verdicts(dict[str, Outcome]):
    """What is said of calls of a tool, by its name: the same few tools are called all day long.

    Bounded, as names come from producers. Without it: a quarter more for scoring and encoding.
    """

    __slots__ = ()

    def keep(self, name: str, outcome: Outcome) -> Outcome:
        """Return the outcome, which is to be said of this tool again."""
        if len(name) <= _SHOWN_LENGTH:
            if len(self) >= _MAX_VERDICTS:
                self.clear()
            self[name] = outcome
        return outcome


class CallSelection(BaseModel):
    """The parameters that all our evaluators share."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # Which tools count: names and globs, or `writes` for those that change state.
    tools: Tools = None
    # Whether calls that failed or were rejected count like any other.
    failed_calls: FailedCalls = "count"

    @cached_property
    def _globs(self) -> Globs | None:
        return Globs(self.tools) if isinstance(self.tools, tuple) else None

    @cached_property
    def _usual(self) -> Verdicts:
        """What is nearly always said of a tool, for evaluators of which that depends on nothing but its name."""
        return Verdicts()

    def calls(self, trajectory: Trajectory) -> tuple[ToolCall, ...]:
        """Pick the calls that count, in order."""
        calls = trajectory.calls
        if self.failed_calls != "count":
            calls = tuple(call for call in calls if not has_failed(call))
        return calls if self.tools is None else tuple(call for call in calls if self._counts(call.name, trajectory))

    def expected_calls(self, expected: Sequence[ExpectedCall], trajectory: Trajectory) -> tuple[ExpectedCall, ...]:
        """Pick the expected calls that count: what is not looked for among the calls is not missed either."""
        if self.tools is None:
            return tuple(expected)
        return tuple(call for call in expected if self._counts(call.name, trajectory))

    def _counts(self, name: str, trajectory: Trajectory) -> bool:
        if self.tools == "writes":
            return name in trajectory.writing_tools
        return self._globs is None or self._globs.match(name)


def nothing_to_judge(trajectory: Trajectory) -> NotEvaluated:
    """Say why there is no call: none was made, or those that were made cannot be seen."""
    if trajectory.hidden_turns:
        return hidden_calls(trajectory)
    return NotEvaluated(reason="no_calls", explanation="no call to judge")


def hidden_calls(trajectory: Trajectory) -> NotEvaluated:
    """Say that calls were made and not recorded."""
    asked = f"{trajectory.hidden_turns} model calls asked for tools, and which ones was not recorded"
    return NotEvaluated(reason="no_content", explanation=asked)


def unseen_arguments(call: ToolCall) -> NotEvaluated | None:
    """Say why nobody can tell with which arguments the call was made; `None` when they were recorded, readable or not."""
    match call.arguments:
        case NotRecorded(reason="redacted"):
            return NotEvaluated(reason="redacted", explanation=f"the arguments of {shown(call.name)} were redacted")
        case NotRecorded():
            explanation = f"the arguments of {shown(call.name)} were not recorded"
            return NotEvaluated(reason="arguments_not_recorded", explanation=explanation)
        case Unparsed(reason="truncated"):
            return NotEvaluated(reason="truncated", explanation=f"the arguments of {shown(call.name)} were cut off")
        case Recorded() | Unparsed():
            return None


def has_failed(call: ToolCall) -> bool:
    """Return whether the call was rejected or ended in an error."""
    return call.state == "rejected" or call.error is not None


def shown(name: str) -> str:
    """Write a name for an explanation; producers decide what is in it, so its length is bounded."""
    if len(name) <= _SHOWN_LENGTH and name.isprintable():
        return f"`{name}`"
    start = name[:_SHOWN_LENGTH]
    if not start.isprintable():
        start = "".join(character if character.isprintable() else " " for character in start)
    return f"`{start}{'...' if len(name) > _SHOWN_LENGTH else ''}`"


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
