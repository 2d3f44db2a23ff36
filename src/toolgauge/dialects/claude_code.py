"""Claude Code: spans `claude_code.*` (beta traces) and its log events, from its documentation.

One call is one span `claude_code.tool`; its child `.execution` has the outcome. By default no arguments are recorded.
"""

from collections.abc import Iterator, Mapping

from toolgauge.model.content import NOT_RECORDED, Content, Unparsed
from toolgauge.model.json import Value
from toolgauge.model.observations import OTHER_ERROR, REFUSED, AgentRun, CallError, CallExecuted, ModelCall, Observation
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import conventions, values
from toolgauge.recognize.conventions import token_count
from toolgauge.recognize.dialect import PlainDialect
from toolgauge.recognize.messages import read_messages

_SCOPE = "com.anthropic.claude_code"
_TYPE = "span.type"
_TOOL_USE = ("tool_use_id", "gen_ai.tool.call.id")
_SUBAGENT = "agent_id"
_SOURCE = "query_source"
_OUTPUT_EVENT = "tool.output"
_INPUT_TOKENS = ("input_tokens", "cache_read_tokens", "cache_creation_tokens")
_OUTPUT_TOKENS = "output_tokens"
_RESULTS = ("tool_output", "output", "result", "content")
_INPUTS = ("tool_input", "input")

_PREFIX = "claude_code."
_SEQUENCE = "event.sequence"
_TOOL_NAME = "tool_name"
_TOOL_USE_ID = "tool_use_id"
_INPUT = "tool_input"
_PARAMETERS = "tool_parameters"

# What users configure is hidden behind one name; the real one is among the parameters.
_MCP_TOOL = "mcp_tool"
_CALLS_AN_EVENT = 1_000
_MAX_SEQUENCE = 1_000_000_000
# The input is cut off at some four thousand characters, without a mark at its end.
_INPUT_LIMIT = 3_500
_MAX_CATEGORY = 64
# Decisions of a person, and the sources of those.
_NO = ("reject", "cancelled")
_BY_USER = "user_"


class ClaudeCode(PlainDialect):
    """Reads spans and events of the Claude Code CLI and the Agent SDK."""

    name = "claude_code"
    rank = 80
    marks = (_PREFIX, _TYPE)
    scopes = (_SCOPE,)
    grounds = Grounds(names=(_PREFIX,))

    def claims(self, record: Record) -> bool:
        """Claim spans by their name, events by their name or scope."""
        if isinstance(record, LogRecord):
            return record.event_name.startswith(_PREFIX) or record.scope.name.startswith(_SCOPE)
        return record.name.startswith(_PREFIX) and (_TYPE in record.attributes or record.scope.name.startswith(_SCOPE))

    def read(self, record: Record) -> Iterator[Observation]:
        """Read one span or event."""
        yield from conventions.conversation(record.attributes)
        if isinstance(record, LogRecord):
            # The attribute `event.name` has no prefix, the field and the body have one.
            yield from self._read_event(record.attributes, record.event_name.removeprefix(_PREFIX))
        else:
            yield from _read_span(record)

    def _read_event(self, attributes: Mapping[str, Value], event: str) -> Iterator[Observation]:
        """Read a log event; its span is the whole interaction, so positions come from the event's number in its session."""
        match event:
            case "tool_result":
                name = _tool_name(attributes)
                if name is not None:
                    call_id, error = values.identifier(attributes.get(_TOOL_USE_ID)), _failure(attributes)
                    yield CallExecuted(name=name, call_id=call_id, arguments=_arguments(attributes), error=error)
            case "tool_decision":
                # A call that was denied permission has no result, and this event may be its only record.
                name = _tool_name(attributes)
                if name is not None and attributes.get("decision") == "reject":
                    call_id = values.identifier(attributes.get(_TOOL_USE_ID))
                    source = values.as_str(attributes.get("source")) or ""
                    # A rule, a hook or a classifier denies a call; only a person refuses it.
                    kind = REFUSED if source.startswith(_BY_USER) else "permission_denied"
                    error = CallError(kind=kind, message=f"permission denied ({source})" if source else "")
                    # As an execution it keeps its place among those that ran.
                    yield CallExecuted(name=name, call_id=call_id, arguments=_arguments(attributes), error=error)
            case "user_prompt":
                yield from conventions.newest_user_text(read_messages(attributes.get("prompt"), "user"))
            case "assistant_response":
                yield from conventions.written_text(read_messages(attributes.get("response"), "assistant"))
            case "api_request_body":
                body = values.decoded_object(attributes.get("body"))
                yield from self._conventions.offered(body.get("tools"))
                yield from conventions.system(body.get("system"))
                yield from conventions.received(read_messages(body.get("messages"), "user"))
            case "api_response_body":
                sequence = attributes.get(_SEQUENCE)
                if isinstance(sequence, str) and sequence.isascii() and sequence.isdigit() and len(sequence) < 10:
                    sequence = int(sequence)
                first = sequence if isinstance(sequence, int) and 0 <= sequence < _MAX_SEQUENCE else 0
                messages = read_messages(values.decoded_object(attributes.get("body")), "assistant")
                yield from conventions.written(messages, None, first * _CALLS_AN_EVENT)
            case _:
                return


def _read_span(span: Span) -> Iterator[Observation]:
    attributes = span.attributes
    match span.name.removeprefix(_PREFIX):
        case "interaction":
            yield AgentRun(agent=None)
            yield from conventions.newest_user_text(read_messages(attributes.get("user_prompt"), "user"))
        case "llm_request":
            read = [token_count(attributes.get(key)) for key in _INPUT_TOKENS]
            known = [count for count in read if count is not None]
            yield ModelCall(
                # Only of a subagent the source is its name.
                agent=values.as_str(attributes.get(_SOURCE)) if _SUBAGENT in attributes else None,
                # The input does not include what was in the provider's cache.
                input_tokens=sum(known) if known else None,
                output_tokens=token_count(attributes.get(_OUTPUT_TOKENS)),
            )
        case "tool":
            name = _tool_name(attributes)
            if name is not None:
                recorded = next(
                    (event.attributes for event in span.events if event.name == _OUTPUT_EVENT), dict[str, Value]()
                )
                arguments = _arguments(attributes)
                yield CallExecuted(
                    name=name,
                    call_id=_call_id(attributes),
                    arguments=values.arguments(values.first(recorded, _INPUTS))
                    if arguments == NOT_RECORDED
                    else arguments,
                    result=values.result(values.first(recorded, _RESULTS)),
                    error=_failure(attributes) or conventions.call_error(span),
                )
        case "tool.execution":
            # Without an outcome and without an id it could only be taken for a call of its own.
            call_id, error = _call_id(attributes), _failure(attributes) or conventions.call_error(span)
            if call_id is not None or error is not None:
                yield CallExecuted(name="", call_id=call_id, error=error)
        case "tool.blocked_on_user":
            # The decision of the person who was asked.
            source = values.as_str(attributes.get("source")) or ""
            if attributes.get("decision") in _NO and (not source or source.startswith(_BY_USER)):
                yield CallExecuted(name="", call_id=_call_id(attributes), error=CallError(kind=REFUSED, message=""))
        case _:
            return


def _call_id(attributes: Mapping[str, Value]) -> str | None:
    return values.identifier(values.first(attributes, _TOOL_USE))


def _tool_name(attributes: Mapping[str, Value]) -> str | None:
    name = values.as_str(attributes.get(_TOOL_NAME))
    if name != _MCP_TOOL:
        return name
    parameters = values.decoded_object(attributes.get(_PARAMETERS))
    server = values.as_str(parameters.get("mcp_server_name"))
    tool = values.as_str(parameters.get("mcp_tool_name"))
    return f"mcp__{server}__{tool}" if server is not None and tool is not None else name


def _arguments(attributes: Mapping[str, Value]) -> Content:
    """Read a call's arguments; the parameters are a selection, and none of them."""
    # Tool inputs are recorded as a whole or not at all.
    read = values.arguments_beside(attributes.get(_INPUT), attributes.get(_INPUT))
    if isinstance(read, Unparsed) and len(read.text) > _INPUT_LIMIT:
        return Unparsed(read.text, "truncated")
    return read


def _failure(attributes: Mapping[str, Value]) -> CallError | None:
    if str(attributes.get("success")).lower() != "false":
        return None
    recorded = values.as_str(attributes.get("error")) or ""
    kind = values.as_str(attributes.get("error_type"))
    if kind is None and len(recorded) <= _MAX_CATEGORY and " " not in recorded:
        # Spans have one attribute for both: the message if the user asked for it, else the category.
        kind = recorded
    return CallError(kind=kind or OTHER_ERROR, message=recorded)
