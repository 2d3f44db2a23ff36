"""Reads MLflow: spans of `mlflow.trace` and of its autologging, as they leave through its OTLP export.

Arrives: a span with `mlflow.spanType`. Leaves: observations. Every value is JSON, a text with its quotes; the tool's name
is the span's. Asked to, MLflow writes the GenAI conventions instead; what its integrations know stands beside them.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from toolgauge.model.content import Recorded
from toolgauge.model.json import JsonObject, Value
from toolgauge.model.observations import (
    AgentRun,
    CallError,
    CallExecuted,
    ConversationSeen,
    MessageSeen,
    ModelCall,
    Observation,
    ToolsOffered,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import provider_messages, values
from toolgauge.recognize.conventions.names import EXECUTE, OPERATION, RESULT
from toolgauge.recognize.conventions.reader import ConventionsReader
from toolgauge.recognize.conventions.tools import executed
from toolgauge.recognize.langchain import messages, runs
from toolgauge.recognize.langchain.answers import OTHER_ERROR, is_control_flow, node_answers, tool_answer
from toolgauge.recognize.langchain.invalid_tool import as_requested
from toolgauge.recognize.messages import DefinitionReader
from toolgauge.recognize.mlflow.chunks import completed
from toolgauge.recognize.mlflow.tools import INPUTS, OUTPUTS, Call, decoded, llamaindex_step, read_call, text

TYPE = "mlflow.spanType"
TOOLS = "mlflow.chat.tools"
METADATA = "metadata"
SESSIONS = ("session.id", "mlflow.trace.session")
# Haystack's components are typed as tools when nothing better fits.
COMPONENT = "haystack.component.name"

_SCOPE = "mlflow."
_METADATA_SESSIONS = ("session_id", "conversation_id", "thread_id")
_CHAIN = "CHAIN"
_MODELS = ("CHAT_MODEL", "LLM")


class MLflow:
    """The attributes that MLflow writes on its spans."""

    name = "mlflow"
    rank = 30
    marks = ("mlflow.span",)
    scopes = (_SCOPE,)
    grounds = Grounds(keys=(TYPE,), scopes=(_SCOPE,))

    def __init__(self) -> None:
        self._definitions = DefinitionReader()
        self._conventions = ConventionsReader()

    def claims(self, record: Record) -> bool:
        """Claim spans that say what type of span they are, and MLflow's own that follow the conventions."""
        if isinstance(record, LogRecord):
            return False
        return TYPE in record.attributes or (record.scope.name.startswith(_SCOPE) and OPERATION in record.attributes)

    def read(self, record: Record) -> Iterator[Observation]:
        """Yield what the span says."""
        if isinstance(record, LogRecord):
            return
        metadata = _object(record.attributes.get(METADATA))
        yield from _conversation(record, metadata)
        kind = text(record.attributes.get(TYPE))
        if kind is None:
            yield from self._converted(record, metadata)
        elif kind == "TOOL":
            if COMPONENT not in record.attributes:
                yield as_requested(_tool(record, read_call(record), metadata))
        elif kind in _MODELS:
            yield from self._model(record, metadata)
        else:
            yield from _enclosing(record, metadata, labelled=kind == "AGENT")

    def attribute(self, record: Record, key: str) -> Value:
        """Look up an attribute without the quotes of its JSON, else a member of the metadata."""
        value = record.attributes.get(key)
        if value is None:
            return _object(record.attributes.get(METADATA)).get(key)
        return text(value) or value

    def _converted(self, span: Span, metadata: JsonObject) -> Iterator[Observation]:
        operation = span.attributes.get(OPERATION)
        if operation == EXECUTE:
            call = executed(span, EXECUTE, None)
            if call is not None:
                yield _completed(call, span, metadata)
        elif operation == _CHAIN:
            yield from _enclosing(span, metadata, labelled=False)
        else:
            yield from self._conventions.read_span(span)

    def _model(self, span: Span, metadata: JsonObject) -> Iterator[Observation]:
        agent = runs.agent_name(metadata)
        yield ModelCall(agent=agent)
        given = decoded(span.attributes.get(INPUTS))
        offered = self._definitions.read(span.attributes.get(TOOLS))
        if not offered:
            offered = self._definitions.read(values.as_object(given).get("tools"))
        if offered:
            yield ToolsOffered(tools=offered)
        yield from messages.received(provider_messages.given(given))
        written = provider_messages.written(decoded(span.attributes.get(OUTPUTS)))
        yield from messages.written(completed(span, written), agent)


def _object(value: Value) -> JsonObject:
    read = values.content(value)
    return values.as_object(read.value) if isinstance(read, Recorded) else {}


def _conversation(span: Span, metadata: JsonObject) -> Iterator[ConversationSeen]:
    for key in SESSIONS:
        if session := text(span.attributes.get(key)):
            yield ConversationSeen(conversation_id=session, rank=1)
            return
    for key in _METADATA_SESSIONS:
        if session := values.as_str(metadata.get(key)):
            yield ConversationSeen(conversation_id=session, rank=2)
            return


def _tool(span: Span, call: Call, metadata: JsonObject) -> CallExecuted:
    return CallExecuted(
        name=call.name,
        call_id=call.call_id or call.answer.call_id,
        arguments=call.arguments,
        result=call.answer.result,
        error=_error(span) or call.answer.error,
        agent=runs.agent_name(metadata),
    )


def _completed(call: CallExecuted, span: Span, metadata: JsonObject) -> CallExecuted:
    answer = tool_answer(span.attributes.get(RESULT))
    return replace(
        call,
        call_id=call.call_id or text(span.attributes.get("tool_call_id")) or answer.call_id,
        result=answer.result,
        error=call.error or answer.error,
        agent=call.agent or runs.agent_name(metadata),
    )


def _error(span: Span) -> CallError | None:
    if span.status != "error":
        return None
    kind, message = OTHER_ERROR, span.status_message
    for event in span.events:
        if event.name == "exception":
            kind = text(event.attributes.get("exception.type")) or kind
            message = text(event.attributes.get("exception.message")) or message
    return None if is_control_flow(kind) else CallError(kind=kind, message=message)


def _enclosing(span: Span, metadata: JsonObject, *, labelled: bool) -> Iterator[Observation]:
    step = llamaindex_step(span)
    run = _agent_run(span, metadata, labelled=labelled)
    if step is not None:
        yield _tool(span, step, metadata)
    elif run is not None:
        yield run
        yield from _question(span)
    else:
        yield from node_answers(span.attributes.get(INPUTS), span.attributes.get(OUTPUTS))


def _agent_run(span: Span, metadata: JsonObject, *, labelled: bool) -> AgentRun | None:
    if metadata:
        return runs.agent_run(span.name, metadata, labelled=labelled)
    return AgentRun(agent=span.name) if labelled else None


def _question(span: Span) -> Iterator[Observation]:
    given = decoded(span.attributes.get(INPUTS))
    if isinstance(given, str) and given:
        yield MessageSeen(role="user", text=given)
