"""Reads Bedrock AgentCore: log records that hold the content of spans, moved there by AWS's distribution of OpenTelemetry.

A record names its span, which another dialect reads, and is named after the span's scope; its body is `{input: {messages},
output: {messages}}`. A tool's record is recognized by the role of its input, and does not name the tool.
"""

from collections.abc import Iterator, Mapping

from toolgauge.model.content import NOT_RECORDED, Unparsed
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import CallAnswered, CallExecuted, Observation
from toolgauge.model.ports import Grounds
from toolgauge.model.records import LogRecord, Record
from toolgauge.recognize import conventions, values
from toolgauge.recognize.dialect import PlainDialect
from toolgauge.recognize.langchain import tool_answer
from toolgauge.recognize.messages import Message
from toolgauge.recognize.provider_messages import blocks_message

_STRANDS = "strands"
# The frameworks whose content is moved; `event.name` holds the name of the span's scope.
_SCOPES = (_STRANDS, "opentelemetry.instrumentation.", "openinference.instrumentation.", "openlit.", "gcp.vertex.agent")
_SIDES = ("input", "output")
_TOOL_RESULT = "tool.result"
_MAX_MESSAGES = 10_000


class AgentCore(PlainDialect):
    """Reads the log records that hold the content of spans."""

    name = "agentcore"
    rank = 79
    marks = _SCOPES
    grounds = Grounds()

    def claims(self, record: Record) -> bool:
        """Claim log records that are named after their scope and have messages on at least one side."""
        if not isinstance(record, LogRecord) or not record.event_name.startswith(_SCOPES):
            return False
        body = record.body
        if record.event_name != record.scope.name or not isinstance(body, Mapping):
            return False
        return any(isinstance(body.get(side), Mapping) for side in _SIDES)

    def read(self, record: Record) -> Iterator[Observation]:
        """Read one log record."""
        yield from conventions.conversation(record.attributes)
        if isinstance(record, LogRecord):
            recorded = values.as_object(values.decoded(record.body))
            given, written = (_messages(recorded.get(side)) for side in _SIDES)
            is_strands = record.event_name.startswith(_STRANDS)
            yield from _read_strands(given, written) if is_strands else _read_others(given, written)


def _messages(side: Json) -> list[JsonObject]:
    messages = values.as_list(values.as_object(side).get("messages"))
    return [values.as_object(message) for message in messages[-_MAX_MESSAGES:]]


def _read_strands(given: list[JsonObject], written: list[JsonObject]) -> Iterator[Observation]:
    execution = _executed(given, written)
    if execution is not None:
        yield execution
        return
    yield from conventions.received([_blocks(message, "user") for message in given])
    # A tool's result is a message of its own, of text, beside the model's messages.
    outputs = [_blocks(message, "assistant") for message in written if isinstance(message.get("content"), dict)]
    yield from conventions.written(outputs, None)
    for message in written:
        result = values.as_object(message.get("content")).get(_TOOL_RESULT)
        yield from blocks_message("tool", result).answers()


def _executed(given: list[JsonObject], written: list[JsonObject]) -> CallExecuted | None:
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


def _read_others(given: list[JsonObject], written: list[JsonObject]) -> Iterator[Observation]:
    """Read answers and texts; which tools were called is still on the spans."""
    for message in written:
        answer = tool_answer(message.get("content"))
        if answer.call_id is not None:
            yield CallAnswered(call_id=answer.call_id, result=answer.result, error=answer.error)
    # Whole states of graphs are written as a user's message, too; those are no text of a user.
    contents = [(message, message.get("content")) for message in given]
    spoken = [
        Message(message, "user")
        for message, content in contents
        if isinstance(content, str) and content.lstrip()[:1] not in ("{", "[")
    ]
    yield from conventions.newest_user_text(spoken)
