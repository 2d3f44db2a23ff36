"""Google: the Agent Development Kit, and Genkit."""

import re
from collections.abc import Iterator

from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import (
    INVALID_ARGUMENTS,
    OTHER_ERROR,
    PAUSED,
    AgentRun,
    CallAnswered,
    CallError,
    ModelCall,
    Observation,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import conventions, provider_messages, values
from toolgauge.recognize.dialect import PlainDialect, ToolFields
from toolgauge.recognize.messages import Message, calls_of, messages_of

_SCOPE = "gcp.vertex.agent"
_PREFIX = "gcp.vertex.agent."
_ADK_SESSION = _PREFIX + "session_id"
_REQUEST = _PREFIX + "llm_request"
_RESPONSE = _PREFIX + "llm_response"
_ARGUMENTS = _PREFIX + "tool_call_args"
_RESULT = _PREFIX + "tool_response"
# The kit for Java writes it so.
_CALL_ID = "gen_ai.tool_call.id"
_KEYS = (_PREFIX + "event_id", _PREFIX + "invocation_id", _ADK_SESSION, _REQUEST, _RESPONSE, _ARGUMENTS, _RESULT)

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

    In schema 1 a span `call_llm` has Google's JSON, above a `generate_content` without content; a span `(merged)` is no call.
    Placeholders (`<not specified>`, `N/A`, `{}` on both sides) stand for "not recorded" and must not be read as values.
    The kit for Java writes schema 1 with an operation `call_llm` and a key of its own for the call's id.
    """

    name = "google_adk"
    rank = 82
    marks = (_PREFIX,)
    scopes = (_SCOPE,)
    grounds = Grounds(keys=_KEYS, scopes=(_SCOPE,))

    def claims(self, record: Record) -> bool:
        """Claim all records of its scope, and spans with its keys."""
        return record.scope.name == _SCOPE or super().claims(record)

    def read(self, record: Record) -> Iterator[Observation]:
        """Read one span or log record."""
        yield from conventions.own_conversation(record.attributes, (_ADK_SESSION,))
        yield from conventions.conversation(record.attributes)
        if isinstance(record, LogRecord):
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
        else:
            operation = record.attributes.get(conventions.OPERATION)
            is_request = record.name == _CALL_LLM or _REQUEST in record.attributes
            if operation == conventions.EXECUTE:
                yield from _executed(record)
            elif operation == _CALL_LLM or (operation is None and is_request):
                config = values.as_object(values.decoded_object(record.attributes.get(_REQUEST)).get("config"))
                instruction = config.get("system_instruction") or config.get("systemInstruction")
                # A text, a content, or a list of parts.
                yield from conventions.system(values.as_object(instruction).get("parts", instruction))
                written = provider_messages.written(values.decoded_object(record.attributes.get(_RESPONSE)))
                seen = messages_of([*written], "assistant")
                call = conventions.model_call(record.attributes)
                yield from map(_with_failure, self._model_call(call, self._given(record), seen, config.get("tools")))
            elif operation is None and record.name.startswith(_AGENT_RUN):
                yield AgentRun(agent=record.name[len(_AGENT_RUN) :].removesuffix("]") or None)
            else:
                yield from self._conventions.read_span(record)

    def _given(self, span: Span) -> list[Message] | None:
        request = span.attributes.get(_REQUEST)
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


def _executed(span: Span) -> Iterator[Observation]:
    call = conventions.executed(span, conventions.EXECUTE, None)
    # The spans of the merged calls say what each of them answered.
    if call is None or call.name == _MERGED:
        return
    arguments = _without_placeholder(values.arguments(span.attributes.get(_ARGUMENTS)))
    result = _without_placeholder(_unwrapped(values.result(span.attributes.get(_RESULT))))
    if arguments == Recorded({}) and result == Recorded({}):
        # With content switched off both are empty objects.
        arguments = result = NOT_RECORDED
    result = result if call.result == NOT_RECORDED else _without_placeholder(_unwrapped(call.result))
    error, call_id = call.error, values.identifier(span.attributes.get(_CALL_ID))
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


_TYPE = "genkit:type"
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
_CALL = ToolFields(name=(_NAME,), call_id=(), arguments=(_INPUT,), result=(_OUTPUT,))
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
    grounds = Grounds(keys=(_TYPE, _SUBTYPE))
    conversations = (_GENKIT_SESSION,)

    def _read(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        subtype = attributes.get(_SUBTYPE)
        if subtype in (_TOOL, _MULTIPART_TOOL):
            if (call := _CALL.read(span, span.name)) is not None:
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
            written = _message(values.as_object(first.get("message")))
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
        elif attributes.get(_TYPE) == _UTIL and attributes.get(_NAME) == _GENERATE:
            # Read `generate`: the run of an agent where it is no turn of one, and no part of a flow.
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
        return [_message(values.as_object(one)) for one in values.as_list(given)]


def _message(written: JsonObject) -> Message:
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
