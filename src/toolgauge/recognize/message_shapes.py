"""Finds the messages of models and the offers of tools by their shape, under any key.

They are those of OpenAI, Anthropic, Gemini, Bedrock, LangChain and the conventions.
"""

from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import CallRequested
from toolgauge.recognize import conventions, provider_messages, values
from toolgauge.recognize.definitions import definitions, is_schema
from toolgauge.recognize.envelopes import unwrapped
from toolgauge.recognize.langchain import batch, message_fields
from toolgauge.recognize.messages import messages_of

_MAX_ITEMS = 200
_ROLES = ("system", "user", "assistant", "tool", "model", "developer", "function", "human", "ai")
_OUTPUT_ROLES = frozenset(("assistant", "model", "ai"))
_CONTENT = frozenset(("content", "parts", "tool_calls", "blocks", "contents"))
_CALL_TYPES = ("function", "function_call", "tool_call", "tool-call", "tool_use")
_BESIDE_CALLS = ("text", "thinking", "reasoning")
_ANSWER_TYPES = ("function_call_output", "tool_result", "tool-result", "tool_call_response")
# How JSON of these shapes begins, but for a bracket.
OBJECTS = (
    *(
        '{"' + key + '":'
        for key in ("role", "parts", "messages", "choices", "candidates", "generations", "lc", "content")
    ),
    *(
        '{"' + key + '":'
        for key in ("message", "model", "contents", "tools", "tool_calls", "toolUse", "functionCall", "kwargs")
    ),
    *('{"' + key + '":' for key in ("toolCallType", "toolCallId", "function", "index", "finish_reason", "output")),
    *('{"type":"' + kind + '"' for kind in (*_CALL_TYPES, *_ANSWER_TYPES, "text", "message", "reasoning")),
    *('{"id":"' + prefix for prefix in ("chatcmpl", "resp_", "msg_", "gen-")),
    *("{" + first + '"method":"tools/call"' for first in ("", '"jsonrpc":"2.0",')),
)
# Keys of the conventions without content, which alone make the content of a span not worth looking for.
PLAIN = frozenset(
    (
        *(
            conventions.OPERATION,
            conventions.CONVERSATION,
            conventions.SESSION,
            conventions.AGENT,
            conventions.TOOL_NAME,
        ),
        *(conventions.CALL_ID, conventions.DEFINITIONS, conventions.ERROR_TYPE, conventions.FINISH_REASONS),
        *(conventions.MCP_METHOD, conventions.MCP_TOOL, *conventions.TOKEN_KEYS[0], *conventions.TOKEN_KEYS[1]),
        *("gen_ai.tool.type", "gen_ai.tool.description", "gen_ai.agent.id", "gen_ai.agent.description"),
        *(
            "gen_ai.system",
            "gen_ai.provider.name",
            "gen_ai.request.model",
            "gen_ai.response.model",
            "gen_ai.response.id",
        ),
        *("gen_ai.request.max_tokens", "gen_ai.request.temperature", "gen_ai.request.top_p", "gen_ai.output.type"),
        *("server.address", "server.port", "mcp.session.id", "jsonrpc.request.id"),
        *("http.request.method", "http.response.status_code", "http.route", "http.status_code", "url.full", "url.path"),
        *("url.scheme", "rpc.method", "rpc.service", "rpc.system", "mcp.protocol.version", "gen_ai.request.stream"),
    )
)
_REQUESTS = ("messages", "contents", "input")


def may_be_json(value: Value) -> bool:
    """Return whether a value may hold messages."""
    if isinstance(value, str):
        return value.startswith(("[", "{"))
    return isinstance(value, dict) or (isinstance(value, list) and not isinstance(value[0] if value else "", str))


def calls_in(value: Json) -> list[CallRequested]:
    """Read the calls that the messages of a model ask for."""
    written = messages_of([*provider_messages.written(value)], "assistant")
    return [seen for seen in conventions.written(written, None) if isinstance(seen, CallRequested)]


def shape_of(value: Json) -> str:
    """Return whether a value is the `input` or `output` of a model, or the `tools` on offer; "" for anything else."""
    value = unwrapped(value)
    if isinstance(value, list):
        items = [values.as_object(item) for item in batch(value)[:_MAX_ITEMS]]
        if not items or not all(items):
            return ""
        if any(map(_is_call, items)) and all(_is_call(item) or item.get("type") in _BESIDE_CALLS for item in items):
            return "output"
        if all(map(_is_definition, items)):
            return "tools"
        roles = [_role(item) for item in items]
        if not all(roles):
            return ""
        return "output" if _OUTPUT_ROLES.issuperset(roles) else "input"
    message = values.as_object(value)
    if role := _role(message):
        return "output" if role in _OUTPUT_ROLES else "input"
    if is_request(message):
        return "input"
    written = provider_messages.written(value)
    is_response = bool(written) and written[0] is not message and all(_role(item) for item in written)
    return "output" if is_response else ""


def is_request(item: JsonObject) -> bool:
    """Return whether an object is a request to a model."""
    return any(isinstance(item.get(key), list) and shape_of(item[key]) in ("input", "output") for key in _REQUESTS)


def is_message(value: Json) -> bool:
    """Return whether a value is one whole message, or a list of them."""
    items = values.as_list(value) or [value]
    return all(_role(values.as_object(item)) for item in items[:_MAX_ITEMS])


def _role(item: JsonObject) -> str:
    """Return the role of a whole message, "" where it is none."""
    kind = item.get("type")
    if kind in _ANSWER_TYPES:
        return "tool"
    if _is_call(item):
        return "assistant"
    message = message_fields(item)
    inner = message.get("message")
    message = inner if isinstance(inner, dict) else message
    role = message.get("role", message.get("type"))
    return str(role) if role in _ROLES and not _CONTENT.isdisjoint(message) else ""


def _is_call(item: JsonObject) -> bool:
    function = values.as_object(item.get("function"))
    if values.as_str(function.get("name")) and "arguments" in function:
        return True
    # Syntax trees and build tools have names with other arguments.
    given = next((item[key] for key in ("arguments", "args", "input") if key in item), None)
    if not isinstance(given, dict) and not (isinstance(given, str) and given[:1] in ("{", "")):
        return False
    name = "name" if item.get("type") in _CALL_TYPES else "toolName"
    return bool(values.as_str(item.get(name))) and item.get("type") != "function"


def _is_definition(item: JsonObject) -> bool:
    found = [*definitions(item)]
    return bool(found) and all(tool.parameters is not None and is_schema(tool.parameters) for tool in found)
