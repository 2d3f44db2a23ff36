"""Reads chat messages in the shapes that producers write; one of an unknown shape gives an empty message, never an exception."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.json import Decoder
from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.masks import is_redacted
from toolgauge.model.observations import OTHER_ERROR, CallAnswered, CallError, CallRequested, MessageSeen
from toolgauge.recognize import values
from toolgauge.recognize.hosted_tools import (
    OUTPUTS,
    PROVIDER_CALLS,
    PROVIDER_MARKS,
    approval,
    hosted_call,
    output_error,
)
from toolgauge.recognize.values import MAX_ITEMS

_CALL_TYPES = frozenset(
    [
        *("tool_call", "function_call", "tool_use", "tool-call", "function", "server_tool_use"),
        *("mcp_tool_use", "builtin-tool-call", "server_tool_call"),
    ]
)
_ANSWER_TYPES = frozenset(
    [
        *("tool_call_response", "server_tool_call_response", "tool_result", "tool-result"),
        *("tool_response", "function_call_output"),
    ]
)
# Pictures, sound and files, as types of parts and, where parts have none, as keys.
_MEDIA_TYPES = re.compile(r"image|audio|video|media|document|file|blob|binary|uri", re.IGNORECASE)
_MEDIA_KEYS = ("image", "audio", "video", "document", "inline_data", "inlineData", "file_data", "fileData")
_TEXT_TYPES = frozenset(("text", "input_text", "output_text", ""))
ROLES = {
    **{role: role for role in ("system", "user", "assistant", "tool")},
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
    "developer": "system",
    "function": "tool",
}
_MESSAGE_KEYS = frozenset(("role", "content", "parts", "tool_calls"))
_BESIDE_TEXT = ("tool_calls", "function_call", "refusal")
_NAMES = ("name", "tool_name", "toolName")
# `id` may be the part's own where another key names the call, so it comes last.
_IDS = ("call_id", "tool_call_id", "tool_use_id", "toolCallId", "id")
_IDS_OF_CALLS = frozenset(_IDS[:-1])
_ARGUMENTS = ("arguments", "args", "input")
_RESULTS = ("server_tool_call_response", "response", "result", "output", "content")


class Output(Struct):
    """The calls, answers and texts of messages; calls are numbered from `first`."""

    agent: str | None = None
    first: int = 0
    calls: list[CallRequested] = []
    answers: list[CallAnswered] = []
    texts: list[str] = []


class Message:
    """One message. Parts are read when asked for: of a long history only the answers are of interest."""

    __slots__ = ("_item", "_parts", "_source", "role")

    def __init__(self, item: JsonObject, default_role: str) -> None:
        source, inner = item, item.get("message")
        if inner is not None:
            if isinstance(inner, str) and inner.startswith("{"):
                # A flat span event has room for a message as text alone.
                read = values.decoded(inner)
                if isinstance(read, dict) and not _MESSAGE_KEYS.isdisjoint(read):
                    inner = read
            if isinstance(inner, dict):
                source = inner
        written = source.get("role")
        role = ROLES.get(written) if isinstance(written, str) else None
        if role is None:
            role = (values.as_str(written) or values.as_str(item.get("role")) or default_role).lower()
            role = ROLES.get(role, role)
        self.role = role
        self._item = item
        self._source = source
        parts = source.get("parts")
        if parts is None:
            kind = source.get("type")
            # Some lists have calls and answers beside the messages.
            is_part = isinstance(kind, str) and (kind in _CALL_TYPES or kind in _ANSWER_TYPES)
            parts = source if is_part else source.get("content", inner)
        self._parts = _parts(parts)

    @property
    def text(self) -> str:
        """The message's own text without reasoning, empty without any."""
        return _joined(self._parts)

    @property
    def has_media(self) -> bool:
        """Whether the message holds pictures, sound or files, in which there is more than can be read."""
        for part in self._parts:
            kind = part.get("type")
            if _MEDIA_TYPES.search(kind) if isinstance(kind, str) else any(key in part for key in _MEDIA_KEYS):
                return True
        return False

    @property
    def is_empty(self) -> bool:
        """Whether the message was recorded and holds at most reasoning: no text and no calls."""
        if self._source.get("parts", self._source.get("content")) is None:
            return False
        if any(self._source.get(key) or self._item.get(key) for key in _BESIDE_TEXT):
            return False
        for part in self._parts:
            kind = part.get("type")
            if kind in ("reasoning", "thinking"):
                continue
            # A part without a place for its text was not recorded.
            text = part.get("content", part.get("text"))
            is_text = kind is None or (isinstance(kind, str) and kind in _TEXT_TYPES)
            if not is_text or not isinstance(text, str) or text.strip():
                return False
        return True

    def answers(self) -> list[CallAnswered]:
        """Read the answers to calls, in order."""
        found: list[CallAnswered] = []
        for part in self._parts:
            kind = part.get("type")
            if isinstance(kind, str) and (kind in _ANSWER_TYPES or kind.endswith(OUTPUTS)):
                found.append(_answer(part))
            elif (decided := approval(part)) is not None:
                found.append(decided)
        return found if found or self.role != "tool" else self._answer_as_a_whole()

    def add_to(self, output: Output) -> None:
        """Add the message's calls, answers and texts, in one walk over its parts."""
        answers, answered = output.answers, len(output.answers)
        written: list[str] = []
        for part in self._parts:
            kind = part.get("type")
            if not isinstance(kind, str) or kind in _TEXT_TYPES:
                if text := _own_text(part):
                    written.append(text)
            elif kind in _CALL_TYPES:
                _add_call(output, part)
            elif kind in _ANSWER_TYPES or kind.endswith(OUTPUTS):
                # The answer to a call of the same output: the provider ran the tool.
                answers.append(replace(_answer(part), by_provider=self.role == "assistant"))
            else:
                if (hosted := hosted_call(part, _call_id(part))) is not None:
                    position = output.first + len(output.calls)
                    output.calls.append(replace(hosted[0], position=position, agent=output.agent))
                    answers += [] if hosted[1] is None else [hosted[1]]
                if (asked := approval(part)) is not None:
                    answers.append(asked)
        if beside := self._source.get("tool_calls") or self._item.get("tool_calls"):
            for part in _parts(beside):
                _add_call(output, part)
        if self.role != "tool":
            if written:
                output.texts.append("\n".join(written))
        elif len(answers) == answered:
            answers += self._answer_as_a_whole()

    def _answer_as_a_whole(self) -> list[CallAnswered]:
        call_id = _call_id(self._source)
        if call_id is None:
            return []
        text = self.text
        result = (
            values.result(text)
            if text and not self.has_media
            else values.opened_blocks(values.result_inside(self._source.get("content")))
        )
        name, error = _first_text(self._source, _NAMES), _failure(self._source, result)
        return [CallAnswered(call_id=call_id, name=name, result=result, error=error)]


class _Text(Struct, frozen=True, tag="text", forbid_unknown_fields=True, gc=False):
    content: str


# `Any` stands for `Json`, which msgspec cannot resolve.
class _Call(Struct, frozen=True, tag="tool_call", forbid_unknown_fields=True):
    name: str
    arguments: dict[str, Any]
    id: str | None = None

    def read(self, position: int, agent: str | None) -> CallRequested:
        call_id, arguments = self.id or None, values.part(self.arguments)
        return CallRequested(position=position, name=self.name, call_id=call_id, arguments=arguments, agent=agent)


class _Answer(Struct, frozen=True, tag="tool_call_response", forbid_unknown_fields=True):
    response: Any
    id: str | None = None

    def read(self, *, by_provider: bool) -> CallAnswered:
        result, error = values.result_inside(self.response), output_error(self.response)
        return CallAnswered(call_id=self.id or None, result=result, error=error, by_provider=by_provider)


class StandardMessage(Struct, frozen=True, forbid_unknown_fields=True):
    """A `Message` in the form of the conventions with nothing added: decoded at once, it takes half of the CPU to read."""

    role: Literal["system", "user", "assistant", "tool"]
    parts: list[_Text | _Call | _Answer]
    finish_reason: str | None = None
    has_media = False

    @property
    def text(self) -> str:
        """The message's own text, empty without any."""
        texts = [part.content for part in self.parts if type(part) is _Text and part.content]
        return "\n".join([text for text in texts if not is_redacted(text)])

    @property
    def is_empty(self) -> bool:
        """Whether the message holds neither text nor calls."""
        return all(type(part) is _Text and not part.content.strip() for part in self.parts)

    def answers(self) -> list[CallAnswered]:
        """Read the answers to calls, in order."""
        return [part.read(by_provider=False) for part in self.parts if type(part) is _Answer]

    def add_to(self, output: Output) -> None:
        """Add the message's calls, answers and texts."""
        written: list[str] = []
        for part in self.parts:
            if type(part) is _Text:
                if part.content and not is_redacted(part.content):
                    written.append(part.content)
            elif type(part) is _Call and (part.name or part.id):
                output.calls.append(part.read(output.first + len(output.calls), output.agent))
            elif type(part) is _Answer:
                output.answers.append(part.read(by_provider=self.role == "assistant"))
        if written and self.role != "tool":
            output.texts.append("\n".join(written))


AnyMessage: TypeAlias = Message | StandardMessage
Messages: TypeAlias = Sequence[AnyMessage]
_standard = Decoder(list[StandardMessage])
# Where the first message of a standard list has its parts, and the longest text that has at most `MAX_ITEMS` messages or parts.
_FIRST_PARTS, _LONGEST_STANDARD = 64, 20 * MAX_ITEMS


def read_messages(value: Value, default_role: str) -> Messages:
    """Read messages: a list, one message, JSON text of either, or plain text."""
    # By far the most are lists in JSON text.
    messages = read_list(value, default_role) if isinstance(value, str) and value[:1] == "[" else None
    return messages_of(values.objects(value, "content"), default_role) if messages is None else messages


def read_list(text: str, default_role: str) -> Messages | None:
    """Read a list of at most `MAX_ITEMS` messages; `None` for everything else."""
    if text.find('"parts"', 0, _FIRST_PARTS) > 0 and len(text) <= _LONGEST_STANDARD:
        with suppress(ValueError, RecursionError, MemoryError):
            return _standard.decode(text)
    items = values.decoded(text)
    return messages_of(items, default_role) if isinstance(items, list) and len(items) <= MAX_ITEMS else None


def calls_of(message: AnyMessage) -> list[CallRequested]:
    """Read the calls that a message asks for, in order."""
    output = Output()
    message.add_to(output)
    return output.calls


def messages_of(items: Sequence[Json], default_role: str) -> list[Message]:
    """Read the messages of a list that is open already."""
    return [
        Message(item if isinstance(item, dict) else values.as_message(item, "content"), default_role)
        for item in items[-MAX_ITEMS:]
    ]


def read_text(value: Value) -> str:
    """Read the text of system instructions or of a message's content: text, parts, or JSON text of parts."""
    if isinstance(value, str) and value.lstrip()[:1] not in ("[", "{"):
        return "" if is_redacted(value) else value
    read = values.content(value)
    if isinstance(read, Unparsed):
        return read.text
    return _joined(_parts(read.value)) if isinstance(read, Recorded) else ""


def _add_call(output: Output, part: JsonObject) -> None:
    """Add a requested call, plain or nested in `function`; nothing without a name, but for a model that wrote an empty one."""
    name, written = part.get("name"), part.get("arguments")
    if name and written is not None and isinstance(name, str):
        arguments = values.arguments_inside(written)
    elif (named := _named_otherwise(part)) is not None:
        name, arguments = named
        # The details of a call that the provider runs are an object of their own, tagged with its type.
        if arguments == NOT_RECORDED and isinstance(details := part.get("server_tool_call"), dict):
            arguments = values.part({key: value for key, value in details.items() if key != "type"})
    else:
        return
    output.calls.append(
        CallRequested(
            position=output.first + len(output.calls),
            name=name,
            call_id=_call_id(part),
            arguments=arguments,
            agent=output.agent,
            usable=part.get("invalid") is not True,
            by_provider=part.get("type") in PROVIDER_CALLS or any(part.get(mark) is True for mark in PROVIDER_MARKS),
        )
    )


def _named_otherwise(part: JsonObject) -> tuple[str, Content] | None:
    name = _first_text(part, _NAMES)
    written = next(((part[key],) for key in _ARGUMENTS if key in part), None)
    function = values.as_object(part.get("function"))
    if name is None or written is None:
        custom = values.as_object(part.get("custom"))
        if custom and name is None:
            # Free text by design, even where it looks like JSON.
            name, given = _first_text(custom, _NAMES), custom.get("input")
            return None if name is None else (name, NOT_RECORDED if given is None else Recorded(given))
        name = name or _first_text(function, _NAMES)
        written = written or next(((function[key],) for key in _ARGUMENTS if key in function), None)
    # In a stream, parts of a call have neither name nor id.
    if (
        name is None
        and _call_id(part) is not None
        and "" in [one.get(key) for one in (part, function) for key in _NAMES]
    ):
        name = ""
    if name is None:
        return None
    return name, values.arguments_inside(written[0]) if written is not None else NOT_RECORDED


def _answer(part: JsonObject) -> CallAnswered:
    for key in _RESULTS:
        if key in part:
            result = values.result_inside(part[key])
            error = _failure(part, result) or output_error(part[key])
            break
    else:
        result, error = NOT_RECORDED, _failure(part, NOT_RECORDED)
    return CallAnswered(call_id=_call_id(part), name=_first_text(part, _NAMES), result=result, error=error)


def _failure(source: JsonObject, result: Content) -> CallError | None:
    """Read a producer's own sign that the call failed; what a tool returned is not searched for one."""
    if source.get("status") != "error" and source.get("is_error") is not True and source.get("isError") is not True:
        return None
    return CallError(kind=OTHER_ERROR, message=values.text_of(result))


def _parts(value: Json) -> list[JsonObject]:
    if isinstance(value, str):
        if value.lstrip()[:1] in ("[", "{"):
            opened = values.decoded(value)
            # A list of parts or blocks, and not a text that happens to be JSON.
            if isinstance(opened, list) and opened:
                for item in opened[-MAX_ITEMS:]:
                    if not isinstance(item, dict) or not ("type" in item or "text" in item or len(item) == 1):
                        break
                else:
                    return _parts(opened)
        return [{"content": value}]
    if isinstance(value, dict):
        return [value]
    items = value[-MAX_ITEMS:] if isinstance(value, list) else ()
    # Bedrock's blocks have no type; a call for every part of a history costs a tenth of reading it.
    return [
        (part if "type" in part else _part(part)) if isinstance(part, dict) else {"content": part} for part in items
    ]


def _part(part: JsonObject) -> JsonObject:
    """Name the kind of one of Bedrock's blocks, which Strands takes over; return any other part as it is."""
    if isinstance(use := part.get("toolUse"), dict):
        call: JsonObject = {"type": "tool_call", "id": use.get("toolUseId"), "name": use.get("name")}
        return {**call, "arguments": use["input"]} if "input" in use else call
    if isinstance(answered := part.get("toolResult"), dict):
        result = values.opened_blocks(values.result_inside(answered["content"])) if "content" in answered else None
        answer: JsonObject = {"type": "tool_call_response", "id": answered.get("toolUseId")}
        shown: JsonObject = {"response": result.value} if isinstance(result, Recorded) else {}
        return {**answer, **shown, "status": answered.get("status")}
    return part


def _own_text(part: JsonObject) -> str | None:
    text = part.get("content")
    if not text or not isinstance(text, str):
        text = values.as_str(part.get("text"))
    return None if text is not None and is_redacted(text) else text


def _joined(parts: list[JsonObject]) -> str:
    texts = [_own_text(part) for part in parts if not isinstance(kind := part.get("type"), str) or kind in _TEXT_TYPES]
    return "\n".join([text for text in texts if text])


def _call_id(source: JsonObject) -> str | None:
    if _IDS_OF_CALLS.isdisjoint(source):
        text = source.get("id")
        return text if text and isinstance(text, str) else None
    return _first_text(source, _IDS)


def _first_text(source: JsonObject, keys: tuple[str, ...]) -> str | None:
    for key in keys:
        text = source.get(key)
        if text and isinstance(text, str):
            return text
    return None


def past_calls(messages: Iterable[AnyMessage]) -> Iterator[CallRequested | MessageSeen]:
    """Yield the calls of a history and the texts of the user; an answer or a user's message ends an output, counted from 0."""
    output, position = 0, 0
    for message in messages:
        if message.role == "user" and (text := message.text):
            output, position = (output + 1, 0) if position else (output, position)
            yield MessageSeen(role="user", text=text)
        for call in calls_of(message) if message.role != "tool" else ():
            yield replace(call, output=output, position=position)
            position += 1
        if message.role == "tool" or message.answers():
            output, position = (output + 1, 0) if position else (output, position)
