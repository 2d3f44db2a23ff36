"""Reads the `actual` of a case, whose key shows its shape, as a trajectory.

Chat messages are OpenAI's, of both its APIs, and the blocks of Anthropic, Gemini, Bedrock and the AI SDK. A part that cannot be read
raises `CaseError` with its place: a call that is overlooked would count as never made.
"""

import json
import re
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.cases.case import CaseError
from toolgauge.cases.trajectories import (
    ARGUMENT_KEYS,
    TrajectoryBuilder,
    case_call,
    given_arguments,
    of_traces,
    tool_type,
    tools,
)
from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import CallAnswered, CallError
from toolgauge.model.records import Resource, Scope, Span, SpanRef
from toolgauge.model.trajectory import CASE_OUTPUT, CASE_SHAPE, ToolCall, Trajectory
from toolgauge.recognize.messages import Message, Output
from toolgauge.recognize.openinference_spans import (
    INPUT,
    OUTPUT,
    SYNTHESIZED,
    call_answer,
    call_arguments,
    is_synthesized,
)
from toolgauge.recognize.provider_messages import given
from toolgauge.recognize.values import as_list, as_object, as_str, dump, identifier, opened_blocks, result
from toolgauge.score.recorded_values import result_value

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
    """Return whether a case's `actual` records a run, even an empty one: an answer alone does not."""
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
    for message in chat(written, "actual"):
        if message.role == "assistant":
            if not message.continues:
                builder.begin_turn()
            for place, item in message.calls:
                builder.call(_made(*named_call(item, place)))
        for answer in message.answers:
            builder.answer(answer.result, answer.call_id, answer.error)
        is_turn = message.role == "system" or (message.role == "user" and not message.answers)
        if message.role != "tool" and (message.text or is_turn):
            builder.message(message.role, message.text)


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
        # The reason why a call failed is a text; true stands for an unknown reason.
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


Role: TypeAlias = Literal["user", "assistant", "tool", "system"]
_ROLES: dict[str, Role] = {
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "system": "system",
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
    "function": "tool",
    "developer": "system",
}
_TEXTS = (None, "text", "input_text", "output_text")
# Parts without text, call or answer: thoughts, marks of caches and of steps, sources.
_QUIET = re.compile(r"reason|think|thought|refusal|cache|step|source|citation|guard", re.IGNORECASE)


class ChatMessage(Struct, frozen=True, kw_only=True):
    """One message. Each call is a place and an object with `name`, `id` and arguments.

    `is_item` where it is an item of a response, and `continues` where that belongs to the output of the item before it.
    """

    role: Role
    text: str
    calls: tuple[tuple[str, JsonObject], ...]
    answers: tuple[CallAnswered, ...]
    is_item: bool = False
    continues: bool = False


def chat(written: Json, owner: str, default_role: str | None = None) -> Iterator[ChatMessage]:
    """Yield the messages of `actual` or `expected`."""
    is_open = False
    for number, item in enumerate(objects("messages", written)):
        message = _message(item, f"{owner}.messages[{number}]", default_role)
        yield replace(message, continues=is_open and message.is_item)
        is_open = message.role == "assistant" and message.is_item


def objects(key: str, written: Json) -> list[JsonObject]:
    """Return a list of objects, empty for null; raise `CaseError` for another value."""
    if written is None:
        return []
    items = [item for item in as_list(written) if isinstance(item, dict)]
    if not isinstance(written, list) or len(items) != len(written):
        raise CaseError(f"`{key}` must be a list of objects")
    return items


def _message(message: JsonObject, place: str, default_role: str | None) -> ChatMessage:
    kind = as_str(message.get("type"))
    role = message.get("role", kind if kind in _ROLES else default_role)
    calls: list[tuple[str, JsonObject]] = []
    answers: list[CallAnswered] = []
    texts: list[str] = []
    if "role" not in message and kind is not None and kind not in _ROLES:
        _read_block(message, "assistant", place, calls, answers, texts)
        part: Role = "assistant" if calls or not answers else "tool"
        return ChatMessage(role=part, text="", calls=tuple(calls), answers=tuple(answers), is_item=True)
    known = _ROLES.get(role) if isinstance(role, str) else None
    if known is None:
        raise CaseError(f"`role` of a message must be user, assistant, tool or system: `{place}.role`")
    asked = objects("tool_calls", message.get("tool_calls") or [])
    calls += [(f"{place}.tool_calls[{at}]", call) for at, call in enumerate(asked)]
    if isinstance(call := message.get("function_call"), dict):
        calls.append((f"{place}.function_call", call))
    for key in ("content", "parts"):
        value = message.get(key)
        if isinstance(value, list):
            for at, block in enumerate(value):
                _read_block(block, known, f"{place}.{key}[{at}]", calls, answers, texts)
        elif isinstance(value, dict):
            _read_block(value, known, f"{place}.{key}", calls, answers, texts)
        elif value is not None:
            texts.append(value if isinstance(value, str) else dump(value))
    # LangChain repeats the calls of a message in its blocks.
    given_ids = {identifier(call.get("id")) for call in asked} - {None}
    calls = [call for at, call in enumerate(calls) if at < len(asked) or call[1].get("id") not in given_ids]
    text = "".join(texts)
    if known == "tool" and not answers:
        call_id = next(
            (found for key in ("tool_call_id", "toolCallId") if (found := identifier(message.get(key)))), None
        )
        answers.append(CallAnswered(call_id=call_id, result=result(text)))
    return ChatMessage(role=known, text=text, calls=tuple(calls), answers=tuple(answers))


def _read_block(
    block: Json,
    role: str,
    place: str,
    calls: list[tuple[str, JsonObject]],
    answers: list[CallAnswered],
    texts: list[str],
) -> None:
    kind, text = as_object(block).get("type"), as_object(block).get("text", block)
    if kind in _TEXTS and isinstance(text, str):
        texts.append(text)
        return
    message = Message(as_object(given({"messages": [{"role": role, "parts": [block]}]})[0]), role)
    read = Output()
    message.add_to(read)
    for call in read.calls:
        # As cases write calls.
        found: JsonObject = {"name": call.name, "id": call.call_id}
        match call.arguments:
            case Recorded(value=value):
                found["args"] = value
            case Unparsed(text=unparsed):
                found["arguments"] = unparsed
            case _:
                pass
        calls.append((place, found))
    answers += [
        CallAnswered(call_id=one.call_id, name=one.name, result=_opened(one.result, block), error=one.error)
        for one in read.answers
    ]
    texts += read.texts
    names = [kind] if isinstance(kind, str) else [*as_object(block)]
    if not (read.calls or read.answers or read.texts or message.has_media or any(map(_QUIET.search, names))):
        raise CaseError(
            f"`{place}` is neither text nor a call with a name nor the answer to one: {', '.join(names)[:80]}"
        )


def _opened(content: Content, block: Json) -> Content:
    """Return the result in an answer: in blocks, the AI SDK's `{"type": "text", "value": ...}` or Gemini's `{"result": ...}`."""
    content = opened_blocks(content)
    value = content.value if isinstance(content, Recorded) else None
    if isinstance(value, list):
        return Recorded(result_value(value))
    if not isinstance(value, dict):
        return content
    if value.keys() == {"type", "value"} and value["type"] in ("text", "json"):
        return Recorded(value["value"])
    is_wrapped = "type" not in as_object(block) and (value.keys() == {"result"} or value.keys() == {"output"})
    return Recorded(next(iter(value.values()))) if is_wrapped else content
