"""Reads LangGraph's task spans for what no other span has: calls that nobody could use, and answers to refused ones.

Task spans repeat the state of the graph over and over; a look at the text settles for nearly all that nothing is in it.
"""

from collections.abc import Iterator

from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import CallAnswered, Observation
from toolgauge.recognize import values
from toolgauge.recognize.langchain.answers import message_answer, message_fields
from toolgauge.recognize.langchain.messages import rejected

# The beginning of a tool node's output, up to the class of its first message, is shorter than this.
_HEAD = 400
_INVALID = '"invalid_tool_call"'
_TOOL_MESSAGE = '"ToolMessage"'


def task_output(value: Value) -> Iterator[Observation]:
    """Read `{"outputs": ..}` of a task."""
    if not isinstance(value, str) or not (_INVALID in value or _TOOL_MESSAGE in value[:_HEAD]):
        return
    read = values.parse_text(value)
    for messages in _message_lists(read.value if isinstance(read, Recorded) else None):
        yield from _told(messages)


def _message_lists(value: Json) -> Iterator[list[JsonObject]]:
    """Find the messages that a node adds: itself, through commands, or as one message. A list of them is its input."""
    outputs = values.as_object(value).get("outputs")
    commands = outputs if isinstance(outputs, list) else [outputs]
    for command in commands:
        opened = values.as_object(command)
        added = values.as_object(opened.get("update")) if "update" in opened else opened
        if "messages" in added:
            yield [message_fields(message) for message in values.as_list(added["messages"])]
    if isinstance(outputs, dict) and "messages" not in outputs:
        yield [message_fields(outputs)]


def _told(messages: list[JsonObject]) -> Iterator[Observation]:
    for message in reversed(messages):
        if "tool_call_id" not in message:
            break
        yield from _answer(message)
    # Earlier messages may be the history of other turns; only the last is what the model wrote here.
    for message in messages[-1:]:
        yield from rejected(message, None, len(values.as_list(message.get("tool_calls"))))


def _answer(message: JsonObject) -> Iterator[CallAnswered]:
    told = message_answer(message)
    name = values.as_str(message.get("name"))
    if told.call_id is not None or name is not None:
        yield CallAnswered(call_id=told.call_id, name=name, result=told.result, error=told.error)
