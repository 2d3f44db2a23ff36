"""Reads whole conversations that two instrumentations leave on the span of an agent's run.

CrewAI and Haystack record no model calls. A call that the framework refused, and all ids, are only in the messages
inside `output.value`: as OpenAI's messages (CrewAI), as Python reprs (Haystack). These are summaries of
several model outputs: they complete what tool spans say and stand alone where there are none.
"""

from collections.abc import Iterator, Mapping

from toolgauge.model.content import NOT_RECORDED, Content, Recorded
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import CallAnswered, CallError, CallRequested, MessageSeen, Observation
from toolgauge.recognize.langchain.answers import OTHER_ERROR
from toolgauge.recognize.messages import read_messages
from toolgauge.recognize.reprs import CLASS, parse_repr
from toolgauge.recognize.values import as_list, as_object, as_str, content, result

# A repr costs many times as much as JSON to read; this much of one conversation is read at most.
_MAX_REPRS = 250_000


def crew_history(output: Value, agent: str | None) -> Iterator[Observation]:
    """Read the messages of a CrewAI task."""
    position = 0
    texts: dict[str, str] = {}
    for number, message in enumerate(read_messages(_messages(output), "user")):
        for call in message.calls():
            yield CallRequested(
                position=position,
                name=call.name,
                call_id=call.call_id,
                arguments=call.arguments,
                agent=agent,
                output=number,
            )
            position += 1
        for answer in message.answers():
            yield CallAnswered(call_id=answer.call_id, name=answer.name, result=answer.result)
        # The user's text is wrapped in CrewAI's prompt; the task's own description is reported instead.
        if message.role != "user" and message.text:
            texts[message.role] = message.text
    yield from _newest(texts)


def _newest(texts: Mapping[str, str]) -> Iterator[MessageSeen]:
    if "system" in texts:
        yield MessageSeen(role="system", text=texts["system"])
    if "user" in texts:
        yield MessageSeen(role="user", text=texts["user"])
    if "assistant" in texts:
        yield MessageSeen(role="assistant", text=texts["assistant"])


def _messages(value: Value) -> list[Json]:
    read = content(value)
    return as_list(as_object(read.value).get("messages")) if isinstance(read, Recorded) else []


# --- Haystack


def haystack_history(given: Value, output: Value) -> Iterator[Observation]:
    """Read the messages that a Haystack agent added to those it was given."""
    earlier = {call_id for message in _chat_messages(given) for part in _parts(message) if (call_id := _call_id(part))}
    position = 0
    texts: dict[str, str] = {}
    for number, message in enumerate(_chat_messages(output)):
        for part in _parts(message):
            kind = part.get(CLASS)
            if kind == "ToolCall" and _call_id(part) not in earlier:
                yield from _haystack_call(part, position=position, output=number)
                position += 1
            elif kind == "ToolCallResult":
                yield from _haystack_answer(part)
            elif kind == "TextContent":
                texts[str(message.get("_role"))] = as_str(part.get("text")) or ""
    yield from _newest(texts)


def _call_id(part: JsonObject) -> str | None:
    return as_str(part.get("id")) if part.get(CLASS) == "ToolCall" else None


def _chat_messages(value: Value) -> Iterator[JsonObject]:
    room = _MAX_REPRS
    for text in _messages(value):
        if isinstance(text, str) and len(text) <= room:
            room -= len(text)
            try:
                yield as_object(parse_repr(text))
            except ValueError:
                continue  # one message that cannot be read says nothing about the others


def _parts(message: JsonObject) -> Iterator[JsonObject]:
    for part in as_list(message.get("_content")):
        yield as_object(part)


def _haystack_call(part: JsonObject, *, position: int, output: int) -> Iterator[CallRequested]:
    name = as_str(part.get("tool_name"))
    if name is None:
        return
    written = part.get("arguments")
    arguments: Content = Recorded(written) if isinstance(written, dict) else NOT_RECORDED
    yield CallRequested(
        position=position, name=name, call_id=as_str(part.get("id")), arguments=arguments, output=output
    )


def _haystack_answer(part: JsonObject) -> Iterator[CallAnswered]:
    origin = as_object(part.get("origin"))
    said = part.get("result")
    failed = part.get("error") is True
    yield CallAnswered(
        call_id=as_str(origin.get("id")),
        name=as_str(origin.get("tool_name")),
        result=result(said) if isinstance(said, str) else Recorded(said),
        error=CallError(kind=OTHER_ERROR, message=said if isinstance(said, str) else "") if failed else None,
    )
