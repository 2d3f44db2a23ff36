"""Claude Code: spans `claude_code.*` (beta traces) and its log events, from its documentation.

One call is one span `claude_code.tool`; whether it went well is said on its child `.execution`, which names no tool.
Arguments and results are left out unless the user asks for them, so most of these calls have a name and an id alone.
"""

from collections.abc import Iterator, Mapping

from toolgauge.model.content import NOT_RECORDED, Content
from toolgauge.model.json import Value
from toolgauge.model.observations import AgentRun, CallExecuted, ModelCall, Observation
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record, Span
from toolgauge.recognize import values
from toolgauge.recognize.claude_code import events
from toolgauge.recognize.conventions import content, tools
from toolgauge.recognize.conventions.reader import ConventionsReader
from toolgauge.recognize.messages import read_messages

_SCOPE = "com.anthropic.claude_code"
_TYPE = "span.type"
_TOOL_USE = ("tool_use_id", "gen_ai.tool.call.id")
_SUBAGENT = "agent_id"
_SOURCE = "query_source"
_OUTPUT_EVENT = "tool.output"
_RESULTS = ("tool_output", "output", "result", "content")
_INPUTS = ("tool_input", "input")


class ClaudeCode:
    """Reads spans and events of the Claude Code CLI and the Agent SDK."""

    name = "claude_code"
    rank = 80
    marks = (events.PREFIX, _TYPE)
    scopes = (_SCOPE,)
    grounds = Grounds(names=(events.PREFIX,))

    def __init__(self) -> None:
        self._conventions = ConventionsReader()
        self._events = events.EventReader(self._conventions)

    def claims(self, record: Record) -> bool:
        """Claim spans by their name, events by their name or scope."""
        if isinstance(record, LogRecord):
            return record.event_name.startswith(events.PREFIX) or record.scope.name.startswith(_SCOPE)
        return record.name.startswith(events.PREFIX) and (
            _TYPE in record.attributes or record.scope.name.startswith(_SCOPE)
        )

    def read(self, record: Record) -> Iterator[Observation]:
        """Read one span or event."""
        yield from content.conversation(record.attributes)
        if isinstance(record, LogRecord):
            # The attribute `event.name` has no prefix, the field and the body have one.
            yield from self._events.read(record, record.event_name.removeprefix(events.PREFIX))
        else:
            yield from _read_span(record)

    def attribute(self, record: Record, key: str) -> Value:
        """Look up an attribute; none is hidden."""
        return record.attributes.get(key)


def _read_span(span: Span) -> Iterator[Observation]:
    attributes = span.attributes
    match span.name.removeprefix(events.PREFIX):
        case "interaction":
            yield AgentRun(agent=None)
            yield from content.newest_user_text(read_messages(attributes.get("user_prompt"), "user"))
        case "llm_request":
            # Only of a subagent the source is its name.
            agent = values.as_str(attributes.get(_SOURCE)) if _SUBAGENT in attributes else None
            yield ModelCall(agent=agent)
        case "tool":
            yield from _tool(span)
        case "tool.execution":
            yield from _execution(span)
        case _:
            return


def _tool(span: Span) -> Iterator[CallExecuted]:
    attributes = span.attributes
    name = events.tool_name(attributes)
    if name is None:
        return
    told = next((event.attributes for event in span.events if event.name == _OUTPUT_EVENT), dict[str, Value]())
    arguments = events.arguments(attributes)
    yield CallExecuted(
        name=name,
        call_id=_call_id(attributes),
        arguments=values.arguments(_first(told, _INPUTS)) if arguments == NOT_RECORDED else arguments,
        result=_result(told),
        error=events.failure(attributes) or tools.call_error(span),
    )


def _execution(span: Span) -> Iterator[CallExecuted]:
    """Read the outcome; a span without one, and without an id, could only be taken for a call of its own."""
    call_id, error = _call_id(span.attributes), events.failure(span.attributes) or tools.call_error(span)
    if call_id is not None or error is not None:
        yield CallExecuted(name="", call_id=call_id, error=error)


def _result(told: Mapping[str, Value]) -> Content:
    return values.result(_first(told, _RESULTS))


def _call_id(attributes: Mapping[str, Value]) -> str | None:
    return values.identifier(_first(attributes, _TOOL_USE))


def _first(attributes: Mapping[str, Value], keys: tuple[str, ...]) -> Value:
    return next((attributes[key] for key in keys if key in attributes), None)
