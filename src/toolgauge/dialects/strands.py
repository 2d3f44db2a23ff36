"""Strands Agents: the GenAI conventions, but content is in span events, as Bedrock's content blocks.

By default (up to 1.36) these are per-message events, with `gen_ai_latest_experimental` events
`gen_ai.client.inference.operation.details`. A tool span's first event holds the arguments, its last one the result.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED
from toolgauge.model.json import Value
from toolgauge.model.observations import (
    OTHER_ERROR,
    AgentRun,
    CallAnswered,
    CallError,
    MessageSeen,
    Observation,
    ToolDefinition,
    ToolsOffered,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import Span, SpanEvent
from toolgauge.recognize import conventions, values
from toolgauge.recognize.conventions import model_call
from toolgauge.recognize.dialect import PlainDialect, named_tools
from toolgauge.recognize.messages import AnyMessage, calls_of, read_messages
from toolgauge.recognize.provider_messages import blocks_message

_SCOPES = ("strands.", "strands-agents")
_SYSTEMS = ("gen_ai.system", "gen_ai.provider.name")
_SYSTEM = "strands-agents"
_STATUS = "gen_ai.tool.status"
_AGENT_TOOLS = "gen_ai.agent.tools"
_SCHEMA = "gen_ai.tool.json_schema"
_DESCRIPTION = "gen_ai.tool.description"
_ROLES = {conventions.SYSTEM_MESSAGE: "system", conventions.USER_MESSAGE: "user", conventions.TOOL_MESSAGE: "tool"}


class Strands(PlainDialect):
    """Reads agent, model and tool spans; the cycle spans between them repeat the same content."""

    name = "strands"
    rank = 81
    marks = ("gen_ai.",)
    grounds = Grounds(values=tuple((key, _SYSTEM) for key in _SYSTEMS), scopes=_SCOPES)

    def _read(self, span: Span) -> Iterator[Observation]:
        yield from conventions.conversation(span.attributes)
        operation = span.attributes.get(conventions.OPERATION)
        if operation == conventions.EXECUTE:
            yield from _executed(span)
        elif operation == conventions.INVOKE:
            yield AgentRun(agent=values.as_str(span.attributes.get(conventions.AGENT)))
            yield from self._offered(span.attributes)
            # Calls and answers among an agent's messages repeat those of its model calls.
            yield from (seen for seen in _messages(span, None) if isinstance(seen, MessageSeen))
        elif operation in conventions.MODEL_OPERATIONS:
            agent = values.as_str(span.attributes.get(conventions.AGENT))
            yield model_call(span.attributes, agent)
            yield from self._offered(span.attributes)
            yield from _messages(span, agent)

    def _given(self, span: Span) -> list[AnyMessage]:
        received: list[AnyMessage] = []
        for event in span.events:
            _gather(event, received, [])
        return received

    def _offered(self, attributes: Mapping[str, Value]) -> Iterable[ToolsOffered]:
        defined = attributes.get(conventions.DEFINITIONS)
        named = values.decoded(attributes.get(_AGENT_TOOLS)) if defined is None else None
        return self._conventions.offered(defined) or named_tools(named)


def _messages(span: Span, agent: str | None) -> Iterator[Observation]:
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


def _executed(span: Span) -> Iterator[Observation]:
    call = conventions.executed(span, conventions.EXECUTE, None)
    if call is None:
        return
    arguments, result = call.arguments, values.opened_blocks(call.result)
    for event in span.events:
        attributes = event.attributes
        if event.name == conventions.TOOL_MESSAGE and arguments == NOT_RECORDED:
            # The event is there where content is recorded.
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
