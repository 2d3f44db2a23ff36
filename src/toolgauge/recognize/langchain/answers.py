"""Reads what a LangChain tool left: its message, serialised in one of four ways, or a LangGraph command.

Arrives: the output of a tool run, or of the node that runs tools. Leaves: the result, and what it hides (the call's id,
the failure behind a span that went well). Which producers wrap a result in this way is for their dialects to know.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from toolgauge.model.content import NOT_RECORDED, Content, NotRecorded, Recorded
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import CallAnswered, CallError
from toolgauge.recognize.values import as_list, as_object, as_str, content, parse_text, result

# What a failed call is called when the producer names no exception class (OpenTelemetry's own word for it).
OTHER_ERROR = "_OTHER"

# LangGraph leaves a node through these exceptions; nothing has failed.
_CONTROL_FLOW = ("ParentCommand", "GraphInterrupt", "NodeInterrupt", "GraphBubbleUp")
_INVALID_TOOL = "invalid_tool"
_MESSAGE_REPR = re.compile(
    r"content=(?P<content>'[^'\\]*(?:\\.[^'\\]*)*'|\"[^\"\\]*(?:\\.[^\"\\]*)*\"|\[.*?\])"
    r"(?P<rest>(?: [a-z_]+=.*)?)",
    re.DOTALL,
)
_CALL_ID = re.compile(r"[ (]tool_call_id='([^'\\]{1,256})'")
_STATUS_ERROR = re.compile(r" status='error'(?: |$)")


class Answer(Struct, frozen=True, kw_only=True):
    """What a tool run says about the call's outcome."""

    result: Content = NOT_RECORDED
    call_id: str | None = None
    error: CallError | None = None


def is_control_flow(exception: str) -> bool:
    """Tell whether an exception's class is one that LangGraph raises on purpose."""
    return exception.rpartition(".")[2] in _CONTROL_FLOW


def tool_answer(value: Value) -> Answer:
    """Open the output of a tool run: a message, a command, either inside `{"output": ...}`, or the plain result."""
    read = content(value)
    if isinstance(read, NotRecorded):
        return Answer(result=read)
    opened = as_object(read.value) if isinstance(read, Recorded) else {}
    if len(opened) == 1 and "output" in opened:
        inner = opened["output"]
        if isinstance(inner, str):
            return repr_answer(inner)
        opened = as_object(inner) or opened
    data = message_fields(opened)
    if "tool_call_id" in data:
        return message_answer(data)
    if isinstance(update := opened.get("update"), dict):
        return _command_answer(update, read)
    text = read.value if isinstance(read, Recorded) else value
    if isinstance(text, str) and text.startswith(("content=", "Command(")):
        return repr_answer(text)
    return Answer(result=result(value))


def message_fields(message: Json) -> JsonObject:
    """Return the fields of a serialised message, wherever the way of serialising puts them."""
    item = as_object(message)
    for key in ("kwargs", "data"):
        if isinstance(inner := item.get(key), dict):
            return inner
    return item


def message_answer(data: JsonObject) -> Answer:
    """Read the fields of a tool message."""
    said = data.get("content")
    failed = data.get("status") == "error"
    return Answer(
        result=result(said) if isinstance(said, (str, list, dict)) else Recorded(said),
        call_id=as_str(data.get("tool_call_id")),
        error=CallError(kind=OTHER_ERROR, message=said if isinstance(said, str) else "") if failed else None,
    )


def repr_answer(text: str) -> Answer:
    """Read `content='..' name='..' tool_call_id='..'`, a tool message as Python shows it."""
    if text.startswith("Command("):
        call_ids = _CALL_ID.findall(text)
        return Answer(call_id=call_ids[-1] if call_ids else None)
    found = _MESSAGE_REPR.fullmatch(text.strip())
    if found is None:
        return Answer(result=result(text))
    said = parse_text(found["content"])
    value: Json = said.value if isinstance(said, Recorded) else found["content"]
    call_id = _CALL_ID.search(found["rest"])
    failed = _STATUS_ERROR.search(found["rest"])
    return Answer(
        result=result(value) if isinstance(value, str) else Recorded(value),
        call_id=call_id[1] if call_id else None,
        error=CallError(kind=OTHER_ERROR, message=value if isinstance(value, str) else "") if failed else None,
    )


def refused_call(tool: Value, given: Value, output: Value) -> CallAnswered | None:
    """Read the run of the tool that an `AgentExecutor` has in place of one that does not exist."""
    if tool != _INVALID_TOOL:
        return None
    read = content(given)
    requested = as_object(read.value).get("requested_tool_name") if isinstance(read, Recorded) else None
    return CallAnswered(name=requested, result=result(output)) if isinstance(requested, str) else None


def node_answers(given: Value, output: Value) -> Iterator[CallAnswered]:
    """Read the answers of a LangGraph tool node; a call that was refused has no tool run, only this."""
    if not isinstance(given, str) or '"tool_call' not in given or given[:1] not in ("[", "{"):
        return
    called = parse_text(given)
    if not _are_calls(called.value if isinstance(called, Recorded) else None):
        return
    said = content(output)
    for message in _messages(said.value) if isinstance(said, Recorded) else []:
        data = message_fields(message)
        if "tool_call_id" in data:
            answer = message_answer(data)
            yield CallAnswered(
                call_id=answer.call_id, name=as_str(data.get("name")), result=answer.result, error=answer.error
            )


def _are_calls(given: Json) -> bool:
    opened = as_object(given)
    calls = as_list(given) or as_list(opened.get("input")) or [opened.get("tool_call")]
    return all(as_object(call).get("type") == "tool_call" for call in calls)


def _messages(said: Json) -> list[Json]:
    opened = as_object(said)
    output = opened.get("output")
    return as_list(opened.get("messages")) or as_list(as_object(output).get("messages")) or as_list(output)


def _command_answer(update: JsonObject, whole: Content) -> Answer:
    """Read a LangGraph command: of the messages it adds, perhaps after the whole history, the last tool message."""
    for message in reversed(as_list(update.get("messages"))):
        data = message_fields(message)
        if "tool_call_id" in data:
            return message_answer(data)
    return Answer(result=whole)
