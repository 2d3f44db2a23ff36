"""Reads Haystack's own tracer. A failed call leaves the span's status unset: its output and the model's next input show it."""

from collections.abc import Iterator

from toolgauge.model.content import NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.literals import CLASS, parse_repr
from toolgauge.model.observations import (
    OTHER_ERROR,
    AgentRun,
    CallAnswered,
    CallError,
    CallExecuted,
    ModelCall,
    Observation,
    ToolsOffered,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import conventions, values
from toolgauge.recognize.conventions import call_error
from toolgauge.recognize.dialect import PlainDialect
from toolgauge.recognize.messages import Message

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


class Haystack(PlainDialect):
    """The tags of Haystack's tracer."""

    name = "haystack"
    rank = 70
    marks = (_PREFIX,)
    scopes = ("haystack",)
    grounds = Grounds(names=(_PREFIX,))

    def claims(self, record: Record) -> bool:
        """Claim Haystack's spans, unless a tracer of somebody else's wrote them in the conventions."""
        if isinstance(record, LogRecord) or not record.name.startswith(_PREFIX):
            return False
        return conventions.OPERATION not in record.attributes

    def _read(self, span: Span) -> Iterator[Observation]:
        yield from conventions.conversation(span.attributes)
        if span.name in TOOL_SPANS:
            yield from _tool(span)
        elif span.name == STEP_MODEL:
            yield from self._model(span, STEP_MODEL)
        elif span.name == COMPONENT_RUN:
            # An agent, a model, or what runs tools; in releases up to 2 agents are made of these.
            attributes = span.attributes
            kind = values.as_str(attributes.get(COMPONENT_TYPE)) or ""
            if kind.rpartition(".")[2].endswith(_AGENT):
                yield AgentRun(agent=values.as_str(attributes.get(COMPONENT_NAME)))
                return
            output = _decoded_messages(attributes.get("haystack.component.output"))
            if "replies" in output:
                yield from self._model(span, _COMPONENT)
            else:
                yield from _answers(output.get("tool_messages"))
        elif span.name == AGENT_RUN:
            yield AgentRun(agent=None)
            yield from self._offered(span.attributes.get(AGENT_TOOLS))
            given = _decoded_messages(span.attributes.get("haystack.agent.input")).get("messages")
            yield from conventions.newest_user_text(_messages(given))

    def _given(self, span: Span) -> list[Message]:
        given = values.first(span.attributes, _MODEL_INPUTS)
        return _messages(_decoded_messages(given).get("messages"))

    def _model(self, span: Span, prefix: str) -> Iterator[Observation]:
        yield ModelCall()
        given = _decoded_messages(span.attributes.get(prefix + ".input"))
        yield from self._offered(given.get("tools"))
        yield from conventions.received(_messages(given.get("messages")))
        replies = _decoded_messages(span.attributes.get(prefix + ".output")).get("replies")
        yield from conventions.written(_messages(replies, "assistant"), None)

    def _offered(self, value: Value) -> Iterator[ToolsOffered]:
        yield from self._conventions.offered(list(_definitions(values.decoded(value))))


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
        yield from _answers(_decoded_messages(output).get("tool_messages"))
        return
    recorded = values.result(output)
    error = call_error(span)
    # A tool that failed returns its error and nothing else.
    opened = values.as_object(recorded.value) if isinstance(recorded, Recorded) else {}
    if error is None and len(opened) == 1 and isinstance(message := opened.get("error"), str):
        error = CallError(kind=OTHER_ERROR, message=message)
    yield CallExecuted(
        name=name,
        call_id=values.identifier(attributes.get(CALL_ID)),
        arguments=values.arguments(attributes.get(TOOL_SPANS[0] + ".input")),
        result=recorded,
        error=error,
    )


# A content tag is JSON of dataclasses or, where something in it was not JSON, the Python repr of all of it.
def _decoded_messages(value: Value) -> JsonObject:
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


def _messages(written: Json, default_role: str = "") -> list[Message]:
    return [_message(item, default_role) for item in values.as_list(written)]


def _message(item: Json, default_role: str) -> Message:
    if isinstance(item, str):
        return Message({"role": default_role, "content": item}, default_role)
    message = values.as_object(item)
    # An enumeration's member keeps its class's name where it was written as text.
    role = (values.as_str(message.get("role", message.get("_role"))) or "").rpartition(".")[2]
    content = message.get("content", message.get("_content"))
    if not isinstance(content, list):
        return Message({"role": role, "parts": [{"type": "text", "content": content}]}, default_role)
    return Message({"role": role, "parts": [_part(values.as_object(part)) for part in content]}, default_role)


def _part(part: JsonObject) -> JsonObject:
    """Turn a part into one of the conventions: `{"tool_call": ..}`, or the Python repr of its class."""
    kind = values.as_str(part.get(CLASS))
    call = part if kind == "ToolCall" else part.get("tool_call")
    if isinstance(call, dict):
        given: JsonObject = {} if call.get("arguments") is None else {"arguments": call["arguments"]}
        return {"type": "tool_call", "id": call.get("id"), "name": call.get("tool_name"), **given}
    returned = part if kind == "ToolCallResult" else part.get("tool_call_result")
    if isinstance(returned, dict):
        origin = values.as_object(returned.get("origin"))
        call_id, name = values.as_str(origin.get("id")), values.as_str(origin.get("tool_name"))
        if call_id is None and name is None:
            return {}
        answer: JsonObject = {"type": "tool_call_response", "id": call_id, "name": name}
        return {**answer, "response": returned.get("result"), "is_error": returned.get("error")}
    return {"type": "text", "content": part.get("text")}


def _answers(messages: Json) -> Iterator[CallAnswered]:
    for message in _messages(messages):
        yield from message.answers()
