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
    outputs = values.as_object(read.value).get("outputs") if isinstance(read, Recorded) else None
    messages = _messages(outputs)
    if not messages:
        return
    said = [message_fields(message) for message in messages]
    if all("tool_call_id" in message for message in said):
        yield from filter(None, map(_answer, said))
    # Earlier messages may be the history of other turns; only the last is what the model wrote here.
    yield from rejected(said[-1], None, 0)


def _answer(message: JsonObject) -> CallAnswered | None:
    told = message_answer(message)
    name = values.as_str(message.get("name"))
    if told.call_id is None and name is None:
        return None
    return CallAnswered(call_id=told.call_id, name=name, result=told.result, error=told.error)


def _messages(outputs: Json) -> list[Json]:
    if isinstance(outputs, dict) and "messages" in outputs:
        return values.as_list(outputs["messages"])
    return [outputs] if isinstance(outputs, dict) else []
