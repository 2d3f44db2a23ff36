"""`agentevals.trajectory_match` as agentevals 0.0.9 computes it: chat messages of both sides, true or false.

Messages are made of a trajectory: the calls of one model output, or expected calls of one group, are one assistant message;
user messages separate the turns of a reference. Texts and answers of tools count where both sides are the messages of a case.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import ClassVar, Literal, NamedTuple, TypeAlias

from pydantic import JsonValue

from toolgauge.model.content import NotRecorded, Recorded, Unparsed
from toolgauge.model.expected import Expected, ExpectedCall
from toolgauge.model.json import Json, JsonObject, Key
from toolgauge.model.outcomes import Errored, NotEvaluated, Outcome, Scored
from toolgauge.model.ports import Needs
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.equality import PythonEquality
from toolgauge.score.plain_calls import OneOutcome, first_without, kind_of, plain_expected
from toolgauge.score.selection import (
    NO_REFERENCE,
    calls_by_turn,
    hidden_calls,
    not_observable,
    readable_arguments,
    shown,
)

_Mode: TypeAlias = Literal["exact", "ignore", "subset", "superset"]


class _Call(NamedTuple):
    """`args` is `None` where arguments are not looked at: an expected call may give only its name."""

    name: str
    args: JsonObject | None


class _Message(NamedTuple):
    role: str
    calls: tuple[_Call, ...] = ()


class _OriginalRaisesError(Exception):
    """The original raises an error of this type."""

    def __init__(self, error_type: str, message: str) -> None:
        super().__init__(message)
        self.outcome = Errored(error_type=error_type, message=message)


class TrajectoryMatch(OneOutcome):
    """Whether the calls of a run match the expected ones: 1 if so, else 0.

    `strict` compares message by message: as many, of the same roles, each with the same number of calls, which may
    come in any order within it. `superset` looks for each expected call among those made, `subset` the other way round,
    `unordered` both. Calls take the first free counterpart that fits. How arguments are compared is said from the
    side of the call that was made, for all tools (`tool_args_match_mode`) or by tool name (`tool_args_match_overrides`:
    a mode, or a list of dotted paths that alone are compared, absent and null being equal).
    """

    needs: ClassVar[Needs] = Needs(reference="calls", binary=True)

    trajectory_match_mode: Literal["strict", "unordered", "subset", "superset"] = "strict"
    tool_args_match_mode: _Mode = "exact"
    # Any value: the original looks at an override only when a call of this tool is compared, and raises then.
    tool_args_match_overrides: dict[str, JsonValue] | None = None

    def outcome_of(self, trajectory: Trajectory, expected: Expected | None) -> Outcome:
        """Compare the messages, as far as they were recorded."""
        if expected is None or not expected.names_calls:
            return NO_REFERENCE
        plain = plain_expected(expected.calls)
        problem = plain if isinstance(plain, Errored) else self._unseen(trajectory, expected)
        try:
            return problem or self._compared(trajectory, expected)
        except _OriginalRaisesError as error:
            return error.outcome

    def original(self, *_: object) -> JsonObject:
        """Return the name of the original's score."""
        return {"key": f"trajectory_{self.trajectory_match_mode}_match"}

    def _unseen(self, trajectory: Trajectory, expected: Expected) -> NotEvaluated | None:
        """Name the parts that the comparison needs and that were not recorded."""
        if trajectory.hidden_turns:
            return hidden_calls(trajectory)
        calls = trajectory.calls
        is_alone = len(calls) <= 1 and len(expected.calls) <= 1
        # In the messages of a case each message is one output.
        is_known = (
            is_alone or trajectory.case_shape == "messages" or all(call.requested_by is not None for call in calls)
        )
        if self.trajectory_match_mode == "strict" and not is_known:
            return NotEvaluated(reason="no_content", explanation="which calls came in one message was not recorded")
        if self.tool_args_match_mode == "ignore" and not self.tool_args_match_overrides:
            return None
        return not_observable(expected.calls, calls)

    def _compared(self, trajectory: Trajectory, expected: Expected) -> Outcome:
        mode = self.trajectory_match_mode
        turns = calls_by_turn(trajectory, trajectory.calls, len(expected.turns)) if expected.per_turn else None
        if turns is None and expected.per_turn and mode == "strict":
            explanation = f"{len(expected.turns)} user turns are expected and cannot be told apart in what was recorded"
            return NotEvaluated(reason="incomplete", explanation=explanation)
        actual = tuple(_made(turns or [trajectory.calls]))
        problem = "other messages"
        if mode != "strict" or _same_texts(trajectory, expected):
            problem = self._mismatch(actual, tuple(_wanted(expected.turns)), PythonEquality())
        if problem is None:
            return Scored(value=1.0, explanation=f"the calls match ({mode})")
        return Scored(value=0.0, explanation=f"the calls do not match ({mode}): {problem}")

    def _mismatch(self, actual: Sequence[_Message], wanted: Sequence[_Message], equality: PythonEquality) -> str | None:
        """Return the first mismatch in words; `None` without any."""
        mode = self.trajectory_match_mode
        if mode == "strict":
            return self._strict(actual, wanted, equality)
        made, expected = ([call for message in side for call in message.calls] for side in (actual, wanted))
        sides = [(expected, made, "is missing")] if mode != "subset" else []
        sides += [(made, expected, "is not expected")] if mode != "superset" else []
        for calls, others, words in sides:
            # Wart: the matcher gets swapped sides in both directions, so that its "subset" also means superset.
            index = self._first_without(calls, others, equality, swapped=True)
            if index is not None:
                return f"{shown(calls[index].name)} {words}"
        return None

    def _strict(self, actual: Sequence[_Message], wanted: Sequence[_Message], equality: PythonEquality) -> str | None:
        """Compare message by message."""
        if len(actual) != len(wanted):
            return f"{len(actual)} messages instead of {len(wanted)}"
        for number, (made, message) in enumerate(zip(actual, wanted, strict=True), 1):
            if made.role != message.role:
                problem = f"of role {made.role} instead of {message.role}"
            elif len(made.calls) != len(message.calls):
                problem = f"{len(made.calls)} calls instead of {len(message.calls)}"
            else:
                index = self._first_without(made.calls, message.calls, equality, swapped=False)
                problem = "" if index is None else f"{shown(made.calls[index].name)} is not as expected"
            if problem:
                return f"message {number}: {problem}"
        return None

    def _first_without(
        self, calls: Sequence[_Call], others: Sequence[_Call], equality: PythonEquality, *, swapped: bool
    ) -> int | None:
        """Find the first call without a counterpart; `swapped` gives the matcher the counterpart first."""
        by_name = {call.name for call in (*calls, *others) if call.args is None}

        def kind(call: _Call) -> tuple[str, Key | None]:
            # Where arguments have to be equal, only equal calls are ever compared.
            is_exact = self._rule(call.name) == "exact" and call.name not in by_name
            return call.name, equality.key(call.args) if is_exact else None

        def fits(index: int, place: int) -> bool:
            call, other = calls[index], others[place]
            first, second = (other.args, call.args) if swapped else (call.args, other.args)
            return self._match(call.name, first, second, equality)

        return first_without([kind(call) for call in calls], [kind(call) for call in others], fits)

    def _rule(self, name: str) -> JsonValue:
        # Wart: an override that is empty in any way does not count.
        return (self.tool_args_match_overrides or {}).get(name) or self.tool_args_match_mode

    def _match(self, name: str, first: JsonObject | None, second: JsonObject | None, equality: PythonEquality) -> bool:
        rule = self._rule(name)
        if not isinstance(rule, list | str):
            message = f"the override for {shown(name)} is {kind_of(rule)}: a mode or a list of paths is accepted"
            raise _OriginalRaisesError("ValueError", message)
        if first is None or second is None:
            return True
        if isinstance(rule, list):
            for path in rule:
                if not isinstance(path, str):
                    message = f"a path of an override must be text, not {kind_of(path)}"
                    raise _OriginalRaisesError("AttributeError", message)
                if not equality.same(_at(first, path), _at(second, path)):
                    return False
            return True
        if rule == "exact":
            return equality.same(first, second)
        if rule in ("subset", "superset"):
            part, whole = (first, second) if rule == "subset" else (second, first)
            return all(name in whole and equality.same(value, whole[name]) for name, value in part.items())
        # Wart: a mode that agentevals does not know means that arguments are ignored.
        return True


def _at(args: JsonObject, path: str) -> Json:
    """Return the value under a dotted path; null when it has none."""
    value: Json = args
    for part in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def _made(turns: Sequence[Sequence[ToolCall]]) -> Iterator[_Message]:
    for calls in turns:
        yield _Message("user")
        for _, together in groupby(calls, key=lambda call: (call.span.trace_id, call.turn)):
            yield _Message("assistant", tuple(_Call(call.name, _arguments(call)) for call in together))


def _wanted(turns: Sequence[Sequence[ExpectedCall]]) -> Iterator[_Message]:
    for calls in turns:
        yield _Message("user")
        # A call without a group is one of its own.
        groups = groupby(enumerate(calls), key=lambda entry: (entry[1].group, entry[1].group is None and entry[0]))
        for _, together in groups:
            yield _Message("assistant", tuple(_Call(call.name, call.args) for _, call in together))


def _arguments(call: ToolCall) -> JsonObject | None:
    match call.arguments:
        case Unparsed(reason="unparsable"):
            raise _OriginalRaisesError("JSONDecodeError", f"the arguments of {shown(call.name)} are unparsable")
        case Recorded(value=value) if value is not None and not isinstance(value, dict):
            raise _OriginalRaisesError(
                "ValidationError", f"the arguments of {shown(call.name)} must be an object, not {kind_of(value)}"
            )
        case _:
            return readable_arguments(call)


def _same_texts(trajectory: Trajectory, expected: Expected) -> bool:
    if expected.texts is None or trajectory.case_shape != "messages":
        return True
    # Instructions have no place among the outputs.
    seen = [(one.role, 0 if one.role == "system" else one.turn) for one in trajectory.messages]
    answers = sum(not isinstance(call.result, NotRecorded) for call in trajectory.calls)
    return seen == [one for one in expected.texts if one[0] != "tool"] and answers == len(expected.texts) - len(seen)
