"""Google ADK: the conventions (schema 2), or keys of its own for everything that has content (schema 1).

In schema 1 a span `call_llm` has Google's JSON, above a `generate_content` without content; a span `(merged)` is no call.
Placeholders (`<not specified>`, `N/A`, `{}` on both sides) stand for "not recorded" and must not be read as values.
The kit for Java writes schema 1 with an operation `call_llm` and a key of its own for the call's id.
"""

import re
from collections.abc import Iterator

from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.json import JsonObject
from toolgauge.model.observations import (
    INVALID_ARGUMENTS,
    OTHER_ERROR,
    AgentRun,
    CallAnswered,
    CallError,
    Observation,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import conventions, provider_messages, values
from toolgauge.recognize.conventions import model_call
from toolgauge.recognize.dialect import PlainDialect
from toolgauge.recognize.messages import Message, messages_of

_SCOPE = "gcp.vertex.agent"
_PREFIX = "gcp.vertex.agent."
_SESSION = _PREFIX + "session_id"
_REQUEST = _PREFIX + "llm_request"
_RESPONSE = _PREFIX + "llm_response"
_ARGUMENTS = _PREFIX + "tool_call_args"
_RESULT = _PREFIX + "tool_response"
# The kit for Java writes it so.
_CALL_ID = "gen_ai.tool_call.id"
_KEYS = (_PREFIX + "event_id", _PREFIX + "invocation_id", _SESSION, _REQUEST, _RESPONSE, _ARGUMENTS, _RESULT)

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
    """Reads spans and log records of the Agent Development Kit."""

    name = "google_adk"
    rank = 82
    marks = (_PREFIX,)
    scopes = (_SCOPE,)
    grounds = Grounds(keys=_KEYS, scopes=(_SCOPE,))

    def claims(self, record: Record) -> bool:
        """Claim what comes from its scope, and spans with its keys."""
        return record.scope.name == _SCOPE or super().claims(record)

    def read(self, record: Record) -> Iterator[Observation]:
        """Read one span or log record."""
        yield from conventions.own_conversation(record.attributes, (_SESSION,))
        yield from conventions.conversation(record.attributes)
        if isinstance(record, LogRecord):
            # The per-message events hold Google's contents where others hold messages.
            recorded = values.as_object(values.decoded(record.body))
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
                yield model_call(record.attributes)
                request = values.decoded_object(record.attributes.get(_REQUEST))
                config = values.as_object(request.get("config"))
                yield from self._conventions.offered(config.get("tools"))
                instruction = config.get("system_instruction") or config.get("systemInstruction")
                # A text, a content, or a list of parts.
                yield from conventions.system(values.as_object(instruction).get("parts", instruction))
                yield from map(_with_failure, conventions.received(_contents(request)))
                written = provider_messages.written(values.decoded_object(record.attributes.get(_RESPONSE)))
                yield from conventions.written(messages_of([*written], "assistant"), None)
            elif operation is None and record.name.startswith(_AGENT_RUN):
                yield AgentRun(agent=record.name[len(_AGENT_RUN) :].removesuffix("]") or None)
            else:
                yield from self._conventions.read_span(record)

    def _given(self, span: Span) -> list[Message] | None:
        if _REQUEST not in span.attributes:
            return None
        return _contents(values.decoded_object(span.attributes.get(_REQUEST)))


def _contents(request: JsonObject) -> list[Message]:
    return messages_of(provider_messages.given(request), "user")


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
