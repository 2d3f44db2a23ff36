"""What a case expects, in any of the documented shapes, as what evaluators compare with."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from toolgauge.cases.actual import chat, named_call, trajectory_call
from toolgauge.cases.case import CaseError
from toolgauge.cases.trajectories import ARGUMENT_KEYS, given_arguments, tool_type
from toolgauge.config.problems import suggestion
from toolgauge.model.content import Recorded
from toolgauge.model.expected import Expected, ExpectedCall, ExpectedOutput
from toolgauge.model.json import Json, JsonObject
from toolgauge.recognize.values import as_object, identifier

_MANY = 1_000_000
_ANSWERS = ("expected_output", "output")
_KEYS = ("name", "id", *ARGUMENT_KEYS, "output", "optional", "repeat")
# What people and other packages write beside a call or an answer, and no evaluator compares with.
_NOT_COMPARED = frozenset(
    {"type", "index", "idx", "description", "reasoning", "arguments_json", "note", "notes", "comment", "metadata"}
)


def expected_of(written: JsonObject) -> Expected | None:
    """Make the expected side of a case; `None` when it gives nothing to compare with. Raise `CaseError` for other shapes."""
    if not written:
        return None
    shapes = [key for key in (*_SHAPES, "invocations") if key in written]
    answers = [ExpectedOutput(value=written[key]) for key in _ANSWERS if key in written]
    known = (*_SHAPES, "invocations", *_ANSWERS)
    if not shapes and not answers:
        raise CaseError(f"`expected` has none of the known keys: `{'`, `'.join(known)}`")
    _refuse_unknown("`expected`", written, known)
    if len(shapes) > 1:
        given = "` and `".join(shapes)
        raise CaseError(f"`expected` has `{given}`, of which only one can hold")
    answer = answers[0] if answers else None
    if shapes == ["invocations"]:
        return Expected(turns=_invocations(written["invocations"]), per_turn=True, answer=answer)
    texts = tuple(_texts(written["messages"])) if shapes == ["messages"] else None
    return Expected(turns=tuple(_SHAPES[key](written[key]) for key in shapes), answer=answer, texts=texts)


def _invocations(written: Json) -> tuple[tuple[ExpectedCall, ...], ...]:
    """Read user turns."""
    if written is None:
        raise CaseError("`invocations` of `expected` must be a list: leave it out where there is no reference")
    turns = [as_object(turn) for turn in _list("invocations", written)]
    for turn in turns:
        # What other packages write beside the calls of a turn is theirs; without `calls` another key may be meant for it.
        if "calls" not in turn:
            _refuse_unknown("an expected invocation", turn, ("calls", "user"))
    return tuple(_calls(turn.get("calls"), f"invocations[{number}].calls") for number, turn in enumerate(turns))


def _calls(written: Json, key: str = "calls") -> tuple[ExpectedCall, ...]:
    """Read expected calls; a list among them is a group without order, as in criteria."""
    calls: list[ExpectedCall] = []
    for number, item in enumerate(_list(key, written)):
        place = f"{key}[{number}]"
        if isinstance(item, list):
            calls += [_call(as_object(member), f"{place}[{at}]", number) for at, member in enumerate(item)]
        else:
            calls.append(_call(as_object(item), place))
    return tuple(calls)


def _call(written: JsonObject, place: str, group: int | None = None) -> ExpectedCall:
    return _expected(*named_call(written, f"expected.{place}"), group)


def _expected(name: str, item: JsonObject, group: int | None = None) -> ExpectedCall:
    _refuse_unknown(f"expected call `{name}`", item, _KEYS)
    given = [key for key in ARGUMENT_KEYS if key in item]
    if len(given) > 1:
        keys = "` and `".join(given)
        raise CaseError(f"expected call `{name}` has `{keys}`, of which only one can hold")
    content = given_arguments(item)
    arguments = content.value if isinstance(content, Recorded) else None
    if (given and item[given[0]] is not None and arguments is None) or not isinstance(arguments, dict | None):
        raise CaseError(f"the arguments of expected call `{name}` are no JSON object")
    optional = item.get("optional", False)
    if not isinstance(optional, bool):
        raise CaseError(f"`optional` of expected call `{name}` must be true or false")
    return ExpectedCall(
        name=name,
        call_id=identifier(item.get("id")),
        args=arguments,
        output=ExpectedOutput(value=item["output"]) if "output" in item else None,
        optional=optional,
        repeat=_repeat(item.get("repeat", 1)),
        group=group,
        tool_type=tool_type(item),
    )


def _refuse_unknown(owner: str, item: JsonObject, known: Sequence[str]) -> None:
    """Raise `CaseError` for a key that would be ignored: an expected call without its arguments is met by any."""
    for key in item:
        if key not in known and key not in _NOT_COMPARED:
            raise CaseError(f"unknown key `{key[:80]}` of {owner} ({suggestion(key.lower(), known)})")


def _repeat(written: Json) -> tuple[int, int]:
    """Read `3` as exactly three, `[0, 3]` as a range."""
    match written if isinstance(written, list) else [written, written]:
        case [int() as least, int() as most] if (
            not isinstance(least, bool) and not isinstance(most, bool) and 0 <= least <= most <= _MANY and most > 0
        ):
            return least, most
        case _:
            raise CaseError(f"`repeat` must be 1 to {_MANY}, or `[least, most]`")


def _trajectory(written: Json, key: str = "trajectory") -> tuple[ExpectedCall, ...]:
    return tuple(_expected(*trajectory_call(one)) for one in _list(key, written))


def _counts(written: Json) -> tuple[ExpectedCall, ...]:
    """Read `[">=", 2]` by the name of a call as the range of its occurrences."""
    if not isinstance(written, dict):
        raise CaseError("`tool_calls_count` must be an object of names and `[comparator, number]`")
    calls: list[ExpectedCall] = []
    for name, rule in written.items():
        match rule:
            case [str() as comparator, int() as number] if comparator in _RANGES and not isinstance(number, bool):
                least, most = _RANGES[comparator](number)
            case _:
                known = "`, `".join(_RANGES)
                raise CaseError(f"a rule of `tool_calls_count` must be a comparator (`{known}`) and a number")
        if not 0 <= least <= most:
            raise CaseError(f"the rule of `tool_calls_count` for `{name}` allows no number of calls")
        calls.append(ExpectedCall(name=name, optional=least == 0, repeat=(least, most)))
    return tuple(calls)


_RANGES: dict[str, Callable[[int], tuple[int, int]]] = {
    "=": lambda number: (number, number),
    "==": lambda number: (number, number),
    ">=": lambda number: (max(number, 0), _MANY),
    ">": lambda number: (max(number + 1, 0), _MANY),
    "<=": lambda number: (0, number),
    "<": lambda number: (0, number - 1),
}


def _messages(written: Json) -> tuple[ExpectedCall, ...]:
    """Read the calls of chat messages; the calls of one message, or of neighbouring items, have no order among themselves."""
    groups: list[list[tuple[str, JsonObject]]] = []
    for message in chat(written, "expected", "assistant"):
        if not message.continues:
            groups.append([])
        groups[-1] += message.calls
    return tuple(
        _expected(*named_call(call, place), number if len(group) > 1 else None)
        for number, group in enumerate(groups)
        for place, call in group
    )


def _texts(written: Json) -> Iterator[tuple[str, int]]:
    """Yield the roles of messages with text and of answers, each with the number of messages with calls before it."""
    outputs = 0
    for message in chat(written, "expected", "assistant"):
        outputs += bool(message.calls) and not message.continues
        if message.role == "system" or (message.role == "user" and (message.text or not message.answers)):
            yield message.role, 0 if message.role == "system" else outputs
        elif message.role == "assistant" and message.text:
            yield message.role, outputs
        yield from [("tool", outputs)] * len(message.answers)


def _list(key: str, written: Json) -> list[Json]:
    if written is None:
        return []
    if not isinstance(written, list):
        raise CaseError(f"`{key}` must be a list")
    return written


_SHAPES: dict[str, Callable[[Json], tuple[ExpectedCall, ...]]] = {
    "tool_calls": partial(_calls, key="tool_calls"),
    "tool_outputs": partial(_calls, key="tool_outputs"),
    "tool_calls_order": partial(_trajectory, key="tool_calls_order"),
    "tool_calls_count": _counts,
    "calls": _calls,
    "messages": _messages,
    "trajectory": _trajectory,
}
