"""Reads the calls that a model streamed: MLflow keeps each chunk as an event, but leaves the calls out of the whole.

Arrives: the span of a model call in OpenAI's form. Leaves: the messages of its output, completed. Without this a
streamed call that no tool took up would be lost.
"""

from msgspec import Struct

from toolgauge.model.content import Recorded
from toolgauge.model.json import JsonObject
from toolgauge.model.records import Span
from toolgauge.recognize.values import as_list, as_object, as_str, content

_EVENT = "mlflow.chunk.item."
_VALUE = "mlflow.chunk.value"
# Most chunks hold a word of text; only those with a piece of a call are worth parsing.
_HAS_CALL = '"function"'
_MAX_CALLS = 1000
_MAX_CHUNKS = 100_000


class _Streamed(Struct):
    """A call of which pieces have come so far."""

    call_id: str = ""
    name: str = ""
    arguments: list[str] = []


def completed(span: Span, written: list[JsonObject]) -> list[JsonObject]:
    """Return the messages with the streamed calls, where they tell of no call themselves."""
    if any(message.get("tool_calls") for message in written):
        return written
    calls = _streamed_calls(span)
    if not calls:
        return written
    asking: JsonObject = {"role": "assistant", "tool_calls": [*calls]}
    return [*written, asking]


def _streamed_calls(span: Span) -> list[JsonObject]:
    streamed: dict[int, _Streamed] = {}
    for event in span.events[:_MAX_CHUNKS]:
        value = event.attributes.get(_VALUE) if event.name.startswith(_EVENT) else None
        if isinstance(value, str) and _HAS_CALL in value:
            _take(value, streamed)
    return [
        {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": "".join(call.arguments)}}
        for _, call in sorted(streamed.items())
    ]


def _take(chunk: str, streamed: dict[int, _Streamed]) -> None:
    read = content(chunk)
    choices = as_list(as_object(read.value).get("choices")) if isinstance(read, Recorded) else []
    first = as_object(choices[0]) if choices else {}
    # What other choices write are alternatives.
    pieces = as_list(as_object(first.get("delta")).get("tool_calls")) if first.get("index") in (None, 0) else []
    for piece in map(as_object, pieces):
        index = piece.get("index")
        if not isinstance(index, int) or (index not in streamed and len(streamed) >= _MAX_CALLS):
            continue
        call = streamed.setdefault(index, _Streamed())
        function = as_object(piece.get("function"))
        call.call_id = call.call_id or as_str(piece.get("id")) or ""
        call.name = call.name or as_str(function.get("name")) or ""
        call.arguments.append(as_str(function.get("arguments")) or "")
