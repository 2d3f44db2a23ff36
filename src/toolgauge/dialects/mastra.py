"""Reads Mastra: the conventions, and beside them `mastra.*` attributes with what the conventions' lack.

Arrives: a span with `mastra.span.type`. Leaves: observations. What a model asked for is on the step around its span
(`model_step`); `model_generation` and chunks repeat it and are not read. Arguments that break a tool's schema come back as
a result of a span that went well, though the tool never ran.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, Content, NotRecorded, Recorded
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import (
    INVALID_ARGUMENTS,
    AgentRun,
    CallError,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    MessageSeen,
    Observation,
    ToolDefinition,
    ToolsOffered,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import conventions, values
from toolgauge.recognize.conventions_reader import ConventionsReader
from toolgauge.recognize.messages import read_messages

_KIND = "mastra.span.type"
_METADATA = "mastra.metadata."
_RUN_INPUT = "mastra.agent_run.input"
_STEP_INPUT = "mastra.model_step.input"
_STEP_OUTPUT = "mastra.model_step.output"
# What the provider answered, to the letter.
_BODY = _METADATA + "body"
_CONVERSATIONS = tuple(
    _METADATA + key for key in ("threadId", "sessionId", "conversationId", "thread_id", "session_id")
)

_RUN, _STEP, _TOOL = "agent_run", "model_step", "tool_call"
_TOOLS = (_TOOL, "mcp_tool_call")
_INFERENCE = "model_inference"
# These repeat what their steps have.
_REPEATING = ("model_generation", "model_chunk")
_MAX_CALLS = 1_000
_MAX_TOOLS = 1_000


class Mastra:
    """Reads spans of Mastra's OpenTelemetry exporter and bridge."""

    name = "mastra"
    rank = 85
    marks = ("mastra.",)
    scopes: tuple[str, ...] = ()
    grounds = Grounds(keys=(_KIND,))

    def __init__(self) -> None:
        self._conventions = ConventionsReader()

    def claims(self, record: Record) -> bool:
        """Claim spans with Mastra's type."""
        return not isinstance(record, LogRecord) and _KIND in record.attributes

    def read(self, record: Record) -> Iterator[Observation]:
        """Read one span."""
        if isinstance(record, LogRecord):
            return
        attributes = record.attributes
        yield from _conversation(attributes)
        kind = attributes.get(_KIND)
        if kind == _RUN:
            yield AgentRun(agent=values.as_str(attributes.get(conventions.AGENT)))
            yield from self._offered(attributes.get(conventions.DEFINITIONS))
            yield from conventions.system(attributes.get(conventions.SYSTEM))
            yield from _asked(attributes.get(_RUN_INPUT))
        elif kind in _TOOLS:
            yield from _executed(record)
        elif kind == _STEP:
            yield from _step(attributes)
        elif kind not in _REPEATING or attributes.get(conventions.OPERATION) in conventions.MODEL_OPERATIONS:
            yield from self._conventions.read_span(record)

    def history(self, span: Span) -> Iterable[CallRequested | MessageSeen]:
        """Read the calls in the history that a model was given, and the texts of the user between them."""
        return self._conventions.history(span)

    def attribute(self, record: Record, key: str) -> Value:
        """Look up an attribute, also among the metadata of a run."""
        value = record.attributes.get(key)
        return record.attributes.get(_METADATA + key) if value is None else value

    def _offered(self, value: Value) -> Iterator[Observation]:
        items = values.as_list(values.decoded(value))
        names = [item for item in items[:_MAX_TOOLS] if isinstance(item, str) and item]
        if names:
            yield ToolsOffered(tools=tuple(ToolDefinition(name=name) for name in names))
        else:
            yield from self._conventions.offered(value)


def _conversation(attributes: Mapping[str, Value]) -> Iterator[ConversationSeen]:
    if seen := conventions.conversation(attributes):
        yield from seen
        return
    for key in _CONVERSATIONS:
        if found := values.identifier(attributes.get(key)):
            yield ConversationSeen(conversation_id=found, rank=2)
            return


def _asked(value: Value) -> Iterator[MessageSeen]:
    messages = read_messages(value, "user") if value is not None else []
    if messages:
        yield from conventions.newest_user_text(messages)


def _opened(value: Value) -> JsonObject:
    return values.as_object(values.opened(value))


# --- what the model asked for


def _step(attributes: Mapping[str, Value]) -> Iterator[Observation]:
    yield from _asked(attributes.get(_STEP_INPUT))
    output = _opened(attributes.get(_STEP_OUTPUT))
    calls = values.as_list(output.get("toolCalls"))[:_MAX_CALLS]
    for position, item in enumerate(calls):
        call = values.as_object(item)
        name = values.as_str(call.get("toolName"))
        if name is not None:
            call_id = values.identifier(call.get("toolCallId"))
            yield CallRequested(
                position=position,
                name=name,
                call_id=call_id,
                arguments=_arguments(call["args"] if "args" in call else call.get("input"), call_id, attributes),
            )
    if text := values.as_str(output.get("text")):
        yield MessageSeen(role="assistant", text=text)


def _arguments(value: Json, call_id: str | None, attributes: Mapping[str, Value]) -> Content:
    """Read the arguments; an empty object stands for text that Mastra could not parse, too."""
    if value == {} and call_id is not None:
        return _as_answered(call_id, attributes) or Recorded({})
    return values.arguments_inside(value)


def _as_answered(call_id: str, attributes: Mapping[str, Value]) -> Content | None:
    """Look up the arguments of a call in the provider's own answer."""
    body = _opened(attributes.get(_BODY))
    for choice in values.as_list(body.get("choices"))[:1]:
        message = values.as_object(values.as_object(choice).get("message"))
        for item in values.as_list(message.get("tool_calls"))[:_MAX_CALLS]:
            call = values.as_object(item)
            if call.get("id") == call_id:
                found = values.arguments(values.as_object(call.get("function")).get("arguments"))
                return None if isinstance(found, NotRecorded) else found
    return None


# --- executions


def _executed(span: Span) -> Iterator[CallExecuted]:
    call = conventions.executed(span, conventions.EXECUTE, None)
    if call is None:
        return
    refused = _refused(call.result)
    if refused is not None and call.error is None:
        # The tool never ran, and arguments that could not be parsed stand here as none at all.
        given = NOT_RECORDED if call.arguments == Recorded({}) else call.arguments
        call = replace(call, arguments=given, error=refused)
    # A tool that suspends its run ends like one that worked, without a result.
    yield conventions.ended_without_result(call)


def _refused(result: Content) -> CallError | None:
    """Read the result that stands for arguments which the tool's schema does not allow."""
    answer = values.as_object(result.value) if isinstance(result, Recorded) else {}
    if answer.get("error") is not True or "validationErrors" not in answer:
        return None
    return CallError(kind=INVALID_ARGUMENTS, message=values.as_str(answer.get("message")) or "")
