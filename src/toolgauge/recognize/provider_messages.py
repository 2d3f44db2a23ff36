"""Reads what a model was given and wrote, in the provider's own form, which some producers pass on as it is.

Arrives: the decoded request or response. Leaves: messages that `recognize.langchain` reads.
"""

from collections.abc import Iterator

from toolgauge.model.json import Json, JsonObject
from toolgauge.recognize.hosted_tools import code_execution
from toolgauge.recognize.langchain import batch, generated
from toolgauge.recognize.values import as_list, as_object, as_str

_CONVERSATION_KEYS = ("messages", "input", "contents", "prompt", "prompts")


def given(inputs: Json) -> list[Json]:
    """Return the messages of a request."""
    recorded = as_object(inputs)
    found = next((recorded[key] for key in _CONVERSATION_KEYS if recorded.get(key) is not None), inputs)
    if isinstance(found, str):
        return [{"role": "user", "content": found}]
    messages = [_message(item) for item in batch(found)]
    instructions = as_str(recorded.get("system")) or as_str(recorded.get("instructions"))
    return [{"role": "system", "content": instructions}, *messages] if instructions else [*messages]


def written(outputs: Json) -> list[JsonObject]:
    """Return the messages of a response; of alternative choices the first."""
    if isinstance(outputs, str):
        return [{"role": "assistant", "content": outputs}]
    if isinstance(outputs, list):
        return [_message(item) for item in outputs]
    recorded = as_object(outputs)
    choices = as_list(recorded.get("choices")) or as_list(recorded.get("candidates"))
    if choices:
        first = as_object(choices[0])
        return [_message(first.get("message", first.get("content")))]
    inner = as_object(recorded.get("message"))
    if "blocks" in inner:
        return [_message(inner)]
    output = recorded.get("output")
    if isinstance(output, dict):
        return written(output)
    if isinstance(output, list):
        return [_message(item) for item in output]
    return generated(recorded) or ([_message(recorded)] if recorded else [])


def _message(item: Json) -> JsonObject:
    if isinstance(item, str):
        return {"content": item}
    message = as_object(item)
    if "blocks" in message and "content" not in message:
        return _of_blocks(message)
    parts = as_list(message.get("parts"))
    if not parts:
        return message
    flat = {key: value for key, value in message.items() if key != "parts"}
    return {**flat, "content": [part for found in parts for part in _parts(as_object(found))]}


def _of_blocks(message: JsonObject) -> JsonObject:
    """Read LlamaIndex's form; calls stand in blocks and, as the provider wrote them, beside."""
    blocks = [as_object(block) for block in as_list(message.get("blocks"))]
    beside = as_object(message.get("additional_kwargs"))
    called: list[Json] = [
        {"id": block.get("tool_call_id"), "name": block.get("tool_name"), "arguments": block.get("tool_kwargs")}
        for block in blocks
        if block.get("block_type") == "tool_call"
    ]
    return {
        "role": message.get("role"),
        "content": [{"type": "text", "text": block["text"]} for block in blocks if "text" in block],
        "tool_calls": called or beside.get("tool_calls"),
        "tool_call_id": beside.get("tool_call_id"),
    }


def _parts(part: JsonObject) -> Iterator[JsonObject]:
    """Name the kind of a part where Gemini and Pydantic AI do so in other ways."""
    call = part.get("function_call", part.get("functionCall"))
    if isinstance(call, dict):
        yield {**call, "type": "tool_call"}
        return
    response = part.get("function_response", part.get("functionResponse"))
    if isinstance(response, dict):
        yield {**response, "type": "tool_call_response"}
        return
    if (code := code_execution(part)) is not None:
        yield code
        return
    kind = as_str(part.get("part_kind"))
    if kind == "tool-call":
        yield {**part, "type": "tool_call"}
    elif kind == "tool-return":
        yield {**part, "type": "tool_call_response"}
    elif kind is None or kind in ("text", "user-prompt"):
        yield part
