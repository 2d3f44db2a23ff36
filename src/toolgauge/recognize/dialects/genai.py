"""The OpenTelemetry GenAI and MCP conventions: current form, events, and the per-message events up to 1.36.

Attributes may hold JSON text or structured values, and content may be on the span, on a span event or only on a
log record that names the span. Content that is missing stays `NOT_RECORDED`: half of all producers send none.
"""

from collections.abc import Iterator, Mapping
from typing import Literal

from toolgauge.model.content import Recorded, Unparsed
from toolgauge.model.json import JsonObject, Value
from toolgauge.model.observations import (
    AgentRun,
    CallError,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    MessageSeen,
    ModelCall,
    Observation,
    ToolsOffered,
)
from toolgauge.model.records import LogRecord, Record, Span, SpanEvent
from toolgauge.recognize import values
from toolgauge.recognize.messages import DefinitionReader, Message, read_messages, read_text

_OPERATION = "gen_ai.operation.name"
_CONVERSATION = "gen_ai.conversation.id"
_SESSION = "session.id"
_AGENT = "gen_ai.agent.name"
_TOOL_NAME = "gen_ai.tool.name"
_CALL_ID = "gen_ai.tool.call.id"
_ARGUMENTS = "gen_ai.tool.call.arguments"
_RESULT = "gen_ai.tool.call.result"
_DEFINITIONS = "gen_ai.tool.definitions"
_SYSTEM = "gen_ai.system_instructions"
_INPUT = "gen_ai.input.messages"
_OUTPUT = "gen_ai.output.messages"
_MCP_METHOD = "mcp.method.name"
_ERROR_TYPE = "error.type"

_MODEL_OPERATIONS = frozenset(
    ("chat", "generate_content", "text_completion", "chat.completions", "completion", "responses")
)
_EXECUTE = "execute_tool"
_INVOKE = "invoke_agent"
_TOOLS_CALL = "tools/call"

_DETAILS = "gen_ai.client.inference.operation.details"
_CHOICE = "gen_ai.choice"
_TOOL_MESSAGE = "gen_ai.tool.message"
_SYSTEM_MESSAGE = "gen_ai.system.message"
_USER_MESSAGE = "gen_ai.user.message"
_CONTENT_COMPLETION = "gen_ai.content.completion"
_CONTENT_PROMPT = "gen_ai.content.prompt"
# `gen_ai.assistant.message` is history alone and `gen_ai.evaluation.result` is a score: neither is read.
_MESSAGE_EVENTS = frozenset((_CHOICE, _TOOL_MESSAGE, _SYSTEM_MESSAGE, _USER_MESSAGE))
_EVENT_BODY = "gen_ai.event.content"

# Choices beyond the first are alternatives; their calls must not take the positions of the first one's.
_POSITIONS_A_CHOICE = 1000


class GenAI:
    """Reads what follows the conventions; asked after the vendors' dialects, which borrow their attributes."""

    name = "genai"
    rank = 90
    marks = ("gen_ai.", _MCP_METHOD)
    scopes: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._definitions = DefinitionReader()

    def claims(self, record: Record) -> bool:
        """Claim spans with an operation or an MCP method, and the conventions' log events."""
        if isinstance(record, LogRecord):
            return record.event_name in _MESSAGE_EVENTS or record.event_name == _DETAILS
        attributes = record.attributes
        return (
            _OPERATION in attributes
            or _MCP_METHOD in attributes
            or _CONVERSATION in attributes
            or record.name.startswith(_EXECUTE + " ")
        )

    def read(self, record: Record) -> Iterator[Observation]:
        """Read one span or log record."""
        yield from _conversation(record.attributes)
        if isinstance(record, LogRecord):
            yield from self._read_log(record)
        else:
            yield from self._read_span(record)

    def attribute(self, record: Record, key: str) -> Value:
        """Look up an attribute; the conventions hide none."""
        return record.attributes.get(key)

    def _read_span(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        operation = values.as_str(attributes.get(_OPERATION))
        method = attributes.get(_MCP_METHOD)
        if method is not None:
            if method == _TOOLS_CALL:
                yield from _executed(span, _TOOLS_CALL, "mcp")
        elif operation == _EXECUTE or (operation is None and span.name.startswith(_EXECUTE + " ")):
            yield from _executed(span, _EXECUTE, None)
        elif operation == _INVOKE:
            yield AgentRun(agent=values.as_str(attributes.get(_AGENT)))
            yield from self._seen_by_agent(attributes)
        elif operation in _MODEL_OPERATIONS:
            yield from self._model_call(attributes)
            for event in span.events:
                yield from self._model_event(event, attributes)

    def _read_log(self, record: LogRecord) -> Iterator[Observation]:
        attributes = record.attributes
        if record.event_name != _DETAILS:
            body = record.body if record.body is not None else attributes.get(_EVENT_BODY)
            yield from _message_event(record.event_name, body, values.as_str(attributes.get(_AGENT)))
        elif attributes.get(_OPERATION) == _INVOKE:
            yield from self._seen_by_agent(attributes)
        else:
            yield from self._model_call(attributes)

    def _model_call(self, attributes: Mapping[str, Value]) -> Iterator[Observation]:
        agent = values.as_str(attributes.get(_AGENT))
        yield ModelCall(agent=agent)
        yield from self._content(attributes, agent)

    def _content(self, attributes: Mapping[str, Value], agent: str | None) -> Iterator[Observation]:
        yield from self._offered(attributes.get(_DEFINITIONS))
        yield from _system(attributes.get(_SYSTEM))
        received = attributes.get(_INPUT)
        if received is not None:
            yield from _input(read_messages(received, "user"))
        written = attributes.get(_OUTPUT)
        if written is not None:
            yield from _output(read_messages(written, "assistant"), agent)

    def _seen_by_agent(self, attributes: Mapping[str, Value]) -> Iterator[Observation]:
        """Read an agent's messages for their text: the calls among them repeat what its model calls say."""
        yield from self._offered(attributes.get(_DEFINITIONS))
        yield from _system(attributes.get(_SYSTEM))
        received = attributes.get(_INPUT)
        if received is not None:
            yield from _newest_user_text(read_messages(received, "user"))
        written = attributes.get(_OUTPUT)
        if written is not None:
            yield from _written_text(read_messages(written, "assistant"))

    def _offered(self, value: Value) -> Iterator[ToolsOffered]:
        if value is not None and (tools := self._definitions.read(value)):
            yield ToolsOffered(tools=tools)

    def _model_event(self, event: SpanEvent, attributes: Mapping[str, Value]) -> Iterator[Observation]:
        """Read an event on a model span, unless the span's own attributes have the content."""
        if _INPUT in attributes or _OUTPUT in attributes:
            return
        agent = values.as_str(attributes.get(_AGENT))
        if event.name == _DETAILS:
            yield from self._content(event.attributes, agent)
        elif event.name == _CONTENT_PROMPT:
            yield from _input(read_messages(event.attributes.get("gen_ai.prompt"), "user"))
        elif event.name == _CONTENT_COMPLETION:
            yield from _output(read_messages(event.attributes.get("gen_ai.completion"), "assistant"), agent)
        elif event.name in _MESSAGE_EVENTS:
            body = event.attributes.get(_EVENT_BODY)
            yield from _message_event(event.name, event.attributes if body is None else body, agent)


def _conversation(attributes: Mapping[str, Value]) -> Iterator[ConversationSeen]:
    conversation = _identifier(attributes.get(_CONVERSATION))
    if conversation is not None:
        yield ConversationSeen(conversation_id=conversation, rank=0)
        return
    session = _identifier(attributes.get(_SESSION))
    if session is not None:
        yield ConversationSeen(conversation_id=session, rank=1)


# -- tool spans ---------------------------------------------------------------------------------------------------


def _executed(span: Span, prefix: str, protocol: Literal["mcp"] | None) -> Iterator[CallExecuted]:
    attributes = span.attributes
    # Some MCP clients name the tool in the span name alone: `MCP send tools/call x`.
    name = values.as_str(attributes.get(_TOOL_NAME)) or span.name.partition(prefix + " ")[2].strip()
    if name:
        yield CallExecuted(
            name=name,
            call_id=_call_id(attributes),
            arguments=values.arguments(attributes.get(_ARGUMENTS)),
            result=values.result(attributes.get(_RESULT)),
            error=_error(span),
            agent=values.as_str(attributes.get(_AGENT)),
            protocol=protocol,
        )


def _call_id(attributes: Mapping[str, Value]) -> str | None:
    call_id = _identifier(attributes.get(_CALL_ID))
    # A placeholder in brackets names no call; two failed calls would be taken for one.
    if call_id is not None and call_id.startswith("<") and call_id.endswith(">"):
        return None
    return call_id


def _error(span: Span) -> CallError | None:
    error_type = _identifier(span.attributes.get(_ERROR_TYPE))
    if span.status == "ok" and error_type is None:
        # Frameworks record exceptions that they mean (a hand-off) on spans that went well.
        return None
    exception = next((event.attributes for event in span.events if event.name == "exception"), None)
    if span.status != "error" and error_type is None and exception is None:
        return None
    told: Mapping[str, Value] = exception if exception is not None else {}
    return CallError(
        kind=error_type or values.as_str(told.get("exception.type")) or "_OTHER",
        message=span.status_message or values.as_str(told.get("exception.message")) or "",
    )


# -- model calls --------------------------------------------------------------------------------------------------


def _system(value: Value) -> Iterator[MessageSeen]:
    if value is not None and (text := read_text(value)):
        yield MessageSeen(role="system", text=text)


def _input(messages: list[Message]) -> Iterator[Observation]:
    for message in messages:
        if message.role == "system" and message.text:
            yield MessageSeen(role="system", text=message.text)
        yield from message.answers()
    yield from _newest_user_text(messages)


def _newest_user_text(messages: list[Message]) -> Iterator[MessageSeen]:
    # Some producers give answers to calls the role `user`; those have no text.
    text = next((message.text for message in reversed(messages) if message.role == "user" and message.text), None)
    if text is not None:
        yield MessageSeen(role="user", text=text)


def _output(messages: list[Message], agent: str | None, first: int = 0) -> Iterator[Observation]:
    position = first
    for message in messages:
        for call in message.calls():
            yield CallRequested(
                position=position, name=call.name, call_id=call.call_id, arguments=call.arguments, agent=agent
            )
            position += 1
        # The provider ran these itself: their answers are in the same output.
        yield from message.answers()
    yield from _written_text(messages)


def _written_text(messages: list[Message]) -> Iterator[MessageSeen]:
    text = "\n".join(message.text for message in messages if message.text and message.role != "tool")
    if text:
        yield MessageSeen(role="assistant", text=text)


# -- events -------------------------------------------------------------------------------------------------------


def _message_event(name: str, body: Value, agent: str | None) -> Iterator[Observation]:
    message = _body(body)
    if name == _CHOICE:
        index = message.get("index")
        choice = index if isinstance(index, int) and 0 < index < _POSITIONS_A_CHOICE else 0
        yield from _output(read_messages(message, "assistant"), agent, choice * _POSITIONS_A_CHOICE)
    elif name == _TOOL_MESSAGE:
        for told in read_messages(message, "tool"):
            yield from told.answers()
    elif name == _SYSTEM_MESSAGE:
        yield from _system(message.get("content"))
    elif name == _USER_MESSAGE:
        yield from _newest_user_text(read_messages(message, "user"))


def _body(body: Value) -> JsonObject:
    """Open an event's body, which some producers write as JSON text or as nothing but the message's text."""
    match values.content(body):
        case Recorded(dict() as message):
            return message
        case Recorded(str() as text) | Unparsed(text, "unparsable"):
            return {"content": text}
        case _:
            return {}


def _identifier(value: Value) -> str | None:
    if isinstance(value, str):
        return value or None
    # Some producers number their conversations.
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None
