"""Frameworks in JavaScript and Java: Mastra, the Vercel AI SDK, VoltAgent and Spring AI."""

import re
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import JsonObject, Value
from toolgauge.model.observations import (
    INVALID_ARGUMENTS,
    OTHER_ERROR,
    REFUSED,
    UNKNOWN_TOOL,
    AgentRun,
    CallAnswered,
    CallError,
    CallRequested,
    ConversationSeen,
    ModelCall,
    Observation,
    ToolDefinition,
    ToolsOffered,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import conventions, values
from toolgauge.recognize.dialect import PlainDialect, ToolFields, named_tools
from toolgauge.recognize.messages import Message, Messages, read_messages

_MASTRA_KIND = "mastra.span.type"
_MASTRA_METADATA = "mastra.metadata."
_RUN_INPUT = "mastra.agent_run.input"
_STEP_INPUT = "mastra.model_step.input"
_STEP_OUTPUT = "mastra.model_step.output"
# What the provider answered, to the letter.
_BODY = _MASTRA_METADATA + "body"
_MASTRA_CONVERSATIONS = tuple(
    _MASTRA_METADATA + key for key in ("threadId", "sessionId", "conversationId", "thread_id", "session_id")
)

_RUN, _STEP, _MASTRA_TOOL = "agent_run", "model_step", "tool_call"
_TOOLS = (_MASTRA_TOOL, "mcp_tool_call")
# These repeat what their steps have.
_REPEATING = ("model_generation", "model_chunk")


class Mastra(PlainDialect):
    """Reads Mastra: the conventions, and `mastra.*` attributes that fill their gaps.

    Requests are read from the step (`model_step`); `model_generation` and chunks repeat them. Arguments that break a tool's
    schema come back as a result of a span that went well, though the tool never ran.
    """

    name = "mastra"
    rank = 85
    marks = ("mastra.",)
    prefixes = (_MASTRA_METADATA,)
    grounds = Grounds(keys=(_MASTRA_KIND,))
    conversations = _MASTRA_CONVERSATIONS

    def _read(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        kind = attributes.get(_MASTRA_KIND)
        if kind == _RUN:
            yield AgentRun(agent=values.as_str(attributes.get(conventions.AGENT)))
            offered = attributes.get(conventions.DEFINITIONS)
            yield from named_tools(values.decoded(offered)) or self._conventions.offered(offered)
            yield from conventions.system(attributes.get(conventions.SYSTEM))
            yield from conventions.newest_user_text(read_messages(attributes.get(_RUN_INPUT), "user"))
        elif kind in _TOOLS:
            call = conventions.executed(span, conventions.EXECUTE, None)
            if call is not None:
                answer = values.as_object(call.result.value) if isinstance(call.result, Recorded) else {}
                if call.error is None and answer.get("error") is True and "validationErrors" in answer:
                    # The tool's schema does not allow the arguments: the tool never ran. An empty object replaces unreadable arguments.
                    given = NOT_RECORDED if call.arguments == Recorded({}) else call.arguments
                    error = CallError(kind=INVALID_ARGUMENTS, message=values.as_str(answer.get("message")) or "")
                    call = replace(call, arguments=given, error=error)
                # A tool that suspends its run ends like one that worked, without a result.
                yield conventions.ended_without_result(call)
        elif kind == _STEP:
            yield from _step(attributes)
        elif kind not in _REPEATING or attributes.get(conventions.OPERATION) in conventions.MODEL_OPERATIONS:
            yield from self._conventions.read_span(span)


def _step(attributes: Mapping[str, Value]) -> Iterator[Observation]:
    yield from conventions.newest_user_text(read_messages(attributes.get(_STEP_INPUT), "user"))
    output = values.decoded_object(attributes.get(_STEP_OUTPUT))
    calls = values.as_list(output.get("toolCalls"))
    parts: JsonObject = {"tool_calls": calls, "parts": [{"type": "text", "content": output.get("text")}]}
    for seen in conventions.written([Message(parts, "assistant")], None):
        if isinstance(seen, CallRequested) and seen.call_id is not None and seen.arguments == Recorded({}):
            # The provider's own answer: an empty object also stands for text that Mastra could not parse.
            choices = values.as_list(values.decoded_object(attributes.get(_BODY)).get("choices"))
            message = values.as_object(values.as_object(choices[0] if choices else None).get("message"))
            for call in map(values.as_object, values.as_list(message.get("tool_calls"))):
                if call.get("id") == seen.call_id:
                    found = values.arguments(values.as_object(call.get("function")).get("arguments"))
                    yield seen if isinstance(found, NotRecorded) else replace(seen, arguments=found)
                    break
            else:
                yield seen
        else:
            yield seen


_VERCEL_SCOPE = "gen_ai"
_VERCEL_OPERATION = "ai.operationId"
# Older versions tell the operation here, with the function's id behind it: `ai.toolCall assistant`.
_NAME_AND_FUNCTION = "operation.name"
_FUNCTION = "ai.telemetry.functionId"
_CONTEXT = "ai.settings.context."
_VERCEL_METADATA = "ai.telemetry.metadata."
_TOOL_NAME = "ai.toolCall.name"
_PROMPT = "ai.prompt"
_PROMPT_MESSAGES = "ai.prompt.messages"
_PROMPT_TOOLS = "ai.prompt.tools"
_TEXTS = ("ai.response.text", "ai.result.text")
_CALLS = ("ai.response.toolCalls", "ai.result.toolCalls")
_VERCEL_TOOL = ToolFields(
    name=(_TOOL_NAME,),
    call_id=("ai.toolCall.id",),
    arguments=("ai.toolCall.args", "ai.toolCall.input"),
    result=("ai.toolCall.result", "ai.toolCall.output"),
)

# Older versions write the second.
_FINISH_REASON = "ai.response.finishReason"
_VERCEL_TOKENS = (
    ("ai.usage.inputTokens", "ai.usage.promptTokens", *conventions.TOKEN_KEYS[0]),
    ("ai.usage.outputTokens", "ai.usage.completionTokens", *conventions.TOKEN_KEYS[1]),
)
_TOOL_CALL = "ai.toolCall"
_RUNS = ("ai.generateText", "ai.streamText")
_MODEL_CALLS = (".doGenerate", ".doStream")
# Applications choose the key; tracing services ask for these names.
_VERCEL_CONVERSATIONS = tuple(
    prefix + key
    for prefix in (_CONTEXT, _VERCEL_METADATA)
    for word in ("conversation", "session", "thread", "chat")
    for key in (word + "Id", word + "_id", word + ".id", word + "ID")
)

# Tuples, not sets: the value looked up may be an unhashable list or object.
_ANSWER_TYPES = ("tool-result", "tool-error")
_FAILED = ("error-text", "error-json")
# The type of the output of a call that a person refused.
_DENIED = "execution-denied"
_ENVELOPES = ("text", "json", "content", *_FAILED)


class Vercel(PlainDialect):
    """Vercel AI SDK: spans `ai.*` of its own form, and the conventions with the SDK's context beside them.

    Below a run (`ai.generateText`, `ai.streamText`) are model calls (`.doGenerate`, `.doStream`) and `ai.toolCall`, sometimes
    below its model call. The run repeats the last calls as its response, which is not read: they would count twice.
    """

    name = "vercel"
    rank = 83
    marks = ("ai.",)
    prefixes = (_VERCEL_METADATA, _CONTEXT)
    grounds = Grounds(keys=(_VERCEL_OPERATION, _TOOL_NAME), scopes=(_VERCEL_SCOPE,))
    conversations = _VERCEL_CONVERSATIONS

    def claims(self, record: Record) -> bool:
        """Claim spans with an operation of the SDK, and spans of any form with its context."""
        if isinstance(record, LogRecord):
            return False
        attributes = record.attributes
        if _VERCEL_OPERATION in attributes or _TOOL_NAME in attributes:
            return True
        # Looking through all keys is dear; only spans in the conventions' form need it, and these have one scope.
        return record.scope.name == _VERCEL_SCOPE and any(
            key.startswith((_CONTEXT, _VERCEL_METADATA)) for key in attributes
        )

    def _read(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        named = (values.as_str(attributes.get(key)) for key in (_VERCEL_OPERATION, _NAME_AND_FUNCTION))
        operation = (next(filter(None, named), None) or span.name).partition(" ")[0]
        agent = values.as_str(attributes.get(_FUNCTION))
        if operation == _TOOL_CALL:
            if (call := _VERCEL_TOOL.read(span, agent=agent)) is not None:
                yield call
        elif operation in _RUNS:
            yield AgentRun(agent=agent)
            recorded = values.decoded_object(attributes.get(_PROMPT))
            yield from conventions.system(values.as_str(recorded.get("system")))
            asked = recorded.get("prompt")
            if isinstance(asked, str):
                messages: list[_SdkMessage] = [_SdkMessage({"role": "user", "content": asked}, "")]
            else:
                messages = _messages(values.as_list(recorded.get("messages")) or values.as_list(asked))
            yield from conventions.newest_user_text(messages)
            yield from conventions.text_seen("assistant", values.first(attributes, _TEXTS))
        elif operation.startswith("ai.") and operation.endswith(_MODEL_CALLS):
            finish = attributes.get(_FINISH_REASON)
            call = conventions.model_call(attributes, agent, keys=_VERCEL_TOKENS, finish=finish)
            calls: JsonObject = {"tool_calls": [*values.objects(values.first(attributes, _CALLS), "")]}
            yield from self._model_call(
                call, self._given(span), [Message(calls, "assistant")], attributes.get(_PROMPT_TOOLS)
            )
            yield from conventions.text_seen("assistant", values.first(attributes, _TEXTS))
        elif not operation.startswith("ai."):
            yield from self._conventions.read_span(span)

    def _given(self, span: Span) -> Messages | None:
        given = span.attributes.get(_PROMPT_MESSAGES)
        return None if given is None else _messages(given)


class _SdkMessage(Message):
    """A message of the AI SDK: its answers are in envelopes of their own."""

    __slots__ = ()

    def answers(self) -> list[CallAnswered]:
        # What the provider ran itself is answered in the assistant's own message.
        by_provider = self.role == "assistant"
        return [_answer(part, by_provider=by_provider) for part in self._parts if part.get("type") in _ANSWER_TYPES]


def _messages(value: Value) -> list[_SdkMessage]:
    return [_SdkMessage(message, "") for message in values.objects(value, "")]


def _answer(part: JsonObject, *, by_provider: bool) -> CallAnswered:
    call_id, name = values.identifier(part.get("toolCallId")), values.as_str(part.get("toolName"))
    output = part["output"] if "output" in part else part.get("result", part.get("error"))
    failed = part.get("isError") is True or part.get("type") == "tool-error"
    if isinstance(output, dict) and output.get("type") == _DENIED:
        reason = values.as_str(output.get("reason")) or ""
        return CallAnswered(call_id=call_id, name=name, error=CallError(kind=REFUSED, message=reason))
    if isinstance(output, dict) and output.get("type") in _ENVELOPES:
        failed = failed or output.get("type") in _FAILED
        output = output.get("value")
    message = "" if output is None else values.text_of(output) or values.dump(output)
    return CallAnswered(
        call_id=call_id,
        name=name,
        result=NOT_RECORDED if failed else values.result_inside(output),
        error=CallError(kind=OTHER_ERROR, message=message) if failed else None,
        by_provider=by_provider,
    )


_VOLTAGENT_SCOPE = "@voltagent/"
_VOLTAGENT_KIND = "span.type"
_ENTITY = "entity.type"
_NAME = "entity.name"
_VOLTAGENT_OPERATION = "voltagent.operation_id"
_INPUT = "input"
_OUTPUT = "output"
_MESSAGES = ("agent.messages", "llm.messages")
_SNAPSHOT = "agent.stateSnapshot"
_VOLTAGENT_TOOL = ToolFields(name=("tool.name",), call_id=("tool.call.id",), arguments=(_INPUT,), result=(_OUTPUT,))
_TOOL_NAMES = "llm.tools"
_VOLTAGENT_TOKENS = (("llm.usage.prompt_tokens",), ("llm.usage.completion_tokens",))
_SUBAGENT = "subagent:"


class VoltAgent(PlainDialect):
    """Reads VoltAgent's own spans: runs of agents, calls of models and of tools.

    One model span stands for all steps of a run, without the requests in them: a call of a tool that does not exist, or with
    arguments that break its schema, leaves no trace.
    """

    name = "voltagent"
    rank = 87
    marks = ("voltagent.",)
    scopes = (_VOLTAGENT_SCOPE,)
    grounds = Grounds(keys=(_VOLTAGENT_OPERATION,), scopes=(_VOLTAGENT_SCOPE,))
    needs = (_VOLTAGENT_KIND, _ENTITY)
    # The second is what applications set on runs outside of a conversation that is kept.
    conversations = ("conversation.id", "voltagent.conversation_id")

    def _read(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        kind = attributes.get(_VOLTAGENT_KIND)
        if kind == "tool":
            if (call := _VOLTAGENT_TOOL.read(span)) is not None:
                yield call
        elif kind == "llm":
            yield conventions.model_call(attributes, keys=_VOLTAGENT_TOKENS)
            listed = attributes.get(_TOOL_NAMES)
            yield from named_tools([name.strip() for name in listed.split(",")] if isinstance(listed, str) else [])
            yield from _texts(attributes)
        elif (kind is None or kind == "agent") and attributes.get(_ENTITY) == "agent":
            # The run of an agent below has its caller's entity; only the span's name has its own.
            below = span.name.removeprefix(_SUBAGENT) if span.name.startswith(_SUBAGENT) else ""
            yield AgentRun(agent=below or values.as_str(attributes.get(_NAME)))
            yield from _texts(attributes)
            yield from conventions.text_seen("assistant", attributes.get(_OUTPUT))
            # The parameters of a snapshot's tools are the insides of a zod schema, from which no JSON Schema follows.
            state = values.decoded_object(attributes.get(_SNAPSHOT))
            listed = map(values.as_object, values.as_list(state.get("tools")))
            yield from self._conventions.offered(
                [{"name": tool.get("name"), "description": tool.get("description")} for tool in listed]
            )


def _texts(attributes: Mapping[str, Value]) -> Iterator[Observation]:
    messages = read_messages(values.first(attributes, _MESSAGES), "user")
    yield from conventions.received(messages) if messages else conventions.text_seen("user", attributes.get(_INPUT))


_SPRING = "spring.ai."
_SPRING_KIND = _SPRING + "kind"

_SPRING_TOOL_NAME = _SPRING + "tool.definition.name"
_TOOL_DESCRIPTION = _SPRING + "tool.definition.description"
_TOOL_SCHEMA = _SPRING + "tool.definition.schema"
_SPRING_TOOL = ToolFields(
    name=(_SPRING_TOOL_NAME,),
    call_id=(_SPRING + "tool.call.id", conventions.CALL_ID),
    arguments=(_SPRING + "tool.call.arguments", conventions.ARGUMENTS),
    result=(_SPRING + "tool.call.result", conventions.RESULT),
)

_SPRING_CONVERSATION = _SPRING + "chat.client.conversation.id"
_CLIENT_TOOLS = _SPRING + "chat.client.tool.names"
_MODEL_TOOLS = _SPRING + "model.request.tool.names"

_COUNT = re.compile(r"[0-9]{1,12}")
# Nothing else has the name of a missing tool that the model asked for.
_NO_SUCH_TOOL = re.compile(r"No ToolCallback found for tool name: (\S{1,200})\s*")


class SpringAI(PlainDialect):
    """Reads Spring AI: the observations of its chat clients, advisors, models and tools, as Micrometer turns them into spans.

    The tracer's scope is the application's, so keys show the spans. Every value is text. Releases up to 1.1 write no call id,
    no span has the model's requests, and a tool that raises has the exception's message in place of a result in JSON.
    """

    name = "spring_ai"
    rank = 81
    marks = (_SPRING,)
    grounds = Grounds(keys=(_SPRING_KIND, _SPRING_TOOL_NAME, _MODEL_TOOLS))
    conversations = None

    def _read(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        conversation = values.identifier(attributes.get(_SPRING_CONVERSATION))
        if conversation is not None:
            yield ConversationSeen(conversation_id=conversation, rank=0)
        else:
            yield from conventions.conversation(attributes)
        kind = attributes.get(_SPRING_KIND)
        if kind == "tool_call" or (kind is None and _SPRING_TOOL_NAME in attributes):
            yield from _spring_executed(span)
        elif kind == "chat_client":
            yield AgentRun(agent=values.as_str(attributes.get(conventions.AGENT)))
            yield from named_tools(values.decoded(attributes.get(_CLIENT_TOOLS)))
            # The call that ended the run because no tool has its name.
            failed = span.status_message if span.status == "error" else ""
            if (found := _NO_SUCH_TOOL.fullmatch(failed)) is not None:
                yield CallRequested(position=0, name=found[1])
                yield CallAnswered(name=found[1], error=CallError(kind=UNKNOWN_TOOL, message=failed))
        elif _MODEL_TOOLS in attributes:
            yield from named_tools(values.decoded(attributes.get(_MODEL_TOOLS)))
            # Its span has tokens as text, finish reasons in capitals.
            reasons = (values.as_str(attributes.get(conventions.FINISH_REASONS)) or "").lower()
            tokens = [values.first(attributes, keys) for keys in conventions.TOKEN_KEYS]
            sent, received = (
                conventions.token_count(int(one) if isinstance(one, str) and _COUNT.fullmatch(one) else one)
                for one in tokens
            )
            for seen in self._conventions.read_span(span):
                if isinstance(seen, ModelCall):
                    yield replace(
                        seen,
                        stopped_for_tools=conventions.stopped_for_tools({conventions.FINISH_REASONS: reasons}),
                        input_tokens=sent,
                        output_tokens=received,
                        # Up to 1.1, the sums of a whole loop over tools, whose calls are below one span.
                        may_add_up=True,
                    )
                else:
                    yield seen


def _spring_executed(span: Span) -> Iterator[Observation]:
    attributes = span.attributes
    call = _SPRING_TOOL.read(span, span.name.partition(" ")[2].strip())
    if call is None:
        return
    # Spring AI writes a result as JSON: bare text is an exception's message, or comes from a user's converter.
    value = values.first(attributes, _SPRING_TOOL.result)
    is_bare = isinstance(call.result, Recorded) and call.result.value == value
    if isinstance(value, str) and is_bare and value[:1] not in ('"', "{", "[", ""):
        call = replace(call, result=Unparsed(value))
    yield call
    schema, description = values.decoded(attributes.get(_TOOL_SCHEMA)), attributes.get(_TOOL_DESCRIPTION)
    parameters = schema if isinstance(schema, dict) else None
    tool = ToolDefinition(name=call.name, description=values.as_str(description), parameters=parameters)
    yield ToolsOffered(tools=(tool,))
