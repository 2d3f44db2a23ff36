"""Selects the calls that count, by `tools`, `failed_calls` and user turn, and prepares both sides for `align`.

Expected calls become slots; actual calls get readable arguments.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, pairwise
from typing import ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict

from toolgauge.model.content import NOT_RECORDED, Recorded, Unparsed
from toolgauge.model.expected import Expected, ExpectedCall
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import Errored, Level, NotEvaluated, Outcome, Reason, Scored, unseen
from toolgauge.model.plain_words import with_spaces
from toolgauge.model.ports import Evaluation, Needs
from toolgauge.model.trajectory import CASE_DIALECT, CallState, ClosedBecause, ToolCall, Trajectory
from toolgauge.score.align import Item
from toolgauge.score.equality import Identities
from toolgauge.score.patterns import Globs

# Names and globs, or all tools that change state; `None` is all tools.
Tools: TypeAlias = tuple[str, ...] | Literal["writes"] | None
FailedCalls: TypeAlias = Literal["count", "ignore"]

# Closed for want of room or time: what the agent did later was not seen.
CUT_SHORT: frozenset[ClosedBecause] = frozenset(("max_duration", "max_open", "max_open_bytes", "memory", "shutdown"))

_STOPPED: Mapping[CallState, str] = {
    "paused": "waits for a person, or for a result from outside",
    "refused": "was refused by a person",
    "cancelled": "was cancelled before it ended",
}
_WITHOUT_EFFECT: frozenset[CallState] = frozenset(("rejected", "paused", "refused", "cancelled"))

_SHOWN_LENGTH = 80
_MAX_VERDICTS = 256


class Verdicts(dict[str, Outcome]):
    """The usual outcome of calls of a tool, by its name. Without it: a quarter more for scoring and encoding."""

    __slots__ = ()

    def keep(self, name: str, outcome: Outcome) -> Outcome:
        """Keep the outcome for further calls of this tool, and return it."""
        if len(name) <= _SHOWN_LENGTH:
            if len(self) >= _MAX_VERDICTS:
                self.clear()
            self[name] = outcome
        return outcome


@runtime_checkable
class NamesTools(Protocol):
    """An evaluator that judges calls of named tools alone."""

    def names_call(self, trajectory: Trajectory) -> bool:
        """Return whether any call is of a tool that is named; True where all tools are meant."""
        ...


class CallSelection(BaseModel):
    """The parameters that all our evaluators share."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    judges_every_answer: ClassVar[bool] = False

    # Which tools count: names and globs, or `writes` for tools that change state.
    tools: Tools = None
    # Whether calls that failed or were rejected count like any other.
    failed_calls: FailedCalls = "count"

    @cached_property
    def _globs(self) -> Globs | None:
        return Globs(self.tools) if isinstance(self.tools, tuple) else None

    @cached_property
    def _usual(self) -> Verdicts:
        """The usual outcomes by tool, for evaluators where these depend on nothing but its name."""
        return Verdicts()

    def calls(self, trajectory: Trajectory) -> tuple[ToolCall, ...]:
        """Pick the calls that count, in order; calls that carry the structured answer count only where `tools` names them."""
        calls = trajectory.calls
        if trajectory.answer_tools and self.tools is None:
            answers = [name for name in trajectory.answer_tools if not self.judges_answers(name)]
            calls = tuple(call for call in calls if call.name not in answers)
        if self.failed_calls != "count":
            calls = tuple(call for call in calls if not call.has_failed)
        return calls if self.tools is None else tuple(call for call in calls if self._counts(call.name, trajectory))

    def judges_answers(self, name: str) -> bool:  # noqa: ARG002 (others go by it)
        """Return whether calls of a tool that carries the structured answer are judged, though `tools` does not name it."""
        return self.judges_every_answer

    def names_call(self, trajectory: Trajectory) -> bool:
        """Return whether any call is of a tool that counts; True where all count."""
        return self.tools is None or any(self._counts(call.name, trajectory) for call in trajectory.calls)

    def expected_calls(self, expected: Sequence[ExpectedCall], trajectory: Trajectory) -> tuple[ExpectedCall, ...]:
        """Pick the expected calls that count: calls of tools that do not count are not missed either."""
        if self.tools is None:
            return tuple(expected)
        return tuple(call for call in expected if self._counts(call.name, trajectory))

    def _counts(self, name: str, trajectory: Trajectory) -> bool:
        return self.names_tool(name, writes=name in trajectory.writing_tools)

    def names_tool(self, name: str, *, writes: bool) -> bool:
        """Return whether calls of a tool count, which `writes` if it changes state."""
        if self.tools == "writes":
            return writes
        return self._globs is None or self._globs.match(name)


def without_code(trajectory: Trajectory, named: Collection[object] = ()) -> Trajectory:
    """Leave out the calls of kind `code`, except calls of these names."""
    calls = tuple(call for call in trajectory.calls if call.kind == "tool" or call.name in named)
    return trajectory if len(calls) == len(trajectory.calls) else replace(trajectory, calls=calls)


def nothing_to_judge(trajectory: Trajectory) -> NotEvaluated:
    """Return the outcome without calls: none was made, or they were not recorded."""
    return hidden_calls(trajectory) if trajectory.hidden_turns else NO_CALLS


# One object costs less to make, check and write.
NO_CALLS = NotEvaluated(reason="no_calls", explanation="no call to judge")


def hidden_calls(trajectory: Trajectory) -> NotEvaluated:
    """Return the outcome of calls that were made and not recorded."""
    asked = f"{trajectory.hidden_turns} model calls asked for tools, and which ones was not recorded"
    return NotEvaluated(reason="no_content", explanation=asked)


def unfinished(trajectory: Trajectory) -> NotEvaluated | None:
    """Return the outcome of a trajectory that was closed before its run had ended; `None` where no calls can follow."""
    because = trajectory.closed_because
    if because in CUT_SHORT or (because == "open_idle" and not trajectory.has_agent_run):
        return NotEvaluated(reason="incomplete", explanation="the trajectory was closed before it had ended")
    return None


_UNSEEN: Mapping[Reason, str] = {
    "redacted": "redacted",
    "truncated": "cut off",
    "arguments_not_recorded": "not recorded",
    "results_not_recorded": "not recorded",
}


def unseen_arguments(call: ToolCall) -> NotEvaluated | None:
    """Return the outcome of a call without recorded arguments; `None` when they were recorded, readable or not."""
    reason = unseen(call.arguments, "arguments_not_recorded")
    if reason is None or reason not in _UNSEEN:
        return None
    return NotEvaluated(reason=reason, explanation=f"the arguments of {shown(call.name)} were {_UNSEEN[reason]}")


def recorded_result(call: ToolCall, name: str = "the result") -> Json | NotEvaluated:
    """Return the value of a result, text where it is not JSON, or the outcome where a part was not recorded."""
    result = call.result
    if isinstance(result, Recorded):
        return result.value
    if isinstance(result, Unparsed) and result.reason == "unparsable":
        return result.text
    reason = unseen(result, "results_not_recorded") or "results_not_recorded"
    return NotEvaluated(reason=reason, explanation=f"{name} of {shown(call.name)} was {_UNSEEN[reason]}")


def no_object(call: ToolCall) -> NotEvaluated:
    """Return the outcome of a call whose arguments cannot be read as an object."""
    explanation = f"the arguments of {shown(call.name)} are no object"
    return unseen_arguments(call) or NotEvaluated(reason="unparsable", explanation=explanation)


def was_stopped(call: ToolCall) -> bool:
    """Return whether the call waits for a person, was refused by one, or was cancelled: it did not end, and nothing failed."""
    return call.state in _STOPPED


def has_taken_effect(call: ToolCall) -> bool:
    """Return whether the call may have changed something: it neither failed nor was stopped before it ran."""
    return call.error is None and call.state not in _WITHOUT_EFFECT


def has_run_well(call: ToolCall) -> bool:
    """Return whether the tool took the call and ran without an error; no span shows that a call of an offline case ran."""
    is_seen = call.dialect != CASE_DIALECT or call.result != NOT_RECORDED
    return call.state == "executed" and call.error is None and is_seen


def not_executed(call: ToolCall) -> NotEvaluated:
    """Return the outcome of a call that was stopped."""
    return NotEvaluated(reason="not_executed", explanation=f"{shown(call.name)} {_STOPPED[call.state]}")


def shown(name: str) -> str:
    """Write a name for an explanation; names come from producers, so the length is bounded."""
    if len(name) <= _SHOWN_LENGTH and name.isprintable():
        return f"`{name}`"
    return f"`{with_spaces(name[:_SHOWN_LENGTH])}{'...' if len(name) > _SHOWN_LENGTH else ''}`"


def first_notes(notes: Sequence[str], most: int, more: str = "more") -> list[str]:
    """Return the first notes, and one that counts the others."""
    left = len(notes) - most
    return [*notes[:most], f"{left} {more}"] if left > 0 else list(notes)


def first_names(names: Sequence[str], most: int) -> str:
    """Return the first names as a list in words, and how many others there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


# Figures that are shares; all other parts are counts and add up over turns.
_SHARES = frozenset(("in_time", "precision", "recall", "arguments"))
_SHOWN_TURNS = 5
_MAX_DIFFERENCES = 50


def calls_by_turn(trajectory: Trajectory, calls: Sequence[ToolCall], turns: int) -> list[list[ToolCall]] | None:
    """Split the calls into as many user turns as expected; `None` when the record does not show that many."""
    # A user's message begins a turn. Where messages were not recorded, each trace of a conversation is one.
    users = [message for message in trajectory.messages if message.role == "user"]
    # Producers report the same message with every model call.
    without_echoes = users[:1] + [message for before, message in pairwise(users) if message.text != before.text]
    for messages in (users, without_echoes):
        if messages and len(messages) == turns:
            # What precedes the first message belongs to it: nobody else has spoken.
            starts = [-1, *(message.turn for message in messages[1:])]
            ends = [*starts[1:], None]
            return [
                [call for call in calls if call.turn >= start and (end is None or call.turn < end)]
                for start, end in zip(starts, ends, strict=True)
            ]
    traces = list(dict.fromkeys(call.span.trace_id for call in trajectory.calls))
    if not users and trajectory.scope == "conversation" and len(traces) == turns:
        return [[call for call in calls if call.span.trace_id == trace] for trace in traces]
    return [list(calls)] if turns == 1 else None


def _mean_of_turns(outcomes: Sequence[Outcome]) -> Outcome:
    """Make one outcome for all turns; turns that could not be scored stay out of the mean."""
    numbered = [(number, outcome) for number, outcome in enumerate(outcomes, 1) if isinstance(outcome, Scored)]
    if not numbered:
        unscored = [outcome for outcome in outcomes if isinstance(outcome, NotEvaluated)]
        other = [outcome for outcome in unscored if outcome.reason != "nothing_expected"]
        return (other or unscored or [NotEvaluated(reason="nothing_expected", explanation="no turn is expected")])[0]
    scores = [scored for _, scored in numbered]
    below = [f"turn {number}: {scored.explanation}" for number, scored in numbered if scored.value < 1]
    if len(below) > _SHOWN_TURNS:
        below = [*below[:_SHOWN_TURNS], f"and {len(below) - _SHOWN_TURNS} more turns below 1"]
    summary = f"mean over {len(scores)} of {len(outcomes)} user turns"
    differences = (
        replace(difference, where=f"turn {number}: {difference.where}")
        for number, scored in numbered
        for difference in scored.differences
    )
    figures: dict[str, list[float]] = {}
    for name, figure in chain.from_iterable(scored.parts.items() for scored in scores):
        figures.setdefault(name, []).append(figure)
    parts = {name: sum(found) / len(found) if name in _SHARES else sum(found) for name, found in figures.items()}
    return Scored(
        value=sum(scored.value for scored in scores) / len(scores),
        explanation="; ".join([summary, *below]),
        parts={**parts, "turns": len(outcomes), "turns_scored": len(scores)},
        differences=tuple(differences)[:_MAX_DIFFERENCES],
    )


NO_REFERENCE = NotEvaluated(reason="no_reference", explanation="no calls are given to compare with")
NOTHING_MADE = NotEvaluated(reason="nothing_expected", explanation="all expected calls are optional; none was made")

# A number for each argument's value, equal for equal values on either side; `None` when only the name of the call
# matters, or when there is nothing readable.
Arguments: TypeAlias = dict[str, int] | None

# A call that must occur more often than this was not meant.
_MAX_REPEATS = 10_000


class Sides(Struct, frozen=True, kw_only=True):
    """Expected slots and actual calls; items, arguments and calls of a side go by the same index."""

    slots: tuple[ExpectedCall, ...]
    slot_items: tuple[Item, ...]
    slot_arguments: tuple[Arguments, ...]
    calls: tuple[ToolCall, ...]
    call_items: tuple[Item, ...]
    call_arguments: tuple[Arguments, ...]

    def slot_values(self, slot: int) -> JsonObject:
        """Return the expected arguments of a slot."""
        return self.slots[slot].args or {}

    def call_values(self, call: int) -> JsonObject:
        """Return the arguments of a call, as far as they can be read."""
        return readable_arguments(self.calls[call]) or {}

    def may_pair(self, slot: int, call: int) -> bool:
        """Return whether the call ids allow the pair; they decide only where both sides have one."""
        wanted, found = self.slots[slot].call_id, self.calls[call].call_id
        return wanted is None or found is None or wanted == found


def make_sides(
    expected: Sequence[ExpectedCall], calls: Sequence[ToolCall], *, names_only: bool, equals_meet: bool = True
) -> Sides:
    """Make both sides ready. An expected call that may repeat becomes several slots, those beyond the least optional."""
    # Slots of one group of expected calls share a group, all others have their own. `equals_meet` is False where an equal call may
    # not be as expected, by the rules.
    identities = Identities()
    slots: list[ExpectedCall] = []
    slot_items: list[Item] = []
    slot_arguments: list[Arguments] = []
    by_id = any(call.call_id is not None for call in expected)
    made: Counter[str] | None = None
    stage, group = 0, None
    for call in expected:
        stage += call.group is None or call.group != group
        group = call.group
        arguments = None if names_only or call.args is None else identities.of_members(call.args)
        key: Hashable = ("any",) if arguments is None else frozenset(arguments.items())
        if by_id or not equals_meet:
            # Ids bind beyond names and arguments, so no call equals the slot outright: all are weighed.
            key = ("expected", call.call_id, key)
        required, most = 1, 1
        if call.optional or call.repeat != (1, 1):
            made = Counter([call.name for call in calls]) if made is None else made
            required = 0 if call.optional else min(call.repeat[0], _MAX_REPEATS)
            # More slots than there are calls of the tool could never be filled.
            most = max(required, min(call.repeat[1], made[call.name]))
        for number in range(most):
            slots.append(call)
            stage += group is None and number > 0
            slot_items.append(Item(kind=call.name, key=key, optional=number >= required, group=stage))
            slot_arguments.append(arguments)
    call_items: list[Item] = []
    call_arguments: list[Arguments] = []
    for call in calls:
        readable = None if names_only else readable_arguments(call)
        arguments = None if readable is None else identities.of_members(readable)
        key = ("any",)
        if not names_only:
            # What cannot be read equals nothing, not even itself in another call.
            key = ("unread", call.order) if arguments is None else frozenset(arguments.items())
        call_items.append(Item(kind=call.name, key=(key, call.call_id) if by_id else key, group=call.turn))
        call_arguments.append(arguments)
    return Sides(
        slots=tuple(slots),
        slot_items=tuple(slot_items),
        slot_arguments=tuple(slot_arguments),
        calls=tuple(calls),
        call_items=tuple(call_items),
        call_arguments=tuple(call_arguments),
    )


def readable_arguments(call: ToolCall) -> JsonObject | None:
    """Return the arguments of a call; some producers write null for no arguments."""
    content = call.arguments
    if not isinstance(content, Recorded):
        return None
    if isinstance(content.value, dict):
        return content.value
    return {} if content.value is None else None


def nothing_expected(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> NotEvaluated | None:
    """Return the outcome where no call was expected, for evaluators that judge expected calls only."""
    if expected:
        return None
    made = f"{len(calls)} calls were made" if calls else "none was made"
    return NotEvaluated(reason="nothing_expected", explanation=f"no call was expected; {made}")


def not_observable(expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> NotEvaluated | None:
    """Return the outcome where a call that could be an expected one was recorded without arguments."""
    names = {call.name for call in expected if call.args is not None}
    return next(filter(None, (unseen_arguments(call) for call in calls if call.name in names)), None)


class CallComparison(CallSelection):
    """Compares the calls that count with the expected calls that count, with one outcome a trajectory."""

    level: ClassVar[Level] = "trajectory"
    needs: ClassVar[Needs] = Needs(reference="calls", recent_offer=True)

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        """Yield one outcome for the trajectory: of all calls at once, or the mean over the user turns that could be scored."""
        if expected is None or not expected.names_calls:
            yield None, NO_REFERENCE
        elif trajectory.hidden_turns:
            yield None, hidden_calls(trajectory)
        elif expected.per_turn:
            yield None, self._by_turn(expected, trajectory)
        else:
            wanted = self.expected_calls(expected.calls, trajectory)
            yield None, self.compared(wanted, self.calls(trajectory), trajectory)

    def _by_turn(self, expected: Expected, trajectory: Trajectory) -> Outcome:
        turns = calls_by_turn(trajectory, self.calls(trajectory), len(expected.turns))
        if turns is None:
            explanation = f"{len(expected.turns)} user turns are expected and cannot be told apart in what was recorded"
            return NotEvaluated(reason="incomplete", explanation=explanation)
        outcomes: list[Outcome] = []
        unseen = 0
        for turn, made in zip(expected.turns, turns, strict=True):
            wanted = self.expected_calls(turn, trajectory)
            outcome = self.compared(wanted, made, trajectory)
            if isinstance(outcome, NotEvaluated) and outcome.reason == "nothing_expected":
                names = {call.name for call in turn}
                unseen += sum(call.name not in names for call in made)
            outcomes.append(outcome)
        # Mention calls in turns that stay out of the mean because nothing was expected in them.
        outcome = _mean_of_turns(outcomes)
        if not unseen or isinstance(outcome, Errored):
            return outcome
        explanation = f"{outcome.explanation}; {unseen} calls in user turns without expected ones"
        if isinstance(outcome, NotEvaluated):
            return replace(outcome, explanation=explanation)
        parts = {**outcome.parts, "unexpected": outcome.parts.get("unexpected", 0) + unseen}
        return replace(outcome, explanation=explanation, parts=parts)

    @abstractmethod
    def compared(self, expected: Sequence[ExpectedCall], calls: Sequence[ToolCall], trajectory: Trajectory) -> Outcome:
        """Compare the calls of one user turn, or of the whole trajectory where turns are not looked at."""
        ...
