"""`agentevals.trajectory_match` as agentevals 0.0.9 computes it: chat messages of both sides, true or false.

Offline, messages come as written. Live, they are made of a trajectory: the calls of one model output, or expected calls of one
group, are one assistant message; user messages separate the turns of a reference. Texts and tool answers always agree.
"""

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import ClassVar, Literal, TypeAlias

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, JsonValue

from toolgauge.model.content import Recorded, Unparsed
from toolgauge.model.expected import Expected, ExpectedCall
from toolgauge.model.json import Json, JsonObject, Key
from toolgauge.model.outcomes import Errored, Level, NotEvaluated, Outcome, Scored
from toolgauge.model.ports import CaseOutcome, Evaluation
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.equality import PythonEquality
from toolgauge.score.plain_calls import first_without, kind_of, plain_expected
from toolgauge.score.selection import calls_by_turn, hidden_calls, not_observable, readable_arguments, shown

_ROLES = {
    "human": "user",
    "user": "user",
    "ai": "assistant",
    "assistant": "assistant",
    "system": "system",
    "developer": "developer",
    "function": "function",
    "tool": "tool",
}

_Mode: TypeAlias = Literal["exact", "ignore", "subset", "superset"]


class _Call(Struct, frozen=True):
    """`args` is `None` where arguments are not looked at: an expected call may give only its name."""

    name: str
    args: JsonObject | None


class _Message(Struct, frozen=True):
    role: str
    calls: tuple[_Call, ...] = ()


_Messages: TypeAlias = Sequence[_Message]


class _OriginalRaisesError(Exception):
    """The original raises an error of this type."""

    def __init__(self, error_type: str, message: str) -> None:
        super().__init__(message)
        self.outcome = Errored(error_type=error_type, message=message)


class TrajectoryMatch(BaseModel):
    """Whether the calls of a run match the expected ones: 1 if so, else 0.

    `strict` compares message by message: as many, of the same roles, each with the same number of calls, which may
    come in any order within it. `superset` looks for each expected call among those made, `subset` the other way round,
    `unordered` both. Calls take the first free counterpart that fits. How arguments are compared is said from the
    side of the call that was made, for all tools (`tool_args_match_mode`) or by tool name (`tool_args_match_overrides`:
    a mode, or a list of dotted paths that alone are compared, absent and null being equal).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "trajectory"
    binary: ClassVar[bool] = True
    needs_reference: ClassVar[bool] = True
    case_shapes: ClassVar[tuple[str, ...]] = ("messages",)
    expected_shapes: ClassVar[tuple[str, ...]] = ("messages",)

    trajectory_match_mode: Literal["strict", "unordered", "subset", "superset"] = "strict"
    tool_args_match_mode: _Mode = "exact"
    # Any value: the original looks at an override only when a call of this tool is compared, and raises then.
    tool_args_match_overrides: dict[str, JsonValue] | None = None

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        """Yield one outcome for the trajectory."""
        if expected is None or not expected.names_calls:
            yield None, NotEvaluated(reason="no_reference", explanation="no calls are given to compare with")
            return
        plain = plain_expected(expected.calls)
        problem = plain if isinstance(plain, Errored) else self._unseen(trajectory, expected)
        if problem is not None:
            yield None, problem
            return
        turns = calls_by_turn(trajectory, trajectory.calls, len(expected.turns)) if expected.per_turn else None
        if turns is None and expected.per_turn and self.trajectory_match_mode == "strict":
            explanation = f"{len(expected.turns)} user turns are expected and cannot be told apart in what was recorded"
            yield None, NotEvaluated(reason="incomplete", explanation=explanation)
            return
        try:
            actual = tuple(_made(turns or [trajectory.calls]))
        except _OriginalRaisesError as error:
            yield None, error.outcome
            return
        yield None, self._outcome(actual, tuple(_wanted(expected.turns)))

    def score_case(self, expected: JsonObject, actual: JsonObject) -> CaseOutcome:
        """Score messages as they were written."""
        key = f"trajectory_{self.trajectory_match_mode}_match"
        try:
            # In this order: the original raises the error of the first side.
            made, wanted = _read(actual.get("messages")), _read(expected.get("messages"))
        except _OriginalRaisesError as error:
            return CaseOutcome(outcome=error.outcome)
        return CaseOutcome(outcome=self._outcome(made, wanted), original={"key": key})

    def _unseen(self, trajectory: Trajectory, expected: Expected) -> NotEvaluated | None:
        """Name the parts that the comparison needs and that were not recorded."""
        if trajectory.hidden_turns:
            return hidden_calls(trajectory)
        calls = trajectory.calls
        is_alone = len(calls) <= 1 and len(expected.calls) <= 1
        if self.trajectory_match_mode == "strict" and not is_alone and any(call.requested_by is None for call in calls):
            return NotEvaluated(reason="no_content", explanation="which calls came in one message was not recorded")
        if self.tool_args_match_mode == "ignore" and not self.tool_args_match_overrides:
            return None
        return not_observable(expected.calls, calls)

    def _outcome(self, actual: _Messages, wanted: _Messages) -> Outcome:
        matching = _Matching(self.tool_args_match_mode, self.tool_args_match_overrides or {})
        try:
            problem = _COMPARE[self.trajectory_match_mode](matching, actual, wanted)
        except _OriginalRaisesError as error:
            return error.outcome
        if problem is None:
            return Scored(value=1.0, explanation=f"the calls match ({self.trajectory_match_mode})")
        return Scored(value=0.0, explanation=f"the calls do not match ({self.trajectory_match_mode}): {problem}")


class _Matching:
    """Compares calls; each method returns the first mismatch in words, `None` without any."""

    __slots__ = ("_equality", "_mode", "_overrides")

    def __init__(self, mode: str, overrides: dict[str, JsonValue]) -> None:
        self._mode = mode
        self._overrides = overrides
        self._equality = PythonEquality()

    def strict(self, actual: _Messages, wanted: _Messages) -> str | None:
        """Compare message by message."""
        if len(actual) != len(wanted):
            return f"{len(actual)} messages instead of {len(wanted)}"
        for number, (made, message) in enumerate(zip(actual, wanted, strict=True), 1):
            if made.role != message.role:
                problem = f"of role {made.role} instead of {message.role}"
            elif len(made.calls) != len(message.calls):
                problem = f"{len(made.calls)} calls instead of {len(message.calls)}"
            else:
                index = self._first_without(made.calls, message.calls, swapped=False)
                problem = "" if index is None else f"{shown(made.calls[index].name)} is not as expected"
            if problem:
                return f"message {number}: {problem}"
        return None

    def superset(self, actual: _Messages, wanted: _Messages) -> str | None:
        """Look for each expected call among those made."""
        calls = _all_calls(wanted)
        index = self._first_without(calls, _all_calls(actual), swapped=True)
        return None if index is None else f"{shown(calls[index].name)} is missing"

    def subset(self, actual: _Messages, wanted: _Messages) -> str | None:
        """Look for each call made among the expected ones."""
        calls = _all_calls(actual)
        # Wart: the sides of the matcher are swapped, too, and its "subset" means superset here.
        index = self._first_without(calls, _all_calls(wanted), swapped=True)
        return None if index is None else f"{shown(calls[index].name)} is not expected"

    def unordered(self, actual: _Messages, wanted: _Messages) -> str | None:
        """Look for each call of one side on the other."""
        return self.superset(actual, wanted) or self.subset(actual, wanted)

    def _first_without(self, calls: Sequence[_Call], others: Sequence[_Call], *, swapped: bool) -> int | None:
        """Find the first call without a counterpart; `swapped` gives the matcher the counterpart first."""

        def fits(index: int, place: int) -> bool:
            call, other = calls[index], others[place]
            first, second = (other.args, call.args) if swapped else (call.args, other.args)
            return self._match(call.name, first, second)

        return first_without(self._kinds(calls, others), self._kinds(others, calls), fits)

    def _kinds(self, calls: Sequence[_Call], others: Sequence[_Call]) -> list[tuple[str, Key | None]]:
        """Separate calls that cannot match: where arguments have to be equal, only equal calls are ever compared."""
        by_name = {call.name for call in (*calls, *others) if call.args is None}
        exact = [(self._overrides.get(one.name) or self._mode) == "exact" and one.name not in by_name for one in calls]
        return [
            (call.name, self._equality.key(call.args) if is_exact else None)
            for call, is_exact in zip(calls, exact, strict=True)
        ]

    def _match(self, name: str, first: JsonObject | None, second: JsonObject | None) -> bool:
        # Wart: an override that is empty in any way is none.
        rule = self._overrides.get(name) or self._mode
        if not isinstance(rule, list | str):
            raise _OriginalRaisesError(
                "ValueError",
                f"the override for {shown(name)} is {kind_of(rule)}: a mode or a list of paths is accepted",
            )
        if first is None or second is None:
            return True
        match rule:
            case list():
                for path in rule:
                    if not isinstance(path, str):
                        raise _OriginalRaisesError(
                            "AttributeError", f"a path of an override must be text, not {kind_of(path)}"
                        )
                    if not self._equality.same(_at(first, path), _at(second, path)):
                        return False
                return True
            case "exact":
                return self._equality.same(first, second)
            case "subset":
                return self._is_within(first, second)
            case "superset":
                return self._is_within(second, first)
            case _:
                # Wart: a mode that agentevals does not know means that arguments are ignored.
                return True

    def _is_within(self, part: JsonObject, whole: JsonObject) -> bool:
        return all(name in whole and self._equality.same(value, whole[name]) for name, value in part.items())


_COMPARE = {
    "strict": _Matching.strict,
    "unordered": _Matching.unordered,
    "subset": _Matching.subset,
    "superset": _Matching.superset,
}


# Blocks of content that are calls, with the keys of id and arguments.
_BLOCKS = {"tool_use": ("id", "input"), "function_call": ("call_id", "arguments")}


def _at(args: JsonObject, path: str) -> Json:
    """Return what stands under a dotted path; null when there is nothing."""
    value: Json = args
    for part in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value


def _all_calls(messages: _Messages) -> list[_Call]:
    return [call for message in messages for call in message.calls]


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


def _read(written: Json) -> tuple[_Message, ...]:
    """Read messages as agentevals does with LangChain: OpenAI's form and LangChain's, a list or one of them."""
    if written is None:
        return ()
    if isinstance(written, dict) and "role" not in written:
        if "messages" not in written:
            raise _OriginalRaisesError("ValueError", f"`messages` must be a list of messages, not {kind_of(written)}")
        written = written["messages"]
    return tuple(_read_message(message) for message in (written if isinstance(written, list) else [written]))


def _read_message(written: Json) -> _Message:
    if not isinstance(written, dict):
        raise _OriginalRaisesError("ValueError", f"a message must be an object, not {kind_of(written)}")
    role = written.get("role", written.get("type"))
    # The calls of every message are read, but only those of the assistant are checked and count.
    calls = (*_read_calls(written.get("tool_calls")), *_read_blocks(written))
    known = _ROLES.get(role) if isinstance(role, str) else None
    if known is None:
        raise _OriginalRaisesError("ValueError", f"`role` of a message must be one of `{'`, `'.join(_ROLES)}`")
    if known != "assistant":
        # Of a message that LangChain takes apart, the first counts: an answer, where no text stands before it.
        is_answer = next((block.get("type") for block in _objects(written.get("content"))), None) == "tool_result"
        return _Message("tool" if is_answer else known)
    checked: list[_Call] = []
    for name, args in calls:
        if not isinstance(name, str) or not isinstance(args, dict):
            raise _OriginalRaisesError("ValidationError", "`name` of a call must be a text and its arguments an object")
        checked.append(_Call(name, args))
    return _Message(known, tuple(checked))


def _read_calls(written: Json) -> Iterator[tuple[Json, Json]]:
    """Yield names and arguments as far as text can be read."""
    if not written:
        return
    if not isinstance(written, list):
        raise _OriginalRaisesError("TypeError", f"`tool_calls` must be a list of objects, not {kind_of(written)}")
    for item in written:
        if not isinstance(item, dict):
            raise _OriginalRaisesError("TypeError", f"an item of `tool_calls` must be an object, not {kind_of(item)}")
        nested = item.get("function")
        call = nested if isinstance(nested, dict) else item
        if "name" not in call:
            raise _OriginalRaisesError("TypeError", "a call has no `name`: it must be an object with `name` and `args`")
        arguments: Json = call.get("args", call.get("arguments"))
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments, strict=False)
            except ValueError:
                raise _OriginalRaisesError("JSONDecodeError", "`arguments` that are text must be JSON") from None
        yield call["name"], arguments


def _read_blocks(written: JsonObject) -> Iterator[tuple[Json, Json]]:
    """Yield the calls in blocks of content that LangChain knows; refuse blocks of calls that it passes over."""
    known = [call.get("id") for call in _objects(written.get("tool_calls"))]
    for block in _objects(written.get("content")):
        if "type" not in block:
            raise _OriginalRaisesError("KeyError", "a block of `content` has no `type`")
        kind = block["type"]
        keys = _BLOCKS.get(kind) if isinstance(kind, str) else None
        if keys is None:
            if "toolName" in block or "name" in block:
                raise _OriginalRaisesError(
                    "invalid_case",
                    f"a block of `content` has the type {str(kind)[:80]}: agentevals reads no call in it",
                )
            continue
        missing = next((key for key in (*keys, "name") if key not in block), None)
        if missing is not None:
            raise _OriginalRaisesError("ValueError", f"a block `{kind}` of `content` has no `{missing}`")
        if block[keys[0]] not in known:
            yield from _read_calls([{"name": block["name"], "args": block[keys[1]]}])


def _objects(written: Json) -> list[JsonObject]:
    return [item for item in written if isinstance(item, dict)] if isinstance(written, list) else []
