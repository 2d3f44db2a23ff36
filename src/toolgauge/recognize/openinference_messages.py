"""Reads the flattened messages of model spans: requested calls, answers to earlier calls, texts.

Attributes such as `llm.output_messages.0.message.tool_calls.1.tool_call.function.name` come in any order, and a call may
be written twice (in `tool_calls` and in `contents`): read naively, calls would be shuffled or doubled.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, Recorded
from toolgauge.model.json import Json, Value
from toolgauge.model.observations import OTHER_ERROR, CallAnswered, CallError, CallRequested, MessageSeen
from toolgauge.model.records import Span
from toolgauge.recognize import values
from toolgauge.recognize.endings import is_for_tools
from toolgauge.recognize.hosted_tools import hosted_item
from toolgauge.recognize.langchain import generated, rejected
from toolgauge.recognize.messages import PastMessage, is_media_type, numbered

_OUTPUT_MESSAGES = "llm.output_messages."
_MESSAGES = (_OUTPUT_MESSAGES, "llm.input_messages.")

_SYSTEM_ROLES = ("system", "developer")
_USER_ROLES = ("user", "human")
_ASSISTANT_ROLES = ("assistant", "ai", "model")
# More messages than any model's window holds: an index beyond is an attack on memory, not a message.
_MAX_INDEX = 100_000
# Longer keys are split each time.
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

_MARKS = ('"tool_calls":[{', '"tool_calls": [{', '"function_call":{', '"function_call": {')

_AGENT_RUN = "invoke_agent "
_OUTPUT = "output.value"
_USER = "user"


class Message(Struct):
    """One message, its keys grouped: `fields` without an index, lists by index; the role in lower case, "" when not recorded."""

    fields: Part = {}
    tool_calls: dict[int, Part] = {}
    contents: dict[int, Part] = {}
    functions: dict[int, Value] = {}
    role: str = ""


class Messages(Struct):
    """The messages of a model span in the order of their indices."""

    output: list[Message]
    input: list[Message]


def read_messages(attributes: Mapping[str, Value]) -> Messages:
    """Group the flattened keys of a model span by message."""
    given: dict[int, Message] = {}
    written: dict[int, Message] = {}
    for key in attributes:
        if not key.startswith(_MESSAGES):
            continue
        split = _split(key) if len(key) <= _LONGEST_KNOWN else _split.__wrapped__(key)
        if split is None:
            continue
        is_output, number, place, at, name = split
        value, messages = attributes.get(key), written if is_output else given
        message = messages.get(number)
        if message is None:
            message = messages[number] = Message()
        if at is None:
            if place not in message.fields:
                message.fields[place] = value
                if place == "role" and isinstance(value, str):
                    message.role = value.lower()
        elif place == "tool_calls":
            message.tool_calls.setdefault(at, {})[name] = value
        elif place == "contents":
            message.contents.setdefault(at, {})[name] = value
        elif place == "function":
            message.functions[at] = value
        elif place == "content":  # claude-agent-sdk numbers the texts of one message
            message.contents.setdefault(at, {})["text"] = value
    return Messages(
        output=[written[number] for number in sorted(written)], input=[given[number] for number in sorted(given)]
    )


# The same keys come with each model call. Without it: 4 % of all CPU.
@lru_cache(maxsize=4096)
def _split(key: str) -> tuple[bool, int, str, int | None, str] | None:
    """Split `llm.output_messages.0.<...>`: is it an output, number of the message, place in it, number there, and the rest of the key."""
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


def requests(messages: list[Message]) -> list[CallRequested]:
    """Read the calls that the model asked for, in its order; their positions are not numbered yet."""
    return [request for message in messages for part in _call_parts(message) if (request := _request(part))]


def _call_parts(message: Message) -> list[Part]:
    # The ordered variant, `contents`, repeats what `tool_calls` says; it counts only where it stands alone.
    for group in (message.tool_calls, message.contents):
        if parts := [group[index] for index in sorted(group) if "function.name" in group[index]]:
            return parts
    fields = message.fields
    if "function_call_name" not in fields:
        return []
    written = fields.get("function_call_arguments_json")
    return [{"function.name": fields["function_call_name"], "function.arguments": written}]


def _request(part: Part) -> CallRequested | None:
    name = part.get("function.name")
    # A model may write an empty name; what is hidden has no id either.
    if not isinstance(name, str) or not (name or values.as_str(part.get("id"))):
        return None
    hosted = hosted_item(name)
    call = _called(name, part.get("id"), part.get("function.arguments"))
    return call if hosted is None else replace(call, name=hosted, by_provider=True)


def _called(name: str, call_id: Value, given: Value) -> CallRequested:
    # Instrumentations leave the arguments out when the model gave none; hidden outputs hide the name as well.
    arguments = Recorded({}) if given is None or given == "" else values.arguments(given)
    return CallRequested(position=0, name=name, call_id=values.as_str(call_id), arguments=arguments)


def google_calls(content: Json) -> list[CallRequested]:
    """Read the calls among the parts of one of Google's contents."""
    parts = map(values.as_object, values.as_list(values.as_object(content).get("parts")))
    calls = [values.as_object(part.get("function_call")) for part in parts]
    return [
        _called(name, call.get("id"), call.get("args")) for call in calls if (name := values.as_str(call.get("name")))
    ]


def observed(found: list[CallRequested], agent: str | None) -> Iterator[CallRequested]:
    """Number the calls of one model output."""
    for position, request in enumerate(found):
        yield replace(request, position=position, agent=agent) if position or agent is not None else request


def with_raw_output(found: list[CallRequested], raw: Value) -> list[CallRequested]:
    """Complete the calls from LangChain's raw output: the ids of old releases, and the calls that it rejected."""
    if not isinstance(raw, str):
        return found
    # Raw outputs are large; nearly all say `"invalid_tool_calls": []`.
    has_rejected = '"invalid_tool_calls": [{' in raw or '"invalid_tool_calls":[{' in raw
    if not has_rejected and all(request.call_id is not None for request in found):
        return found
    read = values.parse_text(raw)
    if not isinstance(read, Recorded):
        return found
    messages = generated(read.value)
    valid = [values.as_object(call) for message in messages for call in values.as_list(message.get("tool_calls"))]
    unusable = [call for message in messages for call in rejected(message, None, 0)]
    # Old releases show a call that could not be parsed among the others, without its id.
    recorded = [
        request
        for request in found
        if not any(
            (request.name, request.arguments) == (other.name, other.arguments)
            and request.call_id in (None, other.call_id)
            for other in unusable
        )
    ]
    if [request.name for request in recorded] == [call.get("name") for call in valid]:
        recorded = [
            replace(request, call_id=request.call_id or values.as_str(call.get("id")))
            for request, call in zip(recorded, valid, strict=True)
        ]
    return [*recorded, *unusable]


def answers(messages: list[Message]) -> Iterator[CallAnswered]:
    """Read the answers to earlier calls from the history that the model was given."""
    waiting: list[CallRequested] = []
    for message in messages:
        if message.role in _ASSISTANT_ROLES:
            waiting = requests([message])
            continue
        fields = message.fields
        call_id, name, text = fields.get("tool_call_id"), fields.get("name"), fields.get("content")
        if text is None:
            text = _text(message)
        is_answer = message.role in ("tool", "function")
        result = NOT_RECORDED
        # All other texts are only looked at: they may lack their end.
        if text is not None and (is_answer or call_id or (isinstance(text, str) and text.lstrip()[:1] in _QUOTED)):
            result = values.result(text)
        for index in sorted(message.functions):
            # autogen's answers: JSON of name, content, call_id, is_error.
            recorded = values.decoded_object(message.functions[index])
            if "call_id" in recorded or "name" in recorded:
                returned, failed = recorded.get("content"), recorded.get("is_error") is True
                yield CallAnswered(
                    call_id=values.as_str(recorded.get("call_id")),
                    name=values.as_str(recorded.get("name")),
                    result=values.returned(returned),
                    error=CallError(kind=OTHER_ERROR, message=values.text_of(returned)) if failed else None,
                )
        if call_id or (is_answer and name):
            yield CallAnswered(call_id=values.as_str(call_id), name=values.as_str(name), result=result)
            continue
        parts = [message.contents[index] for index in sorted(message.contents)]
        if is_answer and not message.functions and not any(_PART_ID in part for part in parts):
            # Answers that name nothing come in the order of the calls.
            if waiting:
                call = waiting.pop(0)
                yield CallAnswered(call_id=call.call_id, name=call.name, result=result)
            continue
        for part in parts:
            # BeeAI's answers: each part of one message names its call.
            if (part_id := values.as_str(part.get(_PART_ID))) is not None:
                text = part.get("text")
                yield CallAnswered(call_id=part_id, result=NOT_RECORDED if text is None else values.result(text))


def past_calls(messages: list[Message]) -> Iterator[CallRequested | MessageSeen]:
    """Read the calls in a model's input, and the texts of the user between them."""
    return numbered(
        PastMessage(
            calls=list(observed(requests([message]), None)) if message.role in _ASSISTANT_ROLES else (),
            has_answers=message.role not in (*_ASSISTANT_ROLES, *_USER_ROLES) or "tool_call_id" in message.fields,
            user=(_text(message) or "").removeprefix(_TASK_PREFIX)
            if message.role in _USER_ROLES and "tool_call_id" not in message.fields
            else "",
        )
        for message in messages
    )


def texts(messages: Messages) -> Iterable[MessageSeen]:
    """Read the system prompt, the newest user text and what the model wrote."""
    found = (
        _newest(messages.input, _SYSTEM_ROLES, "system"),
        _newest(messages.input, _USER_ROLES, "user"),
        _newest(messages.output, _ASSISTANT_ROLES, "assistant"),
    )
    return filter(None, found)


def _newest(
    messages: list[Message], roles: tuple[str, ...], role: Literal["system", "user", "assistant"]
) -> MessageSeen | None:
    spoken = [message for message in messages if message.role in roles]
    for message in reversed(spoken):
        # Anthropic writes a tool's answer as a user's message.
        if "tool_call_id" not in message.fields and (text := _text(message)):
            return MessageSeen(
                role=role,
                text=text.removeprefix(_TASK_PREFIX),
                follows=role == "user" and message is not spoken[0],
                has_media=any(is_media_type(part.get("type")) for one in spoken for part in one.contents.values()),
            )
    return None


def _text(message: Message) -> str | None:
    value = message.fields.get("content")
    if isinstance(value, str) and value:
        return value
    parts = [message.contents[i].get("text") for i in sorted(message.contents)]
    return "\n".join(part for part in parts if isinstance(part, str)) or None


def finish_reason(attributes: Mapping[str, Value], messages: Messages) -> Value:
    """Return why the model stopped; `None` where that is not recorded."""
    written = messages.output[-1].fields.get("finish_reason") if messages.output else None
    return next((found for key in _FINISHES if (found := attributes.get(key)) is not None), written)


def is_empty(messages: Messages, attributes: Mapping[str, Value]) -> bool:
    """Return whether an output was recorded and holds nothing: neither text nor anything else."""
    # Hidden texts are masked, and hidden outputs have no message.
    if not messages.output or not all(map(_is_empty, messages.output)):
        return False
    raw, finish = attributes.get(_OUTPUT), finish_reason(attributes, messages)
    # A raw output that is no response is a text; LlamaIndex writes the role before it.
    is_text = isinstance(raw, str) and raw.lstrip()[:1] not in _QUOTED and _NO_TEXT.fullmatch(raw.strip()) is None
    return not is_text and not is_for_tools(finish)


def _is_empty(message: Message) -> bool:
    parts = [*message.tool_calls.values(), *message.functions.values()]
    parts += [part for part in message.contents.values() if part.get("type") != "reasoning" and part.get("text") != ""]
    other = [name for name, value in message.fields.items() if name not in _BESIDE_TEXT and value not in ("", None)]
    return message.role in _ASSISTANT_ROLES and not parts and not other


# Without the ids in the provider's own response, an answer in the next request finds no call.
def with_response(found: list[CallRequested], raw: Value) -> list[CallRequested]:
    """Return the calls, completed from a response of OpenAI's or of Google's form."""
    if not isinstance(raw, str) or (found and all(request.call_id is not None for request in found)):
        return found
    # Responses are large; most hold no call.
    if not any(mark in raw for mark in _MARKS):
        return found
    response = values.decoded_object(raw)
    choice, candidate = (
        values.as_object((values.as_list(response.get(key)) or [None])[0]) for key in ("choices", "candidates")
    )
    recorded: list[CallRequested] = []
    for call in map(values.as_object, values.as_list(values.as_object(choice.get("message")).get("tool_calls"))):
        function = values.as_object(call.get("function"))
        if name := values.as_str(function.get("name")):
            recorded.append(_called(name, call.get("id"), function.get("arguments")))
    recorded += google_calls(candidate.get("content"))
    if not found:
        return recorded
    if [request.name for request in found] != [request.name for request in recorded]:
        return found
    return [
        replace(request, call_id=request.call_id or other.call_id)
        for request, other in zip(found, recorded, strict=True)
    ]


# ADK opens no span for a model call: each call's attributes replace the previous ones on the span of the agent's run. Read as one
# model call it would ask for calls of two outputs; the requested calls are in the history that the last call was given.
def is_shared_by_agent(span: Span, instrumentation: str) -> bool:
    """Return whether a model span is an agent's run that may hold several model calls."""
    return instrumentation == "google_adk" and span.name.startswith(_AGENT_RUN)


def requested_in_run(messages: Messages, attributes: Mapping[str, Value]) -> Iterator[CallRequested]:
    """Yield what the outputs of this run asked for: those in the history, and the last one."""
    asked = [requests([message]) for message in messages.input]
    # What came before the newest user's message belongs to earlier runs.
    newest = max((at + 1 for at, one in enumerate(messages.input) if one.role == _USER and not asked[at]), default=0)
    outputs = list(filter(None, asked[newest:]))
    outputs.append(google_calls(values.decoded_object(attributes.get(_OUTPUT)).get("content")))
    numbered_calls = ((number, call) for number, found in enumerate(outputs) for call in found)
    for position, (number, call) in enumerate(numbered_calls):
        yield replace(call, position=position, output=number)
