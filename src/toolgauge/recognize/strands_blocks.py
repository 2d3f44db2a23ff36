"""Opens the content blocks that Strands takes over from Bedrock: `{"toolUse": {...}}`, `{"toolResult": {...}}`.

Arrives: a list of blocks, mostly as JSON text. Leaves: a message of parts as the conventions have them, which
everybody can read. Results are lists of blocks too; a score compares what is in the block, not the wrapping.
"""

from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.recognize import values
from toolgauge.recognize.messages import Message

_MAX_BLOCKS = 10_000
_RESULTS = ("json", "text")


def message(role: str, value: Value) -> Message:
    """Read a list of blocks as a message; any other value is the message's text."""
    return Message({"role": role, "parts": _parts(value)}, role)


def opened(result: Content) -> Content:
    """Take a tool's result out of its blocks: the value of a single block, else the list of the values."""
    if isinstance(result, Unparsed):
        return values.result(result.text) if result.reason == "unparsable" else result
    blocks = result.value if isinstance(result, Recorded) else None
    if not isinstance(blocks, list) or not blocks or not all(map(_is_result, blocks)):
        return result
    found = [_value(values.as_object(block)) for block in blocks[:_MAX_BLOCKS]]
    return Recorded(found[0] if len(found) == 1 else found)


def _parts(value: Value) -> list[Json]:
    match values.content(value):
        case Recorded(list() as blocks):
            return [_part(values.as_object(block)) for block in blocks[-_MAX_BLOCKS:]]
        case NotRecorded():
            return []
        case _:
            return [{"type": "text", "content": value}] if isinstance(value, str) else []


def _part(block: JsonObject) -> JsonObject:
    if "toolUse" in block:
        use = values.as_object(block["toolUse"])
        call: JsonObject = {"type": "tool_call", "id": use.get("toolUseId"), "name": use.get("name")}
        return {**call, "arguments": use["input"]} if "input" in use else call
    if "toolResult" in block:
        recorded = values.as_object(block["toolResult"])
        answer: JsonObject = {
            "type": "tool_call_response",
            "id": recorded.get("toolUseId"),
            "status": recorded.get("status"),
        }
        result = opened(Recorded(recorded["content"])) if "content" in recorded else None
        return {**answer, "response": result.value} if isinstance(result, Recorded) else answer
    text = block.get("text")
    return {"type": "text", "content": text} if isinstance(text, str) else {"type": "block"}


def _is_result(block: Json) -> bool:
    return isinstance(block, dict) and len(block) == 1 and not block.keys().isdisjoint(_RESULTS)


def _value(block: JsonObject) -> Json:
    if "json" in block:
        return block["json"]
    text = block["text"]
    read = values.returned(text)
    return read.value if isinstance(read, Recorded) else text
