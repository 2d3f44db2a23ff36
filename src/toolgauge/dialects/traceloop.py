"""Reads the spans of Traceloop's SDK and instrumentations (OpenLLMetry), current and legacy; its log records follow the conventions."""

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.json import JsonObject, Value
from toolgauge.model.literals import parse_fields
from toolgauge.model.observations import (
    OTHER_ERROR,
    AgentRun,
    CallAnswered,
    CallError,
    CallExecuted,
    Observation,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import conventions, langchain, values
from toolgauge.recognize.dialect import PlainDialect
from toolgauge.recognize.messages import Message, calls_of, read_messages

ENTITY_NAME = "traceloop.entity.name"
ENTITY_INPUT = "traceloop.entity.input"
ENTITY_OUTPUT = "traceloop.entity.output"
ASSOCIATION = "traceloop.association.properties."
# LangChain's own name for the agent, which the instrumentation copies from a run's metadata.
LANGCHAIN_AGENT = ASSOCIATION + "lc_agent_name"

_SUFFIX = ".tool"

TOOL_NAME = "tool.name"
ARGUMENTS = "tool.arguments"
KIND = "traceloop.span.kind"
REQUEST_TYPE = "llm.request.type"
HANDOFF_FROM = "gen_ai.handoff.from_agent"
HANDOFF_TO = "gen_ai.handoff.to_agent"

_MARKS = ("traceloop.", "gen_ai.", "llm.request.")
# Other attributes of the SDK are copied to all spans of a run, also to other producers' spans.
_OWN = (KIND, ENTITY_NAME, ENTITY_INPUT, ENTITY_OUTPUT)
_INDEXED = (
    "gen_ai.prompt.0.role",
    "gen_ai.prompt.0.content",
    "gen_ai.completion.0.role",
    "gen_ai.completion.0.content",
)
_LEGACY = (REQUEST_TYPE, *_INDEXED)
_INSTRUMENTATIONS = ("opentelemetry.instrumentation.", "@traceloop/instrumentation-")
_INTEGRATIONS = (
    *("agno", "alephalpha", "anthropic", "bedrock", "cohere", "crewai", "google_generativeai", "groq", "haystack"),
    *("langchain", "llamaindex", "mcp", "mistralai", "ollama", "openai.v0", "openai.v1", "openai_agents", "openai"),
    *("replicate", "sagemaker", "together", "transformers", "vertexai", "voyageai", "watsonx", "writer"),
)
_SCOPE = re.compile(
    f"(?:{'|'.join(map(re.escape, _INSTRUMENTATIONS))})({'|'.join(map(re.escape, _INTEGRATIONS))})" + r"(?:\.|$)"
)
# The instrumentations of others have the same names. What Traceloop's write, which follow the conventions else:
_OWN_SCOPES = (_INSTRUMENTATIONS[1], *(f"{_INSTRUMENTATIONS[0]}openai.{version}" for version in ("v0", "v1")))
_EVIDENCE = ("traceloop.", "llm.", "crewai.", "gen_ai.workflow.")
_OWN_KEYS = frozenset(("gen_ai.usage.total_tokens", "gen_ai.is_streaming", "gen_ai.headers"))
_SCOPES = tuple(prefix + name for prefix in _INSTRUMENTATIONS for name in _INTEGRATIONS)
_DECORATOR = ("traceloop.tracer", "@traceloop/node-server-sdk")
_MODEL_REQUESTS = frozenset(("chat", "completion"))
_CONVERSATIONS = (
    *(ASSOCIATION + key for key in ("conversation_id", "session_id", "thread_id", "chat_id")),
    # Laminar's SDK for JavaScript uses Traceloop's instrumentations.
    "lmnr.association.properties.session_id",
)

_PROMPT = "gen_ai.prompt."
_COMPLETION = "gen_ai.completion."

_FUNCTIONS = "llm.request.functions."
# The call of the first function-calling models, which asked for one at a time and gave it no id.
_FUNCTION_CALL = "function_call."
_MESSAGE_FIELDS = frozenset(("role", "content", "tool_call_id", "name"))

# How OpenAI begins the ids of items that are calls.
_ITEM = "fc_"

# What LangChain calls a graph or chain that the application did not name.
_UNNAMED = ("LangGraph", "AgentExecutor", "CompiledStateGraph", "Runnable")
_NODE = "langgraph_node"
_CHECKPOINT = "checkpoint_ns"
_NODE_CHECKPOINT = "langgraph_checkpoint_ns"
_METADATA = ("lc_agent_name", _NODE, _CHECKPOINT, _NODE_CHECKPOINT)

# The beginning of a tool node's output, up to the class of its first message, is shorter than this.
_HEAD = 400
_INVALID = '"invalid_tool_call"'
# In JavaScript each span is a trace of its own, a tool's span has its class for a name, and only that of its node shows a failed call.
_LANGCHAIN_JS = "@traceloop/instrumentation-langchain"
_WORKFLOW_NAME = "traceloop.workflow.name"
_OFFERED = '"tools": [{"type": "function"'
_AGNO_RESULT = "status='"
_CALL_OF_NODE = '"lg_tool_call"'
_TOOL_MESSAGE = '"ToolMessage"'


class Traceloop(PlainDialect):
    """Reads Traceloop; asked before the conventions, which most of its spans follow in part."""

    name = "traceloop"
    rank = 60
    marks = _MARKS
    prefixes = (ASSOCIATION,)
    conversations = _CONVERSATIONS
    grounds = Grounds(keys=(*_OWN, *_LEGACY), scopes=_SCOPES)

    def claims(self, record: Record) -> bool:
        """Claim the spans of Traceloop's own tracers, and other spans with its older attributes."""
        if isinstance(record, LogRecord):
            return False
        attributes = record.attributes
        # Asked of every span: a loop costs half of what a generator does.
        for key in _OWN:
            if key in attributes:
                return True
        if _SCOPE.match(record.scope.name):
            if record.scope.name.startswith(_OWN_SCOPES):
                return any(key.startswith(_MARKS) for key in attributes)
            # It names a span after its package, where the conventions have the operation.
            is_named = "." in record.name.partition(" ")[0] and conventions.OPERATION in attributes
            if is_named or not _OWN_KEYS.isdisjoint(attributes) or any(key.startswith(_EVIDENCE) for key in attributes):
                return True
        return conventions.OPERATION not in attributes and any(key in attributes for key in _LEGACY)

    def _read(self, span: Span) -> Iterator[Observation]:
        if span.scope.name.startswith(_DECORATOR):
            integration = "decorator"
        else:
            found = _SCOPE.match(span.scope.name)
            integration = found[1] if found is not None else ""
        kind = span.attributes.get(KIND)
        operation = values.as_str(span.attributes.get(conventions.OPERATION))
        request = values.as_str(span.attributes.get(REQUEST_TYPE))
        if span.scope.name == _LANGCHAIN_JS and operation in (conventions.EXECUTE, "workflow"):
            yield from _langchain_js(span, is_tool=operation == conventions.EXECUTE)
        elif kind == "tool" or operation == conventions.EXECUTE:
            if call := _executed(span, integration):
                yield langchain.as_requested(call)
        elif operation in conventions.MODEL_OPERATIONS or request in _MODEL_REQUESTS:
            yield from self._model(span)
        elif operation == conventions.INVOKE:
            for seen in self._conventions.read_span(span):
                yield AgentRun(agent=_graph_name(seen.agent)) if isinstance(seen, AgentRun) else seen
        elif kind in ("agent", "workflow"):
            named = values.as_str(span.attributes.get(conventions.AGENT))
            entity = values.as_str(span.attributes.get(ENTITY_NAME))
            if named is None and integration == "langchain":
                named = _graph_name(entity)
            elif kind == "agent":
                # A workflow is a run as well, but only LangGraph names it after the agent.
                named = named or entity
            yield AgentRun(agent=named)
            if integration == "agno" and kind == "agent":
                yield from conventions.text_seen("user", span.attributes.get(ENTITY_INPUT))
        elif kind == "handoff":
            # Some releases cannot name it.
            target = values.as_str(span.attributes.get(HANDOFF_TO))
            if target is not None and target != "unknown":
                source = values.as_str(span.attributes.get(HANDOFF_FROM))
                yield CallExecuted(name=conventions.handoff_name(target), agent=source)
        else:
            yield from self._task(span, integration)

    def _given(self, span: Span) -> list[Message] | None:
        if conventions.INPUT in span.attributes:
            return None
        return [_message(fields, "user") for fields in values.numbered(span.attributes, _PROMPT)]

    def _task(self, span: Span, integration: str) -> Iterator[Observation]:
        """Read what the producer does not label: a tool or a graph run by a framework, or a model's older form."""
        if integration == "llamaindex":
            if call := _llamaindex_call(span):
                yield call
            elif isinstance(written := span.attributes.get(ENTITY_OUTPUT), str) and _OFFERED in written:
                # The request of a model call.
                yield from self._conventions.offered(values.decoded_object(written).get("tools"))
        elif integration == "langchain":
            name = values.as_str(span.attributes.get(ENTITY_NAME))
            metadata: JsonObject = {
                key: values.plain(value)
                for key in _METADATA
                if (value := span.attributes.get(ASSOCIATION + key)) is not None
            }
            if name is not None and _NODE in metadata:
                # The node and the graph in it have one name; only the graph has a checkpoint of its own.
                is_graph = name == metadata[_NODE] and metadata.get(_CHECKPOINT) == metadata.get(_NODE_CHECKPOINT)
                run = langchain.agent_run(name, metadata, labelled=is_graph)
                if run is not None:
                    yield run
            yield from _task_output(span.attributes.get(ENTITY_OUTPUT))
            yield from langchain.waiting_calls(span)
        elif any(key in span.attributes for key in _INDEXED):
            yield from self._model(span)

    def _model(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        if conventions.INPUT in attributes or conventions.OUTPUT in attributes:
            seen = self._conventions.model_call(attributes, span.ref.trace_id)
            for one in _with_item_ids(attributes.get(conventions.INPUT), seen):
                if isinstance(one, CallAnswered) and span.scope.name.endswith("bedrock"):
                    yield replace(one, result=values.opened_blocks(one.result))
                else:
                    yield one
            return
        agent = values.as_str(attributes.get(conventions.AGENT)) or values.as_str(attributes.get(LANGCHAIN_AGENT))
        call = conventions.model_call(attributes, agent, finish=attributes.get("gen_ai.completion.0.finish_reason"))
        tools = values.numbered(attributes, _FUNCTIONS) or attributes.get(conventions.DEFINITIONS)
        written = [_message(fields, "assistant") for fields in values.numbered(attributes, _COMPLETION)]
        yield from self._model_call(call, self._given(span), written, tools)


def _message(fields: Mapping[str, Value], default_role: str) -> Message:
    calls = values.numbered(fields, "tool_calls.")
    if not calls and _FUNCTION_CALL + "name" in fields:
        calls = [{key.removeprefix(_FUNCTION_CALL): value for key, value in fields.items()}]
    message = {key: values.plain(fields[key]) for key in _MESSAGE_FIELDS if key in fields}
    return Message({**message, "tool_calls": values.plain(calls)}, default_role)


# OpenAI's Responses API gives a call two ids: Traceloop writes that of the item beside calls and that of the call beside answers.
def _with_item_ids(received: Value, seen: Iterable[Observation]) -> Iterator[Observation]:
    """Yield the observations; answers of the history `received` that match calls by order alone get their ids."""
    items: dict[str, str] = {}
    if isinstance(received, str) and f'"{_ITEM}' in received:
        asked: list[str] = []
        answered: list[str] = []
        # Answers that follow calls belong to these, in order, where there are as many and no id is shared.
        for message in [*read_messages(received, "user"), None]:
            called = [] if message is None else [call.call_id for call in calls_of(message) if call.call_id is not None]
            if message is None or (called and answered):
                are_items = all(item.startswith(_ITEM) for item in asked)
                if are_items and len(asked) == len(answered) and set(asked).isdisjoint(answered):
                    items |= zip(answered, asked, strict=True)
                asked, answered = [], []
            asked += called
            if message is not None:
                answered += [answer.call_id for answer in message.answers() if answer.call_id is not None]
    for one in seen:
        if isinstance(one, CallAnswered) and one.call_id in items:
            yield replace(one, call_id=items[one.call_id])
        else:
            yield one


# Only the outermost graph is labelled by the producer; without the others all calls would be the outermost agent's.
def _graph_name(name: str | None) -> str | None:
    """Return the name of a graph, `None` for a name that LangChain makes up."""
    return None if name is None or name.startswith(_UNNAMED) else name


# Task spans repeat the state of the graph; a look at the text settles for nearly all that nothing is in it.
def _task_output(value: Value) -> Iterator[Observation]:
    """Read the messages that a node adds: itself, through commands, or as one message. A list of them is its input."""
    if not isinstance(value, str) or not (_INVALID in value or _TOOL_MESSAGE in value[:_HEAD]):
        return
    returned = values.decoded_object(value)
    outputs = returned.get("outputs", returned.get("output"))
    for command in outputs if isinstance(outputs, list) else [outputs]:
        opened = values.as_object(command)
        added = values.as_object(opened.get("update")) if "update" in opened else opened
        if "messages" in added:
            messages = [langchain.message_fields(message) for message in values.as_list(added["messages"])]
        elif opened is outputs and "messages" not in opened:
            messages = [langchain.message_fields(opened)]
        else:
            continue
        for message in reversed(messages):
            if "tool_call_id" not in message:
                break
            yield from langchain.message_answers(message)
        # Earlier messages may be the history of other turns; only the last is what the model wrote here.
        for message in messages[-1:]:
            yield from langchain.rejected(message, None, len(values.as_list(message.get("tool_calls"))))


def _langchain_js(span: Span, *, is_tool: bool) -> Iterator[Observation]:
    """Read a run of LangChain.js: calls that succeeded from their tools' spans, all others from the spans of LangGraph's nodes."""
    attributes = span.attributes
    written = attributes.get(ENTITY_OUTPUT)
    if is_tool:
        message = langchain.message_fields(values.decoded(written))
        name = message.get("name") if "tool_call_id" in message else attributes.get(ENTITY_NAME)
        given = values.as_list(values.decoded_object(attributes.get(ENTITY_INPUT)).get("args"))
        if isinstance(name, str) and message.get("status") != "error" and span.status != "error":
            answer = langchain.tool_answer(written)
            arguments = values.arguments(given[0]) if len(given) == 1 else NOT_RECORDED
            yield replace(answer.of(name, arguments), error=None)
        return
    is_node = (values.as_str(attributes.get(_WORKFLOW_NAME)) or "").startswith("Runnable")
    if not is_node:
        yield AgentRun(agent=None)
    elif isinstance(written, str) and _INVALID in written:
        added = values.as_list(values.decoded_object(written).get("messages"))
        yield from (
            langchain.rejected(langchain.message_fields(added[0]), None, 0)
            if len(added) == 1
            else _task_output(written)
        )
    request = attributes.get(ENTITY_INPUT)
    is_of_tools = isinstance(written, str) and _TOOL_MESSAGE in written[:_HEAD]
    if not (is_of_tools or (span.status == "error" and isinstance(request, str) and _CALL_OF_NODE in request)):
        return
    state = values.decoded_object(request)
    asking = langchain.message_fields((values.as_list(state.get("messages")) or [None])[-1])
    messages = map(langchain.message_fields, values.as_list(values.decoded_object(written).get("messages")))
    answers = {values.as_str(message.get("tool_call_id")): langchain.message_answer(message) for message in messages}
    failure = conventions.call_error(span)
    for call in map(
        values.as_object,
        [state.get("lg_tool_call")] if "lg_tool_call" in state else values.as_list(asking.get("tool_calls")),
    ):
        name, call_id = values.as_str(call.get("name")), values.as_str(call.get("id"))
        error = answers[call_id].error if call_id in answers else failure
        if name is not None and error is not None:
            yield CallExecuted(
                name=name, call_id=call_id, arguments=values.arguments_inside(call.get("args")), error=error
            )


# Opening an envelope that the integration does not use would change what a tool was really called with.
def _executed(span: Span, integration: str) -> CallExecuted | None:
    """Read a tool span; `None` when the tool's name is nowhere."""
    attributes = span.attributes
    name = (
        values.as_str(attributes.get(conventions.TOOL_NAME))
        or values.as_str(attributes.get(ENTITY_NAME))
        or span.name.removeprefix(conventions.EXECUTE + " ").removesuffix(_SUFFIX)
    )
    if not name:
        return None
    arguments, call_id = _opened(
        values.arguments(values.first(attributes, (conventions.ARGUMENTS, ENTITY_INPUT))), integration
    )
    recorded = _answer(values.first(attributes, (conventions.RESULT, ENTITY_OUTPUT)), integration)
    error = conventions.call_error(span)
    if error is not None and langchain.is_control_flow(error.kind):
        error = None
    agent = values.as_str(values.first(attributes, (conventions.AGENT, LANGCHAIN_AGENT)))
    call = recorded.of(name, arguments, conventions.call_id(attributes) or call_id, error, agent)
    if integration == "mcp":
        return replace(call, protocol="mcp")
    # The SDK opens the span of a tool before it asks a person.
    return conventions.ended_without_result(call) if integration == "openai_agents" else call


def _opened(read: Content, integration: str) -> tuple[Content, str | None]:
    """Open the envelope of an integration around the arguments; it may have the call's id."""
    envelope = values.as_object(read.value) if isinstance(read, Recorded) else {}
    if integration == "decorator" and envelope.keys() <= {"args", "kwargs"} and "kwargs" in envelope:
        named = envelope["kwargs"]
        if isinstance(named, dict):
            # The names of positional arguments are not recorded.
            return (Unparsed(values.dump(envelope)) if envelope.get("args") else Recorded(named)), None
    elif integration == "langchain" and not envelope.keys().isdisjoint(("tags", "metadata", "inputs", "kwargs")):
        written, given = envelope.get("input_str"), envelope.get("inputs")
        if isinstance(written, str):
            call_id = values.as_str(values.as_object(envelope.get("kwargs")).get("tool_call_id"))
            # Newer releases add `inputs`, the same as JSON; where neither is an object, the text has no argument's name.
            return (Recorded(given) if isinstance(given, dict) else values.arguments(written)), call_id
    elif integration == "mcp" and "tool_name" in envelope:
        given = envelope.get("arguments")
        # The protocol sends no arguments as nothing at all.
        return (Recorded({}) if given is None else values.arguments(given)), None
    return read, None


def _answer(value: Value, integration: str) -> langchain.Answer:
    """Open the envelope of an integration around the result."""
    if integration == "agno" and isinstance(value, str) and value.startswith(_AGNO_RESULT):
        fields = values.from_repr(value, parse_fields)
        if not isinstance(fields, dict):
            return langchain.Answer(result=values.result(value))
        failed = fields.get("status") == "failure"
        error = CallError(kind=OTHER_ERROR, message=values.text_of(fields.get("error"))) if failed else None
        return langchain.Answer(result=NOT_RECORDED if failed else values.returned(fields.get("result")), error=error)
    if integration not in ("langchain", "mcp"):
        return langchain.Answer(result=values.result(value))
    opened = values.decoded_object(value)
    if integration == "langchain":
        # A tool message or a command in `output`.
        is_envelope = "output" in opened and opened.keys() <= {"output", "kwargs"}
        if is_envelope and opened["output"] is None:
            return langchain.Answer(result=Recorded(None))
        return langchain.tool_answer(opened["output"] if is_envelope else value)
    if "result" not in opened or not opened.keys() <= {"result", "is_error"}:
        # The content blocks of a server.
        return langchain.Answer(result=values.result(value))
    returned, failed = opened["result"], opened.get("is_error") is True
    error = CallError(kind=OTHER_ERROR, message=values.text_of(returned)) if failed else None
    return langchain.Answer(result=values.result(returned) if returned is not None else NOT_RECORDED, error=error)


def _llamaindex_call(span: Span) -> CallExecuted | None:
    """Read LlamaIndex's call, which no span is labelled as: the task is the agent's step that made it, or the tool within that step."""
    attributes = span.attributes
    named, written = values.as_str(attributes.get(TOOL_NAME)), attributes.get(ENTITY_OUTPUT)
    is_tool = named is not None or (isinstance(written, str) and '"tool_name"' in written)
    output = values.decoded_object(written) if is_tool else {}
    inner = values.as_object(output.get("tool_output"))
    recorded = inner or output
    name = named or values.as_str(output.get("tool_name"))
    if name is None or not (named or inner or "raw_input" in output):
        return None
    answer = langchain.llamaindex_answer(recorded)
    given = (
        output.get("tool_kwargs"),
        values.as_object(recorded.get("raw_input")).get("kwargs"),
        values.decoded_object(attributes.get(ENTITY_INPUT)).get("kwargs"),
    )
    arguments: Content = next((values.part(value) for value in given if isinstance(value, dict)), NOT_RECORDED)
    if ARGUMENTS in attributes:
        arguments = values.arguments(attributes[ARGUMENTS])
    return answer.of(name, arguments, values.as_str(output.get("tool_id")), conventions.call_error(span))
