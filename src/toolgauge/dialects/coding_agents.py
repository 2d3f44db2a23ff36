"""Coding agents on the command line: Claude Code, Codex, and the Gemini CLI."""

from collections.abc import Iterator, Mapping

from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import (
    INVALID_ARGUMENTS,
    OTHER_ERROR,
    REFUSED,
    UNKNOWN_TOOL,
    AgentRun,
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
    ModelCall,
    Observation,
)
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import conventions, values
from toolgauge.recognize.dialect import EVENT_NAME, PlainDialect
from toolgauge.recognize.messages import read_messages

_CLAUDE_SCOPE = "com.anthropic.claude_code"
_TYPE = "span.type"
_TOOL_USE = ("tool_use_id", "gen_ai.tool.call.id")
_SUBAGENT = "agent_id"
_SOURCE = "query_source"
_OUTPUT_EVENT = "tool.output"
_INPUT_TOKENS = ("input_tokens", "cache_read_tokens", "cache_creation_tokens")
_OUTPUT_TOKENS = "output_tokens"
_RESULTS = ("tool_output", "output", "result", "content")
_INPUTS = ("tool_input", "input")

_CLAUDE_PREFIX = "claude_code."
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
_CLAUDE_NO = ("reject", "cancelled")
_BY_USER = "user_"


class ClaudeCode(PlainDialect):
    """Claude Code: spans `claude_code.*` (beta traces) and its log events, from its documentation.

    One call is one span `claude_code.tool`; its child `.execution` has the outcome. By default no arguments are recorded.
    """

    name = "claude_code"
    rank = 80
    marks = (_CLAUDE_PREFIX, _TYPE)
    scopes = (_CLAUDE_SCOPE,)
    grounds = Grounds(names=(_CLAUDE_PREFIX,))

    def claims(self, record: Record) -> bool:
        """Claim spans by their name, events by their name or scope."""
        if isinstance(record, LogRecord):
            return record.event_name.startswith(_CLAUDE_PREFIX) or record.scope.name.startswith(_CLAUDE_SCOPE)
        return record.name.startswith(_CLAUDE_PREFIX) and (
            _TYPE in record.attributes or record.scope.name.startswith(_CLAUDE_SCOPE)
        )

    def _read_log(self, record: LogRecord) -> Iterator[Observation]:
        """Read a log event; its span is the whole interaction, so positions come from the event's number in its session."""
        attributes = record.attributes
        # The attribute `event.name` has no prefix, the field and the body have one.
        match record.event_name.removeprefix(_CLAUDE_PREFIX):
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
                    # As an execution it keeps its place among the calls that ran.
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

    def _read(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        match span.name.removeprefix(_CLAUDE_PREFIX):
            case "interaction":
                yield AgentRun(agent=None)
                yield from conventions.newest_user_text(read_messages(attributes.get("user_prompt"), "user"))
            case "llm_request":
                read = [conventions.token_count(attributes.get(key)) for key in _INPUT_TOKENS]
                known = [count for count in read if count is not None]
                yield ModelCall(
                    # Only of a subagent the source is its name.
                    agent=values.as_str(attributes.get(_SOURCE)) if _SUBAGENT in attributes else None,
                    # `input_tokens` leaves out cached tokens, which are separate attributes.
                    input_tokens=sum(known) if known else None,
                    output_tokens=conventions.token_count(attributes.get(_OUTPUT_TOKENS)),
                )
            case "tool":
                name = _tool_name(attributes)
                if name is not None:
                    recorded = conventions.event(span, _OUTPUT_EVENT) or {}
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
                if attributes.get("decision") in _CLAUDE_NO and (not source or source.startswith(_BY_USER)):
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
    """Read a call's arguments; the attribute with its parameters is only a selection."""
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


# The source of a person's decision, and the beginnings of the names of refusals and of the end of the turn.
_PERSON = "user"
_CODEX_NO = ("denied", "abort", "timed")
_UNSUPPORTED, _UNREADABLE = "unsupported call: ", "failed to parse function arguments"


class Codex(PlainDialect):
    """The Codex CLI: its log events (`codex.tool_result` holds a whole call). Its spans trace its own functions.

    Prompts are hidden unless `log_user_prompt` is set. A shell command that exits with another code than 0 worked for Codex.
    """

    name = "codex"
    rank = 80
    marks = ("codex.",)
    scopes = ("codex_otel",)
    events = "codex."
    grounds = Grounds()
    conversations = ("conversation.id",)

    def _read_log(self, record: LogRecord) -> Iterator[Observation]:
        attributes = record.attributes
        match attributes.get(EVENT_NAME):
            case "codex.tool_result":
                yield from _call(attributes)
            case "codex.tool_decision":
                # A call that a person refused may have no other record; rules and reviewers deny, they do not refuse.
                name = values.as_str(attributes.get("tool_name"))
                decision = values.as_str(attributes.get("decision")) or ""
                if name is not None and attributes.get("source") == _PERSON and decision.lower().startswith(_CODEX_NO):
                    call_id = values.identifier(attributes.get("call_id"))
                    agent = values.as_str(attributes.get("agent_name"))
                    yield CallRequested(position=0, name=name, call_id=call_id, agent=agent)
                    yield CallAnswered(call_id=call_id, name=name, error=CallError(kind=REFUSED, message=""))
            case "codex.user_prompt":
                if (prompt := attributes.get("prompt")) != "[REDACTED]":
                    yield from conventions.text_seen("user", prompt)
            case _:
                return


def _call(attributes: Mapping[str, Value]) -> Iterator[Observation]:
    name = values.as_str(attributes.get("tool_name"))
    if name is None:
        return
    call_id = values.identifier(attributes.get("call_id"))
    arguments = values.arguments_beside(attributes.get("arguments"), attributes.get("output"))
    agent = values.as_str(attributes.get("agent_name"))
    output = values.as_str(attributes.get("output")) or ""
    if str(attributes.get("success")).lower() != "false":
        result = values.result(attributes.get("output"))
        if str(attributes.get("output_truncated")).lower() == "true":
            match result:
                case Recorded(value=str() as text) | Unparsed(text=text):
                    result = Unparsed(text, "truncated")
                case _:
                    pass
        yield CallExecuted(name=name, call_id=call_id, arguments=arguments, result=result, agent=agent)
        return
    # Codex says in its own words why it did not run a call.
    kinds = ((_UNSUPPORTED, UNKNOWN_TOOL), (_UNREADABLE, INVALID_ARGUMENTS), ("", OTHER_ERROR))
    error = CallError(kind=next(kind for begin, kind in kinds if output.startswith(begin)), message=output)
    if error.kind == OTHER_ERROR:
        yield CallExecuted(name=name, call_id=call_id, arguments=arguments, error=error, agent=agent)
        return
    yield CallRequested(position=0, name=name, call_id=call_id, arguments=arguments, agent=agent)
    yield CallAnswered(call_id=call_id, name=name, error=error)


class QwenCode(PlainDialect):
    """Qwen Code's log events, which hold what its spans leave out: a call's arguments, whether it worked, and the texts.

    Its spans follow the conventions and are read so, except spans of hooks, which may fail where the tool succeeds.
    """

    name = "qwen_code"
    rank = 80
    marks = ("qwen-code.",)
    scopes = ("qwen-code",)
    events = "qwen-code."
    grounds = Grounds(scopes=("qwen-code",))
    needs = ("hook_event",)
    conversations = None

    def _read_log(self, record: LogRecord) -> Iterator[Observation]:
        attributes = record.attributes
        match attributes.get(EVENT_NAME):
            case "qwen-code.tool_call":
                name = values.as_str(attributes.get("function_name"))
                if name is not None:
                    has_failed = str(attributes.get("success")).lower() == "false"
                    kind = values.as_str(attributes.get("error_type")) or OTHER_ERROR
                    message = values.as_str(attributes.get("error")) or ""
                    yield CallExecuted(
                        name=name,
                        call_id=values.identifier(attributes.get("call_id")),
                        arguments=values.arguments(attributes.get("function_args")),
                        error=CallError(kind=_KINDS.get(kind, kind), message=message) if has_failed else None,
                    )
            case "qwen-code.user_prompt":
                yield from conventions.text_seen("user", attributes.get("prompt"))
            case "qwen-code.api_response":
                yield from conventions.text_seen("assistant", attributes.get("response_text"))
            case _:
                return


_GEMINI_SCOPE = "gemini-cli"
_MODEL, _BATCH, _TOOL = "llm_call", "schedule_tool_calls", "tool_call"
_KINDS = {"tool_not_registered": UNKNOWN_TOOL, "invalid_tool_params": INVALID_ARGUMENTS}


class GeminiCli(PlainDialect):
    """Reads the Gemini CLI's traces (its setting `telemetry.traces`): model calls, and the tool calls that it schedules.

    Each model call and each batch of tool calls is a trace of its own, so a call is read from its batch alone: the model's
    output would count it twice. A refused call has no span; the batch says why.
    """

    name = "gemini_cli"
    rank = 88
    marks = ("gen_ai.",)
    grounds = Grounds(scopes=(_GEMINI_SCOPE,))
    needs = (conventions.OPERATION,)

    def _read(self, span: Span) -> Iterator[Observation]:
        attributes = span.attributes
        operation = attributes.get(conventions.OPERATION)
        if operation == _MODEL:
            yield conventions.model_call(attributes, values.as_str(attributes.get(conventions.AGENT)))
            yield from self._conventions.texts(attributes)
        elif operation == _BATCH:
            # The calls of one batch: as completed, or as they were scheduled where nothing else is recorded.
            agent = values.as_str(attributes.get(conventions.AGENT))
            completed = values.as_list(values.decoded(attributes.get(conventions.OUTPUT)))
            scheduled: list[Json] = [
                {"request": one} for one in values.as_list(values.decoded(attributes.get(conventions.INPUT)))
            ]
            for position, item in enumerate(completed or scheduled):
                call = values.as_object(item)
                request = values.as_object(call.get("request"))
                name, call_id = values.as_str(request.get("name")), values.identifier(request.get("callId"))
                if name is None:
                    continue
                yield CallRequested(
                    position=position,
                    name=name,
                    call_id=call_id,
                    arguments=values.arguments_inside(request.get("args")),
                    agent=agent,
                )
                if error := _error(call):
                    yield CallAnswered(call_id=call_id, name=name, error=error)
        elif operation == _TOOL:
            name = values.as_str(attributes.get(conventions.TOOL_NAME))
            if name is not None:
                call = values.decoded_object(attributes.get(conventions.OUTPUT))
                request = values.decoded_object(attributes.get(conventions.INPUT))
                answer = _answer(call)
                yield CallExecuted(
                    name=name,
                    call_id=values.identifier(attributes.get("gen_ai.tool.call_id")),
                    arguments=values.arguments_inside(request.get("args")),
                    result=values.result(answer["output"]) if isinstance(answer.get("output"), str) else NOT_RECORDED,
                    error=_error(call) or conventions.call_error(span),
                    agent=values.as_str(attributes.get(conventions.AGENT)),
                )


def _answer(call: JsonObject) -> JsonObject:
    """Return what the model gets: the first function response of a completed call."""
    for part in values.as_list(values.as_object(call.get("response")).get("responseParts")):
        if "functionResponse" in values.as_object(part):
            return values.as_object(values.as_object(values.as_object(part)["functionResponse"]).get("response"))
    return {}


def _error(call: JsonObject) -> CallError | None:
    if call.get("status") not in ("error", "cancelled"):
        return None
    kind = values.as_str(values.as_object(call.get("response")).get("errorType")) or OTHER_ERROR
    return CallError(kind=_KINDS.get(kind, kind), message=values.as_str(_answer(call).get("error")) or "")
