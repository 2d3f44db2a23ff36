"""Reads the flattened messages of model spans: requested calls, answers to earlier calls, texts.

Attributes such as `llm.output_messages.0.message.tool_calls.1.tool_call.function.name` come in any order, and a call may
be written twice (in `tool_calls` and in `contents`): read naively, calls would be shuffled or doubled.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, Content, Recorded
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import OTHER_ERROR, CallAnswered, CallError, CallRequested
from toolgauge.recognize import langchain, provider_messages, values
from toolgauge.recognize.conventions import is_for_tools
from toolgauge.recognize.hosted_tools import hosted_item
from toolgauge.recognize.messages import ROLES, Message, calls_of

_OUTPUT_MESSAGES = "llm.output_messages."
_MESSAGES = (_OUTPUT_MESSAGES, "llm.input_messages.")

_USER_ROLES = ("user", "human")
# More messages than any model's window holds: an index beyond is an attack on memory, not a message.
_MAX_INDEX = 100_000
_LONGEST_KNOWN = 200
_PART_ID = "message.tool_call_id"
# How JSON, or text that holds JSON, begins.
_QUOTED = ("{", "[", '"', "'")
# smolagents puts this before the user's text.
_TASK_PREFIX = "New task:\n"

_NO_TEXT = re.compile(r"(?:assistant: ?)?(?:None)?")
_FINISHES = ("llm.finish_reason", "llm.stop_reason")
_BESIDE_TEXT = frozenset(("role", "finish_reason"))

Part: TypeAlias = dict[str, Value]

_CALLS = re.compile(r'"(?:invalid_)?tool_calls": ?\[\{|"function_call": ?\{')
# Of OpenAI's, Google's and LangChain's responses, each has one of these.
_RESPONSES = frozenset(("choices", "candidates", "generations"))
_REJECTED = re.compile(r'"invalid_tool_calls": ?\[\{')

_OUTPUT = "output.value"


class _Keys(Struct):
    """The keys of one message: `fields` without an index, lists by index."""

    fields: Part = {}
    tool_calls: dict[int, Part] = {}
    contents: dict[int, Part] = {}
    functions: dict[int, Value] = {}


class FlatMessage(Message):
    """One message, with its own `keys`."""

    __slots__ = ("keys",)

    def __init__(self, keys: _Keys) -> None:
        self.keys = keys
        fields, parts = keys.fields, list[JsonObject]()
        role, content = (values.as_str(fields.get("role")) or "").lower(), values.as_str(fields.get("content"))
        # Anthropic writes a tool's answer as a user's message.
        role = "tool" if role in _USER_ROLES and "tool_call_id" in fields else role
        for _, part in sorted(keys.contents.items()):
            text = None if content is not None else values.as_str(part.get("text"))
            text = text and text.removeprefix(_TASK_PREFIX)
            parts.append({"type": values.as_str(part.get("type")) or "", "text": text})
        if content is not None:
            parts.append({"type": "text", "text": content.removeprefix(_TASK_PREFIX)})
        # `Message` reads the same fields from JSON.
        self.role, self._parts = ROLES.get(role, role), parts
        self._source = self._item = {}
        calls: list[Json] = []
        for part in _call_parts(keys):
            name, written = part.get("function.name"), values.plain(part.get("function.arguments"))
            hosted = hosted_item(name) if isinstance(name, str) else None
            # Instrumentations leave the arguments out when the model gave none; hidden outputs hide the name as well.
            call: JsonObject = {"name": hosted or values.plain(name), "arguments": "" if written is None else written}
            calls.append({**call, "id": values.as_str(part.get("id")), "builtin": hosted is not None})
        if calls:
            self._source = {"tool_calls": calls}

    @property
    def is_empty(self) -> bool:
        """Whether the message holds at most reasoning: neither text nor anything else."""
        keys = self.keys
        parts = [one for one in keys.contents.values() if one.get("type") != "reasoning" and one.get("text") != ""]
        fields = [name for name, value in keys.fields.items() if name not in _BESIDE_TEXT and value not in ("", None)]
        return self.role == "assistant" and not (parts or fields or keys.tool_calls or keys.functions)

    @property
    def result(self) -> Content:
        """The message as what a tool returned."""
        written = self.keys.fields.get("content")
        return values.result(self.text or None if written is None else written)

    def answers(self) -> list[CallAnswered]:
        """Read the answers to calls, in order."""
        found: list[CallAnswered] = []
        for _, function in sorted(self.keys.functions.items()) if self.keys.functions else ():
            # autogen's answers: JSON of name, content, call_id, is_error.
            recorded = values.decoded_object(function)
            if "call_id" in recorded or "name" in recorded:
                call_id, name = values.as_str(recorded.get("call_id")), values.as_str(recorded.get("name"))
                returned, failed = recorded.get("content"), recorded.get("is_error") is True
                error = CallError(kind=OTHER_ERROR, message=values.text_of(returned)) if failed else None
                found.append(CallAnswered(call_id=call_id, name=name, result=values.returned(returned), error=error))
        fields = self.keys.fields
        call_id, name = values.as_str(fields.get("tool_call_id")), values.as_str(fields.get("name"))
        if call_id or (self.role == "tool" and name):
            return [*found, CallAnswered(call_id=call_id, name=name, result=self.result)]
        # BeeAI's answers: each part of one message names its call.
        for _, part in sorted(self.keys.contents.items()):
            if (call_id := values.as_str(part.get(_PART_ID))) is not None:
                found.append(CallAnswered(call_id=call_id, result=values.result(part.get("text"))))
        return found


class FlatMessages(Struct):
    """The messages of a model span in the order of their indices."""

    output: list[FlatMessage]
    input: list[FlatMessage]


def read_messages(attributes: Mapping[str, Value]) -> FlatMessages:
    """Group the flattened keys of a model span by message."""
    given: dict[int, _Keys] = {}
    written: dict[int, _Keys] = {}
    for key in attributes:
        # Longer names have no meaning.
        split = _split(key[:_LONGEST_KNOWN])
        if split is None:
            continue
        is_output, number, place, at, name = split
        value, messages = attributes[key], written if is_output else given
        message = messages.get(number)
        if message is None:
            message = messages[number] = _Keys()
        if at is None:
            message.fields.setdefault(place, value)
        elif place == "tool_calls":
            message.tool_calls.setdefault(at, {})[name] = value
        elif place == "contents":
            message.contents.setdefault(at, {})[name] = value
        elif place == "function":
            message.functions[at] = value
        elif place == "content":  # claude-agent-sdk numbers the texts of one message
            message.contents.setdefault(at, {})["text"] = value
    return FlatMessages(
        output=[FlatMessage(written[number]) for number in sorted(written)],
        input=[FlatMessage(given[number]) for number in sorted(given)],
    )


# The same keys come with each model call. Without it: 4 % of all CPU.
@lru_cache(maxsize=4096)
def _split(key: str) -> tuple[bool, int, str, int | None, str] | None:
    """Split `llm.output_messages.0.<...>`: is it an output, number of the message, place in it, number there, and the rest of the key."""
    if not key.startswith(_MESSAGES):
        return None
    index, _, rest = key.split(".", 2)[2].partition(".")
    number = _index(index)
    if number is None or not rest:
        return None
    place, _, inner = rest.removeprefix("message.").partition(".")
    position, _, name = inner.partition(".")
    if place == "contents":
        name = name.removeprefix("message_content.")
    name = name.removeprefix("tool_call.")
    return key.startswith(_OUTPUT_MESSAGES), number, place, _index(position), name


def _index(text: str) -> int | None:
    if not text.isascii() or not text.isdigit() or len(text) > len(str(_MAX_INDEX)):
        return None
    return int(text)


def _call_parts(keys: _Keys) -> list[Part]:
    # The ordered variant, `contents`, repeats what `tool_calls` says; it counts only where it stands alone.
    for group in (keys.tool_calls, keys.contents):
        if group and (parts := [group[index] for index in sorted(group) if "function.name" in group[index]]):
            return parts
    fields = keys.fields
    if "function_call_name" not in fields:
        return []
    written = fields.get("function_call_arguments_json")
    return [{"function.name": fields["function_call_name"], "function.arguments": written}]


# An answer in the next request finds its call by the id, which some instrumentations record in the response alone.
def requested(messages: FlatMessages, raw: Value, agent: str | None) -> list[CallRequested]:
    """Read the calls of an output, with the ids in the `raw` response and the calls that LangChain could not parse."""
    found = [call for message in messages.output for call in calls_of(message)]
    # Responses are large; most hold no call, and nearly all of LangChain's say `"invalid_tool_calls": []`.
    mark = _CALLS.search(raw) if isinstance(raw, str) else None
    has_ids = bool(found) and all(call.call_id is not None for call in found)
    if mark is not None and isinstance(raw, str) and (not has_ids or _REJECTED.search(raw) is not None):
        response = values.decoded_object(raw)
        recorded = [] if _RESPONSES.isdisjoint(response) else response_calls(response)
        unusable = [call for call in recorded if not call.usable]
        bare = Recorded({})  # Servers leave the arguments out when the model gave none
        usable = [
            replace(call, arguments=bare) if call.arguments == NOT_RECORDED else call
            for call in recorded
            if call.usable
        ]
        # Old releases show a call that could not be parsed among the others, without its id.
        rejected = [(call.name, call.arguments, call.call_id) for call in unusable]
        rejected += [(call.name, call.arguments, None) for call in unusable]
        found = [call for call in found if (call.name, call.arguments, call.call_id) not in rejected] or usable
        if [call.name for call in found] == [call.name for call in usable]:
            pairs = zip(found, usable, strict=True)
            found = [replace(call, call_id=call.call_id or other.call_id) for call, other in pairs]
        found += unusable
    return [replace(call, position=position, agent=agent) for position, call in enumerate(found)]


def response_calls(response: JsonObject) -> list[CallRequested]:
    """Read the calls in a provider's response, or in LangChain's form of it."""
    messages = langchain.messages_of(provider_messages.written(response), "assistant")
    return [call for message in messages for call in calls_of(message)]


def answers(messages: list[FlatMessage]) -> Iterator[CallAnswered]:
    """Read the answers to earlier calls from the history that the model was given."""
    waiting: list[CallRequested] = []
    for message in messages:
        found = message.answers()
        if message.role == "assistant":
            waiting = calls_of(message)
        elif found or message.role != "tool" or message.keys.functions:
            yield from found
        elif waiting:
            # Answers that name nothing come in the order of the calls.
            call = waiting.pop(0)
            yield CallAnswered(call_id=call.call_id, name=call.name, result=message.result)


def finish_reason(attributes: Mapping[str, Value], messages: FlatMessages) -> Value:
    """Return why the model stopped; `None` where that is not recorded."""
    written = messages.output[-1].keys.fields.get("finish_reason") if messages.output else None
    return next((found for key in _FINISHES if (found := attributes.get(key)) is not None), written)


def is_empty(messages: FlatMessages, attributes: Mapping[str, Value]) -> bool:
    """Return whether an output was recorded and holds nothing."""
    # Hidden texts are masked, and hidden outputs have no message.
    if not messages.output or not all(message.is_empty for message in messages.output):
        return False
    raw, finish = attributes.get(_OUTPUT), finish_reason(attributes, messages)
    # A raw output without a response is a text; LlamaIndex writes the role before it.
    is_text = isinstance(raw, str) and raw.lstrip()[:1] not in _QUOTED and _NO_TEXT.fullmatch(raw.strip()) is None
    return not is_text and not is_for_tools(finish)


# ADK opens no span for a model call: each call's attributes replace the previous ones on the span of the agent's run. Read as one
# model call it would ask for calls of two outputs; the requested calls are in the history that the last call was given.
def requested_in_run(messages: FlatMessages, attributes: Mapping[str, Value]) -> Iterator[CallRequested]:
    """Yield the calls of all outputs of this run: of the outputs in the history, and of the last one."""
    asked = [calls_of(message) for message in messages.input]
    # Messages before the newest user's message belong to earlier runs.
    newest = max((at + 1 for at, one in enumerate(messages.input) if one.role == "user" and not asked[at]), default=0)
    outputs = list(filter(None, asked[newest:]))
    outputs.append(response_calls(values.decoded_object(attributes.get(_OUTPUT))))
    numbered_calls = ((number, call) for number, found in enumerate(outputs) for call in found)
    for position, (number, call) in enumerate(numbered_calls):
        yield replace(call, position=position, output=number)
