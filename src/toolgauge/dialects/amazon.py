"""Amazon: Strands Agents, and Bedrock AgentCore, which moves the content of spans to log records."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, Unparsed
from toolgauge.model.json import JsonObject, Value
from toolgauge.model.observations import (
    OTHER_ERROR,
    AgentRun,
    CallAnswered,
    CallError,
    CallExecuted,
    MessageSeen,
    Observation,
    ToolDefinition,
    ToolsOffered,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span, SpanEvent
from toolgauge.recognize import conventions, values
from toolgauge.recognize.dialect import PlainDialect, named_tools
from toolgauge.recognize.langchain import tool_answer
from toolgauge.recognize.messages import AnyMessage, Message, calls_of, read_messages
from toolgauge.recognize.provider_messages import blocks_message

_STRANDS = "strands"
# The frameworks whose content is moved; `event.name` holds the name of the span's scope.
_MOVED = (_STRANDS, "opentelemetry.instrumentation.", "openinference.instrumentation.", "openlit.", "gcp.vertex.agent")
_SIDES = ("input", "output")
_TOOL_RESULT = "tool.result"


class AgentCore(PlainDialect):
    """Reads Bedrock AgentCore: log records that hold the content of spans, moved there by AWS's distribution of OpenTelemetry.

    A record names its span, which another dialect reads, and is named after the span's scope; its body is `{input: {messages},
    output: {messages}}`. A tool's record is recognized by the role of its input, and does not name the tool.
    """

    name = "agentcore"
    rank = 79
    marks = _MOVED
    grounds = Grounds()

    def claims(self, record: Record) -> bool:
        """Claim log records that are named after their scope and have messages on at least one side."""
        if not isinstance(record, LogRecord) or not record.event_name.startswith(_MOVED):
            return False
        body = record.body
        if record.event_name != record.scope.name or not isinstance(body, Mapping):
            return False
        return any(isinstance(body.get(side), Mapping) for side in _SIDES)

    def _read_log(self, record: LogRecord) -> Iterator[Observation]:
        recorded = values.decoded_object(record.body)
        sides = (values.as_list(values.as_object(recorded.get(side)).get("messages")) for side in _SIDES)
        given, written = ([values.as_object(one) for one in messages] for messages in sides)
        if not record.event_name.startswith(_STRANDS):
            # Answers and texts; the spans still name the called tools.
            for message in written:
                answer = tool_answer(message.get("content"))
                if answer.call_id is not None:
                    yield CallAnswered(call_id=answer.call_id, result=answer.result, error=answer.error)
            # Whole states of graphs are written as a user's message, too, but as JSON.
            texts = [(one, one.get("content")) for one in given]
            spoken = [one for one, text in texts if isinstance(text, str) and text.lstrip()[:1] not in ("{", "[")]
            yield from conventions.newest_user_text([Message(one, "user") for one in spoken])
        elif (execution := _agentcore_executed(given, written)) is not None:
            yield execution
        else:
            yield from conventions.received([_blocks(message, "user") for message in given])
            # A tool's result is a message of its own, of text, beside the model's messages.
            outputs = [_blocks(message, "assistant") for message in written if isinstance(message.get("content"), dict)]
            yield from conventions.written(outputs, None)
            for message in written:
                result = values.as_object(message.get("content")).get(_TOOL_RESULT)
                yield from blocks_message("tool", result).answers()


def _agentcore_executed(given: list[JsonObject], written: list[JsonObject]) -> CallExecuted | None:
    """Read a tool's record: arguments in a message of role `tool`, which on a model's record holds result blocks."""
    if len(given) != 1 or given[0].get("role") != "tool":
        return None
    recorded = values.as_object(given[0].get("content"))
    arguments = values.arguments(recorded.get("content"))
    is_answer = isinstance(arguments, Unparsed) and arguments.text.lstrip().startswith("[")
    if arguments == NOT_RECORDED or is_answer:
        return None
    answered = values.as_object(written[0].get("content")) if written else {}
    call_id = values.identifier(recorded.get("id")) or values.identifier(answered.get("id"))
    result = values.opened_blocks(values.content(answered.get("message")))
    return CallExecuted(name="", call_id=call_id, arguments=arguments, result=result)


def _blocks(message: JsonObject, default_role: str) -> Message:
    recorded = message.get("content")
    if isinstance(recorded, dict):
        recorded = recorded.get("content", recorded.get("message"))
    return blocks_message(values.as_str(message.get("role")) or default_role, recorded)


_STRANDS_SCOPES = ("strands.", "strands-agents")
_SYSTEMS = ("gen_ai.system", "gen_ai.provider.name")
_SYSTEM = "strands-agents"
_STATUS = "gen_ai.tool.status"
_AGENT_TOOLS = "gen_ai.agent.tools"
_SCHEMA = "gen_ai.tool.json_schema"
_DESCRIPTION = "gen_ai.tool.description"
_ROLES = {conventions.SYSTEM_MESSAGE: "system", conventions.USER_MESSAGE: "user", conventions.TOOL_MESSAGE: "tool"}


class Strands(PlainDialect):
    """Strands Agents: the GenAI conventions, but content is in span events, as Bedrock's content blocks.

    By default (up to 1.36) these are per-message events, with `gen_ai_latest_experimental` events
    `gen_ai.client.inference.operation.details`. A tool span's first event holds the arguments, its last one the result.
    """

    name = "strands"
    rank = 81
    marks = ("gen_ai.",)
    grounds = Grounds(values=tuple((key, _SYSTEM) for key in _SYSTEMS), scopes=_STRANDS_SCOPES)

    def _read(self, span: Span) -> Iterator[Observation]:
        operation = span.attributes.get(conventions.OPERATION)
        if operation == conventions.EXECUTE:
            yield from _strands_executed(span)
        elif operation == conventions.INVOKE:
            yield AgentRun(agent=values.as_str(span.attributes.get(conventions.AGENT)))
            yield from self._offered(span.attributes)
            # Calls and answers among an agent's messages repeat its models'.
            yield from (seen for seen in _strands_messages(span, None) if isinstance(seen, MessageSeen))
        elif operation in conventions.MODEL_OPERATIONS:
            agent = values.as_str(span.attributes.get(conventions.AGENT))
            yield conventions.model_call(span.attributes, agent)
            yield from self._offered(span.attributes)
            yield from _strands_messages(span, agent)

    def _given(self, span: Span) -> list[AnyMessage]:
        received: list[AnyMessage] = []
        for event in span.events:
            _gather(event, received, [])
        return received

    def _offered(self, attributes: Mapping[str, Value]) -> Iterable[ToolsOffered]:
        defined = attributes.get(conventions.DEFINITIONS)
        named = values.decoded(attributes.get(_AGENT_TOOLS)) if defined is None else None
        return self._conventions.offered(defined) or named_tools(named)


def _strands_messages(span: Span, agent: str | None) -> Iterator[Observation]:
    yield from conventions.system(span.attributes.get(conventions.SYSTEM))
    received: list[AnyMessage] = []
    written: list[AnyMessage] = []
    for event in span.events:
        _gather(event, received, written)
        if event.name == conventions.DETAILS:
            yield from conventions.system(event.attributes.get(conventions.SYSTEM))
    for returned in conventions.received(received):
        yield (
            replace(returned, result=values.opened_blocks(returned.result))
            if isinstance(returned, CallAnswered)
            else returned
        )
    yield from conventions.written(written, agent)


def _gather(event: SpanEvent, received: list[AnyMessage], written: list[AnyMessage]) -> None:
    attributes = event.attributes
    if event.name == conventions.DETAILS:
        received.extend(read_messages(attributes.get(conventions.INPUT), "user"))
        written.extend(read_messages(attributes.get(conventions.OUTPUT), "assistant"))
    elif event.name == conventions.CHOICE:
        written.append(blocks_message("assistant", attributes.get("message")))
    elif event.name in _ROLES:
        received.append(blocks_message(_ROLES[event.name], attributes.get("content")))


def _strands_executed(span: Span) -> Iterator[Observation]:
    call = conventions.executed(span, conventions.EXECUTE, None)
    if call is None:
        return
    arguments, result = call.arguments, values.opened_blocks(call.result)
    for event in span.events:
        attributes = event.attributes
        if event.name == conventions.TOOL_MESSAGE and arguments == NOT_RECORDED:
            # The event occurs only where content is recorded.
            arguments = values.arguments_beside(attributes.get("content"), event.name)
        elif event.name == conventions.CHOICE and result == NOT_RECORDED:
            result = values.opened_blocks(values.content(attributes.get("message")))
        elif event.name == conventions.DETAILS:
            if arguments == NOT_RECORDED:
                asked = read_messages(attributes.get(conventions.INPUT), "tool")
                arguments = next((one.arguments for message in asked for one in calls_of(message)), NOT_RECORDED)
            if result == NOT_RECORDED:
                given = read_messages(attributes.get(conventions.OUTPUT), "tool")
                answered = (one.result for message in given for one in message.answers())
                result = values.opened_blocks(next(answered, NOT_RECORDED))
    error = call.error
    if error is None and span.attributes.get(_STATUS) == "error":
        # The tool returned its failure as its result; the span itself has no error then.
        error = CallError(kind=OTHER_ERROR, message=values.text_of(result))
    call = replace(call, arguments=arguments, result=result, error=error)
    # The status is missing where the tool was interrupted for a person.
    yield call if _STATUS in span.attributes else conventions.ended_without_result(call)
    schema = values.decoded(span.attributes.get(_SCHEMA))
    if isinstance(schema, dict):
        description = values.as_str(span.attributes.get(_DESCRIPTION))
        tool = ToolDefinition(name=call.name, description=description, parameters=schema)
        yield ToolsOffered(tools=(tool,))
