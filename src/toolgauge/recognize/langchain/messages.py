"""Reads LangChain's chat messages: what a model was given and what it wrote.

Arrives: messages as LangChain serialises them (plain, inside `kwargs` or `data`). Leaves: observations. A call may stand
in one message three times (`tool_calls`, content blocks, `additional_kwargs`); a call that LangChain could not parse
stands only in `invalid_tool_calls`, where a reader of the calls alone would miss the failure.
"""

from collections.abc import Iterator, Sequence

from toolgauge.model.content import NOT_RECORDED, Unparsed
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import CallAnswered, CallRequested, MessageSeen, Observation
from toolgauge.recognize.conventions.content import newest_user_text, written_text
from toolgauge.recognize.langchain.answers import message_answer, message_fields
from toolgauge.recognize.messages import Message
from toolgauge.recognize.values import as_list, as_object, as_str

_CALL_BLOCKS = ("tool_use", "tool_call", "function_call", "input_json_delta")
# What LangChain calls its messages; other types are those of a part that stands where a message could.
_ROLES = {
    "human": "user",
    "HumanMessageChunk": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "tool",
}
_PAIR = 2


def generated(output: Json) -> list[JsonObject]:
    """Return the messages of a model's result, `{"generations": [[{"message": ...}]]}`; of alternatives the first."""
    found: list[JsonObject] = []
    for batch in as_list(as_object(output).get("generations")):
        first = as_object((as_list(batch) or [None])[0])
        message = message_fields(first.get("message"))
        if message:
            found.append(message)
    return found


def batch(messages: Json) -> list[Json]:
    """Return one conversation: the list itself, or the one list in it."""
    items = as_list(messages)
    return as_list(items[0]) if len(items) == 1 and _is_batch(items[0]) else items


def _is_batch(item: Json) -> bool:
    # `["user", "text"]` is a message, `[{...}, {...}]` is a list of them.
    return isinstance(item, list) and not (len(item) == _PAIR and isinstance(item[0], str))


def received(messages: Sequence[Json]) -> Iterator[Observation]:
    """Read a model's input: instructions, the newest user text, and answers to calls."""
    read: list[Message] = []
    for item in messages:
        data = message_fields(item)
        message = Message(_flat(data), "user")
        read.append(message)
        if message.role == "system" and message.text:
            yield MessageSeen(role="system", text=message.text)
        elif message.role == "tool":
            yield from _answer(data)
        else:
            yield from message.answers()
    yield from newest_user_text(read)


def _answer(data: JsonObject) -> Iterator[CallAnswered]:
    answer = message_answer(data)
    name = as_str(data.get("name"))
    if answer.call_id or name:
        yield CallAnswered(call_id=answer.call_id, name=name, result=answer.result, error=answer.error)


def written(messages: Sequence[JsonObject], agent: str | None) -> Iterator[Observation]:
    """Read a model's output: the calls that it asks for, those that could not be parsed, and its text."""
    read: list[Message] = []
    position = 0
    for data in messages:
        message = Message(_flat(data), "assistant")
        read.append(message)
        for call in message.calls():
            yield CallRequested(
                position=position, name=call.name, call_id=call.call_id, arguments=call.arguments, agent=agent
            )
            position += 1
        for request in rejected(data, agent, position):
            yield request
            position += 1
    yield from written_text(read)


def rejected(data: JsonObject, agent: str | None, position: int) -> Iterator[CallRequested]:
    """Read the calls that LangChain could not parse, from `position` on."""
    for item in as_list(data.get("invalid_tool_calls")):
        call = as_object(item)
        name = as_str(call.get("name"))
        if name is None:
            continue
        text = as_str(call.get("args"))
        yield CallRequested(
            position=position,
            name=name,
            call_id=as_str(call.get("id")),
            arguments=NOT_RECORDED if text is None else Unparsed(text),
            agent=agent,
            usable=False,
        )
        position += 1


def _flat(data: JsonObject) -> JsonObject:
    """Return the message with a role, and with each call once."""
    flat = dict(data)
    role = _ROLES.get(as_str(data.get("type")) or "")
    if role is not None:
        flat["role"] = role
        del flat["type"]
    calls = as_list(data.get("tool_calls"))
    if not calls and not data.get("invalid_tool_calls"):
        calls = _provider_calls(as_object(data.get("additional_kwargs")))
        flat["tool_calls"] = calls
    if calls or data.get("invalid_tool_calls"):
        blocks = data.get("content")
        if isinstance(blocks, list):
            flat["content"] = [block for block in blocks if as_object(block).get("type") not in _CALL_BLOCKS]
    return flat


def _provider_calls(kwargs: JsonObject) -> list[Json]:
    # Old releases keep the provider's own form.
    calls = as_list(kwargs.get("tool_calls"))
    function = kwargs.get("function_call")
    return calls or ([function] if isinstance(function, dict) else [])
