"""SDKs of tracing services: Langfuse, LangSmith, Laminar and MLflow."""

import re
from collections.abc import Iterator

from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import OTHER_ERROR, PAUSED, AgentRun, CallError, CallExecuted, ModelCall, Observation
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import conventions, langchain, provider_messages, values
from toolgauge.recognize.dialect import PlainDialect, ToolFields, conversation_of

# What LangChain records about a run.
_RUN_METADATA = ("lc_agent_name", "langgraph_node", "checkpoint_ns", "ls_integration")

TYPE = "langfuse.observation.type"
INPUT = "langfuse.observation.input"
OUTPUT = "langfuse.observation.output"
USAGE = "langfuse.observation.usage_details"
LEVEL = "langfuse.observation.level"
STATUS_MESSAGE = "langfuse.observation.status_message"
# The server takes all of these; the first is what the SDKs write.
SESSIONS = ("session.id", "langfuse.session.id", "langfuse.sessionId")
_LANGFUSE_METADATA = "langfuse.observation.metadata."
TRACE_METADATA = "langfuse.trace.metadata."

_METADATA_SESSIONS = ("langfuse_session_id", "session_id", "conversation_id", "thread_id")
# How LangGraph's interrupt is written, which leaves the level at DEFAULT.
_INTERRUPT = ("(Interrupt(", "GraphInterrupt(")
_INVALID = '"invalid_tool_call"'
# Parts of LangChain's chains, labelled as agents because of where in LangChain they are defined.
_PART = re.compile(r"Runnable[A-Z]|\w{0,64}OutputParser$")
_FUNCTION_ENVELOPE = {"args", "kwargs"}


class Langfuse(PlainDialect):
    """Reads Langfuse: the spans of its SDKs, written by hand, by `@observe`, or by its LangChain and OpenAI integrations.

    A tool's name is its span's. Offered tools are input messages with role `tool`, where they could be taken for results.
    """

    name = "langfuse"
    rank = 20
    marks = ("langfuse.observation.",)
    grounds = Grounds(keys=(TYPE,))
    conversations = None

    def _read(self, span: Span) -> Iterator[Observation]:
        kind = span.attributes.get(TYPE)
        keys = (prefix + key for key in _METADATA_SESSIONS for prefix in (_LANGFUSE_METADATA, TRACE_METADATA))
        others = map(values.unquoted, map(span.attributes.get, keys))
        yield from conversation_of(map(span.attributes.get, SESSIONS), others)
        if kind == "tool":
            call_id = _metadata(span, "tool_call_id")
            answer = langchain.tool_answer(span.attributes.get(OUTPUT))
            given = _langfuse_arguments(span.attributes.get(INPUT), is_function=call_id is None)
            agent = _metadata(span, "lc_agent_name")
            yield langchain.as_requested(answer.of(span.name, given, call_id, _langfuse_error(span), agent))
        elif kind == "generation":
            agent = _metadata(span, "lc_agent_name")
            sent, received = conventions.token_counts(span.attributes.get(USAGE))
            call = ModelCall(agent=agent, input_tokens=sent, output_tokens=received)
            given, tools = _given(values.decoded_or_text(span.attributes.get(INPUT)))
            written = provider_messages.written(values.decoded_or_text(span.attributes.get(OUTPUT)))
            yield from self._model_call(
                call, langchain.messages_of(given, "user"), langchain.messages_of(written, "assistant"), tools
            )
        elif kind in ("agent", "chain", "span"):
            labelled = kind == "agent" and not _PART.match(span.name)
            metadata: JsonObject = {key: value for key in _RUN_METADATA if (value := _metadata(span, key)) is not None}
            run = AgentRun(agent=span.name) if labelled else None
            if metadata:
                run = langchain.agent_run(span.name, metadata, labelled=labelled)
            if run is not None:
                yield run
                yield from conventions.text_seen("user", values.decoded_or_text(span.attributes.get(INPUT)))
            elif not labelled:
                yield from langchain.node_answers(span.attributes.get(INPUT), span.attributes.get(OUTPUT))
                # A generation's output leaves out the calls that LangChain could not parse; its node's has them.
                output = span.attributes.get(OUTPUT)
                if isinstance(output, str) and _INVALID in output:
                    added = values.decoded_or_text(output)
                    for command in added if isinstance(added, list) else [added]:
                        opened = values.as_object(command)
                        update = values.as_object(opened.get("update")) or opened
                        # Earlier messages may be the history of other turns.
                        for message in map(values.as_object, values.as_list(update.get("messages"))[-1:]):
                            yield from langchain.rejected(message, None, len(values.as_list(message.get("tool_calls"))))
                yield from langchain.waiting_calls(span, values.as_str(span.attributes.get(STATUS_MESSAGE)) or "")

    def _given(self, span: Span) -> list[langchain.ChainMessage]:
        given, _ = _given(values.decoded_or_text(span.attributes.get(INPUT)))
        return langchain.messages_of(given, "user")

    def attribute(self, record: Record, key: str) -> Value:
        """Look up an attribute, else a key of the observation's or the trace's metadata."""
        value = record.attributes.get(key)
        for prefix in (_LANGFUSE_METADATA, TRACE_METADATA):
            if value is None:
                value = values.unquoted(record.attributes.get(prefix + key))
        return value


def _metadata(span: Span, key: str) -> str | None:
    return values.as_str(values.unquoted(span.attributes.get(_LANGFUSE_METADATA + key)))


def _langfuse_arguments(value: Value, *, is_function: bool) -> Content:
    """Read the input; `@observe` wraps a function's in `{"args": [...], "kwargs": {...}}`."""
    read = values.arguments(value)
    envelope = values.as_object(read.value) if is_function and isinstance(read, Recorded) else {}
    if envelope.keys() != _FUNCTION_ENVELOPE or not isinstance(envelope["args"], list):
        return read
    # Nobody tells the names of positional arguments.
    return Unparsed(values.dump(envelope)) if envelope["args"] else Recorded(values.as_object(envelope["kwargs"]))


def _langfuse_error(span: Span) -> CallError | None:
    # The level says whether it is a failure: a hand-off's exception leaves a message with level DEFAULT.
    level = span.attributes.get(LEVEL)
    message = values.as_str(span.attributes.get(STATUS_MESSAGE)) or span.status_message
    if message.startswith(_INTERRUPT):
        return CallError(kind=PAUSED, message=message)
    if level != "ERROR" and (span.status != "error" or level == "DEFAULT"):
        return None
    kind = OTHER_ERROR
    for event in span.events:
        if event.name == "exception":
            kind = values.as_str(event.attributes.get("exception.type")) or kind
            message = message or values.as_str(event.attributes.get("exception.message")) or ""
    return None if langchain.is_control_flow(kind) else CallError(kind=kind, message=message)


def _given(value: Json) -> tuple[list[Json], list[Json]]:
    """Take a generation's input apart: messages, and tools on offer."""
    recorded = values.as_object(value)
    tools = [*values.as_list(recorded.get("tools")), *values.as_list(recorded.get("functions"))]
    given: list[Json] = []
    asked: list[Json] = [{"role": "user", "content": value}] if isinstance(value, str) else []
    for item in langchain.batch(recorded.get("messages", recorded.get("input", value))) or asked:
        message = values.as_object(item)
        content = values.as_object(message.get("content"))
        # A definition is written like a tool's answer; an answer names its call and is text.
        is_definition = message.get("role") == "tool" and "tool_call_id" not in message
        if is_definition and (content.get("type") == "function" or "name" in content):
            tools.append(content)
        else:
            given.append(item)
    return given, tools


KIND = "langsmith.span.kind"
NAME = "langsmith.trace.name"
_LANGSMITH_METADATA = "langsmith.metadata."
PROMPT = "gen_ai.prompt"
COMPLETION = "gen_ai.completion"

# `langsmith.trace.session_name` and `.session_id` are the project, no conversation.
_SESSIONS = tuple(_LANGSMITH_METADATA + key for key in ("session_id", "thread_id", "conversation_id"))
# The message of the exception is `repr(error)`, an empty line, and the stack.
_ERROR = re.compile(r"([A-Za-z_][\w.]{0,255})\((.*?)\)\s*(?:\n|Traceback|$)", re.DOTALL)
_MAX_ERROR = 10_000
_STACK = "\n\nTraceback"


class LangSmith(PlainDialect):
    """Reads LangSmith's OTel mode: inputs and outputs are whole JSON texts in `gen_ai.prompt` and `gen_ai.completion`."""

    name = "langsmith"
    rank = 40
    marks = (KIND,)
    prefixes = (_LANGSMITH_METADATA,)
    conversations = _SESSIONS
    grounds = Grounds(keys=(KIND,))

    def _read(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        kind = (values.as_str(attributes.get(KIND)) or "").lower()
        if kind in ("tool", "llm") and PROMPT not in attributes and COMPLETION not in attributes:
            yield from self._conventions.read_span(span)
        elif kind == "tool":
            yield langchain.as_requested(_tool(span))
        elif kind == "llm":
            agent = values.as_str(span.attributes.get(_LANGSMITH_METADATA + "lc_agent_name"))
            prompt = values.decoded_or_text(attributes.get(PROMPT))
            tools = attributes.get(conventions.DEFINITIONS) or values.as_list(values.as_object(prompt).get("tools"))
            given = langchain.messages_of(provider_messages.given(prompt), "user")
            written = provider_messages.written(values.decoded_or_text(attributes.get(COMPLETION)))
            messages = langchain.messages_of(written, "assistant")
            yield from self._model_call(conventions.model_call(attributes, agent), given, messages, tools)
        else:
            named = ((key, values.as_str(attributes.get(_LANGSMITH_METADATA + key))) for key in _RUN_METADATA)
            metadata: JsonObject = {key: value for key, value in named if value is not None}
            if (run := langchain.agent_run(span.name, metadata, labelled=False)) is not None:
                yield run
            else:
                yield from langchain.node_answers(attributes.get(PROMPT), attributes.get(COMPLETION))
                yield from langchain.waiting_calls(span)

    def _given(self, span: Span) -> list[langchain.ChainMessage] | None:
        given = provider_messages.given(values.decoded_or_text(span.attributes.get(PROMPT)))
        return langchain.messages_of(given, "user") if PROMPT in span.attributes else None


def _tool(span: Span) -> CallExecuted:
    attributes = span.attributes
    # The one member of the outputs is `output`.
    output = attributes.get(COMPLETION)
    recorded = values.decoded_object(output)
    if len(recorded) == 1 and "output" in recorded and not isinstance(recorded["output"], str):
        output = recorded["output"]
        answer = langchain.Answer(result=Recorded(None)) if output is None else langchain.tool_answer(output)
    elif len(recorded) == 1 and not isinstance(recorded.get("outputs", {}), dict):
        # In JavaScript any value but an object is the one member `outputs`.
        answer = langchain.Answer(result=values.returned(recorded["outputs"]))
    else:
        answer = langchain.tool_answer(output)
    error = _langsmith_error(span)
    # A run that raised has outputs all the same: an empty object.
    if error is not None and answer.result == Recorded({}):
        answer = replace(answer, result=NOT_RECORDED)
    name = values.as_str(values.first(attributes, (conventions.TOOL_NAME, NAME))) or span.name
    agent = values.as_str(values.first(attributes, (_LANGSMITH_METADATA + "lc_agent_name", conventions.AGENT)))
    return answer.of(name, _langsmith_arguments(attributes.get(PROMPT)), conventions.call_id(attributes), error, agent)


def _langsmith_arguments(value: Value) -> Content:
    """Read the inputs; what LangChain has only as text is the one member `input`."""
    read = values.arguments(value)
    recorded = values.as_object(read.value) if isinstance(read, Recorded) else {}
    text = recorded.get("input")
    if recorded == {"input": ""}:
        return Recorded({})
    if len(recorded) == 1 and isinstance(text, str) and text.lstrip().startswith("{"):
        inner = values.arguments(text)
        return inner if isinstance(inner, Recorded) else read
    return read


def _langsmith_error(span: Span) -> CallError | None:
    recorded = conventions.event(span)
    if recorded is None:
        failed = span.status == "error"
        return CallError(kind=OTHER_ERROR, message=span.status_message) if failed else None
    # The event's own type is always `Exception`.
    text = (values.as_str(recorded.get("exception.message")) or span.status_message)[:_MAX_ERROR]
    found = _ERROR.match(text)
    if found is None:
        return CallError(kind=OTHER_ERROR, message=text.partition(_STACK)[0])
    if langchain.is_control_flow(found[1]):
        return None
    spoken = values.decoded(found[2])
    return CallError(kind=found[1], message=spoken if isinstance(spoken, str) else found[2])


_TYPE = "lmnr.span.type"
_ASSOCIATION = "lmnr.association.properties."
_TOOL = ToolFields(
    call_id=(conventions.CALL_ID, _ASSOCIATION + "metadata.tool_call_id"),
    arguments=("lmnr.span.input",),
    result=("lmnr.span.output",),
)


class Laminar(PlainDialect):
    """Reads Laminar's spans: functions observed as tools, and model calls with the messages of their providers."""

    name = "laminar"
    rank = 55
    marks = ("lmnr.",)
    prefixes = (_ASSOCIATION, _ASSOCIATION + "metadata.")
    conversations = (_ASSOCIATION + "session_id",)
    grounds = Grounds(keys=(_TYPE,))

    def claims(self, record: Record) -> bool:
        """Claim spans with Laminar's type, but no model calls in Traceloop's keys."""
        if isinstance(record, LogRecord):
            return False
        attributes = record.attributes
        kind = attributes.get(_TYPE)
        return kind is not None and (
            kind != "LLM" or conventions.INPUT in attributes or conventions.OUTPUT in attributes
        )

    def _read(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        kind = attributes.get(_TYPE)
        if kind == "TOOL":
            if (call := _TOOL.read(span, span.name)) is not None:
                yield call
        elif kind == "LLM":
            yield from self._conventions.model_call(attributes, span.ref.trace_id)
        elif conventions.OPERATION in attributes:
            yield from self._conventions.read_span(span)


_MLFLOW_TYPE = "mlflow.spanType"
_MLFLOW_TOOLS = "mlflow.chat.tools"
_MLFLOW_USAGE = "mlflow.chat.tokenUsage"
_MLFLOW_METADATA = "metadata"
_MLFLOW_SESSIONS = ("session.id", "mlflow.trace.session")
# Haystack's components are typed as tools when nothing better fits.
_HAYSTACK_COMPONENT = "haystack.component.name"

_MLFLOW_SCOPE = "mlflow."
_MLFLOW_METADATA_SESSIONS = ("session_id", "conversation_id", "thread_id")
_MODELS = ("CHAT_MODEL", "LLM")

_INPUTS = "mlflow.spanInputs"
_OUTPUTS = "mlflow.spanOutputs"

_NAMES = ("tool_name", "gen_ai.tool.name")
_CALL_IDS = ("tool_call_id", "tool_id", "gen_ai.tool.call.id")
# Pydantic AI's calls go through one manager, whose method names the span.
_PYDANTIC_MANAGER = "ToolManager."
# LlamaIndex's spans are named after the method, with any class of the tool.
_LLAMAINDEX_STEP = ".call_tool"
_LLAMAINDEX_METHODS = (".call", ".acall", ".__call__")

_EVENT = "mlflow.chunk.item."
_VALUE = "mlflow.chunk.value"
# Most chunks hold a word of text; only chunks with a piece of a call are worth parsing.
_HAS_CALL = '"function"'


class MLflow(PlainDialect):
    """Reads MLflow: spans of `mlflow.trace` and of its autologging. Every value is JSON; the tool's name is the span's."""

    name = "mlflow"
    rank = 30
    marks = ("mlflow.span",)
    scopes = (_MLFLOW_SCOPE,)
    grounds = Grounds(keys=(_MLFLOW_TYPE,), scopes=(_MLFLOW_SCOPE,))
    # Its own spans are claimed where they follow the conventions.
    needs = (conventions.OPERATION,)
    conversations = None

    def _read(self, span: Span) -> Iterator[Observation]:
        metadata = values.decoded_object(span.attributes.get(_MLFLOW_METADATA))
        sessions = (_text(span.attributes.get(key)) for key in _MLFLOW_SESSIONS)
        yield from conversation_of(sessions, (metadata.get(key) for key in _MLFLOW_METADATA_SESSIONS))
        kind = _text(span.attributes.get(_MLFLOW_TYPE))
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
            if _HAYSTACK_COMPONENT not in span.attributes:
                yield langchain.as_requested(_mlflow_tool(span, _read_call(span), metadata))
        elif kind in _MODELS:
            sent, received = conventions.token_counts(span.attributes.get(_MLFLOW_USAGE))
            call = ModelCall(agent=langchain.agent_name(metadata), input_tokens=sent, output_tokens=received)
            inputs = values.decoded(span.attributes.get(_INPUTS))
            tools = span.attributes.get(_MLFLOW_TOOLS) or values.as_object(inputs).get("tools")
            given = langchain.messages_of(provider_messages.given(inputs), "user")
            written = _joined_chunks(span, provider_messages.written(values.decoded(span.attributes.get(_OUTPUTS))))
            yield from self._model_call(call, given, langchain.messages_of(written, "assistant"), tools)
        else:
            yield from _enclosing(span, metadata, labelled=kind == "AGENT")

    def _given(self, span: Span) -> list[langchain.ChainMessage] | None:
        given = provider_messages.given(values.decoded(span.attributes.get(_INPUTS)))
        return langchain.messages_of(given, "user") if _MLFLOW_TYPE in span.attributes else None

    def attribute(self, record: Record, key: str) -> Value:
        """Look up an attribute without the quotes of its JSON, else a member of the metadata."""
        value = record.attributes.get(key)
        if value is None:
            return values.decoded_object(record.attributes.get(_MLFLOW_METADATA)).get(key)
        return _text(value) or value


def _mlflow_tool(span: Span, call: CallExecuted, metadata: JsonObject) -> CallExecuted:
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
        yield _mlflow_tool(span, step, metadata)
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
    if span.name.startswith(_PYDANTIC_MANAGER) and call:
        named, call_id = values.as_str(call.get("tool_name")), values.as_str(call.get("tool_call_id"))
        answer = langchain.tool_answer(span.attributes.get(_OUTPUTS))
        return answer.of(named or span.name, values.arguments(call.get("args")), call_id)
    output = values.decoded_object(span.attributes.get(_OUTPUTS))
    is_output = "raw_input" in output
    if span.name.endswith(_LLAMAINDEX_METHODS) and (
        is_output or (set(recorded) == {"kwargs"} and span.status == "error")
    ):
        # LlamaIndex's tool itself, whose output repeats name and arguments; without one only its step can name it.
        given = values.as_object(output.get("raw_input")).get("kwargs") if is_output else recorded["kwargs"]
        name = values.as_str(output.get("tool_name")) or ""
        return langchain.llamaindex_answer(output).of(name, values.part(values.as_object(given)))
    if set(recorded) == {"tool_name", "tool_args"} and recorded["tool_name"] == span.name:  # CrewAI
        return _in_result(span, wrapped=True).of(span.name, values.arguments(recorded["tool_args"]))
    named = next((found for key in _NAMES if (found := _text(span.attributes.get(key)))), None)
    call_id = next((found for key in _CALL_IDS if (found := _text(span.attributes.get(key)))), None)
    answer = _in_result(span, wrapped="tool_id" in span.attributes)
    return answer.of(
        named or span.name.removeprefix(conventions.EXECUTE + " "),
        values.arguments(span.attributes.get(_INPUTS)),
        call_id,
    )


def _text(value: Value) -> str | None:
    return values.as_str(values.unquoted(value))


def _llamaindex_step(span: Span) -> CallExecuted | None:
    """Read the step of a LlamaIndex agent that runs a tool; it alone has the call's id, and a failed call's name."""
    if not span.name.endswith(_LLAMAINDEX_STEP):
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
def _joined_chunks(span: Span, written: list[JsonObject]) -> list[JsonObject]:
    """Return the messages, with the streamed calls added where no message has calls."""
    if any(message.get("tool_calls") for message in written):
        return written
    # The pieces of ids, names and arguments by the number of the call.
    streamed: dict[int, tuple[list[str], list[str], list[str]]] = {}
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
            function = values.as_object(piece.get("function"))
            found = (piece.get("id"), function.get("name"), function.get("arguments"))
            for pieces, one in zip(streamed.setdefault(index, ([], [], [])), map(values.as_str, found), strict=True):
                if one is not None:
                    pieces.append(one)
    calls: list[Json] = [
        {"id": "".join(ids[:1]), "name": "".join(names[:1]), "arguments": "".join(arguments)}
        for _, (ids, names, arguments) in sorted(streamed.items())
    ]
    return [*written, {"role": "assistant", "tool_calls": calls}] if calls else written
