# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# JSON of other people's protocols has no types.
"""OpenAI's two protocols, chat completions and responses, with and without server-sent events."""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.producers.stub.answers import Answer, Asked, MadeCall, pieces

_USAGE = {"prompt_tokens": 40, "completion_tokens": 12, "total_tokens": 52}
_RESPONSE_USAGE = {
    "input_tokens": 40,
    "output_tokens": 12,
    "total_tokens": 52,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}
# Any time: what an answer says of when it was made is no part of a capture's meaning.
_CREATED = 1790000000


def text_of(content: Any) -> str:
    """Return the text of a message's content: text itself, or parts of which some are text."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text", "")) if isinstance(part, dict) else str(part) for part in parts)


def chat_asked(body: Mapping[str, Any]) -> Asked:
    """Read a request for a chat completion."""
    roles = {"assistant": "model", "user": "user", "system": "system", "developer": "system"}
    messages = [(roles.get(one.get("role"), "tool"), text_of(one.get("content"))) for one in body["messages"]]
    return Asked(messages=messages, model=body.get("model", ""), stream=bool(body.get("stream")))


def chat(answer: Answer) -> dict[str, Any]:
    """Write a chat completion."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None, "refusal": None}
    if answer.calls:
        message["tool_calls"] = [_chat_call(call) for call in answer.calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(answer)}
    return _chat_frame(answer, "chat.completion", [choice]) | {"usage": _USAGE}


def chat_events(answer: Answer) -> Iterator[tuple[str | None, Any]]:
    """Write the chunks of a streamed chat completion."""
    yield None, _chunk(answer, {"role": "assistant", "content": None if answer.calls else ""})
    for piece in pieces(answer.text) if answer.text else ():
        yield None, _chunk(answer, {"content": piece})
    for index, call in enumerate(answer.calls):
        first = _chat_call(call)
        first["function"]["arguments"] = ""
        yield None, _chunk(answer, {"tool_calls": [{"index": index, **first}]})
        for piece in pieces(call.text):
            yield None, _chunk(answer, {"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield None, _chunk(answer, {}, _finish(answer))
    yield None, _chat_frame(answer, "chat.completion.chunk", []) | {"usage": _USAGE}
    yield None, "[DONE]"


def _chat_call(call: MadeCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.call.name, "arguments": call.text}}


def _chunk(answer: Answer, delta: Mapping[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return _chat_frame(answer, "chat.completion.chunk", [choice])


def _chat_frame(answer: Answer, kind: str, choices: list[Any]) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{answer.id}",
        "object": kind,
        "created": _CREATED,
        "model": answer.model,
        "choices": choices,
    }


def _finish(answer: Answer) -> str:
    return "tool_calls" if answer.calls else "stop"


# --- responses


def response_asked(body: Mapping[str, Any]) -> Asked:
    """Read a request for a response."""
    given = body.get("input")
    items: list[Any] = [{"role": "user", "content": given}] if isinstance(given, str) else list(given or [])
    messages = [_item_asked(item) for item in items]
    return Asked(messages=messages, model=body.get("model", ""), stream=bool(body.get("stream")))


def _item_asked(item: Mapping[str, Any]) -> tuple[str, str]:
    if item.get("type", "message") == "message":
        role = {"assistant": "model", "user": "user"}.get(str(item.get("role")), "system")
        return role, text_of(item.get("content"))
    return ("tool" if str(item.get("type")).endswith("_output") else "model"), ""


def response(answer: Answer) -> dict[str, Any]:
    """Write a response."""
    return _response_frame(answer, "completed", _items(answer)) | {"usage": _RESPONSE_USAGE}


def response_events(answer: Answer) -> Iterator[tuple[str | None, Any]]:
    """Write the events of a streamed response."""
    for number, event in enumerate(_response_events(answer)):
        yield event["type"], event | {"sequence_number": number}


def _response_events(answer: Answer) -> Iterator[dict[str, Any]]:
    started = _response_frame(answer, "in_progress", []) | {"usage": None}
    yield {"type": "response.created", "response": started}
    yield {"type": "response.in_progress", "response": started}
    for index, item in enumerate(_items(answer)):
        at = {"item_id": item["id"], "output_index": index}
        empty = item | ({"arguments": ""} if item["type"] == "function_call" else {"content": []})
        yield {"type": "response.output_item.added", "output_index": index, "item": empty | {"status": "in_progress"}}
        yield from _call_events(item, at) if item["type"] == "function_call" else _text_events(item, at)
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": "response.completed", "response": response(answer)}


def _call_events(item: Mapping[str, Any], at: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for piece in pieces(item["arguments"]):
        yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
    yield {"type": "response.function_call_arguments.done", **at, "name": item["name"], "arguments": item["arguments"]}


def _text_events(item: Mapping[str, Any], at: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    part = item["content"][0]
    at = {**at, "content_index": 0}
    yield {"type": "response.content_part.added", **at, "part": part | {"text": ""}}
    for piece in pieces(part["text"]):
        yield {"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **at, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **at, "part": part}


def _items(answer: Answer) -> list[dict[str, Any]]:
    if not answer.calls:
        part = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
        return [
            {"id": f"msg_{answer.id}", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
        ]
    return [
        {
            "id": f"fc_{call.id}",
            "type": "function_call",
            "call_id": call.id,
            "name": call.call.name,
            "arguments": call.text,
            "status": "completed",
        }
        for call in answer.calls
    ]


def _response_frame(answer: Answer, status: str, items: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"resp_{answer.id}",
        "object": "response",
        "created_at": _CREATED,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": answer.model,
        "output": items,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
    }
