"""Reads MLflow: spans of `mlflow.trace` and of its autologging. Every value is JSON; the tool's name is the span's."""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import (
    OTHER_ERROR,
    AgentRun,
    CallError,
    CallExecuted,
    ModelCall,
    Observation,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import Record, Span
from toolgauge.recognize import conventions, langchain, provider_messages, values
from toolgauge.recognize.dialect import PlainDialect, conversation_of

TYPE = "mlflow.spanType"
TOOLS = "mlflow.chat.tools"
USAGE = "mlflow.chat.tokenUsage"
METADATA = "metadata"
SESSIONS = ("session.id", "mlflow.trace.session")
# Haystack's components are typed as tools when nothing better fits.
COMPONENT = "haystack.component.name"

_SCOPE = "mlflow."
_METADATA_SESSIONS = ("session_id", "conversation_id", "thread_id")
_MODELS = ("CHAT_MODEL", "LLM")

_INPUTS = "mlflow.spanInputs"
_OUTPUTS = "mlflow.spanOutputs"

_NAMES = ("tool_name", "gen_ai.tool.name")
_CALL_IDS = ("tool_call_id", "tool_id", "gen_ai.tool.call.id")
_PREFIX = "execute_tool "
# Pydantic AI's calls go through one manager, whose method names the span.
_MANAGER = "ToolManager."
# LlamaIndex's spans are named after the method, with any class of the tool.
_STEP = ".call_tool"
_METHODS = (".call", ".acall", ".__call__")

_EVENT = "mlflow.chunk.item."
_VALUE = "mlflow.chunk.value"
# Most chunks hold a word of text; only chunks with a piece of a call are worth parsing.
_HAS_CALL = '"function"'


class MLflow(PlainDialect):
    """The attributes that MLflow writes on its spans."""

    name = "mlflow"
    rank = 30
    marks = ("mlflow.span",)
    scopes = (_SCOPE,)
    grounds = Grounds(keys=(TYPE,), scopes=(_SCOPE,))
    # Its own spans are claimed where they follow the conventions.
    needs = (conventions.OPERATION,)
    conversations = None

    def _read(self, span: Span) -> Iterator[Observation]:
        metadata = values.decoded_object(span.attributes.get(METADATA))
        sessions = (_text(span.attributes.get(key)) for key in SESSIONS)
        yield from conversation_of(sessions, (metadata.get(key) for key in _METADATA_SESSIONS))
        kind = _text(span.attributes.get(TYPE))
        if kind is None:
            operation = span.attributes.get(conventions.OPERATION)
            if operation == conventions.EXECUTE:
                call = conventions.executed(span, conventions.EXECUTE, None)
                if call is not None:
                    answer = langchain.tool_answer(span.attributes.get(conventions.RESULT))
                    call_id = call.call_id or _text(span.attributes.get("tool_call_id"))
                    agent = call.agent or langchain.agent_name(metadata)
                    yield answer.of(call.name, call.arguments, call_id, call.error, agent)
            elif operation == "CHAIN":
                yield from _enclosing(span, metadata, labelled=False)
            else:
                yield from self._conventions.read_span(span)
        elif kind == "TOOL":
            if COMPONENT not in span.attributes:
                yield langchain.as_requested(_tool(span, _read_call(span), metadata))
        elif kind in _MODELS:
            sent, received = conventions.token_counts(span.attributes.get(USAGE))
            call = ModelCall(agent=langchain.agent_name(metadata), input_tokens=sent, output_tokens=received)
            inputs = values.decoded(span.attributes.get(_INPUTS))
            tools = span.attributes.get(TOOLS) or values.as_object(inputs).get("tools")
            given = langchain.messages_of(provider_messages.given(inputs), "user")
            written = _joined_chunks(span, provider_messages.written(values.decoded(span.attributes.get(_OUTPUTS))))
            yield from self._model_call(call, given, langchain.messages_of(written, "assistant"), tools)
        else:
            yield from _enclosing(span, metadata, labelled=kind == "AGENT")

    def _given(self, span: Span) -> list[langchain.ChainMessage] | None:
        given = provider_messages.given(values.decoded(span.attributes.get(_INPUTS)))
        return langchain.messages_of(given, "user") if TYPE in span.attributes else None

    def attribute(self, record: Record, key: str) -> Value:
        """Look up an attribute without the quotes of its JSON, else a member of the metadata."""
        value = record.attributes.get(key)
        if value is None:
            return values.decoded_object(record.attributes.get(METADATA)).get(key)
        return _text(value) or value


def _tool(span: Span, call: CallExecuted, metadata: JsonObject) -> CallExecuted:
    kind, message = OTHER_ERROR, span.status_message
    for event in span.events if span.status == "error" else ():
        if event.name == "exception":
            kind = _text(event.attributes.get("exception.type")) or kind
            message = _text(event.attributes.get("exception.message")) or message
    has_failed = span.status == "error" and not langchain.is_control_flow(kind)
    error = CallError(kind=kind, message=message) if has_failed else call.error
    return replace(call, error=error, agent=langchain.agent_name(metadata))


def _enclosing(span: Span, metadata: JsonObject, *, labelled: bool) -> Iterator[Observation]:
    step = _llamaindex_step(span)
    run = AgentRun(agent=span.name) if labelled else None
    if metadata:
        run = langchain.agent_run(span.name, metadata, labelled=labelled)
    if step is not None:
        yield _tool(span, step, metadata)
    elif run is not None:
        yield run
        yield from conventions.text_seen("user", values.decoded(span.attributes.get(_INPUTS)))
    else:
        yield from langchain.node_answers(span.attributes.get(_INPUTS), span.attributes.get(_OUTPUTS))


# Each integration puts the call in its own place, and is known by its other attributes: a user's own tool may have an argument `call`.
def _read_call(span: Span) -> CallExecuted:
    recorded = values.decoded_object(span.attributes.get(_INPUTS))
    validated = values.as_object(recorded.get("validated"))
    call = values.as_object(recorded.get("call")) or values.as_object(validated.get("call"))
    if span.name.startswith(_MANAGER) and call:
        named, call_id = values.as_str(call.get("tool_name")), values.as_str(call.get("tool_call_id"))
        answer = langchain.tool_answer(span.attributes.get(_OUTPUTS))
        return answer.of(named or span.name, values.arguments(call.get("args")), call_id)
    output = values.decoded_object(span.attributes.get(_OUTPUTS))
    is_output = "raw_input" in output
    if span.name.endswith(_METHODS) and (is_output or (set(recorded) == {"kwargs"} and span.status == "error")):
        # LlamaIndex's tool itself, whose output repeats name and arguments; without one only its step can name it.
        given = values.as_object(output.get("raw_input")).get("kwargs") if is_output else recorded["kwargs"]
        name = values.as_str(output.get("tool_name")) or ""
        return langchain.llamaindex_answer(output).of(name, values.part(values.as_object(given)))
    if set(recorded) == {"tool_name", "tool_args"} and recorded["tool_name"] == span.name:  # CrewAI
        return _in_result(span, wrapped=True).of(span.name, values.arguments(recorded["tool_args"]))
    named = next((found for key in _NAMES if (found := _text(span.attributes.get(key)))), None)
    call_id = next((found for key in _CALL_IDS if (found := _text(span.attributes.get(key)))), None)
    answer = _in_result(span, wrapped="tool_id" in span.attributes)
    return answer.of(named or span.name.removeprefix(_PREFIX), values.arguments(span.attributes.get(_INPUTS)), call_id)


def _text(value: Value) -> str | None:
    return values.as_str(values.unquoted(value))


def _llamaindex_step(span: Span) -> CallExecuted | None:
    """Read the step of a LlamaIndex agent that runs a tool; it alone has the call's id, and a failed call's name."""
    if not span.name.endswith(_STEP):
        return None
    event = values.as_object(values.decoded_object(span.attributes.get(_INPUTS)).get("ev"))
    name, call_id = values.as_str(event.get("tool_name")), values.as_str(event.get("tool_id"))
    if name is None or call_id is None:
        return None
    output = values.as_object(values.decoded_object(span.attributes.get(_OUTPUTS)).get("tool_output"))
    given = values.arguments(values.plain(event.get("tool_kwargs")))
    return langchain.llamaindex_answer(output).of(name, given, call_id)


def _in_result(span: Span, *, wrapped: bool) -> langchain.Answer:
    """Read the result, of two integrations from inside `{"result": ...}`."""
    value = span.attributes.get(_OUTPUTS)
    recorded = values.decoded_object(value) if wrapped else {}
    if list(recorded) != ["result"]:
        return langchain.tool_answer(value)
    return langchain.Answer(result=values.returned(recorded["result"]))


# MLflow keeps each chunk of a streamed output as an event, but leaves the calls out of the whole.
class _Streamed(Struct):
    call_id: str = ""
    name: str = ""
    arguments: list[str] = []


def _joined_chunks(span: Span, written: list[JsonObject]) -> list[JsonObject]:
    """Return the messages, with the streamed calls added where no message has calls."""
    if any(message.get("tool_calls") for message in written):
        return written
    streamed: dict[int, _Streamed] = {}
    for event in span.events:
        chunk = event.attributes.get(_VALUE) if event.name.startswith(_EVENT) else None
        if not isinstance(chunk, str) or _HAS_CALL not in chunk:
            continue
        choices = values.as_list(values.decoded_object(chunk).get("choices"))
        first = values.as_object(choices[0] if choices else None)
        # What other choices write are alternatives.
        delta = values.as_object(first.get("delta")) if first.get("index") in (None, 0) else {}
        for piece in map(values.as_object, values.as_list(delta.get("tool_calls"))):
            index = piece.get("index")
            if not isinstance(index, int):
                continue
            call = streamed.setdefault(index, _Streamed())
            function = values.as_object(piece.get("function"))
            call.call_id = call.call_id or values.as_str(piece.get("id")) or ""
            call.name = call.name or values.as_str(function.get("name")) or ""
            call.arguments.append(values.as_str(function.get("arguments")) or "")
    calls: list[Json] = [
        {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": "".join(call.arguments)}}
        for _, call in sorted(streamed.items())
    ]
    return [*written, {"role": "assistant", "tool_calls": calls}] if calls else written
