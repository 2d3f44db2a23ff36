"""Frameworks in Python: Haystack, LiveKit, LlamaIndex, Mirascope and Pydantic AI."""

import re
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import (
    INVALID_ARGUMENTS,
    OTHER_ERROR,
    PAUSED,
    AgentRun,
    CallAnswered,
    CallError,
    CallExecuted,
    ModelCall,
    Observation,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import conventions, provider_messages, values
from toolgauge.recognize.dialect import PlainDialect, ToolFields, named_tools
from toolgauge.recognize.messages import AnyMessage, Message, Messages, messages_of, read_messages
from toolgauge.recognize.provider_messages import haystack_messages

AGENT_RUN = "haystack.agent.run"
STEP_MODEL = "haystack.agent.step.llm"
# The second is what tools are called outside of an agent's step.
TOOL_SPANS = ("haystack.agent.step.tool", "haystack.tool.invoke")
_COMPONENT = "haystack.component"
_MODEL_INPUTS = (STEP_MODEL + ".input", _COMPONENT + ".input")
COMPONENT_RUN = "haystack.component.run"

_TOOL_OUTPUT = TOOL_SPANS[0] + ".output"
_HAYSTACK_TOOL = ToolFields(
    name=("haystack.tool.name",),
    call_id=("haystack.tool.call.id",),
    arguments=(TOOL_SPANS[0] + ".input",),
    result=(_TOOL_OUTPUT,),
)
AGENT_TOOLS = "haystack.agent.tools"
COMPONENT_NAME = "haystack.component.name"
COMPONENT_TYPE = "haystack.component.type"

_PREFIX = "haystack."

# A repr costs many times as much as JSON to read.
_MAX_REPR = 250_000


class Haystack(PlainDialect):
    """Reads Haystack's own tracer. A failed call leaves the span's status unset: its output and the model's next input show it."""

    name = "haystack"
    rank = 70
    marks = (_PREFIX,)
    scopes = ("haystack",)
    grounds = Grounds(names=(_PREFIX,))

    def claims(self, record: Record) -> bool:
        """Claim Haystack's spans, unless a tracer of somebody else's wrote them in the conventions."""
        if isinstance(record, LogRecord) or not record.name.startswith(_PREFIX):
            return False
        return conventions.OPERATION not in record.attributes

    def _read(self, span: Span) -> Iterator[Observation]:
        if span.name in TOOL_SPANS:
            yield from _tool(span)
        elif span.name == STEP_MODEL:
            yield from self._model(span, STEP_MODEL)
        elif span.name == COMPONENT_RUN:
            # An agent, a model, or what runs tools; in releases up to 2 agents are made of these.
            attributes = span.attributes
            kind = values.as_str(attributes.get(COMPONENT_TYPE)) or ""
            if kind.rpartition(".")[2].endswith("Agent"):
                yield AgentRun(agent=values.as_str(attributes.get(COMPONENT_NAME)))
                return
            output = _decoded_messages(attributes.get("haystack.component.output"))
            if "replies" in output:
                yield from self._model(span, _COMPONENT)
            else:
                yield from _answers(output.get("tool_messages"))
        elif span.name == AGENT_RUN:
            yield AgentRun(agent=None)
            tools = _definitions(values.decoded(span.attributes.get(AGENT_TOOLS)))
            yield from self._conventions.offered([*tools])
            given = _decoded_messages(span.attributes.get("haystack.agent.input")).get("messages")
            yield from conventions.newest_user_text(haystack_messages(given))

    def _given(self, span: Span) -> list[Message]:
        given = values.first(span.attributes, _MODEL_INPUTS)
        return haystack_messages(_decoded_messages(given).get("messages"))

    def _model(self, span: Span, prefix: str) -> list[Observation]:
        given = _decoded_messages(span.attributes.get(prefix + ".input"))
        replies = _decoded_messages(span.attributes.get(prefix + ".output")).get("replies")
        tools, messages = [*_definitions(given.get("tools"))], haystack_messages(given.get("messages"))
        return self._model_call(ModelCall(), messages, haystack_messages(replies, "assistant"), tools)


def _definitions(value: Json) -> Iterator[Json]:
    """Open serialised tools, `{"type": "<class>", "data": {...}}`, and the sets that hold them."""
    if isinstance(value, list):
        for item in value:
            yield from _definitions(item)
        return
    tool = values.as_object(value)
    inner = tool.get("data")
    fields = inner if isinstance(inner, dict) else tool
    if isinstance(several := fields.get("tools"), list):
        yield from _definitions(several)
    elif fields:
        yield fields


def _tool(span: Span) -> Iterator[Observation]:
    call = _HAYSTACK_TOOL.read(span)
    if call is None:
        # One span for all calls of a step: the calls themselves are the model's.
        yield from _answers(_decoded_messages(span.attributes.get(_TOOL_OUTPUT)).get("tool_messages"))
        return
    # A tool that failed returns its error and nothing else.
    opened = values.as_object(call.result.value) if isinstance(call.result, Recorded) else {}
    if call.error is None and len(opened) == 1 and isinstance(message := opened.get("error"), str):
        call = replace(call, error=CallError(kind=OTHER_ERROR, message=message))
    yield call


# A content tag is JSON of dataclasses or, where some value was not JSON, the Python repr of the whole.
def _decoded_messages(value: Value) -> JsonObject:
    read = values.content(value)
    if isinstance(read, Unparsed) and read.reason == "unparsable" and len(read.text) <= _MAX_REPR:
        return values.as_object(values.from_repr(read.text))
    return values.as_object(read.value) if isinstance(read, Recorded) else {}


def _answers(messages: Json) -> Iterator[CallAnswered]:
    for message in haystack_messages(messages):
        yield from message.answers()


_LIVEKIT_SCOPE = "livekit-agents"
_NAME = "lk.function_tool.name"
_OUTPUT = "lk.pii.function_tool.output"
_IS_ERROR = "lk.function_tool.is_error"
_OFFERED = "lk.function_tools"
_REQUESTED = "lk.pii.response.function_calls"
_CONTEXT = "lk.pii.chat_ctx"
_ASKED = "lk.pii.user_input"
_TEXT = "lk.pii.response.text"
_LIVEKIT_TOOL = ToolFields(
    name=(conventions.TOOL_NAME, _NAME),
    call_id=(conventions.CALL_ID, "lk.function_tool.id"),
    arguments=(conventions.ARGUMENTS, "lk.pii.function_tool.arguments"),
    result=(conventions.RESULT, _OUTPUT),
)


class LiveKit(PlainDialect):
    """Reads LiveKit Agents: the conventions, and its own keys for content that it leaves out of the conventions' keys."""

    name = "livekit"
    rank = 76
    marks = ("lk.", "gen_ai.")
    scopes = (_LIVEKIT_SCOPE,)
    grounds = Grounds(scopes=(_LIVEKIT_SCOPE,))

    def _read(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        if attributes.get(_NAME) is not None and (call := _LIVEKIT_TOOL.read(span)) is not None:
            if attributes.get(_IS_ERROR) is True:
                kind = call.error.kind if call.error is not None else OTHER_ERROR
                call = replace(call, error=CallError(kind=kind, message=values.as_str(attributes.get(_OUTPUT)) or ""))
            yield replace(call, agent=values.as_str(attributes.get(conventions.AGENT)))
        elif _OFFERED in attributes and conventions.OPERATION not in attributes:
            # The step around a model's request: it has the same content.
            yield from named_tools(values.plain(attributes.get(_OFFERED)))
            calls, text = values.decoded(attributes.get(_REQUESTED)), values.plain(attributes.get(_TEXT))
            written = Message({"tool_calls": calls, "content": text}, "assistant")
            yield from self._model_call(ModelCall(may_repeat=True), self._given(span), [written])
        else:
            for seen in self._conventions.read_span(span):
                yield seen
                if isinstance(seen, AgentRun):
                    yield from conventions.text_seen("user", attributes.get(_ASKED))

    def _given(self, span: Span) -> list[Message] | None:
        items = values.as_list(values.decoded_object(span.attributes.get(_CONTEXT)).get("items"))
        return messages_of(items, "user") if _CONTEXT in span.attributes else None


_LLAMA_SCOPE = "llamaindex.opentelemetry.tracer"
_TAGS = "llamaindex."
_STEP = "llamaindex.step.input_summary"
_START, _END = "LLMChatStartEvent", "LLMChatEndEvent"
_LLAMA_MESSAGES = "messages"
_TOOLS = "additional_kwargs.tools"
_MESSAGE = "response.message."
_TOKENS = ("response.raw.usage.prompt_tokens", "response.raw.usage.completion_tokens")
_TOOL_METHODS = ("call", "acall", "__call__")
_CALL = re.compile(r"ToolCall\(tool_name='([^'\\]{1,256})', tool_kwargs=(.*)", re.DOTALL)
_WHOLE = re.compile(r"(.*), tool_id='([^'\\]{1,256})'\)", re.DOTALL)


class LlamaIndex(PlainDialect):
    """Reads the spans of LlamaIndex's own package for OpenTelemetry.

    Model calls are events on spans; tools are steps of workflows, of which spans have only the first 200 characters. Results
    come from the history of the next model call.
    """

    name = "llama_index"
    rank = 78
    marks = (_TAGS,)
    scopes = (_LLAMA_SCOPE,)
    prefixes = (_TAGS,)
    conversations = tuple(_TAGS + key for key in ("session_id", "conversation_id", "thread_id"))
    grounds = Grounds(scopes=(_LLAMA_SCOPE,))

    def _read(self, span: Span) -> Iterator[Observation]:
        start, end = conventions.event(span, _START), conventions.event(span, _END) or {}
        of_class, _, method = span.name.partition(".")
        if start is not None:
            sent, received = (conventions.token_count(end.get(key)) for key in _TOKENS)
            # Streamed outputs have no event: their calls come from the history of the next model call.
            message: dict[str, Json] = {
                "blocks": values.decoded(end.get(_MESSAGE + "blocks")),
                "additional_kwargs": {"tool_calls": values.decoded(end.get(_MESSAGE + "additional_kwargs.tool_calls"))},
            }
            written = messages_of([*provider_messages.written({"message": message})], "assistant")
            call = ModelCall(input_tokens=sent, output_tokens=received)
            yield from self._model_call(call, self._given(span), written, start.get(_TOOLS))
        elif "Tool" in of_class and method in _TOOL_METHODS:
            found = _CALL.match(values.as_str(span.attributes.get(_STEP)) or "")
            if found is not None:
                whole = _WHOLE.fullmatch(found[2])
                arguments: Content = values.arguments(whole[1]) if whole is not None else NOT_RECORDED
                call_id = whole[2] if whole is not None else None
                yield CallExecuted(
                    name=found[1], call_id=call_id, arguments=arguments, error=conventions.call_error(span)
                )
        elif "Agent" in of_class and method == "run":
            yield AgentRun(agent=None)

    def _given(self, span: Span) -> list[Message]:
        start = conventions.event(span, _START) or {}
        return messages_of(provider_messages.given(values.decoded(start.get(_LLAMA_MESSAGES))), "user")


_CONTENT = "mirascope.response.content"
_MIRASCOPE_MESSAGES = "mirascope.response.messages"
_SESSION = "mirascope.ops.session.id"


class Mirascope(PlainDialect):
    """Reads Mirascope's model calls: the conventions, with the arguments of calls as the model wrote them."""

    name = "mirascope"
    rank = 74
    marks = ("mirascope.",)
    grounds = Grounds(keys=(_CONTENT, _SESSION))
    conversations = (_SESSION,)

    def _read(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        # Spans around a model call repeat its content.
        if attributes.get(conventions.OPERATION) in conventions.MODEL_OPERATIONS:
            content = values.as_list(values.decoded(attributes.get(_CONTENT)))
            written: dict[str, Value] = (
                {conventions.OUTPUT: [{"role": "assistant", "content": content}]} if content else {}
            )
            yield from self._conventions.model_call(ChainMap(written, {**attributes}), span.ref.trace_id)

    def _given(self, span: Span) -> Messages | None:
        given = span.attributes.get(_MIRASCOPE_MESSAGES)
        return None if given is None else read_messages(given, "user")


_PYDANTIC_SCOPE = "pydantic-ai"
_ARGUMENTS = "tool_arguments"
_RESULT = "tool_response"
_EVENTS = "events"
_PYDANTIC_TOOL = ToolFields(arguments=(conventions.ARGUMENTS, _ARGUMENTS), result=(conventions.RESULT, _RESULT))
# Why a call waits: `ApprovalRequired` or `CallDeferred`.
_DEFERRAL = "pydantic_ai.tool.deferral.name"
# On the run: its output, which lists the calls that wait where the run stopped for them.
_FINAL = "final_result"
_WAITING = ("approvals", "calls")
_OFFER = "model_request_parameters"
_FUNCTION_TOOLS = "function_tools"
_PYDANTIC_AGENT = "agent_name"
_AGENT_SPAN = "agent run"
_TOOL_SPAN = "running tool"
_REPAIR = "\n\nFix the errors and try again."
_VALIDATED = re.compile(r"\d{1,6} validation errors?: \[")


class PydanticAI(PlainDialect):
    """Pydantic AI before its formats 3 and later, which follow the conventions.

    Format 2 has own keys on tool spans; format 1 has events as JSON in one attribute; the oldest releases name no operation.
    """

    name = "pydantic_ai"
    rank = 84
    marks: tuple[str, ...] = ()
    scopes = (_PYDANTIC_SCOPE,)
    grounds = Grounds(scopes=(_PYDANTIC_SCOPE,))

    def claims(self, record: Record) -> bool:
        """Claim spans that the conventions cannot read, or not in full."""
        if record.scope.name != _PYDANTIC_SCOPE:
            return False
        if not isinstance(record, Span):
            return record.event_name == conventions.TOOL_MESSAGE
        attributes = record.attributes
        if any(key in attributes for key in (_ARGUMENTS, _RESULT, _EVENTS, _DEFERRAL)):
            return True
        if _lists_waiting(attributes.get(_FINAL)):
            return True
        if conventions.OPERATION not in attributes:
            return record.name in (_AGENT_SPAN, _TOOL_SPAN)
        return _OFFER in attributes and conventions.DEFINITIONS not in attributes

    def _read_log(self, record: LogRecord) -> Iterable[Observation]:
        return map(_with_refusal, self._conventions.read_log(record))

    def _read(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        operation = attributes.get(conventions.OPERATION)
        if operation == conventions.EXECUTE or (operation is None and span.name == _TOOL_SPAN):
            call = _PYDANTIC_TOOL.read(span, agent=values.as_str(attributes.get(conventions.AGENT)))
            if call is not None:
                is_deferred = values.as_str(attributes.get(_DEFERRAL)) is not None
                yield replace(call, error=CallError(kind=PAUSED, message="")) if is_deferred else call
        elif operation is None and span.name == _AGENT_SPAN:
            yield AgentRun(
                agent=values.as_str(attributes.get(conventions.AGENT)) or values.as_str(attributes.get(_PYDANTIC_AGENT))
            )
        else:
            yield from self._conventions.read_span(span)
            if operation in conventions.MODEL_OPERATIONS:
                # Its own keys, where a model's span lacks the conventions' keys.
                if conventions.DEFINITIONS not in attributes:
                    offer = values.decoded_object(attributes.get(_OFFER))
                    yield from self._conventions.offered(offer.get(_FUNCTION_TOOLS))
                if conventions.INPUT not in attributes and conventions.OUTPUT not in attributes:
                    agent = values.as_str(attributes.get(conventions.AGENT))
                    for event in _events(attributes):
                        name = values.as_str(event.get("event.name")) or ""
                        yield from map(_with_refusal, conventions.message_event(name, event, agent))
            elif _lists_waiting(attributes.get(_FINAL)):
                # Calls for which the run stopped: a person has to approve them, or they are carried out elsewhere.
                requests = values.decoded_object(attributes.get(_FINAL))
                waiting = [item for key in _WAITING for item in values.as_list(requests.get(key))]
                for call in map(values.as_object, waiting):
                    call_id, name = values.as_str(call.get("tool_call_id")), values.as_str(call.get("tool_name"))
                    if call_id is not None:
                        yield CallAnswered(call_id=call_id, name=name, error=CallError(kind=PAUSED, message=""))

    def _given(self, span: Span) -> list[AnyMessage] | None:
        if conventions.INPUT in span.attributes or span.events:
            return None
        return [
            message
            for event in _events(span.attributes)
            if (role := conventions.HISTORY_EVENTS.get(values.as_str(event.get("event.name")) or "")) is not None
            for message in read_messages(conventions.event_body(event), role)
        ]


def _lists_waiting(final: Value) -> bool:
    return isinstance(final, str) and '"approvals"' in final and '"tool_call_id"' in final


def _events(attributes: Mapping[str, Value]) -> list[JsonObject]:
    return [*map(values.as_object, values.as_list(values.decoded(attributes.get(_EVENTS))))]


def _with_refusal(seen: Observation) -> Observation:
    """Read the failure that the model is asked to repair: the span of the tool does not record it."""
    if not isinstance(seen, CallAnswered) or seen.error is not None:
        return seen
    returned = values.text_of(seen.result)
    if not returned.endswith(_REPAIR):
        return seen
    kind = INVALID_ARGUMENTS if _VALIDATED.match(returned) else OTHER_ERROR
    return replace(seen, error=CallError(kind=kind, message=returned))
