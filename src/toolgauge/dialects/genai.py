"""The GenAI conventions, and tracers that follow them but for the form of values: OpenLIT, and OpenTelemetry's of OpenAI Agents."""

import re
from collections.abc import Iterable, Iterator
from typing import TypeVar

from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.literals import CLASS, parse_fields
from toolgauge.model.observations import AgentRun, CallError, CallExecuted, CallRequested, MessageSeen, Observation
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import conventions, langchain, values
from toolgauge.recognize.dialect import LITELLM_SCOPE, PlainDialect, is_raw
from toolgauge.recognize.messages import Message, Messages, read_messages

SDK = "telemetry.sdk.name"
AGENT_ID = "gen_ai.agent.id"
ERROR_MESSAGE = "gen_ai.framework.error.message"
WORKFLOW = "gen_ai.workflow.name"
WORKFLOW_OUTPUT = "gen_ai.workflow.output"
# Some integrations still write the names of earlier releases.
ARGUMENTS = (conventions.ARGUMENTS, "gen_ai.tool.args", "gen_ai.tool.input")
RESULTS = (conventions.RESULT, "gen_ai.tool.output")

_OPENLIT_SCOPE = "openlit"
_GRAPH_SCOPE = "openlit.instrumentation.langgraph"
_LANGCHAIN_SCOPES = ("openlit.instrumentation.langchain", _GRAPH_SCOPE)
_WORKFLOW = "invoke_workflow"
# What LangChain calls a graph that the application did not name.
_UNNAMED = ("LangGraph", "CompiledStateGraph")
_LIST = ", "
_NOTE = "Error running tool"
_RAW = "raw"
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

_Seen = TypeVar("_Seen", bound=Observation)
_HISTORY_MARKS = ("tool_call_id=", "'invalid_tool_call'")
# A user's message has none of these.
_WRITTEN = ("tool_calls", "invalid_tool_calls", "usage_metadata")


class OpenLit(PlainDialect):
    """Reads OpenLIT: the GenAI conventions, except on spans of LangGraph tools.

    Arguments are Python literals, results the Python form of LangChain's messages; ids of failed calls are LangChain's run ids.
    """

    name = "openlit"
    rank = 50
    marks = ("gen_ai.",)
    # A graph that fails leaves a span without attributes, and nobody else tells that the run has ended.
    scopes = ("openlit.instrumentation.lang",)
    grounds = Grounds(keys=(SDK,), scopes=(_OPENLIT_SCOPE,))

    def claims(self, record: Record) -> bool:
        """Claim what OpenLIT's tracers and loggers wrote about models, tools and agents."""
        if isinstance(record, LogRecord):
            return record.scope.name.startswith(_OPENLIT_SCOPE) and record.event_name == conventions.DETAILS
        if record.scope.name.startswith(_LANGCHAIN_SCOPES) and record.name.startswith(_WORKFLOW):
            return True
        return conventions.OPERATION in record.attributes and (
            record.scope.name.startswith(_OPENLIT_SCOPE) or record.attributes.get(SDK) == _OPENLIT_SCOPE
        )

    def _read_log(self, record: LogRecord) -> Iterable[Observation]:
        return _requested(self._conventions.read_log(record))

    def _read(self, span: Span) -> Iterator[Observation]:
        operation = values.as_str(span.attributes.get(conventions.OPERATION))
        if operation == conventions.EXECUTE:
            if call := _executed(span):
                yield langchain.as_requested(call)
        elif operation == _WORKFLOW or (operation is None and span.name.startswith(_WORKFLOW)):
            named = values.as_str(span.attributes.get(WORKFLOW)) or span.name.removeprefix(_WORKFLOW).strip()
            # The graph's name is the agent's where no other span names one.
            yield AgentRun(agent=None if not named or named.startswith(_UNNAMED) else named)
        elif operation == conventions.INVOKE:
            # The graph itself is the agent, not one of its nodes, whose id is its name.
            agent = span.attributes.get(conventions.AGENT)
            is_node = span.scope.name.startswith(_GRAPH_SCOPE) and agent == span.attributes.get(AGENT_ID)
            for seen in self._conventions.read_span(span):
                if not (is_node and isinstance(seen, AgentRun)):
                    yield seen
            if not is_node:
                yield from _history(span.attributes.get(WORKFLOW_OUTPUT))
        elif operation in conventions.MODEL_OPERATIONS:
            yield from _requested(self._conventions.read_span(span))
            # Where messages are not captured, the names and ids of requested calls are lists in one text.
            named, ids = span.attributes.get(conventions.TOOL_NAME), span.attributes.get(conventions.CALL_ID)
            if conventions.OUTPUT not in span.attributes and isinstance(named, str) and named:
                called = named.split(_LIST)
                found = ids.split(_LIST) if isinstance(ids, str) else []
                recorded = span.attributes.get(conventions.ARGUMENTS) if len(called) == 1 else None
                for position, name in enumerate(called):
                    yield CallRequested(
                        position=position,
                        name=name,
                        call_id=found[position] if len(found) == len(called) and found[position] else None,
                        arguments=values.arguments(recorded),
                    )
        else:
            yield from self._conventions.read_span(span)

    def history(self, span: Span) -> Iterable[CallRequested | MessageSeen]:
        """Read the calls in the history that a model was given, and the texts of the user between them."""
        return _requested(self._conventions.history(span))


def _executed(span: Span) -> CallExecuted | None:
    call = conventions.executed(span, conventions.EXECUTE, None)
    if call is None:
        return None
    attributes, error = span.attributes, call.error
    if error is not None:
        message = error.message or values.as_str(attributes.get(ERROR_MESSAGE)) or ""
        error = None if langchain.is_control_flow(error.kind) else CallError(kind=error.kind, message=message)
    given = values.first(attributes, ARGUMENTS)
    call = replace(call, arguments=values.arguments(given), error=error)
    value = values.first(attributes, RESULTS)
    if not span.scope.name.startswith(_LANGCHAIN_SCOPES):
        call = replace(call, result=values.result(value))
        if error is not None and error.message.startswith(_NOTE) and (answered := values.text_of(call.result)):
            # OpenAI's agents SDK: only the answer has the exception's text.
            return replace(call, error=CallError(kind=error.kind, message=answered))
        return call
    recorded = langchain.tool_answer(value)
    call_id = call.call_id
    # The run's id stands for the call's where no message has it: after a failure, or beside a result. Without any content the
    # result cannot tell, and the id is the call's own unless the call failed.
    if (error is not None or recorded.result != NOT_RECORDED) and call_id is not None and _UUID.fullmatch(call_id):
        call_id = None
    return replace(call, call_id=recorded.call_id or call_id, result=recorded.result, error=error or recorded.error)


def _requested(seen: Iterable[_Seen]) -> Iterator[_Seen]:
    """Yield the observations, with arguments out of `{"raw": "..."}`, in which OpenLIT puts arguments that it cannot parse."""
    for one in seen:
        given = one.arguments if isinstance(one, CallRequested) else None
        envelope = values.as_object(given.value) if isinstance(given, Recorded) else {}
        text = envelope.get(_RAW)
        if len(envelope) == 1 and isinstance(text, str) and text.lstrip().startswith("{"):
            read = values.arguments(text)
            yield replace(one, arguments=read) if isinstance(read, Unparsed) else one
        else:
            yield one


# These messages of a LangChain run, Python reprs without their class, alone show refused calls and unreadable arguments.
def _history(output: Value) -> Iterator[Observation]:
    """Read the newest turn: the turns before it are in other traces."""
    if not isinstance(output, str) or not any(mark in output for mark in _HISTORY_MARKS):
        return
    turn: list[JsonObject] = []
    for message in reversed(values.as_list(values.decoded_object(output).get("messages"))):
        fields = values.as_object(values.from_repr(message, parse_fields)) if isinstance(message, str) else {}
        if "tool_call_id" not in fields and not any(fields.get(key) for key in _WRITTEN):
            break
        turn.append(fields)
    position = 0
    for message in reversed(turn):
        if "tool_call_id" in message:
            yield from langchain.message_answers(message)
            continue
        for call in langchain.rejected(message, None, position):
            yield call
            position += 1


_OPENAI_SCOPE = "opentelemetry.instrumentation.openai_agents"
# Traceloop's tracer has the same name; it sets none of these.
_OWN = ("server.address", "gen_ai.system", "gen_ai.agent.id")
_TRACELOOP = ("traceloop.span.kind", "traceloop.workflow.name", "traceloop.entity.name")
_HANDOFF = "agent_handoff"
_FROM = "gen_ai.handoff.from_agent"
_TO = "gen_ai.handoff.to_agent"

_CALL_CLASSES = ("ResponseFunctionToolCall",)
_CALL_REPRS = tuple(f"{name}(" for name in _CALL_CLASSES)
_MESSAGE_REPRS = ("{'", '{"')


class OpenAIAgents(PlainDialect):
    """OpenAI Agents by OpenTelemetry's own instrumentation: the GenAI conventions with three peculiarities.

    Requested calls are Python reprs in texts, hand-offs are spans, and all spans but an agent's name one constant agent.
    """

    name = "openai_agents"
    rank = 59
    marks = ("gen_ai.",)
    grounds = Grounds(scopes=(_OPENAI_SCOPE,))

    def claims(self, record: Record) -> bool:
        """Claim spans of this tracer that Traceloop did not write."""
        if (
            not isinstance(record, Span)
            or record.scope.name != _OPENAI_SCOPE
            or conventions.OPERATION not in record.attributes
        ):
            return False
        attributes = record.attributes
        return any(key in attributes for key in _OWN) and not any(key in attributes for key in _TRACELOOP)

    def _read(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        operation = attributes.get(conventions.OPERATION)
        if operation == conventions.EXECUTE:
            call = conventions.executed(span, conventions.EXECUTE, None)
            if call is not None:
                yield conventions.ended_without_result(replace(call, agent=None))
        elif operation == _HANDOFF:
            # It is recorded by its target alone, from which the SDK derives the called tool's name.
            if (target := values.as_str(attributes.get(_TO))) is not None:
                name, source = conventions.handoff_name(target), values.as_str(attributes.get(_FROM))
                yield CallExecuted(name=name, error=conventions.call_error(span), agent=source)
        elif operation == conventions.INVOKE:
            yield AgentRun(agent=values.as_str(attributes.get(conventions.AGENT)))
            yield from conventions.system(attributes.get(conventions.SYSTEM))
            yield from conventions.newest_user_text(read_messages(attributes.get(conventions.INPUT), "user"))
            yield from conventions.written_text(_written(attributes.get(conventions.OUTPUT)))
        elif operation in conventions.MODEL_OPERATIONS:
            yield from conventions.system(attributes.get(conventions.SYSTEM))
            given = read_messages(attributes.get(conventions.INPUT), "user")
            written = _written(attributes.get(conventions.OUTPUT))
            yield from self._model_call(conventions.model_call(attributes), given, written)

    def _given(self, span: Span) -> Messages:
        return _written(span.attributes.get(conventions.INPUT))


def _written(value: Value) -> Messages:
    """Read a model's output, its reprs opened."""
    read = values.content(value)
    if not isinstance(read, Recorded):
        return read_messages(value, "assistant")
    messages: list[Message] = []
    for message in map(values.as_object, values.as_list(read.value)):
        parts = message.get("parts")
        opened: JsonObject = dict(message)
        if isinstance(parts, list):
            opened["parts"] = [part for recorded in parts for part in _parts(recorded)]
        messages.append(Message(opened, "assistant"))
    return messages


def _parts(part: Json) -> Iterator[Json]:
    text = values.as_object(part).get("content")
    if not isinstance(text, str) or not text.startswith((*_CALL_REPRS, *_MESSAGE_REPRS)):
        yield part
        return
    found = values.as_object(values.from_repr(text))
    if found.get(CLASS) in _CALL_CLASSES:
        yield {**found, "type": "tool_call"}
    elif "role" in found and isinstance(found.get("tool_calls"), list):
        # The message of the chat completions interface.
        if isinstance(returned := found.get("content"), str):
            yield {"type": "text", "content": returned}
        yield from ({**values.as_object(call), "type": "function"} for call in values.as_list(found["tool_calls"]))
    else:
        yield part


_KEYS = (
    *(conventions.OPERATION, conventions.MCP_METHOD, conventions.MCP_TOOL),
    *(conventions.CONVERSATION, conventions.OUTPUT),
)


class GenAI(PlainDialect):
    """Reads the OpenTelemetry GenAI and MCP conventions: current form, events, and per-message events up to 1.36.

    Asked after the vendors' dialects, which borrow their attributes; `recognize/conventions` reads them.
    """

    name = "genai"
    rank = 90
    marks = ("gen_ai.", conventions.MCP_METHOD, conventions.MCP_TOOL)
    scopes = (LITELLM_SCOPE,)
    grounds = Grounds(keys=_KEYS, scopes=(LITELLM_SCOPE,), names=(conventions.EXECUTE + " ",))

    def claims(self, record: Record) -> bool:
        """Claim spans with an operation, an MCP method or tool, or a model's output, and the conventions' log events."""
        if isinstance(record, LogRecord):
            return record.event_name in conventions.MESSAGE_EVENTS or record.event_name == conventions.DETAILS
        if not record.attributes.keys().isdisjoint(_KEYS):
            return True
        return record.name.startswith(conventions.EXECUTE + " ") or is_raw(record)

    def _read(self, span: Span) -> Iterable[Observation]:
        return self._conventions.read_span(span)

    def _read_log(self, record: LogRecord) -> Iterable[Observation]:
        return self._conventions.read_log(record)
