"""Reads the flattened messages of model spans: requested calls, answers to earlier calls, texts.

Arrives: attributes such as `llm.output_messages.0.message.tool_calls.1.tool_call.function.name`, in any order.
Leaves: observations. Attribute order is not index order, and one call may be written twice (in `tool_calls` and in
`contents`): read naively, calls would be shuffled or doubled.
"""

from collections.abc import Iterator, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import OTHER_ERROR, CallAnswered, CallError, CallRequested, MessageSeen
from toolgauge.model.records import Span
from toolgauge.recognize import values
from toolgauge.recognize.hosted_tools import hosted_item
from toolgauge.recognize.langchain import generated
from toolgauge.recognize.messages import PastMessage, is_media_type, numbered

OUTPUT_MESSAGES = "llm.output_messages."
INPUT_MESSAGES = "llm.input_messages."

_SYSTEM_ROLES = ("system", "developer")
_USER_ROLES = ("user", "human")
_ASSISTANT_ROLES = ("assistant", "ai", "model")
# More messages than any model's window holds: an index beyond is an attack on memory, not a message.
_MAX_INDEX = 100_000
# smolagents puts this before the user's text.
_TASK_PREFIX = "New task:\n"

Part: TypeAlias = dict[str, Value]

_MARKS = ('"tool_calls":[{', '"tool_calls": [{', '"function_call":{', '"function_call": {')

_AGENT_RUN = "invoke_agent "
_OUTPUT = "output.value"
_USER = "user"


class Message(Struct):
    """One message, its keys grouped: `fields` without an index, lists by index."""

    fields: Part = {}
    tool_calls: dict[int, Part] = {}
    contents: dict[int, Part] = {}
    functions: dict[int, Value] = {}

    @property
    def role(self) -> str:
        """The role in lower case, "" when not recorded."""
        value = self.fields.get("role")
        return value.lower() if isinstance(value, str) else ""


class Messages(Struct):
    """The messages of a model span in the order of their indices."""

    output: list[Message]
    input: list[Message]


def read_messages(attributes: Mapping[str, Value]) -> Messages:
    """Group the flattened keys of a model span by message."""
    output: dict[int, Message] = {}
    given: dict[int, Message] = {}
    for key in attributes:
        if key.startswith(OUTPUT_MESSAGES):
            _place(output, key[len(OUTPUT_MESSAGES) :], attributes[key])
        elif key.startswith(INPUT_MESSAGES):
            _place(given, key[len(INPUT_MESSAGES) :], attributes[key])
    return Messages(output=[output[i] for i in sorted(output)], input=[given[i] for i in sorted(given)])


def _place(messages: dict[int, Message], path: str, value: Value) -> None:
    index, _, rest = path.partition(".")
    number = _index(index)
    if number is None or not rest:
        return
    message = messages.get(number)
    if message is None:
        message = messages[number] = Message()
    place, _, inner = rest.removeprefix("message.").partition(".")
    if not inner:  # as nearly all are
        message.fields.setdefault(place, value)
        return
    position, _, name = inner.partition(".")
    at = _index(position)
    if at is None:
        message.fields.setdefault(place, value)
    elif place == "tool_calls":
        message.tool_calls.setdefault(at, {})[name.removeprefix("tool_call.")] = value
    elif place == "contents":
        message.contents.setdefault(at, {})[name.removeprefix("message_content.").removeprefix("tool_call.")] = value
    elif place == "function":
        message.functions[at] = value
    elif place == "content":  # claude-agent-sdk numbers the texts of one message
        message.contents.setdefault(at, {})["text"] = value


def _index(text: str) -> int | None:
    if not text.isascii() or not text.isdigit() or len(text) > len(str(_MAX_INDEX)):
        return None
    return int(text)


# --- calls


class Request(Struct, frozen=True, kw_only=True):
    """A call as the model wrote it."""

    name: str
    call_id: str | None
    arguments: Content
    usable: bool = True
    by_provider: bool = False


def requests(messages: list[Message]) -> list[Request]:
    """Read the calls that the model asked for, in its order."""
    return [request for message in messages for part in _call_parts(message) if (request := _request(part))]


def _call_parts(message: Message) -> list[Part]:
    parts = [message.tool_calls[i] for i in sorted(message.tool_calls)]
    parts = [part for part in parts if "function.name" in part]
    if parts:
        return parts
    # The ordered variant repeats what `tool_calls` says; it counts only where it stands alone.
    parts = [message.contents[i] for i in sorted(message.contents)]
    parts = [part for part in parts if "function.name" in part]
    if parts or "function_call_name" not in message.fields:
        return parts
    fields = message.fields
    written = fields.get("function_call_arguments_json")
    return [{"function.name": fields["function_call_name"], "function.arguments": written}]


def _request(part: Part) -> Request | None:
    name = part.get("function.name")
    if not isinstance(name, str) or not name:
        return None
    call_id = part.get("id")
    written = part.get("function.arguments")
    hosted = hosted_item(name)
    return Request(
        name=hosted or name,
        call_id=call_id if isinstance(call_id, str) and call_id else None,
        # Instrumentations leave the key out when the model gave no arguments; hidden outputs hide the name as well.
        arguments=Recorded({}) if written is None or written == "" else values.arguments(written),
        by_provider=hosted is not None,
    )


def observed(found: list[Request], agent: str | None) -> Iterator[CallRequested]:
    """Number the calls of one model output."""
    for position, request in enumerate(found):
        yield CallRequested(
            position=position,
            name=request.name,
            call_id=request.call_id,
            arguments=request.arguments,
            agent=agent,
            usable=request.usable,
            by_provider=request.by_provider,
        )


# --- what LangChain keeps to its raw output


def with_raw_output(found: list[Request], raw: Value) -> list[Request]:
    """Complete the calls from LangChain's raw output: the ids of old releases, and the calls that it rejected."""
    if not isinstance(raw, str) or not _is_worth_parsing(found, raw):
        return found
    read = values.parse_text(raw)
    if not isinstance(read, Recorded):
        return found
    valid: list[JsonObject] = []
    invalid: list[JsonObject] = []
    for message in generated(read.value):
        valid.extend(values.as_object(call) for call in values.as_list(message.get("tool_calls")))
        invalid.extend(values.as_object(call) for call in values.as_list(message.get("invalid_tool_calls")))
    rejected = [_rejected(call) for call in invalid if values.as_str(call.get("name"))]
    # Old releases show a call that could not be parsed among the others, without its id.
    recorded = [request for request in found if not any(_is_same(request, other) for other in rejected)]
    return _with_ids(recorded, valid) + rejected


def _is_same(request: Request, rejected: Request) -> bool:
    if request.name != rejected.name or request.arguments != rejected.arguments:
        return False
    return request.call_id is None or request.call_id == rejected.call_id


def _is_worth_parsing(found: list[Request], raw: str) -> bool:
    # Raw outputs are large; nearly all say `"invalid_tool_calls": []`.
    if any(request.call_id is None for request in found):
        return True
    return '"invalid_tool_calls": [{' in raw or '"invalid_tool_calls":[{' in raw


def _with_ids(found: list[Request], valid: list[JsonObject]) -> list[Request]:
    if [request.name for request in found] != [call.get("name") for call in valid]:
        return found
    return [
        Request(
            name=request.name, call_id=request.call_id or values.as_str(call.get("id")), arguments=request.arguments
        )
        for request, call in zip(found, valid, strict=True)
    ]


def _rejected(call: JsonObject) -> Request:
    written = call.get("args")
    text = written if isinstance(written, str) else ""
    return Request(
        name=values.as_str(call.get("name")) or "",
        call_id=values.as_str(call.get("id")),
        arguments=Unparsed(text) if text else NOT_RECORDED,
        usable=False,
    )


# --- answers and texts


def answers(messages: list[Message]) -> Iterator[CallAnswered]:
    """Read the answers to earlier calls from the history that the model was given."""
    waiting: list[Request] = []
    for message in messages:
        if message.role in _ASSISTANT_ROLES:
            waiting = requests([message])
        elif _is_unnamed_answer(message):
            # Answers that name nothing come in the order of the calls.
            if waiting:
                call = waiting.pop(0)
                yield CallAnswered(call_id=call.call_id, name=call.name, result=_answer_content(message))
            continue
        for index in sorted(message.functions):
            yield from _function_answer(message.functions[index])
        call_id = message.fields.get("tool_call_id")
        name = message.fields.get("name")
        if call_id or (message.role in ("tool", "function") and name):
            yield CallAnswered(
                call_id=call_id if isinstance(call_id, str) else None,
                name=name if isinstance(name, str) and name else None,
                result=_answer_content(message),
            )
        else:
            yield from _part_answers(message)


def _is_unnamed_answer(message: Message) -> bool:
    recorded = message.fields.get("tool_call_id") or message.fields.get("name") or message.functions
    return (
        message.role in ("tool", "function")
        and not recorded
        and not any("message.tool_call_id" in part for part in message.contents.values())
    )


def _part_answers(message: Message) -> Iterator[CallAnswered]:
    """Read BeeAI's answers: each part of one message names its call."""
    for index in sorted(message.contents):
        part = message.contents[index]
        call_id, text = part.get("message.tool_call_id"), part.get("text")
        if isinstance(call_id, str) and call_id:
            yield CallAnswered(call_id=call_id, result=NOT_RECORDED if text is None else values.result(text))


def _function_answer(value: Value) -> Iterator[CallAnswered]:
    """Read autogen's answer: JSON of name, content, call_id, is_error."""
    recorded = values.as_object(values.decoded(value))
    if "call_id" not in recorded and "name" not in recorded:
        return
    returned = recorded.get("content")
    failed = recorded.get("is_error") is True
    yield CallAnswered(
        call_id=values.as_str(recorded.get("call_id")),
        name=values.as_str(recorded.get("name")),
        result=values.returned(returned),
        error=CallError(kind=OTHER_ERROR, message=values.text_of(returned)) if failed else None,
    )


def _answer_content(message: Message) -> Content:
    value = message.fields.get("content")
    if value is not None:
        return values.result(value)
    text = _text(message)
    return NOT_RECORDED if text is None else values.result(text)


def past_calls(messages: list[Message]) -> Iterator[CallRequested | MessageSeen]:
    """Read the calls in a model's input, and the texts of the user between them."""
    return numbered(
        PastMessage(
            calls=list(observed(requests([message]), None)) if message.role in _ASSISTANT_ROLES else (),
            has_answers=message.role not in (*_ASSISTANT_ROLES, *_USER_ROLES) or "tool_call_id" in message.fields,
            user=(_user_text(message) or "") if message.role in _USER_ROLES else "",
        )
        for message in messages
    )


def _user_text(message: Message) -> str | None:
    text = _text(message) if "tool_call_id" not in message.fields else None
    return None if text is None else text.removeprefix(_TASK_PREFIX)


def texts(messages: Messages) -> Iterator[MessageSeen]:
    """Read the system prompt, the newest user text and what the model wrote."""
    yield from _newest(messages.input, _SYSTEM_ROLES, "system")
    yield from _newest(messages.input, _USER_ROLES, "user")
    yield from _newest(messages.output, _ASSISTANT_ROLES, "assistant")


def _newest(
    messages: list[Message], roles: tuple[str, ...], role: Literal["system", "user", "assistant"]
) -> Iterator[MessageSeen]:
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        # Anthropic writes a tool's answer as a user's message.
        if message.role in roles and "tool_call_id" not in message.fields:
            text = _text(message)
            if text:
                follows = role == "user" and any(earlier.role in roles for earlier in messages[:place])
                has_media = any(
                    one.role in roles and any(is_media_type(part.get("type")) for part in one.contents.values())
                    for one in messages
                )
                text = text.removeprefix(_TASK_PREFIX)
                yield MessageSeen(role=role, text=text, follows=follows, has_media=has_media)
                return


def _text(message: Message) -> str | None:
    value = message.fields.get("content")
    if isinstance(value, str) and value:
        return value
    parts = [message.contents[i].get("text") for i in sorted(message.contents)]
    return "\n".join(part for part in parts if isinstance(part, str)) or None


# Completes a model's calls from the provider's own response in `output.value`.
#
# Arrives: the calls that the flattened messages show. Leaves: the same calls with their ids, or all calls where the
# flattened messages leave them out. Without the ids an answer in the next request finds no call.


def with_response(found: list[Request], raw: Value) -> list[Request]:
    """Return the calls, completed from a response of OpenAI's or of Google's form."""
    if not isinstance(raw, str) or (found and all(request.call_id is not None for request in found)):
        return found
    # Responses are large; most hold no call.
    if not any(mark in raw for mark in _MARKS):
        return found
    read = values.parse_text(raw)
    recorded = list(_response_calls(values.as_object(read.value))) if isinstance(read, Recorded) else []
    if not found:
        return recorded
    if [request.name for request in found] != [request.name for request in recorded]:
        return found
    return [
        Request(name=request.name, call_id=request.call_id or other.call_id, arguments=request.arguments)
        for request, other in zip(found, recorded, strict=True)
    ]


def _response_calls(response: JsonObject) -> Iterator[Request]:
    choice = values.as_object((values.as_list(response.get("choices")) or [None])[0])
    for item in values.as_list(values.as_object(choice.get("message")).get("tool_calls")):
        call = values.as_object(item)
        function = values.as_object(call.get("function"))
        yield from _response_request(function.get("name"), call.get("id"), function.get("arguments"))
    candidate = values.as_object((values.as_list(response.get("candidates")) or [None])[0])
    for part in values.as_list(values.as_object(candidate.get("content")).get("parts")):
        call = values.as_object(values.as_object(part).get("function_call"))
        yield from _response_request(call.get("name"), call.get("id"), call.get("args"))


def _response_request(name: Json, call_id: Json, given: Json) -> Iterator[Request]:
    if isinstance(name, str) and name:
        recorded = Recorded({}) if given is None or given == "" else values.arguments(given)
        yield Request(name=name, call_id=values.as_str(call_id), arguments=recorded)


# Reads the model span that Google's ADK shares with the agent's run.
#
# Where the framework opens no span of its own for a model call, the instrumentation writes each call's attributes over
# those of the call before, on the span of the agent's run. Read as one model call it would ask for calls of two outputs,
# and before all that was really called first. What was asked for is in the history that the last call was given.


def is_shared_by_agent(span: Span, instrumentation: str) -> bool:
    """Return whether a model span is an agent's run that may hold several model calls."""
    return instrumentation == "google_adk" and span.name.startswith(_AGENT_RUN)


def requested_in_run(messages: Messages, attributes: Mapping[str, Value]) -> Iterator[CallRequested]:
    """Yield what the outputs of this run asked for: those in the history, and the last one."""
    outputs = [found for message in _since_user(messages.input) if (found := requests([message]))]
    outputs.append(_last_output(attributes))
    position = 0
    for number, found in enumerate(outputs):
        for request in found:
            yield CallRequested(
                position=position,
                name=request.name,
                call_id=request.call_id,
                arguments=request.arguments,
                output=number,
            )
            position += 1


def _since_user(history: list[Message]) -> list[Message]:
    """Leave out what came before the newest user's message: it belongs to earlier runs."""
    for place in range(len(history) - 1, -1, -1):
        if history[place].role == _USER and not requests([history[place]]):
            return history[place + 1 :]
    return history


def _last_output(attributes: Mapping[str, Value]) -> list[Request]:
    response = values.as_object(values.decoded(attributes.get(_OUTPUT)))
    found: list[Request] = []
    for part in values.as_list(values.as_object(response.get("content")).get("parts")):
        call = values.as_object(values.as_object(part).get("function_call"))
        name = values.as_str(call.get("name"))
        if name is not None:
            given = call.get("args")
            recorded = Recorded({}) if given is None else values.arguments(given)
            found.append(Request(name=name, call_id=values.as_str(call.get("id")), arguments=recorded))
    return found
