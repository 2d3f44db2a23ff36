"""Reads chat messages in the shapes that producers write: parts, blocks, OpenAI's, text.

Arrives: the value of a messages attribute or event body. Leaves: `Message`, with the calls it asks for and the
answers it carries. A message of a shape that is not known gives an empty message, never an exception.
"""

import json
import re

from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import OTHER_ERROR, CallAnswered, CallError, CallRequested, ToolDefinition
from toolgauge.recognize import values
from toolgauge.recognize.hosted_tools import approval, hosted_call, hosted_name, is_by_provider, is_output, output_error
from toolgauge.recognize.known_tools import KnownTools

_CALL_TYPES = frozenset(
    (
        *("tool_call", "function_call", "tool_use", "tool-call", "function"),
        *("server_tool_use", "mcp_tool_use", "builtin-tool-call"),
    )
)
_ANSWER_TYPES = frozenset(
    (
        "tool_call_response",
        "server_tool_call_response",
        "tool_result",
        "tool-result",
        "tool_response",
        "function_call_output",
    )
)
# Pictures, sound and files, as types of parts and, where parts have none, as keys.
_MEDIA_TYPES = re.compile(r"image|audio|video|media|document|file|blob|binary|uri", re.IGNORECASE)
_MEDIA_KEYS = ("image", "audio", "video", "document", "inline_data", "inlineData", "file_data", "fileData")
_TEXT_TYPES = frozenset(("text", "input_text", "output_text", ""))
_ROLES = {role: role for role in ("system", "user", "assistant", "tool")} | {
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
    "developer": "system",
    "function": "tool",
}
_MESSAGE_KEYS = frozenset(("role", "content", "parts", "tool_calls"))
_NAMES = ("name", "tool_name", "toolName")
# `id` may be the part's own where another key names the call, so it comes last.
_IDS = ("call_id", "tool_call_id", "tool_use_id", "toolCallId", "id")
_ARGUMENTS = ("arguments", "args", "input")
_RESULTS = ("server_tool_call_response", "response", "result", "output", "content")
_SIGNS_OF_FAILURE = (
    "rror",
    "\\u",
    "reject",
    "denied",
    "Denied",
    "approv",
    "doesn't want",
    "ancelled",
    "not allowed",
    "nterrupt",
)
# Messages in a history, parts of a message; of more the newest are kept.
MAX_ITEMS = 10_000
# The distinct sets of tools of one process, and the text of one.
_MAX_KNOWN = 64
_MAX_KNOWN_TEXT = 1024 * 1024
_PARAMETERS = ("parameters", "inputSchema", "input_schema", "parameters_json_schema")


class Message:
    """One message. Parts are read when asked for: of a long history only the answers are of interest."""

    __slots__ = ("_item", "_parts", "_source", "role")

    def __init__(self, item: JsonObject, default_role: str) -> None:
        source, inner = (item, None) if "message" not in item else _inside(item)
        written = source.get("role")
        role = _ROLES.get(written) if isinstance(written, str) else None
        self.role = role or _role(source, item, default_role)
        self._item = item
        self._source = source
        parts = source.get("parts")
        self._parts = _parts(parts if parts is not None else _body(source, inner))

    @property
    def text(self) -> str:
        """The message's own text, empty when there is none; reasoning is not part of it."""
        parts = self._parts
        if len(parts) == 1:
            return _part_text(parts[0]) or ""
        return _joined(parts)

    @property
    def has_media(self) -> bool:
        """Whether the message holds pictures, sound or files, in which there is more than can be read."""
        return any(map(_is_media, self._parts))

    def calls(self) -> list[CallRequested]:
        """Read the calls that the message asks for, in order."""
        calls: list[CallRequested] = []
        self.add_to(calls, [], [])
        return calls

    def answers(self) -> list[CallAnswered]:
        """Read the answers to calls, in order."""
        found: list[CallAnswered] = []
        for part in self._parts:
            kind = part.get("type")
            if isinstance(kind, str) and (kind in _ANSWER_TYPES or is_output(kind)):
                found.append(_answer(part))
            elif (decided := approval(part)) is not None:
                found.append(decided)
        return found if found or self.role != "tool" else self._answer_as_a_whole()

    def add_to(
        self,
        calls: list[CallRequested],
        answers: list[CallAnswered],
        texts: list[str],
        agent: str | None = None,
        first: int = 0,
    ) -> None:
        """Add the message's calls, answers and texts, in one walk over its parts; calls are numbered from `first`."""
        answered = len(answers)
        written = self._add_parts(calls, answers, agent, first)
        beside = self._source.get("tool_calls") or self._item.get("tool_calls")
        if beside:
            for part in _parts(beside):
                _add_call(calls, part, agent, first)
        if self.role != "tool":
            if written:
                texts.append("\n".join(written))
        elif len(answers) == answered:
            answers += self._answer_as_a_whole()

    def _add_parts(
        self, calls: list[CallRequested], answers: list[CallAnswered], agent: str | None, first: int
    ) -> list[str]:
        """Add the calls and answers among the parts; return their texts."""
        written: list[str] = []
        for part in self._parts:
            kind = part.get("type")
            if not isinstance(kind, str) or kind in _TEXT_TYPES:
                if text := _own_text(part):
                    written.append(text)
            elif kind in _CALL_TYPES:
                _add_call(calls, part, agent, first)
            elif kind in _ANSWER_TYPES or is_output(kind):
                # The answer to a call of the same output: the provider ran the tool.
                answers.append(replace(_answer(part), by_provider=self.role == "assistant"))
            elif kind == "server_tool_call":
                _add_server_call(calls, part, agent, first)
            else:
                _add_hosted_call(calls, answers, part, agent, first)
                if (asked := approval(part)) is not None:
                    answers.append(asked)
        return written

    def _answer_as_a_whole(self) -> list[CallAnswered]:
        call_id = _call_id(self._source)
        if call_id is None:
            return []
        result = self._result()
        error = _failure(self._source, result)
        return [CallAnswered(call_id=call_id, name=_first_text(self._source, _NAMES), result=result, error=error)]

    def _result(self) -> Content:
        text = self.text
        return values.result(text) if text else _result(self._source.get("content"))


class DefinitionReader:
    """Reads the tools on offer, plain or nested in `function`; what has no name is left out.

    Agents send the same tools with each model call. Reading a text once saves most of the cost of such a span, and
    the tools of all calls of a run are then one object in memory.
    """

    def __init__(self) -> None:
        # Without it, half agent traces take 30 % more CPU.
        self._known = KnownTools(_MAX_KNOWN)

    def read(self, value: Value) -> tuple[ToolDefinition, ...]:
        """Read the value of a definitions attribute."""
        text = value if isinstance(value, str) else _written(value)
        if text is None or len(text) > _MAX_KNOWN_TEXT:
            return _definitions(value)
        tools = self._known.get(text)
        if tools is None:
            tools = _definitions(value)
            self._known.keep(text, text, tools)
        return tools


def read_messages(value: Value, default_role: str) -> list[Message]:
    """Read messages: a list, one message, JSON text of either, or plain text."""
    # By far the most are lists in JSON text.
    items = values.elements(value) if isinstance(value, str) and value[:1] == "[" else None
    if items is not None:
        return messages_of(items, default_role)
    return [Message(item, default_role) for item in _objects(value, "content")]


def messages_of(items: list[Json], default_role: str) -> list[Message]:
    """Read the messages of a list that is open already."""
    messages: list[Message] = []
    for item in items if len(items) <= MAX_ITEMS else items[-MAX_ITEMS:]:
        messages.append(Message(item if isinstance(item, dict) else _item(item, "content"), default_role))  # noqa: PERF401 - for one or two a loop costs half of what a comprehension does
    return messages


def read_text(value: Value) -> str:
    """Read the text of system instructions or of a message's content: text, parts, or JSON text of parts."""
    if isinstance(value, str) and value.lstrip()[:1] not in ("[", "{"):
        return "" if values.is_redacted(value) else value
    read = values.content(value)
    if isinstance(read, Unparsed):
        return read.text
    return _joined(_parts(read.value)) if isinstance(read, Recorded) else ""


def _add_call(calls: list[CallRequested], part: JsonObject, agent: str | None, first: int) -> None:
    """Add a requested call, plain or nested in `function`; nothing without a name."""
    name, written = part.get("name"), part.get("arguments")
    if not name or written is None or not isinstance(name, str):
        named = _named_otherwise(part)
        if named is None:
            return
        name, arguments = named
    else:
        arguments = _arguments(written)
    calls.append(
        CallRequested(
            position=first + len(calls),
            name=name,
            call_id=_call_id(part),
            arguments=arguments,
            agent=agent,
            by_provider=is_by_provider(part),
        )
    )


def _named_otherwise(part: JsonObject) -> tuple[str, Content] | None:
    name = _first_text(part, _NAMES)
    written = _first_present(part, _ARGUMENTS)
    if name is None or written is None:
        function, custom = _object(part.get("function")), _object(part.get("custom"))
        if custom and name is None:
            # Free text by design, whatever it looks like.
            name, given = _first_text(custom, _NAMES), custom.get("input")
            return None if name is None else (name, NOT_RECORDED if given is None else Recorded(given))
        name = name or _first_text(function, _NAMES)
        written = written or _first_present(function, _ARGUMENTS)
    if name is None:
        return None
    return name, _arguments(written[0]) if written is not None else NOT_RECORDED


def _add_server_call(calls: list[CallRequested], part: JsonObject, agent: str | None, first: int) -> None:
    # The details of a call that the provider runs are an object of their own, tagged with its type.
    before = len(calls)
    _add_call(calls, part, agent, first)
    details = part.get("server_tool_call")
    if len(calls) == before or not isinstance(details, dict) or calls[-1].arguments != NOT_RECORDED:
        return
    arguments: JsonObject = {key: value for key, value in details.items() if key != "type"}
    calls[-1] = replace(calls[-1], arguments=values.part(arguments))


def _add_hosted_call(
    calls: list[CallRequested], answers: list[CallAnswered], part: JsonObject, agent: str | None, first: int
) -> None:
    """Add a call that is an item of its own, with its result where the item holds one."""
    found = hosted_call(part)
    if found is None:
        return
    call_id = _call_id(part)
    if found.result != NOT_RECORDED or found.error is not None:
        answer = CallAnswered(
            call_id=call_id, name=found.name, result=found.result, error=found.error, by_provider=found.by_provider
        )
        answers.append(answer)
    calls.append(
        CallRequested(
            position=first + len(calls),
            name=found.name,
            call_id=call_id,
            arguments=found.arguments,
            agent=agent,
            by_provider=found.by_provider,
        )
    )


def _inside(item: JsonObject) -> tuple[JsonObject, Json]:
    """Return the message that is inside another, and what it is inside there."""
    inner = item["message"]
    if isinstance(inner, str):
        inner = _opened(inner)
    return (inner if isinstance(inner, dict) else item), inner


def _role(source: JsonObject, item: JsonObject, default_role: str) -> str:
    role = (_text(source.get("role")) or _text(item.get("role")) or default_role).lower()
    return _ROLES.get(role, role)


def _opened(message: str) -> Json:
    # A flat span event has room for a message as text alone.
    if message.startswith("{"):
        read = values.parse_text(message)
        if isinstance(read, Recorded) and isinstance(read.value, dict) and not _MESSAGE_KEYS.isdisjoint(read.value):
            return read.value
    return message


def _body(source: JsonObject, inner: Json) -> Json:
    # In some lists a call or an answer stands beside the messages, not inside one.
    kind = _text(source.get("type"))
    if kind in _CALL_TYPES or kind in _ANSWER_TYPES:
        return source
    return source.get("content", inner)


def _answer(part: JsonObject) -> CallAnswered:
    recorded = _first_present(part, _RESULTS)
    result = _result(recorded[0]) if recorded is not None else NOT_RECORDED
    error = _failure(part, result) or (output_error(recorded[0]) if recorded is not None else None)
    return CallAnswered(call_id=_call_id(part), name=_first_text(part, _NAMES), result=result, error=error)


def _failure(source: JsonObject, result: Content) -> CallError | None:
    """Read a producer's own sign that the call failed; what a tool returned is not searched for one."""
    if source.get("status") != "error" and source.get("is_error") is not True and source.get("isError") is not True:
        return None
    returned = result.value if isinstance(result, Recorded) else None
    return CallError(kind=OTHER_ERROR, message=values.text_of(returned))


def may_contain_failures(received: Value) -> bool:
    """Return whether an answer in a model's input may have a sign of failure or of refusal; False only where none can have."""
    # All signs that `_failure` reads, and the words in which a person refuses, have one of these; escaped ones are not looked for.
    if not isinstance(received, str) or any(sign in received for sign in _SIGNS_OF_FAILURE):
        return True
    # Not JSON but a Python literal, which has other escapes.
    single = received.find("'")
    return single >= 0 and not 0 <= received.find('"') < single


def _arguments(value: Json) -> Content:
    # An object inside what was parsed before needs no second look. Where messages are recorded, empty text hides nothing:
    # the model wrote no arguments.
    if isinstance(value, dict):
        return values.part(value)
    return Recorded({}) if value == "" else values.arguments(value)


def _result(value: Json) -> Content:
    return values.result_inside(value)


def _written(value: Value) -> str | None:
    """Write a list or an object as JSON text; `None` when it has values that are not JSON."""
    try:
        return json.dumps(value)
    except TypeError:
        return None


def _definitions(value: Value) -> tuple[ToolDefinition, ...]:
    return tuple(tool for item in _objects(value, "") if (tool := _definition(item)) is not None)


def _definition(item: JsonObject) -> ToolDefinition | None:
    source = _object(item.get("function")) or _object(item.get("custom")) or item
    # A tool of the provider has a type and no name.
    name = _first_text(source, _NAMES) or hosted_name(item)
    if name is None:
        return None
    parameters = next((source[key] for key in _PARAMETERS if source.get(key) is not None), None)
    read = _arguments(parameters)
    schema = read.value if isinstance(read, Recorded) and isinstance(read.value, dict) else None
    takes_text = item.get("type") == "custom" and schema is None
    description = _text(source.get("description"))
    return ToolDefinition(name=name, description=description, parameters=schema, takes_text=takes_text)


def _objects(value: Value, text_key: str) -> list[JsonObject]:
    """Open the list; its items may be JSON text each (an OTLP array of strings); plain text becomes `text_key`."""
    read = values.envelope(value)
    if isinstance(read, Recorded):
        found = read.value
        items = found if isinstance(found, list) else [found]
        return [item if isinstance(item, dict) else _item(item, text_key) for item in items[-MAX_ITEMS:]]
    if isinstance(read, Unparsed) and read.reason == "unparsable" and read.text.strip():
        return [{text_key: read.text}]
    return []


def _item(item: Json, text_key: str) -> JsonObject:
    if isinstance(item, str):
        read = values.parse_text(item)
        if isinstance(read, Recorded) and isinstance(read.value, dict):
            return read.value
        return {text_key: item}
    return _object(item)


def _parts(value: Json) -> list[JsonObject]:
    parts: list[JsonObject] = []
    if isinstance(value, list):
        # A message has one or two: a loop costs half of what a comprehension does.
        for part in value if len(value) <= MAX_ITEMS else value[-MAX_ITEMS:]:
            parts.append(part if isinstance(part, dict) else {"content": part})  # noqa: PERF401
        return parts
    if isinstance(value, str):
        if value.lstrip()[:1] in ("[", "{"):
            opened = values.parse_text(value)
            if isinstance(opened, Recorded) and _has_parts(opened.value):
                return _parts(opened.value)
        parts.append({"content": value})
    elif isinstance(value, dict):
        parts.append(value)
    return parts


def _has_parts(value: Json) -> bool:
    """Return whether the JSON is a list of parts or blocks, and not a text that happens to be JSON."""
    return isinstance(value, list) and bool(value) and all(map(_is_part, value[-MAX_ITEMS:]))


def _is_part(item: Json) -> bool:
    return isinstance(item, dict) and ("type" in item or "text" in item or len(item) == 1)


def is_media_type(kind: object) -> bool:
    """Return whether a part of this type holds a picture, sound or a file."""
    return isinstance(kind, str) and _MEDIA_TYPES.search(kind) is not None


def _is_media(part: JsonObject) -> bool:
    kind = part.get("type")
    return is_media_type(kind) if isinstance(kind, str) else any(key in part for key in _MEDIA_KEYS)


def _part_text(part: JsonObject) -> str | None:
    kind = part.get("type")
    return None if isinstance(kind, str) and kind not in _TEXT_TYPES else _own_text(part)


def _own_text(part: JsonObject) -> str | None:
    text = part.get("content")
    if not text or not isinstance(text, str):
        text = _text(part.get("text"))
    return None if text is not None and values.is_redacted(text) else text


def _joined(parts: list[JsonObject]) -> str:
    return "\n".join([text for part in parts if (text := _part_text(part))])


def _call_id(source: JsonObject) -> str | None:
    if "call_id" in source or "tool_call_id" in source or "tool_use_id" in source or "toolCallId" in source:
        return _first_text(source, _IDS)
    call_id = source.get("id")
    return call_id if call_id and isinstance(call_id, str) else None


def _first_text(source: JsonObject, keys: tuple[str, ...]) -> str | None:
    for key in keys:
        text = source.get(key)
        if text and isinstance(text, str):
            return text
    return None


def _first_present(source: JsonObject, keys: tuple[str, ...]) -> tuple[Json] | None:
    """Return the value of the first key that is there, in a tuple: it may be `None` itself."""
    for key in keys:
        if key in source:
            return (source[key],)
    return None


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _text(value: Json) -> str | None:
    return value if value and isinstance(value, str) else None
