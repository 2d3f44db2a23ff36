"""Google ADK: the conventions (schema 2), or keys of its own for everything that has content (schema 1).

In schema 1 a model call is a span `call_llm` with the request and response as Google's JSON, above a span
`generate_content` without content; parallel calls add a span `(merged)` that is no call. Its placeholders
(`<not specified>`, `N/A`, `{}` on both sides) stand for "not told" and must not be read as values.
"""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.json import JsonObject, Value
from toolgauge.model.observations import AgentRun, CallError, ConversationSeen, ModelCall, Observation
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import values
from toolgauge.recognize.conventions import content, names, tools
from toolgauge.recognize.conventions.reader import ConventionsReader
from toolgauge.recognize.google_adk import contents
from toolgauge.recognize.messages import Message

_SCOPE = "gcp.vertex.agent"
_PREFIX = "gcp.vertex.agent."
_SESSION = _PREFIX + "session_id"
_REQUEST = _PREFIX + "llm_request"
_RESPONSE = _PREFIX + "llm_response"
_ARGUMENTS = _PREFIX + "tool_call_args"
_RESULT = _PREFIX + "tool_response"
_KEYS = (_PREFIX + "event_id", _PREFIX + "invocation_id", _SESSION, _REQUEST, _RESPONSE, _ARGUMENTS, _RESULT)

_CALL_LLM = "call_llm"
_MERGED = "(merged tools)"
_NOT_TOLD = frozenset(("N/A", "<not specified>", "<not serializable>", "<non-serializable>"))
# Before it followed the conventions, an agent's run was a span with a name alone: `agent_run [assistant]`.
_AGENT_RUN = "agent_run ["


class GoogleAdk:
    """Reads spans and log records of the Agent Development Kit."""

    name = "google_adk"
    rank = 82
    marks = (_PREFIX,)
    scopes = (_SCOPE,)
    grounds = Grounds(keys=_KEYS, scopes=(_SCOPE,))

    def __init__(self) -> None:
        self._conventions = ConventionsReader()

    def claims(self, record: Record) -> bool:
        """Claim what comes from its scope, and spans with its keys."""
        if record.scope.name == _SCOPE:
            return True
        if not isinstance(record, Span):
            return False
        attributes = record.attributes
        # Asked of every span: a loop costs half of what a generator does.
        for key in _KEYS:  # noqa: SIM110
            if key in attributes:
                return True
        return False

    def read(self, record: Record) -> Iterator[Observation]:
        """Read one span or log record."""
        yield from _conversation(record.attributes)
        if isinstance(record, LogRecord):
            yield from self._read_log(record)
        else:
            yield from self._read_span(record)

    def attribute(self, record: Record, key: str) -> Value:
        """Look up an attribute; none is hidden."""
        return record.attributes.get(key)

    def _read_span(self, span: Span) -> Iterator[Observation]:
        operation = span.attributes.get(names.OPERATION)
        if operation == names.EXECUTE:
            yield from _executed(span)
        elif operation is None and (span.name == _CALL_LLM or _REQUEST in span.attributes):
            yield ModelCall()
            yield from self._request(_opened(span.attributes.get(_REQUEST)))
            yield from _response(_opened(span.attributes.get(_RESPONSE)))
        elif operation is None and span.name.startswith(_AGENT_RUN):
            yield AgentRun(agent=span.name[len(_AGENT_RUN) :].removesuffix("]") or None)
        else:
            yield from self._conventions.read_span(span)

    def _read_log(self, record: LogRecord) -> Iterator[Observation]:
        """Read a log record; the per-message events hold Google's contents where others hold messages."""
        body = values.content(record.body)
        told = values.as_object(body.value) if isinstance(body, Recorded) else {}
        if record.event_name not in names.MESSAGE_EVENTS or not contents.is_content(told.get("content")):
            yield from self._conventions.read_log(record)
            return
        message = Message(contents.message(told["content"]), "user")
        if record.event_name == names.CHOICE:
            yield from content.written([message], values.as_str(record.attributes.get(names.AGENT)))
        else:
            yield from content.received([message])

    def _request(self, request: JsonObject) -> Iterator[Observation]:
        config = values.as_object(request.get("config"))
        yield from self._conventions.offered(contents.definitions(config.get("tools")))
        yield from content.system(contents.instruction(config.get("system_instruction")))
        history = values.as_list(request.get("contents"))
        yield from content.received([Message(contents.message(one), "user") for one in history])


def _conversation(attributes: Mapping[str, Value]) -> Iterator[ConversationSeen]:
    session = values.identifier(attributes.get(_SESSION))
    if session is not None:
        yield ConversationSeen(conversation_id=session, rank=2)
    yield from content.conversation(attributes)


def _response(response: JsonObject) -> Iterator[Observation]:
    written = response.get("content")
    if written is not None:
        yield from content.written([Message(contents.message(written), "assistant")], None)


def _opened(value: Value) -> JsonObject:
    read = values.content(value)
    return values.as_object(read.value) if isinstance(read, Recorded) else {}


def _executed(span: Span) -> Iterator[Observation]:
    call = tools.executed(span, names.EXECUTE, None)
    # The spans of the merged calls say what each of them answered.
    if call is None or call.name == _MERGED:
        return
    arguments = _told(values.arguments(span.attributes.get(_ARGUMENTS)))
    result = _told(_unwrapped(values.result(span.attributes.get(_RESULT))))
    if arguments == Recorded({}) and result == Recorded({}):
        # With content switched off both are empty objects.
        arguments = result = NOT_RECORDED
    result = result if call.result == NOT_RECORDED else _told(_unwrapped(call.result))
    yield replace(
        call,
        arguments=arguments if call.arguments == NOT_RECORDED else call.arguments,
        result=result,
        error=call.error or _failure(result),
    )


def _failure(result: Content) -> CallError | None:
    """Read the failure that the kit returns in place of calling the tool; the span goes well all the same."""
    match result:
        case Recorded({"error": str() as message, **rest}) if message and not rest:
            return CallError(kind="_OTHER", message=message)
        case _:
            return None


def _unwrapped(result: Content) -> Content:
    """Open `{"result": "<not specified>"}`, which stands for the missing answer of a tool that raised."""
    match result:
        case Recorded({"result": str() as text, **rest}) if not rest and text in _NOT_TOLD:
            return NOT_RECORDED
        case _:
            return result


def _told(read: Content) -> Content:
    match read:
        case Recorded(str() as text) | Unparsed(text) if text.strip() in _NOT_TOLD:
            return NOT_RECORDED
        case _:
            return read
