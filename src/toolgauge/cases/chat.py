"""Reads the chat messages of a case: OpenAI's, of both its APIs, and the blocks of Anthropic, Gemini, Bedrock and the AI SDK.

A part that cannot be read raises `CaseError` with its place: a call that is overlooked would count as never made.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from toolgauge.cases.case import CaseError
from toolgauge.model.content import Content, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import CallAnswered, CallRequested
from toolgauge.recognize.messages import Message
from toolgauge.recognize.provider_messages import given
from toolgauge.recognize.values import as_list, as_object, as_str, dump, identifier, opened_blocks, result
from toolgauge.score.recorded_values import result_value

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """One message. Each call is a place and an object with `name`, `id` and arguments.

    `is_item` where it is an item of a response, which continues the output of the items before it.
    """

    role: Role
    text: str
    calls: tuple[tuple[str, JsonObject], ...]
    answers: tuple[CallAnswered, ...]
    is_item: bool = False


def chat(written: Json, owner: str, default_role: str | None = None) -> Iterator[ChatMessage]:
    """Yield the messages of `actual` or `expected`."""
    for number, message in enumerate(objects("messages", written)):
        yield _message(message, f"{owner}.messages[{number}]", default_role)


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
    asked: list[CallRequested] = []
    answered: list[CallAnswered] = []
    written: list[str] = []
    message.add_to(asked, answered, written)
    for call in asked:
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
        for one in answered
    ]
    texts += written
    names = [kind] if isinstance(kind, str) else [*as_object(block)]
    if not (asked or answered or written or message.has_media or any(map(_QUIET.search, names))):
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
