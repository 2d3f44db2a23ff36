"""Reads what the AI SDK writes of a model call: the calls it asks for, and its prompt messages.

Arrives: attribute values (JSON text, or an array of JSON texts). Leaves: observations. The prompt repeats the whole
conversation; of it only the instructions, the newest user text and the answers to calls are read.
"""

from collections.abc import Iterator

from toolgauge.model.content import NOT_RECORDED, Content, Recorded
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import CallAnswered, CallError, CallRequested, MessageSeen, Observation
from toolgauge.recognize import values
from toolgauge.recognize.conventions import content
from toolgauge.recognize.messages import Message

# Calls in one output and messages in one history; of more the first and the newest are read.
_MAX_CALLS = 1_000
_MAX_MESSAGES = 10_000
# Tuples: what is looked for in them may be a list or an object, which no set can be asked for.
_ANSWER_TYPES = ("tool-result", "tool-error")
_FAILED = ("error-text", "error-json", "execution-denied")
_ENVELOPES = ("text", "json", "content", *_FAILED)


def requested(value: Value, agent: str | None) -> Iterator[CallRequested]:
    """Read the calls of one output: `input` is an object or JSON text, in older versions it is called `args`."""
    for position, item in enumerate(_objects(value)[:_MAX_CALLS]):
        name = values.as_str(item.get("toolName"))
        if name is not None:
            yield CallRequested(
                position=position,
                name=name,
                call_id=values.identifier(item.get("toolCallId")),
                arguments=_arguments(item["input"] if "input" in item else item.get("args")),
                agent=agent,
                usable=item.get("invalid") is not True,
            )


def received(value: Value) -> Iterator[Observation]:
    """Read the prompt messages of a model call."""
    messages = _objects(value)[-_MAX_MESSAGES:]
    for message in messages:
        role = message.get("role")
        if role == "system":
            yield from content.system(values.as_str(message.get("content")))
        elif role in ("tool", "assistant"):
            # What the provider ran itself is answered in the assistant's own message.
            for part in values.as_list(message.get("content")):
                yield from _answer(values.as_object(part))
    yield from newest_user_text(messages)


def prompt(value: Value) -> Iterator[Observation]:
    """Read the prompt of a run: an object with `system`, and `prompt` or `messages`."""
    read = values.content(value)
    told = values.as_object(read.value) if isinstance(read, Recorded) else {}
    yield from content.system(values.as_str(told.get("system")))
    asked = told.get("prompt")
    if isinstance(asked, str):
        yield from newest_user_text([{"role": "user", "content": asked}])
        return
    messages = values.as_list(told.get("messages")) or values.as_list(asked)
    yield from newest_user_text([values.as_object(message) for message in messages[-_MAX_MESSAGES:]])


def newest_user_text(messages: list[JsonObject]) -> list[MessageSeen]:
    """Read the newest text of the user."""
    return content.newest_user_text([Message(one, "") for one in messages if one.get("role") == "user"])


def _answer(part: JsonObject) -> Iterator[CallAnswered]:
    if part.get("type") not in _ANSWER_TYPES:
        return
    output = part["output"] if "output" in part else part.get("result", part.get("error"))
    failed = part.get("isError") is True or part.get("type") == "tool-error"
    if isinstance(output, dict) and output.get("type") in _ENVELOPES:
        failed = failed or output.get("type") in _FAILED
        output = output.get("value", output.get("reason"))
    result = _result(output)
    yield CallAnswered(
        call_id=values.identifier(part.get("toolCallId")),
        name=values.as_str(part.get("toolName")),
        result=NOT_RECORDED if failed else result,
        error=CallError(kind="_OTHER", message=_text(output)) if failed else None,
    )


def _objects(value: Value) -> list[JsonObject]:
    read = values.content(value)
    items = values.as_list(read.value) if isinstance(read, Recorded) else []
    return [_object(item) for item in items]


def _object(item: Json) -> JsonObject:
    if not isinstance(item, str):
        return values.as_object(item)
    read = values.parse_text(item)
    return values.as_object(read.value) if isinstance(read, Recorded) else {}


def _arguments(value: Json) -> Content:
    # An object inside what was parsed before needs no second look.
    return Recorded(value) if isinstance(value, dict) else values.arguments(value)


def _result(value: Json) -> Content:
    return Recorded(value) if isinstance(value, (dict, list)) else values.result(value)


def _text(value: Json) -> str:
    match value:
        case str():
            return value
        case None:
            return ""
        case _:
            return values.dump(value)
