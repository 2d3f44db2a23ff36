"""Reads calls of tools that the model's provider runs, from output items such as OpenAI's `web_search_call`.

An item holds the call, its result, or both. With neither span nor definition, such a call would else look invented.
"""

import re

from toolgauge.model.content import NOT_RECORDED, Content, Recorded
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import OTHER_ERROR, PAUSED, REFUSED, CallAnswered, CallError, CallRequested
from toolgauge.recognize import values

# Marks of a call, or of an answer: Pydantic AI's, the AI SDK's.
PROVIDER_MARKS = ("builtin", "providerExecuted", "provider_executed")
PROVIDER_CALLS = frozenset(("server_tool_call", "server_tool_use", "mcp_tool_use", "builtin-tool-call"))
# Items of OpenAI's Responses API whose tools the application runs; all other `..._call` items are run by the provider.
_CLIENT_ITEMS = frozenset(
    (
        *("tool_call", "function_call", "custom_tool_call", "computer_call", "local_shell_call"),
        *("shell_call", "apply_patch_call"),
    )
)
_ITEM = "_call"
_MCP_APPROVAL = "mcp_approval_request"
# The item's own id comes last: that of an MCP approval names its call.
_CALL_IDS = ("toolCallId", "tool_call_id", "call_id", "approval_request_id", "id")
_CODE = "code_execution"
# Items whose types some producers write in place of the name of the tool.
_PROVIDER_ITEMS = frozenset(
    (
        *("web_search_call", "file_search_call", "code_interpreter_call"),
        *("image_generation_call", "mcp_call", "tool_search_call"),
    )
)
_QUICK_MARKS = (_ITEM + '"', '_tool_use"', _MCP_APPROVAL)
_HOSTED = re.compile(rf'"(?:{"|".join(sorted(_PROVIDER_ITEMS))}|server_tool_use|mcp_tool_use|{_MCP_APPROVAL})"')
# How the types of parts end that answer a call: `web_search_tool_result`, `custom_tool_call_output`.
OUTPUTS = ("_tool_result", "_call_output", "-tool-return")
_ARGUMENTS = ("arguments", "input", "action", "operation")
# Members that are arguments by themselves.
_SINGLE = ("code", "queries", "query")
_RESULTS = ("output", "outputs", "results", "result")


def code_execution(part: JsonObject) -> JsonObject | None:
    """Turn a part of Gemini's with code, or with the output of code, into a call of the provider, or its answer."""
    for key in ("executable_code", "executableCode"):
        if isinstance(code := part.get(key), dict):
            return {"type": "server_tool_call", "name": _CODE, "arguments": code}
    for key in ("code_execution_result", "codeExecutionResult"):
        if isinstance(ran := part.get(key), dict):
            failed = ran.get("outcome") not in (None, "OUTCOME_OK")
            return {
                "type": "server_tool_call_response",
                "name": _CODE,
                "response": ran.get("output"),
                **({"status": "error"} if failed else {}),
            }
    return None


def hosted_call(part: JsonObject, call_id: str | None) -> tuple[CallRequested, CallAnswered | None] | None:
    """Read an item such as `web_search_call`, with its result where it holds one; `None` for any other part."""
    kind = part.get("type")
    if not isinstance(kind, str) or not (kind.endswith(_ITEM) or kind == _MCP_APPROVAL):
        return None
    by_provider = kind not in _CLIENT_ITEMS and part.get("execution") != "client"
    result = next((values.result_inside(part[key]) for key in _RESULTS if part.get(key) is not None), NOT_RECORDED)
    failure, error = part.get("error"), None
    if failure or part.get("status") == "failed":
        message = failure if isinstance(failure, str) else values.as_str(values.as_object(failure).get("message"))
        error = CallError(kind=OTHER_ERROR, message=message or "")
    name = values.as_str(part.get("name")) or kind.removesuffix(_ITEM)
    call = CallRequested(position=0, name=name, call_id=call_id, arguments=_arguments(part), by_provider=by_provider)
    if result == NOT_RECORDED and error is None:
        return call, None
    return call, CallAnswered(call_id=call_id, name=name, result=result, error=error, by_provider=by_provider)


def hosted_item(name: str) -> str | None:
    """Return the tool behind a name that is the type of its item, `web_search_call`; `None` for any other name."""
    return name.removesuffix(_ITEM) if name in _PROVIDER_ITEMS else None


def hosted_items(response: Value) -> list[Json] | None:
    """Return the items of a provider's response that has calls of hosted tools; `None` for any other response."""
    if not isinstance(response, str) or not any(mark in response for mark in _QUICK_MARKS):
        return None
    if _HOSTED.search(response) is None:
        return None
    opened = values.decoded(response)
    answer = values.as_object(opened)
    return (
        values.as_list(opened) or values.as_list(answer.get("output")) or values.as_list(answer.get("content")) or None
    )


def approval(part: JsonObject) -> CallAnswered | None:
    """Read a part that asks a person about a call, or that holds a person's no; `None` for any other part."""
    kind = part.get("type")
    if not isinstance(kind, str) or "approval" not in kind:
        return None
    call = values.as_object(part.get("function_call", part.get("toolCall")))
    call_id = next((found for key in _CALL_IDS if (found := values.as_str(part.get(key) or call.get(key)))), None)
    name = values.as_str(part.get("name")) or values.as_str(call.get("name"))
    if kind.endswith(("request", "requested")):
        return CallAnswered(call_id=call_id, name=name, error=CallError(kind=PAUSED, message=""))
    if False in (part.get("approve"), part.get("approved")) and call_id is not None:
        reason = values.as_str(part.get("reason")) or ""
        return CallAnswered(call_id=call_id, name=name, error=CallError(kind=REFUSED, message=reason))
    return None


def output_error(content: Json) -> CallError | None:
    """Read the error in place of a result: `{"type": "web_search_tool_result_error", "error_code": "unavailable"}`."""
    if not isinstance(content, dict):
        return None
    kind = content.get("type")
    if not isinstance(kind, str) or not kind.endswith("_tool_result_error"):
        return None
    code = values.as_str(content.get("error_code")) or OTHER_ERROR
    return CallError(kind=code, message=values.as_str(content.get("error_message")) or "")


def _arguments(part: JsonObject) -> Content:
    for key in _ARGUMENTS:
        written = part.get(key)
        if written is None:
            continue
        if part.get("type") == "custom_tool_call":
            # Free text by design, even where it looks like JSON.
            return Recorded(written)
        if key == "action" and isinstance(written, dict):
            # The kind of action and the pages found are not arguments.
            return Recorded({name: value for name, value in written.items() if name not in ("type", "sources")})
        return values.arguments_inside(written)
    single: JsonObject = {key: part[key] for key in _SINGLE if part.get(key) is not None}
    return Recorded(single) if single else NOT_RECORDED
