"""Reads the messages that OpenLIT keeps of a LangChain run, for what no other span has.

Arrives: `{"messages": ["content='..' tool_call_id='..'", ..]}`, messages as Python shows them and without their class.
Leaves: answers to calls that were refused before a tool ran, and calls whose arguments LangChain could not read.
"""

from collections.abc import Iterator

from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import CallAnswered, Observation
from toolgauge.recognize import values
from toolgauge.recognize.langchain.answers import message_answer
from toolgauge.recognize.langchain.messages import rejected
from toolgauge.recognize.reprs import parse_fields

_TOLD = ("tool_call_id=", "'invalid_tool_call'")
# What only a model's message has; a user's has none of it.
_WRITTEN = ("tool_calls", "invalid_tool_calls", "usage_metadata")
# Of a longer history the newest are read.
_MAX_MESSAGES = 1_000


def history(output: Value) -> Iterator[Observation]:
    """Read the newest turn: what came before it, other traces have told."""
    if not isinstance(output, str) or not any(mark in output for mark in _TOLD):
        return
    read = values.parse_text(output)
    messages = values.as_list(values.as_object(read.value).get("messages")) if isinstance(read, Recorded) else []
    newest = _newest_turn(messages)
    position = 0
    for message in newest:
        if "tool_call_id" in message:
            yield from _answer(message)
            continue
        for call in rejected(message, None, position):
            yield call
            position += 1


def _newest_turn(messages: list[Json]) -> list[JsonObject]:
    turn: list[JsonObject] = []
    for message in reversed(messages[-_MAX_MESSAGES:]):
        fields = _fields(message)
        if "tool_call_id" not in fields and not any(fields.get(key) for key in _WRITTEN):
            break
        turn.append(fields)
    return turn[::-1]


def _fields(message: Json) -> JsonObject:
    if not isinstance(message, str):
        return {}
    try:
        return parse_fields(message)
    except ValueError:
        return {}


def _answer(message: JsonObject) -> Iterator[CallAnswered]:
    told = message_answer(message)
    name = values.as_str(message.get("name"))
    if told.call_id is not None or name is not None:
        yield CallAnswered(call_id=told.call_id, name=name, result=told.result, error=told.error)
