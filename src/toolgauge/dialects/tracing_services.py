"""SDKs of tracing services: Langfuse, LangSmith and Laminar."""

import re
from collections.abc import Iterator

from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import (
    OTHER_ERROR,
    PAUSED,
    AgentRun,
    CallError,
    CallExecuted,
    ModelCall,
    Observation,
)
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
    if not is_function or not isinstance(read, Recorded):
        return read
    envelope = values.as_object(read.value)
    if set(envelope) != _FUNCTION_ENVELOPE or not isinstance(envelope["args"], list):
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
    returned = values.parse_text(found[2])
    spoken = isinstance(returned, Recorded) and isinstance(returned.value, str)
    return CallError(
        kind=found[1], message=str(returned.value) if isinstance(returned, Recorded) and spoken else found[2]
    )


_TYPE = "lmnr.span.type"
_ASSOCIATION = "lmnr.association.properties."
_TOOL = ToolFields(
    call_id=(conventions.CALL_ID, _ASSOCIATION + "metadata.tool_call_id"),
    arguments=("lmnr.span.input",),
    result=("lmnr.span.output",),
)
_SESSION = _ASSOCIATION + "session_id"


class Laminar(PlainDialect):
    """Reads Laminar's spans: functions observed as tools, and model calls with the messages of their providers."""

    name = "laminar"
    rank = 55
    marks = ("lmnr.",)
    prefixes = (_ASSOCIATION, _ASSOCIATION + "metadata.")
    conversations = (_SESSION,)
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
