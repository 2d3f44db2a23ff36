"""OpenInference: the spans of Arize's instrumentations and of others that set its attributes; and UiPath's, which lack its kind."""

import re
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED
from toolgauge.model.json import JsonObject, Value
from toolgauge.model.observations import (
    AgentRun,
    CallAnswered,
    CallExecuted,
    CallRequested,
    MessageSeen,
    ModelCall,
    Observation,
    ToolDescribed,
    ToolsOffered,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import conventions, langchain, messages, values
from toolgauge.recognize import openinference_messages as flattened
from toolgauge.recognize import openinference_spans as spans
from toolgauge.recognize.conventions import (
    OPENINFERENCE_TOKENS,
    ended_without_result,
    handoff_name,
    model_call,
    own_conversation,
)
from toolgauge.recognize.definitions import DefinitionReader
from toolgauge.recognize.dialect import PlainDialect, conversation_of
from toolgauge.recognize.hosted_tools import hosted_items
from toolgauge.recognize.openinference_spans import (
    INPUT,
    OUTPUT,
    call_answer,
    call_arguments,
    is_synthesized,
    span_error,
)
from toolgauge.recognize.provider_messages import provider_answers

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
_METADATA_SESSIONS = ("session_id", "conversation_id", "thread_id")
_AI_SDK_SESSIONS = tuple(
    where + key
    for where in ("ai.telemetry.metadata.", "ai.settings.context.")
    for key in ("sessionId", "conversationId", "threadId", "chatId", *_METADATA_SESSIONS)
)
_AI_SDK_TOOLS = "ai.prompt.tools"
# DSPy names a tool's span after the tool and the method.
_CALLED = re.compile(r"\.(?:__call__|acall|aforward|forward)$")
# The tool and the span of a hand-off in JavaScript; in Python it has no tool's name, and texts in place of objects.
_HANDOFF = "handoff_to_"
_HANDOFF_SPAN = "handoff to "
_AGENT_RUN = "invoke_agent "


class OpenInference(PlainDialect):
    """Reads OpenInference: the spans of Arize's instrumentations and of others that set its attributes."""

    name = "openinference"
    rank = 10
    marks = ("openinference.",)
    grounds = Grounds(keys=(KIND,))
    conversations = None

    def __init__(self) -> None:
        super().__init__()
        self._definitions = DefinitionReader()

    def _read(self, span: Span) -> list[Observation]:
        kind = (values.as_str(span.attributes.get(KIND)) or "").upper()
        if kind == "EVALUATOR":
            return []
        source = spans.instrumentation(span.scope.name)
        metadata = _metadata(span)
        sessions = (span.attributes.get(SESSION),), map(metadata.get, _METADATA_SESSIONS)
        seen: list[Observation] = [*(conversation_of(*sessions) or own_conversation(span.attributes, _AI_SDK_SESSIONS))]
        # LangChain labels a tool with "agent" in its name as an agent; LlamaIndex puts a tool's name on the agent's step.
        is_named = TOOL_NAME in span.attributes and kind != "LLM" and source != "llama_index"
        if kind == "TOOL" or is_named:
            seen += _openinference_tool(span, source, metadata, self._definitions)
        elif kind == "LLM":
            seen += _model(span, source, metadata)
            seen += self._offered(span)
        else:
            seen += _enclosing(span, kind, source, metadata)
            if kind == "AGENT":
                seen += self._offered(span)
                if source == "smolagents" and (tools := spans.offered_names(span.attributes)):
                    seen.append(ToolsOffered(tools=tools))
        return seen

    def _offered(self, span: Span) -> Iterable[ToolsOffered]:
        offered = self._definitions.flattened(span.attributes)
        offered = offered or self._definitions.read(span.attributes.get(_AI_SDK_TOOLS))
        return (ToolsOffered(tools=offered),) if offered else ()

    def history(self, span: Span) -> Iterable[CallRequested | MessageSeen]:
        """Read the calls in the history that a model was given, and the texts of the user between them."""
        return messages.past_calls(flattened.read_messages(span.attributes).input)

    def attribute(self, record: Record, key: str) -> Value:
        """Look up an attribute, else a member of the JSON text that producers put all metadata into."""
        value = record.attributes.get(key)
        return _metadata(record).get(key) if value is None else value


def _metadata(record: Record) -> JsonObject:
    written = record.attributes.get(METADATA)
    return {} if written is None else values.decoded_object(written)


def _openinference_tool(
    span: Span, source: str, metadata: JsonObject, definitions: DefinitionReader
) -> list[Observation]:
    attributes = span.attributes
    name, given, returned = attributes.get(TOOL_NAME), attributes.get(INPUT), attributes.get(OUTPUT)
    if is_synthesized(span) or (source == "beeai" and name is None):  # BeeAI makes spans of a tool's events
        return []
    if source == "openai_agents":
        # A hand-off, `handoff to X`: from the agent's name the SDK derives the name that the model called.
        target = values.as_str(returned) if name is None else None
        if isinstance(name, str) and name.startswith(_HANDOFF) and span.name.startswith(_HANDOFF_SPAN):
            target = values.as_str(values.decoded_object(returned).get("to_agent"))
        if target is not None:
            caller = values.as_str(values.decoded_object(given).get("from_agent")) or values.as_str(given)
            return [CallExecuted(name=handoff_name(target), arguments=NOT_RECORDED, agent=caller)]
    if source == "langchain" and name == langchain.INVALID_TOOL:
        # The run of the tool that an `AgentExecutor` has in place of a missing one.
        requested = values.decoded_object(given).get(langchain.REQUESTED)
        if isinstance(requested, str):
            return [CallAnswered(name=requested, result=values.result(returned))]
    named = name if isinstance(name, str) and name else _CALLED.sub("", span.name)
    answer = call_answer(span, source)
    # UiPath types its spans in this way; its `tool.id` names the tool and not the call.
    is_uipath = span.scope.name.startswith("uipath.")
    keys = _CALL_ID_KEYS[1:] if is_uipath else _CALL_ID_KEYS
    ids = [found for key in keys if isinstance(found := attributes.get(key), str) and found not in ("", _NO_ID)]
    if source == "crewai":
        # The span shows the tool by its title.
        described = spans.DESCRIBED_NAME.match(values.as_str(attributes.get(DESCRIPTION)) or "")
        named = described[1] if described else spans.model_name(named) if " " in named else named
    agent = langchain.agent_name(metadata) if source == "langchain" else None
    call = answer.of(named, call_arguments(span, source), ids[0] if ids else None, agent=agent)
    if is_uipath:
        call = replace(call, tool_id=values.as_str(attributes.get(_TOOL_ID)))
    # The SDK opens the span of a tool before it asks a person.
    seen: list[Observation] = [ended_without_result(call) if source == "openai_agents" else call]
    if (tool := definitions.called(span, call.name, source)) is not None:
        seen.append(ToolDescribed(tool=tool))
    return seen


def _model(span: Span, source: str, metadata: JsonObject) -> list[Observation]:
    agent = langchain.agent_name(metadata) if source == "langchain" else None
    read = flattened.read_messages(span.attributes)
    recorded = span.attributes.get(OUTPUT)
    if source == "google_adk" and span.name.startswith(_AGENT_RUN):
        seen: list[Observation] = [*flattened.requested_in_run(read, span.attributes)]
    elif source == "google_genai" and (made := list(spans.made_by_itself(recorded))):
        seen = [*made]
    else:
        finish = flattened.finish_reason(span.attributes, read)
        seen = [model_call(span.attributes, agent, keys=OPENINFERENCE_TOKENS, finish=finish)]
        if (items := hosted_items(recorded)) is not None:
            # The flattened messages drop most of these items, and all of their results.
            output = messages.Output(agent)
            messages.Message({"content": items}, "assistant").add_to(output)
            seen += [*output.calls, *output.answers]
        else:
            seen += flattened.requested(read, recorded, agent)
    if flattened.is_empty(read, span.attributes) and not any(isinstance(one, CallRequested) for one in seen):
        seen = [replace(one, ending=one.ending or "empty") if isinstance(one, ModelCall) else one for one in seen]
    # Answers as the provider was given them, and answers that only the flattened messages have.
    provided = provider_answers(span.attributes.get(INPUT))
    known = {answer.call_id for answer in provided} - {None}
    answers = (answer for answer in flattened.answers(read.input) if answer.call_id not in known)
    seen += [*provided, *(map(spans.google_answer, answers) if source == "google_genai" else answers)]
    spoken = [text for message in read.input if message.role == "system" and (text := message.text)]
    seen += conventions.text_seen("system", spoken[-1] if spoken else None)
    seen += conventions.newest_user_text(read.input)
    seen += conventions.written_text(read.output)
    return seen


def _enclosing(span: Span, kind: str, source: str, metadata: JsonObject) -> Iterator[Observation]:
    run = spans.agent_run(span, kind, source, metadata)
    if run is not None:
        yield run
    if source == "langchain" and kind == "CHAIN":
        yield from langchain.node_answers(span.attributes.get(INPUT), span.attributes.get(OUTPUT))
        yield from langchain.waiting_calls(span)
    elif source == "crewai" and kind == "AGENT":
        yield from spans.crew_history(span.attributes.get(OUTPUT), run.agent if run is not None else None)
        if offered := spans.offered_tools(span.attributes.get(INPUT)):
            yield ToolsOffered(tools=offered)
    elif source == "crewai":
        # The tasks of a crew, the nearest thing to a user's text that CrewAI records.
        for task in values.as_list(values.decoded(span.attributes.get("crew_tasks"))):
            yield from conventions.text_seen("user", values.as_object(task).get("description"))
    elif source == "smolagents" and (found := spans.managed_agent_call(span) or spans.code_step(span)):
        yield found
    elif source == "haystack" and run is not None:
        yield from spans.haystack_history(span.attributes.get(INPUT), span.attributes.get(OUTPUT))
    elif source == "ag2":
        yield from conventions.text_seen("user", values.decoded_object(span.attributes.get(INPUT)).get("message"))
    elif source == "claude_agent_sdk" and kind == "AGENT":
        text = span.attributes.get(INPUT)
        if isinstance(text, str) and not text.startswith(("{", "[")):
            yield from conventions.text_seen("user", text)


SPAN_TYPE = "span_type"

_SCOPE = "uipath."
_CALL_IDS = (_TOOL_ID, "tool_call.id")


class UiPath(PlainDialect):
    """Reads UiPath: spans that have a tool's name and input but no span kind, or UiPath's own `span_type`."""

    name = "uipath"
    rank = 95
    marks = (TOOL_NAME,)
    scopes = (_SCOPE,)
    grounds = Grounds(keys=(TOOL_NAME,), scopes=(_SCOPE,))

    def claims(self, record: Record) -> bool:
        """Claim UiPath's spans, and other producers' spans with a tool's name and content but no span kind."""
        if isinstance(record, LogRecord):
            return False
        attributes = record.attributes
        is_own = record.scope.name.startswith(_SCOPE)
        if TOOL_NAME in attributes and KIND not in attributes:
            if is_own or INPUT in attributes or OUTPUT in attributes:
                return True
            # A shop for tools and a build write the name, too, and so do other conventions in scopes of their own.
            is_ordinary = not (
                conventions.ORDINARY.isdisjoint(attributes) and conventions.TRANSPORT.isdisjoint(attributes)
            )
            return not record.scope.name and not is_ordinary
        return SPAN_TYPE in attributes and is_own

    def _read(self, span: Span) -> Iterator[Observation]:
        kind = (values.as_str(span.attributes.get(SPAN_TYPE)) or "").upper()
        if TOOL_NAME in span.attributes or kind == "TOOL":
            attributes = span.attributes
            name = values.as_str(attributes.get(TOOL_NAME)) or (span.name if SPAN_TYPE in attributes else "")
            if name and not is_synthesized(span):
                answer = langchain.tool_answer(attributes.get(OUTPUT))
                # UiPath's own spans name the tool with it, other producers name the call.
                own = values.identifier(attributes.get(_TOOL_ID)) if span.scope.name.startswith(_SCOPE) else None
                keys = _CALL_IDS if own is None else _CALL_IDS[1:]
                call_id = next((found for key in keys if (found := values.identifier(attributes.get(key)))), None)
                yield replace(answer.of(name, call_arguments(span, ""), call_id, span_error(span)), tool_id=own)
        elif kind == "AGENT":
            yield AgentRun(agent=span.name)
            text = span.attributes.get(INPUT)
            # A function's arguments are not a user's text.
            if isinstance(text, str) and not text.startswith(("{", "[", '"')):
                yield from conventions.text_seen("user", text)
