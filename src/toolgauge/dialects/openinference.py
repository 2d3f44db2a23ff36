"""Reads OpenInference: the spans of Arize's instrumentations and of others that set its attributes."""

import re
from collections.abc import Iterable, Iterator

from toolgauge.model.content import NOT_RECORDED
from toolgauge.model.json import JsonObject, Value
from toolgauge.model.observations import (
    CallAnswered,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    MessageSeen,
    Observation,
    ToolDescribed,
    ToolsOffered,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import messages, openinference_messages, values
from toolgauge.recognize.conventions import (
    OPENINFERENCE_TOKENS,
    ended_without_result,
    handoff_name,
    model_call,
    own_conversation,
)
from toolgauge.recognize.definitions import DefinitionReader
from toolgauge.recognize.hosted_tools import hosted_items
from toolgauge.recognize.langchain import agent_name, node_answers, refused_call, waiting_calls
from toolgauge.recognize.openinference_agents import (
    agent_run,
    called_name,
    code_step,
    crew_history,
    haystack_history,
    instrumentation,
    managed_agent_call,
    offered_names,
    offered_tools,
    task_texts,
)
from toolgauge.recognize.openinference_messages import (
    Messages,
    answers,
    observed,
    past_calls,
    read_messages,
    requests,
    texts,
    with_raw_output,
    with_response,
)
from toolgauge.recognize.openinference_tools import (
    INPUT,
    OUTPUT,
    call_answer,
    call_arguments,
    google_answer,
    is_synthesized,
    made_by_itself,
)
from toolgauge.recognize.provider_messages import provider_answers
from toolgauge.recognize.values import look_at_ends

KIND = "openinference.span.kind"
TOOL_NAME = "tool.name"
DESCRIPTION = "tool.description"
SESSION = "session.id"
METADATA = "metadata"

# The spec's name, the name in the JavaScript packages, and that of producers who write both conventions on one span.
_TOOL_ID = "tool.id"
_CALL_ID_KEYS = (_TOOL_ID, "tool_call.id", "tool.call_id", "gen_ai.tool.call.id")
# What Google's ADK writes for an id of a call that failed.
_NO_ID = "<not specified>"
# What the AI SDK writes of itself, on spans to which its processor adds OpenInference's attributes.
_AI_SDK_METADATA = "ai.telemetry.metadata."
_AI_SDK_CONTEXT = "ai.settings.context."
_AI_SDK_SESSIONS = ("sessionId", "conversationId", "threadId", "chatId", "session_id", "conversation_id", "thread_id")
_AI_SDK_TOOLS = "ai.prompt.tools"
_METADATA_SESSIONS = ("session_id", "conversation_id", "thread_id")
# DSPy names a tool's span after the tool and the method.
_CALLED = re.compile(r"\.(?:__call__|acall|aforward|forward)$")
# The tool and the span of a hand-off in JavaScript; in Python it has no tool's name, and texts in place of objects.
_HANDOFF = "handoff_to_"
_HANDOFF_SPAN = "handoff to "


class OpenInference:
    """The OpenInference conventions, with the envelopes of their instrumentations."""

    name = "openinference"
    rank = 10
    marks = ("openinference.",)
    scopes: tuple[str, ...] = ()
    grounds = Grounds(keys=(KIND,))

    def __init__(self) -> None:
        self._definitions = DefinitionReader()

    def claims(self, record: Record) -> bool:
        """Claim spans with OpenInference's span kind."""
        return not isinstance(record, LogRecord) and KIND in record.attributes

    def read(self, record: Record) -> Iterator[Observation]:
        """Read one span."""
        if isinstance(record, LogRecord):
            return
        kind = (values.as_str(record.attributes.get(KIND)) or "").upper()
        if kind == "EVALUATOR":
            return
        source = instrumentation(record.scope)
        metadata = _metadata(record)
        yield from _conversation(record, metadata)
        # LangChain labels a tool with "agent" in its name as an agent; LlamaIndex puts a tool's name on the agent's step.
        is_named = TOOL_NAME in record.attributes and kind != "LLM" and source != "llama_index"
        if kind == "TOOL" or is_named:
            yield from _tool(record, source, metadata, self._definitions)
        elif kind == "LLM":
            yield from _model(record, source, metadata)
            yield from self._offered(record)
        else:
            yield from _enclosing(record, kind, source, metadata)
            if kind == "AGENT":
                yield from self._offered(record)
                if source == "smolagents" and (tools := offered_names(record.attributes)):
                    yield ToolsOffered(tools=tools)

    def _offered(self, span: Span) -> Iterator[ToolsOffered]:
        offered = self._definitions.flattened(span.attributes)
        if offered := offered or self._definitions.read(span.attributes.get(_AI_SDK_TOOLS)):
            yield ToolsOffered(tools=offered)

    def history(self, span: Span) -> Iterable[CallRequested | MessageSeen]:
        """Read the calls in the history that a model was given, and the texts of the user between them."""
        return past_calls(read_messages(span.attributes).input)

    def attribute(self, record: Record, key: str) -> Value:
        """Look up an attribute, else a member of the JSON text that producers put all metadata into."""
        value = record.attributes.get(key)
        return _metadata(record).get(key) if value is None else value


def _metadata(record: Record) -> JsonObject:
    return values.as_object(values.decoded(record.attributes.get(METADATA)))


def _conversation(span: Span, metadata: JsonObject) -> Iterator[Observation]:
    session = span.attributes.get(SESSION)
    if isinstance(session, str) and session:
        yield ConversationSeen(conversation_id=session, rank=1)
        return
    named = next((found for key in _METADATA_SESSIONS if (found := values.as_str(metadata.get(key)))), None)
    if named is not None:
        yield ConversationSeen(conversation_id=named, rank=2)
    else:
        keys = (where + key for where in (_AI_SDK_METADATA, _AI_SDK_CONTEXT) for key in _AI_SDK_SESSIONS)
        yield from own_conversation(span.attributes, keys)


def _tool(span: Span, source: str, metadata: JsonObject, definitions: DefinitionReader) -> Iterator[Observation]:
    name, given, returned = (span.attributes.get(key) for key in (TOOL_NAME, INPUT, OUTPUT))
    if is_synthesized(span) or (source == "beeai" and name is None):  # BeeAI makes spans of a tool's events
        return
    if source == "openai_agents":
        # A hand-off, `handoff to X`: from the agent's name the SDK derives the name that the model called.
        target = values.as_str(returned) if name is None else None
        if isinstance(name, str) and name.startswith(_HANDOFF) and span.name.startswith(_HANDOFF_SPAN):
            target = values.as_str(values.as_object(values.decoded(returned)).get("to_agent"))
        if target is not None:
            caller = values.as_str(values.as_object(values.decoded(given)).get("from_agent")) or values.as_str(given)
            yield CallExecuted(name=handoff_name(target), arguments=NOT_RECORDED, agent=caller)
            return
    if source == "langchain" and (refused := refused_call(name, given, returned)):
        yield refused
        return
    named = name if isinstance(name, str) and name else _CALLED.sub("", span.name)
    answer = call_answer(span, source)
    # UiPath types its spans in this way; its `tool.id` is that of the tool and not of the call.
    is_uipath = span.scope.name.startswith("uipath.")
    ids = (values.as_str(span.attributes.get(key)) for key in (_CALL_ID_KEYS[1:] if is_uipath else _CALL_ID_KEYS))
    call = CallExecuted(
        name=called_name(named, span.attributes.get(DESCRIPTION)) if source == "crewai" else named,
        call_id=next((found for found in ids if found is not None and found != _NO_ID), None) or answer.call_id,
        arguments=call_arguments(span, source),
        result=answer.result,
        error=answer.error,
        agent=agent_name(metadata) if source == "langchain" else None,
        tool_id=values.as_str(span.attributes.get(_TOOL_ID)) if is_uipath else None,
    )
    # The SDK opens the span of a tool before it asks a person.
    yield ended_without_result(call) if source == "openai_agents" else call
    if (tool := definitions.called(span, call.name, source)) is not None:
        yield ToolDescribed(tool=tool)


def _model(span: Span, source: str, metadata: JsonObject) -> Iterator[Observation]:
    agent = agent_name(metadata) if source == "langchain" else None
    read = read_messages(span.attributes)
    recorded = span.attributes.get(OUTPUT)
    if openinference_messages.is_shared_by_agent(span, source):
        yield from openinference_messages.requested_in_run(read, span.attributes)
    elif source == "google_genai" and (made := list(made_by_itself(recorded))):
        yield from made
    else:
        yield model_call(span.attributes, agent, keys=OPENINFERENCE_TOKENS)
        if (items := hosted_items(recorded)) is not None:
            # The flattened messages drop most of these items, and all of their results.
            calls: list[CallRequested] = []
            ran: list[CallAnswered] = []
            messages.Message({"content": items}, "assistant").add_to(calls, ran, [], agent)
            yield from calls
            yield from ran
        else:
            found = requests(read.output)
            found = with_raw_output(found, recorded) if source == "langchain" else with_response(found, recorded)
            yield from observed(found, agent)
    yield from _answers(span, source, read)
    yield from texts(read)


def _answers(span: Span, source: str, read: Messages) -> Iterator[CallAnswered]:
    """Read the answers to calls: as the provider was given them, and what only the flattened messages have."""
    given = span.attributes.get(INPUT)
    look_at_ends(given)
    provided = provider_answers(given)
    yield from provided
    known = {answer.call_id for answer in provided}
    for answer in answers(read.input):
        if answer.call_id is None or answer.call_id not in known:
            yield google_answer(answer) if source == "google_genai" else answer


def _enclosing(span: Span, kind: str, source: str, metadata: JsonObject) -> Iterator[Observation]:
    run = agent_run(span, kind, source, metadata)
    if run is not None:
        yield run
    if source == "langchain" and kind == "CHAIN":
        yield from node_answers(span.attributes.get(INPUT), span.attributes.get(OUTPUT))
        yield from waiting_calls(span)
    elif source == "crewai" and kind == "AGENT":
        yield from crew_history(span.attributes.get(OUTPUT), run.agent if run is not None else None)
        if offered := offered_tools(span.attributes.get(INPUT)):
            yield ToolsOffered(tools=offered)
    elif source == "crewai":
        yield from task_texts(span.attributes.get("crew_tasks"))
    elif source == "smolagents" and (found := managed_agent_call(span) or code_step(span)):
        yield found
    elif source == "haystack" and run is not None:
        yield from haystack_history(span.attributes.get(INPUT), span.attributes.get(OUTPUT))
    elif source == "ag2" and (
        text := values.as_str(values.as_object(values.decoded(span.attributes.get(INPUT))).get("message"))
    ):
        yield MessageSeen(role="user", text=text)
    elif source == "claude_agent_sdk" and kind == "AGENT":
        text = span.attributes.get(INPUT)
        if isinstance(text, str) and text and not text.startswith(("{", "[")):
            yield MessageSeen(role="user", text=text)
    else:
        look_at_ends(span.attributes.get(INPUT))
