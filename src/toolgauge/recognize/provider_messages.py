"""Reads what a model was given and wrote, in the provider's own form, which some producers pass on as it is.

Arrives: the decoded request or response. Leaves: messages that `recognize.langchain` reads.
"""

from collections.abc import Iterator

from toolgauge.model.content import NOT_RECORDED, Content, Recorded
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import OTHER_ERROR, CallAnswered, CallError
from toolgauge.recognize import strands_blocks, values
from toolgauge.recognize.hosted_tools import code_execution
from toolgauge.recognize.langchain import batch, generated
from toolgauge.recognize.messages import MAX_ITEMS

_ANTHROPIC, _BEDROCK = '"tool_result"', '"toolResult"'


def provider_answers(request: Value) -> list[CallAnswered]:
    """Read the answers of Anthropic's messages and Bedrock's Converse; none of a request in any other form."""
    if not isinstance(request, str) or (_ANTHROPIC not in request and _BEDROCK not in request):
        return []
    read = values.envelope(request)
    messages = values.as_list(values.as_object(read.value).get("messages")) if isinstance(read, Recorded) else []
    return [
        answer
        for message in messages[-MAX_ITEMS:]
        for block in values.as_list(values.as_object(message).get("content"))[:MAX_ITEMS]
        for answer in _answer(values.as_object(block))
    ]


def _answer(block: JsonObject) -> Iterator[CallAnswered]:
    if block.get("type") == "tool_result":
        call_id, result = values.as_str(block.get("tool_use_id")), _anthropic_result(block.get("content"))
        failed = block.get("is_error") is True
    else:
        answered = values.as_object(block.get("toolResult"))
        call_id, result = values.as_str(answered.get("toolUseId")), _bedrock_result(answered.get("content"))
        failed = answered.get("status") == "error"
    if call_id is not None:
        error = CallError(kind=OTHER_ERROR, message=_text(result)) if failed else None
        yield CallAnswered(call_id=call_id, result=result, error=error)


def _anthropic_result(content: Json) -> Content:
    blocks = [values.as_object(block) for block in values.as_list(content)]
    if blocks and all(isinstance(block.get("text"), str) for block in blocks):
        return values.result("\n".join(str(block["text"]) for block in blocks))
    return _plain_result(content)


def _bedrock_result(content: Json) -> Content:
    return strands_blocks.opened(_plain_result(content))


def _plain_result(content: Json) -> Content:
    if content is None:
        return NOT_RECORDED
    return values.result_inside(content)


def _text(result: Content) -> str:
    return result.value if isinstance(result, Recorded) and isinstance(result.value, str) else ""


_CONVERSATION_KEYS = ("messages", "input", "contents", "prompt", "prompts")


def given(inputs: Json) -> list[Json]:
    """Return the messages of a request."""
    recorded = values.as_object(inputs)
    found = next((recorded[key] for key in _CONVERSATION_KEYS if recorded.get(key) is not None), inputs)
    if isinstance(found, str):
        return [{"role": "user", "content": found}]
    messages = [_message(item) for item in batch(found)]
    instructions = values.as_str(recorded.get("system")) or values.as_str(recorded.get("instructions"))
    return [{"role": "system", "content": instructions}, *messages] if instructions else [*messages]


def written(outputs: Json) -> list[JsonObject]:
    """Return the messages of a response; of alternative choices the first."""
    if isinstance(outputs, str):
        return [{"role": "assistant", "content": outputs}]
    if isinstance(outputs, list):
        return [_message(item) for item in outputs]
    recorded = values.as_object(outputs)
    choices = values.as_list(recorded.get("choices")) or values.as_list(recorded.get("candidates"))
    if choices:
        first = values.as_object(choices[0])
        return [_message(first.get("message", first.get("content")))]
    inner = values.as_object(recorded.get("message"))
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
    message = values.as_object(item)
    if "blocks" in message and "content" not in message:
        return _of_blocks(message)
    parts = values.as_list(message.get("parts"))
    if not parts:
        return message
    flat = {key: value for key, value in message.items() if key != "parts"}
    return {**flat, "content": [part for found in parts for part in _parts(values.as_object(found))]}


def _of_blocks(message: JsonObject) -> JsonObject:
    """Read LlamaIndex's form; calls stand in blocks and, as the provider wrote them, beside."""
    blocks = [values.as_object(block) for block in values.as_list(message.get("blocks"))]
    beside = values.as_object(message.get("additional_kwargs"))
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
    kind = values.as_str(part.get("part_kind"))
    if kind == "tool-call":
        yield {**part, "type": "tool_call"}
    elif kind == "tool-return":
        yield {**part, "type": "tool_call_response"}
    elif kind is None or kind in ("text", "user-prompt"):
        yield part
