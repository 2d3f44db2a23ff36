"""Reads requests and responses in a provider's own form, with the failures that only this form shows.

Messages of models and offers of tools are found by their shape, under any key: those of OpenAI, Anthropic, Gemini, Bedrock, LangChain
and the conventions.
"""

from collections.abc import Iterator

from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.literals import CLASS
from toolgauge.model.observations import OTHER_ERROR, CallAnswered, CallError, CallRequested
from toolgauge.recognize import conventions, values
from toolgauge.recognize.definitions import definitions, is_schema
from toolgauge.recognize.hosted_tools import code_execution
from toolgauge.recognize.langchain import REPRS, batch, flat_message, generated, message_fields, unwrapped
from toolgauge.recognize.messages import Message, messages_of

_ANTHROPIC, _BEDROCK = '"tool_result"', '"toolResult"'


def provider_answers(request: Value) -> list[CallAnswered]:
    """Read the answers, with failures, in a request of Anthropic's messages or Bedrock's Converse; none in any other form."""
    if not isinstance(request, str) or (_ANTHROPIC not in request and _BEDROCK not in request):
        return []
    messages = values.as_list(values.decoded_object(request).get("messages"))
    contents = (values.as_object(message).get("content") for message in messages[-values.MAX_ITEMS :])
    found: list[CallAnswered] = []
    for block in (values.as_object(one) for content in contents for one in values.as_list(content)[: values.MAX_ITEMS]):
        if block.get("type") == "tool_result":
            call_id, content = values.as_str(block.get("tool_use_id")), block.get("content")
            failed = block.get("is_error") is True
            texts = [values.as_object(inner).get("text") for inner in values.as_list(content)]
            if texts and all(isinstance(text, str) for text in texts):
                content = "\n".join(map(str, texts))
            result = values.result_inside(content)
            if call_id is not None:
                error = CallError(kind=OTHER_ERROR, message=values.text_of(result)) if failed else None
                found.append(CallAnswered(call_id=call_id, result=result, error=error))
        elif "toolResult" in block:
            found += [answer for answer in blocks_message("user", [block]).answers() if answer.call_id is not None]
    return found


def blocks_message(role: str, value: Value) -> Message:
    """Read a list of Bedrock's blocks as a message; any other value is the message's text."""
    blocks = values.decoded(value)
    return Message({"role": role, "content": blocks if isinstance(blocks, list) else values.plain(value)}, role)


_ROLES = frozenset(("system", "user", "assistant", "human", "ai"))
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
    if "blocks" in inner or ("role" in inner and "content" in inner):
        return [_message(inner)]
    if isinstance(recorded.get("content"), dict):  # ADK's form of Gemini's
        return [_message(recorded["content"])]
    output = recorded.get("output")
    if isinstance(output, dict):
        return written(output)
    if isinstance(output, list):
        return [_message(item) for item in output]
    return generated(recorded) or ([_message(recorded)] if recorded else [])


def _message(item: Json) -> JsonObject:
    if isinstance(item, str):
        opened = values.as_message(item, "content") if item.startswith('{"') else {}
        return _message(opened) if len(opened) == 1 and not _ROLES.isdisjoint(opened) else {"content": item}
    message = values.as_object(item)
    if len(message) == 1 and not _ROLES.isdisjoint(message):
        # Monocle's form: `{"user": "What is the weather?"}`.
        role, text = next(iter(message.items()))
        return {"role": role, "content": text}
    if "lc" in message or isinstance(message.get("data"), dict):
        return flat_message(message_fields(message))
    if "toolName" in message and "type" not in message:
        return {**message, "type": "tool-call"}
    if "blocks" in message and "content" not in message:
        # Read LlamaIndex's form; calls are in blocks and, as the provider wrote them, in another member.
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
    parts = values.as_list(message.get("parts"))
    if not parts:
        return message
    flat = {key: value for key, value in message.items() if key != "parts"}
    return {**flat, "content": [part for found in parts for part in _parts(values.as_object(found))]}


def _parts(part: JsonObject) -> Iterator[JsonObject]:
    """Name the kind of a part where Gemini and Pydantic AI do so in other ways."""
    call = part.get("function_call", part.get("functionCall"))
    if isinstance(call, dict):
        # The API leaves out `args` of a call without arguments.
        yield {**call, "args": call.get("args") or {}, "type": "tool_call"}
        return
    response = part.get("function_response", part.get("functionResponse"))
    if isinstance(response, dict):
        yield {**response, "type": "tool_call_response"}
        return
    if (code := code_execution(part)) is not None:
        yield code
        return
    if part.get("thought") is True:
        yield {"type": "reasoning"}
        return
    kind = values.as_str(part.get("part_kind"))
    if kind == "tool-call":
        yield {**part, "type": "tool_call"}
    elif kind == "tool-return":
        yield {**part, "type": "tool_call_response"}
    elif kind is None or kind in ("text", "user-prompt"):
        yield part


def haystack_messages(written: Json, default_role: str = "") -> list[Message]:
    """Read Haystack's messages: JSON of its dataclasses, or their Python reprs, parsed."""
    messages: list[Message] = []
    for item in values.as_list(written):
        message = {"role": default_role, "content": item} if isinstance(item, str) else values.as_object(item)
        # An enumeration's member keeps its class's name where it was written as text.
        role = (values.as_str(message.get("role", message.get("_role"))) or "").rpartition(".")[2]
        content = message.get("content", message.get("_content"))
        parts: list[Json] = [{"type": "text", "content": content}]
        if isinstance(content, list):
            parts = [_haystack_part(values.as_object(part)) for part in content]
        messages.append(Message({"role": role, "parts": parts}, default_role))
    return messages


def _haystack_part(part: JsonObject) -> JsonObject:
    """Turn a part into one of the conventions: `{"tool_call": ..}`, or the Python repr of its class."""
    kind = values.as_str(part.get(CLASS))
    call = part if kind == "ToolCall" else part.get("tool_call")
    if isinstance(call, dict):
        given: JsonObject = {} if call.get("arguments") is None else {"arguments": call["arguments"]}
        return {"type": "tool_call", "id": call.get("id"), "name": call.get("tool_name"), **given}
    returned = part if kind == "ToolCallResult" else part.get("tool_call_result")
    if isinstance(returned, dict):
        origin = values.as_object(returned.get("origin"))
        call_id, name = values.as_str(origin.get("id")), values.as_str(origin.get("tool_name"))
        if call_id is None and name is None:
            return {}
        answer: JsonObject = {"type": "tool_call_response", "id": call_id, "name": name}
        return {**answer, "response": returned.get("result"), "is_error": returned.get("error")}
    return {"type": "text", "content": part.get("text")}


_MAX_ITEMS = 200
_SHAPE_ROLES = ("system", "user", "assistant", "tool", "model", "developer", "function", "human", "ai")
_OUTPUT_SHAPE_ROLES = frozenset(("assistant", "model", "ai"))
_CONTENT = frozenset(("content", "parts", "tool_calls", "blocks", "contents"))
_SHAPE_CALLS = ("function", "function_call", "tool_call", "tool-call", "tool_use")
_BESIDE_CALLS = ("text", "thinking", "reasoning")
_SHAPE_ANSWERS = ("function_call_output", "tool_result", "tool-result", "tool_call_response")
# How JSON of these shapes begins, but for a bracket.
OBJECTS = (
    *(
        '{"' + key + '":'
        for key in ("role", "parts", "messages", "choices", "candidates", "generations", "lc", "content")
    ),
    *('{"' + key + '":' for key in ("message", "model", "contents", "tools", "tool_calls", "toolUse", "functionCall")),
    *(
        '{"' + key + '":'
        for key in ("kwargs", "toolCallType", "toolCallId", "function", "index", "finish_reason", "output")
    ),
    *('{"type":"' + kind + '"' for kind in (*_SHAPE_CALLS, *_SHAPE_ANSWERS, "text", "message", "reasoning")),
    *('{"id":"' + prefix for prefix in ("chatcmpl", "resp_", "msg_", "gen-")),
    *('{"method":"tools/call"', '{"jsonrpc":"2.0","method":"tools/call"'),
)
# Keys of the conventions without content: a span with no other keys holds no messages.
PLAIN = frozenset(
    (
        *(conventions.OPERATION, conventions.CONVERSATION, conventions.SESSION, conventions.AGENT),
        *(conventions.CALL_ID, conventions.DEFINITIONS, conventions.ERROR_TYPE, conventions.FINISH_REASONS),
        *(conventions.MCP_METHOD, conventions.MCP_TOOL, *conventions.TOKEN_KEYS[0], *conventions.TOKEN_KEYS[1]),
        *(conventions.TOOL_NAME, "gen_ai.tool.type", "gen_ai.tool.description", "gen_ai.agent.id"),
        *("gen_ai.agent.description", "gen_ai.system", "gen_ai.provider.name", "gen_ai.request.model"),
        *("gen_ai.response.model", "gen_ai.response.id", "gen_ai.request.max_tokens", "gen_ai.request.temperature"),
        *("gen_ai.request.top_p", "gen_ai.output.type", "server.address", "server.port", "mcp.session.id"),
        *("jsonrpc.request.id", "http.request.method", "http.response.status_code", "http.route", "http.status_code"),
        *("url.full", "url.path", "url.scheme", "rpc.method", "rpc.service", "rpc.system", "mcp.protocol.version"),
        "gen_ai.request.stream",
    )
)
_REQUESTS = ("messages", "contents", "input")
_BEGINNINGS = ("[", "{", *REPRS)


def may_be_json(value: Value) -> bool:
    """Return whether a value may hold messages."""
    if isinstance(value, str):
        return value.startswith(_BEGINNINGS)
    return isinstance(value, dict) or (isinstance(value, list) and not isinstance(value[0] if value else "", str))


def calls_in(value: Json) -> list[CallRequested]:
    """Read the calls that the messages of a model ask for."""
    seen = conventions.written(messages_of([*written(value)], "assistant"), None)
    return [one for one in seen if isinstance(one, CallRequested)]


def shape_of(value: Json) -> str:
    """Return whether a value is the `input` or `output` of a model, or the `tools` on offer; "" for anything else."""
    value = unwrapped(value)
    if isinstance(value, list):
        items = [values.as_object(item) for item in batch(value)[:_MAX_ITEMS]]
        if not items or not all(items):
            return ""
        if any(map(_is_call, items)) and all(_is_call(item) or item.get("type") in _BESIDE_CALLS for item in items):
            return "output"
        offered = [[*definitions(item)] for item in items]
        schemas = [tool.parameters for tools in offered for tool in tools]
        if all(offered) and all(schema is not None and is_schema(schema) for schema in schemas):
            return "tools"
        roles = [_role(item) for item in items]
        if not all(roles):
            return ""
        return "output" if _OUTPUT_SHAPE_ROLES.issuperset(roles) else "input"
    message = values.as_object(value)
    if role := _role(message):
        return "output" if role in _OUTPUT_SHAPE_ROLES else "input"
    if is_request(message):
        return "input"
    messages = written(value)
    is_response = bool(messages) and messages[0] is not message and all(map(_role, messages))
    return "output" if is_response else ""


def is_request(item: JsonObject) -> bool:
    """Return whether an object is a request to a model."""
    return any(isinstance(item.get(key), list) and shape_of(item[key]) in ("input", "output") for key in _REQUESTS)


def is_message(value: Json) -> bool:
    """Return whether a value is one whole message, or a list of them."""
    items = values.as_list(value) or [value]
    return all(_role(values.as_object(item)) for item in items[:_MAX_ITEMS])


def _role(item: JsonObject) -> str:
    """Return the role of a whole message, "" of any other object."""
    kind = item.get("type")
    if kind in _SHAPE_ANSWERS:
        return "tool"
    if _is_call(item):
        return "assistant"
    message = message_fields(item)
    inner = message.get("message")
    message = inner if isinstance(inner, dict) else message
    role = message.get("role", message.get("type"))
    return str(role) if role in _SHAPE_ROLES and not _CONTENT.isdisjoint(message) else ""


def _is_call(item: JsonObject) -> bool:
    function = values.as_object(item.get("function"))
    if values.as_str(function.get("name")) and "arguments" in function:
        return True
    # Syntax trees and build tools have names with other arguments.
    given = next((item[key] for key in ("arguments", "args", "input") if key in item), None)
    if not isinstance(given, dict) and not (isinstance(given, str) and given[:1] in ("{", "")):
        return False
    name = "name" if item.get("type") in _SHAPE_CALLS else "toolName"
    return bool(values.as_str(item.get(name))) and item.get("type") != "function"
