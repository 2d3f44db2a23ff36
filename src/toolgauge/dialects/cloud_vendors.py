"""Frameworks of cloud vendors: Amazon's Strands Agents and Bedrock AgentCore, Google's Agent Development Kit and Genkit."""

import re
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
    MessageSeen,
    ModelCall,
    Observation,
    ToolDefinition,
    ToolsOffered,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span, SpanEvent
from toolgauge.recognize import conventions, provider_messages, values
from toolgauge.recognize.dialect import PlainDialect, ToolFields, named_tools
from toolgauge.recognize.langchain import tool_answer
from toolgauge.recognize.messages import AnyMessage, Message, calls_of, messages_of, read_messages
from toolgauge.recognize.provider_messages import blocks_message

_STRANDS = "strands"
# The frameworks whose content is moved; `event.name` holds the name of the span's scope.
_MOVED = (_STRANDS, "opentelemetry.instrumentation.", "openinference.instrumentation.", "openlit.", "gcp.vertex.agent")
_SIDES = ("input", "output")
_TOOL_RESULT = "tool.result"


class AgentCore(PlainDialect):
    """Reads Bedrock AgentCore: log records that hold the content of spans, moved there by AWS's distribution of OpenTelemetry.

    A record names its span, which another dialect reads, and is named after the span's scope; its body is `{input: {messages},
    output: {messages}}`. A tool's record is recognized by the role of its input, and does not name the tool.
    """

    name = "agentcore"
    rank = 79
    marks = _MOVED
    grounds = Grounds()

    def claims(self, record: Record) -> bool:
        """Claim log records that are named after their scope and have messages on at least one side."""
        if not isinstance(record, LogRecord) or not record.event_name.startswith(_MOVED):
            return False
        body = record.body
        if record.event_name != record.scope.name or not isinstance(body, Mapping):
            return False
        return any(isinstance(body.get(side), Mapping) for side in _SIDES)

    def _read_log(self, record: LogRecord) -> Iterator[Observation]:
        recorded = values.decoded_object(record.body)
        sides = (values.as_list(values.as_object(recorded.get(side)).get("messages")) for side in _SIDES)
        given, written = ([values.as_object(one) for one in messages] for messages in sides)
        if not record.event_name.startswith(_STRANDS):
            # Answers and texts; the spans still name the called tools.
            for message in written:
                answer = tool_answer(message.get("content"))
                if answer.call_id is not None:
                    yield CallAnswered(call_id=answer.call_id, result=answer.result, error=answer.error)
            # Whole states of graphs are written as a user's message, too, but as JSON.
            texts = [(one, one.get("content")) for one in given]
            spoken = [one for one, text in texts if isinstance(text, str) and text.lstrip()[:1] not in ("{", "[")]
            yield from conventions.newest_user_text([Message(one, "user") for one in spoken])
        elif (execution := _agentcore_executed(given, written)) is not None:
            yield execution
        else:
            yield from conventions.received([_blocks(message, "user") for message in given])
            # A tool's result is a message of its own, of text, beside the model's messages.
            outputs = [_blocks(message, "assistant") for message in written if isinstance(message.get("content"), dict)]
            yield from conventions.written(outputs, None)
            for message in written:
                result = values.as_object(message.get("content")).get(_TOOL_RESULT)
                yield from blocks_message("tool", result).answers()


def _agentcore_executed(given: list[JsonObject], written: list[JsonObject]) -> CallExecuted | None:
    """Read a tool's record: arguments in a message of role `tool`, which on a model's record holds result blocks."""
    if len(given) != 1 or given[0].get("role") != "tool":
        return None
    recorded = values.as_object(given[0].get("content"))
    arguments = values.arguments(recorded.get("content"))
    is_answer = isinstance(arguments, Unparsed) and arguments.text.lstrip().startswith("[")
    if arguments == NOT_RECORDED or is_answer:
        return None
    answered = values.as_object(written[0].get("content")) if written else {}
    call_id = values.identifier(recorded.get("id")) or values.identifier(answered.get("id"))
    result = values.opened_blocks(values.content(answered.get("message")))
    return CallExecuted(name="", call_id=call_id, arguments=arguments, result=result)


def _blocks(message: JsonObject, default_role: str) -> Message:
    recorded = message.get("content")
    if isinstance(recorded, dict):
        recorded = recorded.get("content", recorded.get("message"))
    return blocks_message(values.as_str(message.get("role")) or default_role, recorded)


_STRANDS_SCOPES = ("strands.", "strands-agents")
_SYSTEMS = ("gen_ai.system", "gen_ai.provider.name")
_SYSTEM = "strands-agents"
_STATUS = "gen_ai.tool.status"
_AGENT_TOOLS = "gen_ai.agent.tools"
_SCHEMA = "gen_ai.tool.json_schema"
_DESCRIPTION = "gen_ai.tool.description"
_ROLES = {conventions.SYSTEM_MESSAGE: "system", conventions.USER_MESSAGE: "user", conventions.TOOL_MESSAGE: "tool"}


class Strands(PlainDialect):
    """Strands Agents: the GenAI conventions, but content is in span events, as Bedrock's content blocks.

    By default (up to 1.36) these are per-message events, with `gen_ai_latest_experimental` events
    `gen_ai.client.inference.operation.details`. A tool span's first event holds the arguments, its last one the result.
    """

    name = "strands"
    rank = 81
    marks = ("gen_ai.",)
    grounds = Grounds(values=tuple((key, _SYSTEM) for key in _SYSTEMS), scopes=_STRANDS_SCOPES)

    def _read(self, span: Span) -> Iterator[Observation]:
        operation = span.attributes.get(conventions.OPERATION)
        if operation == conventions.EXECUTE:
            yield from _strands_executed(span)
        elif operation == conventions.INVOKE:
            yield AgentRun(agent=values.as_str(span.attributes.get(conventions.AGENT)))
            yield from self._offered(span.attributes)
            # Calls and answers among an agent's messages repeat its models'.
            yield from (seen for seen in _strands_messages(span, None) if isinstance(seen, MessageSeen))
        elif operation in conventions.MODEL_OPERATIONS:
            agent = values.as_str(span.attributes.get(conventions.AGENT))
            yield conventions.model_call(span.attributes, agent)
            yield from self._offered(span.attributes)
            yield from _strands_messages(span, agent)

    def _given(self, span: Span) -> list[AnyMessage]:
        received: list[AnyMessage] = []
        for event in span.events:
            _gather(event, received, [])
        return received

    def _offered(self, attributes: Mapping[str, Value]) -> Iterable[ToolsOffered]:
        defined = attributes.get(conventions.DEFINITIONS)
        named = values.decoded(attributes.get(_AGENT_TOOLS)) if defined is None else None
        return self._conventions.offered(defined) or named_tools(named)


def _strands_messages(span: Span, agent: str | None) -> Iterator[Observation]:
    yield from conventions.system(span.attributes.get(conventions.SYSTEM))
    received: list[AnyMessage] = []
    written: list[AnyMessage] = []
    for event in span.events:
        _gather(event, received, written)
        if event.name == conventions.DETAILS:
            yield from conventions.system(event.attributes.get(conventions.SYSTEM))
    for returned in conventions.received(received):
        yield (
            replace(returned, result=values.opened_blocks(returned.result))
            if isinstance(returned, CallAnswered)
            else returned
        )
    yield from conventions.written(written, agent)


def _gather(event: SpanEvent, received: list[AnyMessage], written: list[AnyMessage]) -> None:
    attributes = event.attributes
    if event.name == conventions.DETAILS:
        received.extend(read_messages(attributes.get(conventions.INPUT), "user"))
        written.extend(read_messages(attributes.get(conventions.OUTPUT), "assistant"))
    elif event.name == conventions.CHOICE:
        written.append(blocks_message("assistant", attributes.get("message")))
    elif event.name in _ROLES:
        received.append(blocks_message(_ROLES[event.name], attributes.get("content")))


def _strands_executed(span: Span) -> Iterator[Observation]:
    call = conventions.executed(span, conventions.EXECUTE, None)
    if call is None:
        return
    arguments, result = call.arguments, values.opened_blocks(call.result)
    for event in span.events:
        attributes = event.attributes
        if event.name == conventions.TOOL_MESSAGE and arguments == NOT_RECORDED:
            # The event occurs only where content is recorded.
            arguments = values.arguments_beside(attributes.get("content"), event.name)
        elif event.name == conventions.CHOICE and result == NOT_RECORDED:
            result = values.opened_blocks(values.content(attributes.get("message")))
        elif event.name == conventions.DETAILS:
            if arguments == NOT_RECORDED:
                asked = read_messages(attributes.get(conventions.INPUT), "tool")
                arguments = next((one.arguments for message in asked for one in calls_of(message)), NOT_RECORDED)
            if result == NOT_RECORDED:
                given = read_messages(attributes.get(conventions.OUTPUT), "tool")
                answered = (one.result for message in given for one in message.answers())
                result = values.opened_blocks(next(answered, NOT_RECORDED))
    error = call.error
    if error is None and span.attributes.get(_STATUS) == "error":
        # The tool returned its failure as its result; the span itself has no error then.
        error = CallError(kind=OTHER_ERROR, message=values.text_of(result))
    call = replace(call, arguments=arguments, result=result, error=error)
    # The status is missing where the tool was interrupted for a person.
    yield call if _STATUS in span.attributes else conventions.ended_without_result(call)
    schema = values.decoded(span.attributes.get(_SCHEMA))
    if isinstance(schema, dict):
        description = values.as_str(span.attributes.get(_DESCRIPTION))
        tool = ToolDefinition(name=call.name, description=description, parameters=schema)
        yield ToolsOffered(tools=(tool,))


_ADK_SCOPE = "gcp.vertex.agent"
_ADK = "gcp.vertex.agent."
_ADK_SESSION = _ADK + "session_id"
_ADK_REQUEST = _ADK + "llm_request"
_ADK_RESPONSE = _ADK + "llm_response"
_ADK_ARGUMENTS = _ADK + "tool_call_args"
_ADK_RESULT = _ADK + "tool_response"
# The kit for Java writes it so.
_ADK_CALL_ID = "gen_ai.tool_call.id"
_KEYS = (
    _ADK + "event_id",
    _ADK + "invocation_id",
    _ADK_SESSION,
    _ADK_REQUEST,
    _ADK_RESPONSE,
    _ADK_ARGUMENTS,
    _ADK_RESULT,
)

_CALL_LLM = "call_llm"
_MERGED = "(merged tools)"
_PLACEHOLDERS = frozenset(("N/A", "<not specified>", "<not serializable>", "<non-serializable>"))
# What the kit for JavaScript answers in place of a tool that raised, and the list of what zod found in its arguments.
_FAILED = "Error in tool '"
_ISSUES = re.compile(
    r"Error in tool '[^'\n]{1,200}': \[\s*\{\s*\"(?:code|expected|keys|origin|received|validation|values)\""
)
# Before it followed the conventions, an agent's run was a span with a name alone: `agent_run [assistant]`.
_AGENT_RUN = "agent_run ["


class GoogleAdk(PlainDialect):
    """Google ADK: the conventions (schema 2), or keys of its own for everything that has content (schema 1).

    In schema 1 a span `call_llm` has Google's JSON, above a `generate_content` without content; a span `(merged)` is not a call.
    Placeholders (`<not specified>`, `N/A`, `{}` on both sides) stand for "not recorded" and must not be read as values.
    The kit for Java writes schema 1 with an operation `call_llm` and a key of its own for the call's id.
    """

    name = "google_adk"
    rank = 82
    marks = (_ADK,)
    scopes = (_ADK_SCOPE,)
    grounds = Grounds(keys=_KEYS, scopes=(_ADK_SCOPE,))
    conversations = (_ADK_SESSION,)

    def claims(self, record: Record) -> bool:
        """Claim all records of its scope, and spans with its keys."""
        return record.scope.name == _ADK_SCOPE or super().claims(record)

    def _read_log(self, record: LogRecord) -> Iterator[Observation]:
        # The per-message events hold Google's contents where others hold messages.
        recorded = values.decoded_object(record.body)
        content = recorded.get("content")
        # A content has parts; the `content` of a message is text.
        is_content = isinstance(content, dict) and isinstance(content.get("parts"), list)
        if record.event_name not in conventions.MESSAGE_EVENTS or not is_content:
            yield from self._conventions.read_log(record)
        else:
            messages = messages_of(provider_messages.given([content]), "user")
            if record.event_name == conventions.CHOICE:
                yield from conventions.written(messages, values.as_str(record.attributes.get(conventions.AGENT)))
            else:
                yield from conventions.received(messages)

    def _read(self, span: Span) -> Iterator[Observation]:
        operation = span.attributes.get(conventions.OPERATION)
        is_request = span.name == _CALL_LLM or _ADK_REQUEST in span.attributes
        if operation == conventions.EXECUTE:
            yield from _adk_executed(span)
        elif operation == _CALL_LLM or (operation is None and is_request):
            config = values.as_object(values.decoded_object(span.attributes.get(_ADK_REQUEST)).get("config"))
            instruction = config.get("system_instruction") or config.get("systemInstruction")
            # A text, a content, or a list of parts.
            yield from conventions.system(values.as_object(instruction).get("parts", instruction))
            written = provider_messages.written(values.decoded_object(span.attributes.get(_ADK_RESPONSE)))
            seen = messages_of([*written], "assistant")
            call = conventions.model_call(span.attributes)
            yield from map(_with_failure, self._model_call(call, self._given(span), seen, config.get("tools")))
        elif operation is None and span.name.startswith(_AGENT_RUN):
            yield AgentRun(agent=span.name[len(_AGENT_RUN) :].removesuffix("]") or None)
        else:
            yield from self._conventions.read_span(span)

    def _given(self, span: Span) -> list[Message] | None:
        request = span.attributes.get(_ADK_REQUEST)
        return None if request is None else messages_of(provider_messages.given(values.decoded_object(request)), "user")


def _with_failure(seen: Observation) -> Observation:
    """Read the failure that the kit in JavaScript has as the answer alone: the tool's span has neither status nor content."""
    if not isinstance(seen, CallAnswered) or seen.error is not None:
        return seen
    match seen.result:
        case Recorded({"error": str() as message, **rest}) if not rest and message.startswith(_FAILED):
            kind = INVALID_ARGUMENTS if _ISSUES.match(message) else OTHER_ERROR
            return replace(seen, error=CallError(kind=kind, message=message))
        case _:
            return seen


def _adk_executed(span: Span) -> Iterator[Observation]:
    call = conventions.executed(span, conventions.EXECUTE, None)
    # The spans of the merged calls say what each of them answered.
    if call is None or call.name == _MERGED:
        return
    arguments = _without_placeholder(values.arguments(span.attributes.get(_ADK_ARGUMENTS)))
    result = _without_placeholder(_unwrapped(values.result(span.attributes.get(_ADK_RESULT))))
    if arguments == Recorded({}) and result == Recorded({}):
        # With content switched off both are empty objects.
        arguments = result = NOT_RECORDED
    result = result if call.result == NOT_RECORDED else _without_placeholder(_unwrapped(call.result))
    error, call_id = call.error, values.identifier(span.attributes.get(_ADK_CALL_ID))
    match result:
        # The failure that the kit returns in place of calling the tool; the span goes well all the same.
        case Recorded({"error": str() as message, **rest}) if error is None and message and not rest:
            error = CallError(kind=OTHER_ERROR, message=message)
        case _:
            pass
    yield replace(
        call,
        call_id=call.call_id or (None if call_id in _PLACEHOLDERS else call_id),
        arguments=arguments if call.arguments == NOT_RECORDED else call.arguments,
        result=result,
        error=error,
    )


def _unwrapped(result: Content) -> Content:
    """Open `{"result": "<not specified>"}`, which stands for the missing answer of a tool that raised."""
    match result:
        case Recorded({"result": str() as text, **rest}) if not rest and text in _PLACEHOLDERS:
            return NOT_RECORDED
        case _:
            return result


def _without_placeholder(read: Content) -> Content:
    match read:
        case Recorded(str() as text) | Unparsed(text) if text.strip() in _PLACEHOLDERS:
            return NOT_RECORDED
        case _:
            return read


_GENKIT_TYPE = "genkit:type"
_SUBTYPE = "genkit:metadata:subtype"
_NAME = "genkit:name"
_PATH = "genkit:path"
_INPUT = "genkit:input"
_OUTPUT = "genkit:output"
_STATE = "genkit:state"
_INTERRUPT = "genkit:metadata:interrupt"
_GENKIT_SESSION = "genkit:sessionId"
# Attributes that an application gives to a span get this prefix.
_METADATA = "genkit:metadata:"

_FLOW, _MODEL, _TOOL = "flow", "model", "tool"
# A tool whose output is an object with the result, and parts of other media, beside each other.
_MULTIPART_TOOL = "tool.v2"
_MULTIPART_KEYS = {"output", "content", "metadata"}
_GENKIT_CALL = ToolFields(name=(_NAME,), call_id=(), arguments=(_INPUT,), result=(_OUTPUT,))
_UTIL, _GENERATE = "util", "generate"
_GENERATE_STEP = "{generate,"


class Genkit(PlainDialect):
    """Reads Genkit's own spans, of its JavaScript and its Go package: flows, calls of models and of tools.

    `generate` (type `util`) and flows repeat the messages of model calls. A call's id is `ref` in the model's output and input.
    """

    name = "genkit"
    rank = 86
    marks = ("genkit:",)
    scopes = ("genkit-tracer",)
    prefixes = (_METADATA,)
    grounds = Grounds(keys=(_GENKIT_TYPE, _SUBTYPE))
    conversations = (_GENKIT_SESSION,)

    def _read(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        subtype = attributes.get(_SUBTYPE)
        if subtype in (_TOOL, _MULTIPART_TOOL):
            if (call := _GENKIT_CALL.read(span, span.name)) is not None:
                if _INTERRUPT in attributes:
                    call = replace(call, error=CallError(kind=PAUSED, message=""))
                elif call.error is None and attributes.get(_STATE) == "error":
                    call = replace(call, error=CallError(kind=OTHER_ERROR, message=span.status_message))
                if subtype == _MULTIPART_TOOL and isinstance(call.result, Recorded):
                    opened = values.as_object(call.result.value)
                    if "output" in opened and opened.keys() <= _MULTIPART_KEYS:
                        call = replace(call, result=Recorded(opened["output"]))
                yield call
        elif subtype == _MODEL:
            output = values.decoded_object(attributes.get(_OUTPUT))
            # Releases before 0.9 have several candidates, of which the first is used.
            candidates = values.as_list(output.get("candidates"))
            first = output if "message" in output else values.as_object(candidates[0] if candidates else None)
            written = _genkit_message(values.as_object(first.get("message")))
            usage = values.as_object(output.get("usage"))
            call = ModelCall(
                stopped_for_tools=bool(calls_of(written)),
                input_tokens=conventions.token_count(usage.get("inputTokens")),
                output_tokens=conventions.token_count(usage.get("outputTokens")),
            )
            tools = values.decoded_object(attributes.get(_INPUT)).get("tools")
            yield from self._model_call(call, self._given(span), [written], tools)
        elif subtype == _FLOW:
            yield AgentRun(agent=values.as_str(attributes.get(_NAME)) or values.as_str(span.name))
            # An input that is nothing but a text.
            yield from conventions.text_seen("user", values.decoded(attributes.get(_INPUT)))
        elif attributes.get(_GENKIT_TYPE) == _UTIL and attributes.get(_NAME) == _GENERATE:
            # Read `generate`: the run of an agent, unless it is a turn of one or part of a flow.
            path = values.as_str(attributes.get(_PATH)) or ""
            steps = path.split("/")
            above = steps[-2] if len(steps) > 1 else ""
            if not above:
                yield AgentRun(agent=None)
            elif ",t:action" in above and not above.startswith(_GENERATE_STEP):
                # Below a tool: the tool is an agent.
                yield AgentRun(agent=above.removeprefix("{").partition(",")[0] or None)

    def _given(self, span: Span) -> list[Message]:
        given = values.decoded_object(span.attributes.get(_INPUT)).get("messages")
        return [_genkit_message(values.as_object(one)) for one in values.as_list(given)]


def _genkit_message(written: JsonObject) -> Message:
    """Read a message of parts, of which each has a key of its own; the texts of all parts are one text."""
    texts: list[str] = []
    parts: list[Json] = []
    for part in map(values.as_object, values.as_list(written.get("content"))):
        if text := values.as_str(part.get("text")):
            texts.append(text)
        elif "toolRequest" in part:
            request = values.as_object(part["toolRequest"])
            name, call_id = request.get("name"), values.identifier(request.get("ref"))
            parts.append({"type": "tool_call", "id": call_id, "name": name, "arguments": request.get("input")})
        elif "toolResponse" in part:
            response = values.as_object(part["toolResponse"])
            answer: JsonObject = {"type": "tool_call_response", "id": values.identifier(response.get("ref"))}
            output: JsonObject = {"response": response["output"]} if "output" in response else {}
            parts.append({**answer, "name": response.get("name"), **output})
        elif "media" in part:
            parts.append({"type": "media"})
    return Message({"role": written.get("role"), "parts": [{"type": "text", "content": "".join(texts)}, *parts]}, "")
