"""Reads the log events of Claude Code, the only thing that it sends by default.

Arrives: a log record; its span, if it has one, is that of the whole interaction and not that of the tool. Leaves:
executions, and requests where response bodies are logged. Requests of several responses meet on one span, so their
positions come from the sequence that the session numbers its events with.
"""

from collections.abc import Iterator, Mapping

from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.json import JsonObject, Value
from toolgauge.model.observations import CallAnswered, CallError, CallExecuted, CallRequested, Observation
from toolgauge.model.records import LogRecord
from toolgauge.recognize import values
from toolgauge.recognize.conventions import content
from toolgauge.recognize.conventions.reader import ConventionsReader
from toolgauge.recognize.messages import read_messages

PREFIX = "claude_code."
_SEQUENCE = "event.sequence"
_TOOL_NAME = "tool_name"
_TOOL_USE = "tool_use_id"
_INPUT = "tool_input"
_PARAMETERS = "tool_parameters"

# What users configure is hidden behind one name; the real one is among the parameters.
_MCP_TOOL = "mcp_tool"
_CALLS_AN_EVENT = 1_000
_MAX_SEQUENCE = 1_000_000_000
# The input is cut off at some four thousand characters, without a mark at its end.
_INPUT_LIMIT = 3_500
_MAX_CATEGORY = 64


class EventReader:
    """Reads the events that say something of calls; the tools on offer are known to the conventions' reader."""

    def __init__(self, conventions: ConventionsReader) -> None:
        self._conventions = conventions

    def read(self, record: LogRecord, event: str) -> Iterator[Observation]:
        """Read one event; `event` is its name without prefix."""
        attributes = record.attributes
        match event:
            case "tool_result":
                yield from _executed(attributes)
            case "tool_decision":
                yield from _decided(attributes)
            case "user_prompt":
                yield from content.newest_user_text(read_messages(attributes.get("prompt"), "user"))
            case "assistant_response":
                yield from content.written_text(read_messages(attributes.get("response"), "assistant"))
            case "api_request_body":
                yield from self._request(_opened(attributes.get("body")))
            case "api_response_body":
                message = _opened(attributes.get("body"))
                yield from content.written(read_messages(message, "assistant"), None, _first_position(attributes))
            case _:
                return

    def _request(self, body: JsonObject) -> Iterator[Observation]:
        yield from self._conventions.offered(body.get("tools"))
        system = body.get("system")
        yield from content.system(system)
        yield from content.received(read_messages(body.get("messages"), "user"))


def tool_name(attributes: Mapping[str, Value]) -> str | None:
    """Read the tool's name, spelled as the model called it."""
    name = values.as_str(attributes.get(_TOOL_NAME))
    if name != _MCP_TOOL:
        return name
    parameters = _opened(attributes.get(_PARAMETERS))
    server = values.as_str(parameters.get("mcp_server_name"))
    tool = values.as_str(parameters.get("mcp_tool_name"))
    return f"mcp__{server}__{tool}" if server is not None and tool is not None else name


def arguments(attributes: Mapping[str, Value]) -> Content:
    """Read a call's arguments; the parameters are a selection, and none of them."""
    read = values.arguments(attributes.get(_INPUT))
    if isinstance(read, Unparsed) and len(read.text) > _INPUT_LIMIT:
        return Unparsed(read.text, "truncated")
    return read


def failure(attributes: Mapping[str, Value]) -> CallError | None:
    """Read why a tool failed; `None` when it did not."""
    if str(attributes.get("success")).lower() != "false":
        return None
    told = values.as_str(attributes.get("error")) or ""
    kind = values.as_str(attributes.get("error_type"))
    if kind is None and len(told) <= _MAX_CATEGORY and " " not in told:
        # Spans have one attribute for both: the message if the user asked for it, else the category.
        kind = told
    return CallError(kind=kind or "_OTHER", message=told)


def _executed(attributes: Mapping[str, Value]) -> Iterator[CallExecuted]:
    name = tool_name(attributes)
    if name is not None:
        yield CallExecuted(
            name=name,
            call_id=values.identifier(attributes.get(_TOOL_USE)),
            arguments=arguments(attributes),
            result=NOT_RECORDED,
            error=failure(attributes),
        )


def _decided(attributes: Mapping[str, Value]) -> Iterator[Observation]:
    """Read a call that was turned down: it has no result, and nothing else may tell of it."""
    name = tool_name(attributes)
    if name is None or attributes.get("decision") != "reject":
        return
    call_id = values.identifier(attributes.get(_TOOL_USE))
    yield CallRequested(
        position=_first_position(attributes), name=name, call_id=call_id, arguments=arguments(attributes)
    )
    source = values.as_str(attributes.get("source"))
    error = CallError(kind="permission_denied", message=f"permission denied ({source})" if source else "")
    yield CallAnswered(call_id=call_id, name=name, error=error)


def _first_position(attributes: Mapping[str, Value]) -> int:
    sequence = attributes.get(_SEQUENCE)
    if isinstance(sequence, str) and sequence.isascii() and sequence.isdigit() and len(sequence) < 10:
        sequence = int(sequence)
    if not isinstance(sequence, int) or not 0 <= sequence < _MAX_SEQUENCE:
        return 0
    return sequence * _CALLS_AN_EVENT


def _opened(value: Value) -> JsonObject:
    read = values.content(value)
    return values.as_object(read.value) if isinstance(read, Recorded) else {}
