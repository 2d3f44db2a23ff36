"""Reads Haystack's own tracer: the spans of its agents and of components in pipelines.

Arrives: a span named `haystack...`. Leaves: observations. Content is there only with content tracing on. A failed call
leaves the span's status unset: its output says so, and the answer in the model's next input.
"""

from collections.abc import Iterable, Iterator

from toolgauge.model.content import NOT_RECORDED, Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.literals import CLASS, parse_repr
from toolgauge.model.observations import (
    OTHER_ERROR,
    AgentRun,
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
    MessageSeen,
    ModelCall,
    Observation,
    ToolsOffered,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import conventions, values
from toolgauge.recognize.conventions import call_error
from toolgauge.recognize.messages import DefinitionReader
from toolgauge.recognize.past_calls import PastMessage, numbered

AGENT_RUN = "haystack.agent.run"
STEP_MODEL = "haystack.agent.step.llm"
# The second is what tools are called outside of an agent's step.
TOOL_SPANS = ("haystack.agent.step.tool", "haystack.tool.invoke")
_COMPONENT = "haystack.component"
_MODEL_INPUTS = (STEP_MODEL + ".input", _COMPONENT + ".input")
COMPONENT_RUN = "haystack.component.run"

TOOL_NAME = "haystack.tool.name"
CALL_ID = "haystack.tool.call.id"
AGENT_TOOLS = "haystack.agent.tools"
COMPONENT_NAME = "haystack.component.name"
COMPONENT_TYPE = "haystack.component.type"

_PREFIX = "haystack."
_AGENT = "Agent"

# A repr costs many times as much as JSON to read.
_MAX_REPR = 250_000
_REPR_KEYS = {"ToolCall": "tool_call", "ToolCallResult": "tool_call_result"}
_ROLES = ("system", "user", "assistant", "tool")


class Haystack:
    """The tags of Haystack's tracer."""

    name = "haystack"
    rank = 70
    marks = (_PREFIX,)
    scopes = ("haystack",)
    grounds = Grounds(names=(_PREFIX,))

    def __init__(self) -> None:
        self._definitions = DefinitionReader()

    def claims(self, record: Record) -> bool:
        """Claim Haystack's spans, unless a tracer of somebody else's wrote them in the conventions."""
        if isinstance(record, LogRecord) or not record.name.startswith(_PREFIX):
            return False
        return conventions.OPERATION not in record.attributes

    def read(self, record: Record) -> Iterator[Observation]:
        """Read one span."""
        if isinstance(record, LogRecord):
            return
        yield from conventions.conversation(record.attributes)
        if record.name in TOOL_SPANS:
            yield from _tool(record)
        elif record.name == STEP_MODEL:
            yield from self._model(record, STEP_MODEL)
        elif record.name == COMPONENT_RUN:
            yield from self._component(record)
        elif record.name == AGENT_RUN:
            yield AgentRun(agent=None)
            yield from self._offered(record.attributes.get(AGENT_TOOLS))
            yield from _user_text(_decoded_messages(record.attributes.get("haystack.agent.input")).get("messages"))

    def history(self, span: Span) -> Iterable[CallRequested | MessageSeen]:
        """Read the calls in the history that a model was given, and the texts of the user between them."""
        given = next((span.attributes[key] for key in _MODEL_INPUTS if key in span.attributes), None)
        messages = map(values.as_object, values.as_list(_decoded_messages(given).get("messages")))
        return numbered(map(_past, messages))

    def attribute(self, record: Record, key: str) -> Value:
        """Look up an attribute; Haystack hides none."""
        return record.attributes.get(key)

    def _component(self, span: Span) -> Iterator[Observation]:
        """Read a component: an agent, a model, or what runs tools; in releases up to 2 agents are made of these."""
        kind = values.as_str(span.attributes.get(COMPONENT_TYPE)) or ""
        if kind.rpartition(".")[2].endswith(_AGENT):
            yield AgentRun(agent=values.as_str(span.attributes.get(COMPONENT_NAME)))
            return
        output = _decoded_messages(span.attributes.get("haystack.component.output"))
        if "replies" in output:
            yield from self._model(span, _COMPONENT)
        else:
            yield from _answers_to_calls(output.get("tool_messages"))

    def _model(self, span: Span, prefix: str) -> Iterator[Observation]:
        yield ModelCall()
        given = _decoded_messages(span.attributes.get(prefix + ".input"))
        yield from self._offered(given.get("tools"))
        yield from _received(given.get("messages"))
        yield from _written(_decoded_messages(span.attributes.get(prefix + ".output")).get("replies"))

    def _offered(self, value: Value) -> Iterator[ToolsOffered]:
        tools = list(_definitions(_decoded(value)))
        if tools and (offered := self._definitions.read(tools)):
            yield ToolsOffered(tools=offered)


def _decoded(value: Value) -> Json:
    return values.decoded(value)


def _definitions(value: Json) -> Iterator[Json]:
    """Open serialised tools, `{"type": "<class>", "data": {...}}`, and the sets that hold them."""
    if isinstance(value, list):
        for item in value:
            yield from _definitions(item)
        return
    tool = values.as_object(value)
    inner = tool.get("data")
    fields = inner if isinstance(inner, dict) else tool
    if isinstance(several := fields.get("tools"), list):
        yield from _definitions(several)
    elif fields:
        yield fields


def _tool(span: Span) -> Iterator[Observation]:
    attributes = span.attributes
    output = attributes.get(TOOL_SPANS[0] + ".output")
    name = values.as_str(attributes.get(TOOL_NAME))
    if name is None:
        # One span for all calls of a step: the calls themselves are the model's.
        yield from _answers_to_calls(_decoded_messages(output).get("tool_messages"))
        return
    recorded = values.result(output)
    yield CallExecuted(
        name=name,
        call_id=values.identifier(attributes.get(CALL_ID)),
        arguments=values.arguments(attributes.get(TOOL_SPANS[0] + ".input")),
        result=recorded,
        error=call_error(span) or _error_in_result(recorded),
    )


def _error_in_result(recorded: Content) -> CallError | None:
    opened = values.as_object(recorded.value) if isinstance(recorded, Recorded) else {}
    message = opened.get("error")
    if len(opened) == 1 and isinstance(message, str):
        return CallError(kind=OTHER_ERROR, message=message)
    return None


# Reads Haystack's chat messages: what a model was given and wrote, and what tools answered.
#
# Arrives: a content tag. It is JSON of dataclasses or, where something in it was no JSON, the Python repr of all of it.
# Leaves: observations.


def _decoded_messages(value: Value) -> JsonObject:
    """Decode a content tag, empty when it cannot be."""
    read = values.content(value)
    match read:
        case Recorded(value=found):
            return values.as_object(found)
        case Unparsed(text, "unparsable") if len(text) <= _MAX_REPR:
            try:
                return values.as_object(parse_repr(text))
            except ValueError:
                return {}
        case Unparsed() | NotRecorded():
            return {}


def _received(messages: Json) -> Iterator[Observation]:
    """Read a model's input: instructions, the newest user text, and answers to calls."""
    read = [values.as_object(item) for item in values.as_list(messages)]
    for message in read:
        if _role(message) == "system" and (text := _text(message)):
            yield MessageSeen(role="system", text=text)
        yield from _answers(message)
    yield from _user_text(messages)


def _user_text(messages: Json) -> Iterator[MessageSeen]:
    """Read the newest text of the user."""
    texts = [_text(message) for message in map(values.as_object, values.as_list(messages)) if _role(message) == "user"]
    written = [text for text in texts if text]
    if written:
        yield MessageSeen(role="user", text=written[-1], follows=len(written) > 1)


def _written(replies: Json) -> Iterator[Observation]:
    """Read a model's output: the calls that it asks for, and its text."""
    texts: list[str] = []
    position = 0
    for item in values.as_list(replies):
        if isinstance(item, str):
            texts.append(item)
        message = values.as_object(item)
        for request in _calls(message, position):
            yield request
            position += 1
        texts.append(_text(message))
    if text := "\n".join(filter(None, texts)):
        yield MessageSeen(role="assistant", text=text)


def _answers_to_calls(messages: Json) -> Iterator[CallAnswered]:
    """Read what tools answered."""
    for item in values.as_list(messages):
        yield from _answers(values.as_object(item))


def _past(message: JsonObject) -> PastMessage:
    user = _text(message) if _role(message) == "user" else ""
    return PastMessage(calls=list(_calls(message)), has_answers=any(_answers(message)), user=user)


def _answers(message: JsonObject) -> Iterator[CallAnswered]:
    for part in _parts(message):
        recorded = part.get("tool_call_result")
        if not isinstance(recorded, dict):
            continue
        origin = values.as_object(recorded.get("origin"))
        call_id, name, returned = (
            values.as_str(origin.get("id")),
            values.as_str(origin.get("tool_name")),
            recorded.get("result"),
        )
        if call_id is None and name is None:
            continue
        failed = recorded.get("error") is True
        yield CallAnswered(
            call_id=call_id,
            name=name,
            result=values.returned(returned),
            error=CallError(kind=OTHER_ERROR, message=values.text_of(returned)) if failed else None,
        )


def _calls(message: JsonObject, first: int = 0) -> Iterator[CallRequested]:
    position = first
    for part in _parts(message):
        request = _request(values.as_object(part.get("tool_call")), position)
        if request is not None:
            yield request
            position += 1


def _request(call: JsonObject, position: int) -> CallRequested | None:
    name = values.as_str(call.get("tool_name"))
    if name is None:
        return None
    recorded = call.get("arguments")
    written_arguments: Content = NOT_RECORDED if recorded is None else values.arguments(recorded)
    return CallRequested(
        position=position, name=name, call_id=values.as_str(call.get("id")), arguments=written_arguments
    )


def _role(message: JsonObject) -> str:
    recorded = values.as_str(message.get("role", message.get("_role"))) or ""
    # An enumeration's member keeps its class's name where it was written as text.
    role = recorded.rpartition(".")[2].lower()
    return role if role in _ROLES else ""


def _parts(message: JsonObject) -> Iterator[JsonObject]:
    for item in values.as_list(message.get("content", message.get("_content"))):
        part = values.as_object(item)
        key = _REPR_KEYS.get(values.as_str(part.get(CLASS)) or "")
        yield part if key is None else {key: part}


def _text(message: JsonObject) -> str:
    returned = message.get("content", message.get("_content"))
    if isinstance(returned, str):
        return returned
    return "\n".join(text for part in _parts(message) if (text := values.as_str(part.get("text"))))
