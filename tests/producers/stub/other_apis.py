# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# JSON of other people's protocols has no types.
"""Protocols of Anthropic (messages), Gemini (generateContent) and Bedrock (Converse, and Anthropic's within invoke)."""

import base64
import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from tests.producers.stub.answers import Answer, Asked, pieces
from tests.producers.stub.openai_api import text_of

# --- Anthropic messages


def anthropic_asked(body: Mapping[str, Any]) -> Asked:
    """Read a request for a message; results of tools come in messages of the user."""
    messages: list[tuple[str, str]] = []
    for one in body["messages"]:
        content = one.get("content")
        parts = content if isinstance(content, list) else []
        is_result = any(part.get("type") == "tool_result" for part in parts)
        role = "model" if one.get("role") == "assistant" else "tool" if is_result else "user"
        messages.append((role, text_of(content)))
    return Asked(messages=messages, model=body.get("model", ""), stream=bool(body.get("stream")))


def anthropic(answer: Answer) -> dict[str, Any]:
    """Write a message."""
    blocks = [{"type": "tool_use", "id": call.id, "name": call.call.name, "input": call.value} for call in answer.calls]
    return {
        "id": f"msg_{answer.id}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": blocks or [{"type": "text", "text": answer.text}],
        "stop_reason": "tool_use" if answer.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 40, "output_tokens": 12},
    }


def anthropic_events(answer: Answer) -> Iterator[tuple[str | None, Any]]:
    """Write the events of a streamed message."""
    whole = anthropic(answer)
    for event in _anthropic_events(answer, whole):
        yield event["type"], event


def _anthropic_events(answer: Answer, whole: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "message_start", "message": whole | {"content": [], "stop_reason": None}}
    for index, block in enumerate(whole["content"]):
        is_call = block["type"] == "tool_use"
        empty = block | ({"input": {}} if is_call else {"text": ""})
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for piece in pieces(answer.calls[index].text if is_call else answer.text):
            delta = (
                {"type": "input_json_delta", "partial_json": piece}
                if is_call
                else {"type": "text_delta", "text": piece}
            )
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": {"output_tokens": 12}}
    yield {"type": "message_stop"}


# --- Gemini


def gemini_asked(body: Mapping[str, Any], *, model: str, stream: bool) -> Asked:
    """Read a request to generate content."""
    messages: list[tuple[str, str]] = []
    for one in body.get("contents", []):
        parts = one.get("parts", [])
        is_result = any("functionResponse" in part or "function_response" in part for part in parts)
        role = "model" if one.get("role") == "model" else "tool" if is_result else "user"
        messages.append((role, text_of(parts)))
    return Asked(messages=messages, model=model, stream=stream)


def gemini(answer: Answer) -> dict[str, Any]:
    """Write a generated content; calls have no id."""
    parts: list[Any] = [{"functionCall": {"name": call.call.name, "args": call.value}} for call in answer.calls]
    return {
        "candidates": [
            {
                "content": {"role": "model", "parts": parts or [{"text": answer.text}]},
                "finishReason": "STOP",
                "index": 0,
            }
        ],
        "usageMetadata": {"promptTokenCount": 40, "candidatesTokenCount": 12, "totalTokenCount": 52},
        "modelVersion": answer.model,
        "responseId": answer.id,
    }


def gemini_events(answer: Answer) -> Iterator[tuple[str | None, Any]]:
    """Write the parts of streamed content: calls come whole, each in a part of its own."""
    whole = gemini(answer)
    parts = whole["candidates"][0]["content"]["parts"]
    if not answer.calls:
        parts = [{"text": piece} for piece in pieces(answer.text)]
    for at, part in enumerate(parts):
        last = at == len(parts) - 1
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": [part]}, "index": 0}
        yield None, whole | {"candidates": [candidate | ({"finishReason": "STOP"} if last else {})]}


# --- Bedrock


def converse_asked(body: Mapping[str, Any], *, model: str, stream: bool) -> Asked:
    """Read a request to converse."""
    messages: list[tuple[str, str]] = []
    for one in body["messages"]:
        is_result = any("toolResult" in part for part in one["content"])
        role = "model" if one.get("role") == "assistant" else "tool" if is_result else "user"
        messages.append((role, text_of(one["content"])))
    return Asked(messages=messages, model=model, stream=stream)


def converse(answer: Answer) -> dict[str, Any]:
    """Write the answer of a conversation."""
    calls: list[Any] = [
        {"toolUse": {"toolUseId": call.id, "name": call.call.name, "input": call.value}} for call in answer.calls
    ]
    return {
        "output": {"message": {"role": "assistant", "content": calls or [{"text": answer.text}]}},
        "stopReason": "tool_use" if answer.calls else "end_turn",
        "usage": {"inputTokens": 40, "outputTokens": 12, "totalTokens": 52},
        "metrics": {"latencyMs": 5},
    }


def converse_events(answer: Answer) -> Iterator[tuple[str, dict[str, Any]]]:
    """Write the events of a streamed conversation."""
    yield "messageStart", {"role": "assistant"}
    for index, call in enumerate(answer.calls):
        start = {"toolUse": {"toolUseId": call.id, "name": call.call.name}}
        yield "contentBlockStart", {"contentBlockIndex": index, "start": start}
        for piece in pieces(call.text):
            yield "contentBlockDelta", {"contentBlockIndex": index, "delta": {"toolUse": {"input": piece}}}
        yield "contentBlockStop", {"contentBlockIndex": index}
    if not answer.calls:
        for piece in pieces(answer.text):
            yield "contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": piece}}
        yield "contentBlockStop", {"contentBlockIndex": 0}
    yield "messageStop", {"stopReason": "tool_use" if answer.calls else "end_turn"}
    yield "metadata", {"usage": {"inputTokens": 40, "outputTokens": 12, "totalTokens": 52}, "metrics": {"latencyMs": 5}}


def invoke_events(answer: Answer) -> Iterator[tuple[str, dict[str, Any]]]:
    """Write Anthropic's events as the chunks of an invoked model."""
    for _, event in anthropic_events(answer):
        yield "chunk", {"bytes": base64.b64encode(json.dumps(event).encode()).decode()}


def event_stream_frame(kind: str, value: Mapping[str, Any]) -> bytes:
    """Encode one event of AWS's binary event stream."""
    headers = b"".join(
        _header(name, text)
        for name, text in ((":event-type", kind), (":content-type", "application/json"), (":message-type", "event"))
    )
    body = json.dumps(value, ensure_ascii=False).encode()
    prelude = struct.pack(">II", len(headers) + len(body) + 16, len(headers))
    checked = prelude + struct.pack(">I", zlib.crc32(prelude)) + headers + body
    return checked + struct.pack(">I", zlib.crc32(checked))


def _header(name: str, text: str) -> bytes:
    return bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(text)) + text.encode()
