"""Vercel AI SDK: spans `ai.*` of its own form, and the conventions with the SDK's context beside them.

A run is `ai.generateText` or `ai.streamText`, each of its model calls `.doGenerate` or `.doStream` below it, each
tool call `ai.toolCall` (below the run, in some versions below the model call). The run repeats the last calls as its
own response; they are not read there, else a repeated call would count twice.
"""

from collections.abc import Iterator, Mapping

from toolgauge.model.json import Value
from toolgauge.model.observations import AgentRun, CallExecuted, ConversationSeen, MessageSeen, ModelCall, Observation
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import values
from toolgauge.recognize.conventions import content, tools
from toolgauge.recognize.conventions.reader import ConventionsReader
from toolgauge.recognize.vercel import messages

_SCOPE = "gen_ai"
_OPERATION = "ai.operationId"
# Older versions tell the operation here, with the function's id behind it: `ai.toolCall assistant`.
_NAME_AND_FUNCTION = "operation.name"
_FUNCTION = "ai.telemetry.functionId"
_CONTEXT = "ai.settings.context."
_METADATA = "ai.telemetry.metadata."
_TOOL_NAME = "ai.toolCall.name"
_TOOL_ID = "ai.toolCall.id"
_PROMPT = "ai.prompt"
_PROMPT_MESSAGES = "ai.prompt.messages"
_PROMPT_TOOLS = "ai.prompt.tools"
_TEXTS = ("ai.response.text", "ai.result.text")
_CALLS = ("ai.response.toolCalls", "ai.result.toolCalls")
_ARGUMENTS = ("ai.toolCall.args", "ai.toolCall.input")
_RESULTS = ("ai.toolCall.result", "ai.toolCall.output")

_TOOL_CALL = "ai.toolCall"
_RUNS = ("ai.generateText", "ai.streamText")
_MODEL_CALLS = (".doGenerate", ".doStream")
# Applications choose the key; these are the names that tracing services ask them for.
_CONVERSATION_KEYS = tuple(
    key
    for word in ("conversation", "session", "thread", "chat")
    for key in (word + "Id", word + "_id", word + ".id", word + "ID")
)


class Vercel:
    """Reads spans of the AI SDK."""

    name = "vercel"
    rank = 83
    marks = ("ai.",)
    scopes: tuple[str, ...] = ()
    grounds = Grounds(keys=(_OPERATION, _TOOL_NAME), scopes=(_SCOPE,))

    def __init__(self) -> None:
        self._conventions = ConventionsReader()

    def claims(self, record: Record) -> bool:
        """Claim spans with an operation of the SDK, and those of any form with its context."""
        if isinstance(record, LogRecord):
            return False
        attributes = record.attributes
        if _OPERATION in attributes or _TOOL_NAME in attributes:
            return True
        # Looking through all keys is dear; only spans in the conventions' form need it, and these have one scope.
        return record.scope.name == _SCOPE and any(key.startswith((_CONTEXT, _METADATA)) for key in attributes)

    def read(self, record: Record) -> Iterator[Observation]:
        """Read one span."""
        if isinstance(record, Span):
            yield from _conversation(record.attributes)
            yield from self._read_span(record)

    def attribute(self, record: Record, key: str) -> Value:
        """Look up an attribute, also among what the application gave to the SDK."""
        attributes = record.attributes
        return next((attributes[at] for at in (key, _METADATA + key, _CONTEXT + key) if at in attributes), None)

    def _read_span(self, span: Span) -> Iterator[Observation]:
        operation = _operation(span)
        if operation == _TOOL_CALL:
            yield from _executed(span)
        elif operation in _RUNS:
            yield AgentRun(agent=values.as_str(span.attributes.get(_FUNCTION)))
            yield from messages.prompt(span.attributes.get(_PROMPT))
            yield from _written_text(span.attributes)
        elif operation.startswith("ai.") and operation.endswith(_MODEL_CALLS):
            yield from self._model_call(span.attributes)
        elif not operation.startswith("ai."):
            yield from self._conventions.read_span(span)

    def _model_call(self, attributes: Mapping[str, Value]) -> Iterator[Observation]:
        agent = values.as_str(attributes.get(_FUNCTION))
        yield ModelCall(agent=agent)
        yield from self._conventions.offered(attributes.get(_PROMPT_TOOLS))
        yield from messages.received(attributes.get(_PROMPT_MESSAGES))
        yield from messages.requested(_first(attributes, _CALLS), agent)
        yield from _written_text(attributes)


def _operation(span: Span) -> str:
    attributes = span.attributes
    told = values.as_str(attributes.get(_OPERATION)) or values.as_str(attributes.get(_NAME_AND_FUNCTION)) or span.name
    return told.partition(" ")[0]


def _conversation(attributes: Mapping[str, Value]) -> Iterator[ConversationSeen]:
    yield from content.conversation(attributes)
    for prefix in (_CONTEXT, _METADATA):
        for key in _CONVERSATION_KEYS:
            found = values.identifier(attributes.get(prefix + key))
            if found is not None:
                yield ConversationSeen(conversation_id=found, rank=2)
                return


def _executed(span: Span) -> Iterator[CallExecuted]:
    attributes = span.attributes
    name = values.as_str(attributes.get(_TOOL_NAME))
    if name is not None:
        yield CallExecuted(
            name=name,
            call_id=values.identifier(attributes.get(_TOOL_ID)),
            arguments=values.arguments(_first(attributes, _ARGUMENTS)),
            result=values.result(_first(attributes, _RESULTS)),
            error=tools.call_error(span),
            agent=values.as_str(attributes.get(_FUNCTION)),
        )


def _written_text(attributes: Mapping[str, Value]) -> Iterator[MessageSeen]:
    text = values.as_str(_first(attributes, _TEXTS))
    if text is not None:
        yield MessageSeen(role="assistant", text=text)


def _first(attributes: Mapping[str, Value], keys: tuple[str, ...]) -> Value:
    return next((attributes[key] for key in keys if key in attributes), None)
