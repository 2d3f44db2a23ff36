"""Reads Haystack's chat messages: what a model was given and wrote, and what tools answered.

Arrives: a content tag. It is JSON of dataclasses or, where something in it was no JSON, the Python repr of all of it.
Leaves: observations.
"""

from collections.abc import Iterator

from toolgauge.model.content import NOT_RECORDED, Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import CallAnswered, CallError, CallRequested, MessageSeen, Observation
from toolgauge.recognize.langchain.answers import OTHER_ERROR
from toolgauge.recognize.reprs import CLASS, parse_repr
from toolgauge.recognize.values import arguments, as_list, as_object, as_str, content, result

# A repr costs many times as much as JSON to read.
_MAX_REPR = 250_000
_REPR_KEYS = {"ToolCall": "tool_call", "ToolCallResult": "tool_call_result"}
_ROLES = ("system", "user", "assistant", "tool")


def decoded(value: Value) -> JsonObject:
    """Decode a content tag, empty when it cannot be."""
    read = content(value)
    match read:
        case Recorded(value=found):
            return as_object(found)
        case Unparsed(text, "unparsable") if len(text) <= _MAX_REPR:
            try:
                return as_object(parse_repr(text))
            except ValueError:
                return {}
        case Unparsed() | NotRecorded():
            return {}


def received(messages: Json) -> Iterator[Observation]:
    """Read a model's input: instructions, the newest user text, and answers to calls."""
    read = [as_object(item) for item in as_list(messages)]
    for message in read:
        if _role(message) == "system" and (text := _text(message)):
            yield MessageSeen(role="system", text=text)
        yield from _answers(message)
    yield from user_text(messages)


def user_text(messages: Json) -> Iterator[MessageSeen]:
    """Read the newest text of the user."""
    for item in reversed(as_list(messages)):
        message = as_object(item)
        if _role(message) == "user" and (text := _text(message)):
            yield MessageSeen(role="user", text=text)
            return


def written(replies: Json) -> Iterator[Observation]:
    """Read a model's output: the calls that it asks for, and its text."""
    texts: list[str] = []
    position = 0
    for item in as_list(replies):
        if isinstance(item, str):
            texts.append(item)
        message = as_object(item)
        for part in _parts(message):
            request = _request(as_object(part.get("tool_call")), position)
            if request is not None:
                yield request
                position += 1
        texts.append(_text(message))
    if text := "\n".join(filter(None, texts)):
        yield MessageSeen(role="assistant", text=text)


def answers(messages: Json) -> Iterator[CallAnswered]:
    """Read what tools answered."""
    for item in as_list(messages):
        yield from _answers(as_object(item))


def _answers(message: JsonObject) -> Iterator[CallAnswered]:
    for part in _parts(message):
        told = part.get("tool_call_result")
        if not isinstance(told, dict):
            continue
        origin = as_object(told.get("origin"))
        call_id, name, said = as_str(origin.get("id")), as_str(origin.get("tool_name")), told.get("result")
        if call_id is None and name is None:
            continue
        failed = told.get("error") is True
        yield CallAnswered(
            call_id=call_id,
            name=name,
            result=result(said) if isinstance(said, str) else Recorded(said),
            error=CallError(kind=OTHER_ERROR, message=said if isinstance(said, str) else "") if failed else None,
        )


def _request(call: JsonObject, position: int) -> CallRequested | None:
    name = as_str(call.get("tool_name"))
    if name is None:
        return None
    told = call.get("arguments")
    written_arguments: Content = NOT_RECORDED if told is None else arguments(told)
    return CallRequested(position=position, name=name, call_id=as_str(call.get("id")), arguments=written_arguments)


def _role(message: JsonObject) -> str:
    told = as_str(message.get("role", message.get("_role"))) or ""
    # An enumeration's member keeps its class's name where it was written as text.
    role = told.rpartition(".")[2].lower()
    return role if role in _ROLES else ""


def _parts(message: JsonObject) -> Iterator[JsonObject]:
    for item in as_list(message.get("content", message.get("_content"))):
        part = as_object(item)
        key = _REPR_KEYS.get(as_str(part.get(CLASS)) or "")
        yield part if key is None else {key: part}


def _text(message: JsonObject) -> str:
    said = message.get("content", message.get("_content"))
    if isinstance(said, str):
        return said
    return "\n".join(text for part in _parts(message) if (text := as_str(part.get("text"))))
