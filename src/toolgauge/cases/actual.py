"""Reads the `actual` of a case, whose key shows its shape, as a trajectory."""

import json
from collections.abc import Callable
from difflib import get_close_matches

from msgspec.structs import replace

from toolgauge.cases.case import CaseError
from toolgauge.cases.chat import chat, objects
from toolgauge.cases.trajectories import (
    ARGUMENT_KEYS,
    TrajectoryBuilder,
    case_call,
    given_arguments,
    of_traces,
    tool_type,
    tools,
)
from toolgauge.model.content import NOT_RECORDED, Recorded
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import CallError
from toolgauge.model.records import Resource, Scope, Span, SpanRef
from toolgauge.model.trajectory import CASE_OUTPUT, CASE_SHAPE, ToolCall, Trajectory
from toolgauge.recognize.openinference_spans import (
    INPUT,
    OUTPUT,
    SYNTHESIZED,
    call_answer,
    call_arguments,
    is_synthesized,
)
from toolgauge.recognize.values import as_object, as_str, dump, identifier, result

_RESOURCE = Resource(service=None, attributes={})
_SCOPE = Scope(name="", version="")
_REF = SpanRef(f"{1:032x}", f"{1:016x}")
_TOOL_NAME = "tool.name"
_TOOL_ID = "tool.id"
_CALL_KEYS = ("name", "id", "output", "error", *ARGUMENT_KEYS)


def trajectory_of(actual: JsonObject, *, as_written: bool = False) -> Trajectory:
    """Make a trajectory of a case's `actual`; raise `CaseError` when it has none of the known shapes.

    `as_written`: arguments and results in spans are the values of the attributes.
    """
    if "traces" in actual:
        return of_traces(actual["traces"])
    shapes = [key for key in _SHAPES if key in actual]
    if not shapes and "output" not in actual:
        known = "`, `".join([*_SHAPES, "traces", "output"])
        raise CaseError(f"`actual` has none of the known keys: `{known}`")
    builder = TrajectoryBuilder()
    asked = actual.get("input")
    if asked is not None:
        builder.message("user", _text(asked))
    properties = {CASE_SHAPE: " ".join(shapes)}
    for key in shapes:
        if key == "spans":
            _spans(builder, actual[key], as_written=as_written)
        else:
            _SHAPES[key](builder, actual[key])
    if "output" in actual:
        output = actual["output"]
        builder.message("assistant", _text(output))
        properties[CASE_OUTPUT] = "text" if isinstance(output, str) else "json"
    return builder.trajectory(properties, tools(actual.get("functions")))


def records_trajectory(actual: JsonObject) -> bool:
    """Return whether a case's `actual` records what was done, were it nothing: an answer alone does not."""
    return any(actual.get(key) is not None for key in (*_SHAPES, "traces"))


def _spans(builder: TrajectoryBuilder, written: Json, *, as_written: bool = False) -> None:
    """Add the calls that UiPath sees in spans."""
    for item in objects("spans", written):
        span = Span(
            ref=_REF,
            parent_span_id=None,
            parent_is_remote=None,
            name=as_str(item.get("name")) or "",
            kind="internal",
            start_ns=0,
            end_ns=0,
            attributes=as_object(item.get("attributes")),
            events=(),
            status="unset",
            status_message="",
            resource=_RESOURCE,
            scope=_SCOPE,
            size_bytes=0,
        )
        name = span.attributes.get(_TOOL_NAME)
        # To UiPath any text marks a span as made up.
        is_made_up = bool(span.attributes.get(SYNTHESIZED)) if as_written else is_synthesized(span)
        if not name or is_made_up:
            continue
        arguments, answer = call_arguments(span, ""), call_answer(span, "").result
        if as_written:
            attributes = as_object(item.get("attributes"))
            arguments, answer = (
                Recorded(attributes[key]) if key in attributes else NOT_RECORDED for key in (INPUT, OUTPUT)
            )
        tool_id = span.attributes.get(_TOOL_ID)
        builder.begin_turn()
        builder.call(
            case_call(
                name if isinstance(name, str) else str(name),
                call_id=identifier(tool_id),
                tool_id=None if tool_id is None else str(tool_id),
                arguments=arguments,
                result=answer,
            )
        )


def _messages(builder: TrajectoryBuilder, written: Json) -> None:
    """Add chat messages. The calls of one message, or of neighbouring items of a response, are one turn."""
    is_open = False
    for message in chat(written, "actual"):
        if message.role == "assistant":
            if not (is_open and message.is_item):
                builder.begin_turn()
            for place, item in message.calls:
                builder.call(_made(*named_call(item, place)))
        for answer in message.answers:
            builder.answer(answer.result, answer.call_id, answer.error)
        is_turn = message.role == "system" or (message.role == "user" and not message.answers)
        if message.role != "tool" and (message.text or is_turn):
            builder.message(message.role, message.text)
        is_open = message.role == "assistant" and message.is_item


def _invocations(builder: TrajectoryBuilder, written: Json) -> None:
    """Add user turns with the calls of each; the text of the user is not recorded."""
    for number, invocation in enumerate(objects("invocations", written)):
        builder.message("user", _text(invocation.get("user", f"turn {number + 1}")))
        _calls(builder, invocation.get("calls") or [], f"actual.invocations[{number}].calls")


def _calls(builder: TrajectoryBuilder, written: Json, place: str = "actual.calls") -> None:
    for number, call in enumerate(objects("calls", written)):
        name, item = named_call(call, f"{place}[{number}]")
        # Raise `CaseError` for a key that is nearly one of ours: a call without its error, for example, is one that worked.
        for key in item:
            meant = () if key in _CALL_KEYS else get_close_matches(key.lower(), _CALL_KEYS, n=1, cutoff=0.85)
            if meant:
                raise CaseError(f"unknown key `{key[:80]}` of call `{name}` (did you mean `{meant[0]}`?)")
        output, error = item.get("output"), item.get("error")
        # The reason why a call failed is a text, or true where there is none.
        if error is not None and not isinstance(error, bool | str):
            raise CaseError("`error` of a call must be a text, or true")
        content = result(output) if isinstance(output, str) else Recorded(output)
        failed = error is not None and error is not False
        made = replace(
            _made(name, item),
            result=content if "output" in item else NOT_RECORDED,
            error=CallError(kind="", message=error if isinstance(error, str) else "") if failed else None,
        )
        builder.begin_turn()
        builder.call(made)


def _trajectory(builder: TrajectoryBuilder, written: Json) -> None:
    """Add items of any JSON: a text is a tool's name, an object with a name is a call, the rest stands for itself."""
    if not isinstance(written, list):
        raise CaseError("`trajectory` must be a list")
    for item in written:
        builder.begin_turn()
        builder.call(_made(*trajectory_call(item)))


def trajectory_call(item: Json) -> tuple[str, JsonObject]:
    """Return the name and the keys of an item of a trajectory."""
    if isinstance(item, dict) and isinstance(name := item.get("name"), str):
        return name, item
    return item if isinstance(item, str) else json.dumps(_as_python(item), sort_keys=True, ensure_ascii=False), {}


def _as_python(item: Json) -> Json:
    """Write numbers that Python takes for equal alike."""
    match item:
        case bool():
            return int(item)
        case float() if item.is_integer():
            return int(item)
        case list():
            return [_as_python(one) for one in item]
        case dict():
            return {key: _as_python(one) for key, one in item.items()}
        case _:
            return item


def _made(name: str, call: JsonObject) -> ToolCall:
    call_id, arguments = identifier(call.get("id")), given_arguments(call)
    return case_call(name, call_id=call_id, arguments=arguments, tool_type=tool_type(call))


def named_call(call: JsonObject, place: str) -> tuple[str, JsonObject]:
    """Return the name of a written call and its keys, flat also where OpenAI nests them; raise `CaseError` without a name."""
    if isinstance(function := call.get("function"), dict):
        call = {**{key: value for key, value in call.items() if key != "function"}, **function}
    if not isinstance(name := call.get("name"), str):
        raise CaseError(f"`{place}.name` must be a text")
    return name, call


def _text(value: Json) -> str:
    """Return a message's text; the parts of a message are put together."""
    if value is None:
        return ""
    if isinstance(value, list):
        return "".join(as_str(as_object(part).get("text")) or "" for part in value)
    return value if isinstance(value, str) else dump(value)


_SHAPES: dict[str, Callable[[TrajectoryBuilder, Json], None]] = {
    "messages": _messages,
    "invocations": _invocations,
    "calls": _calls,
    "trajectory": _trajectory,
    "spans": _spans,
}
