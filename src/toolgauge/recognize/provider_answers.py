"""Reads what tools answered from a model's request in its provider's own form, which shows whether they failed.

Arrives: a request as JSON text. Leaves: answers to calls. OpenInference's flattened messages drop the failure, and keep of
several answers in one message only the last (Anthropic and Bedrock in JavaScript).
"""

from collections.abc import Iterator

from toolgauge.model.content import NOT_RECORDED, Content, Recorded
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import OTHER_ERROR, CallAnswered, CallError
from toolgauge.recognize import strands_blocks, values
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
    return values.part(content) if isinstance(content, (dict, list)) else values.result(content)


def _text(result: Content) -> str:
    return result.value if isinstance(result, Recorded) and isinstance(result.value, str) else ""
