"""Results of MCP servers are recognized in the shapes in which producers record them, and no other tool's result is."""

import json

from tests.rows import each_row
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.mcp_results import McpResult, failed_mcp_result, mcp_result

BLOCK: JsonObject = {"type": "text", "text": "boom"}
FAILED: JsonObject = {"content": [BLOCK], "isError": True}
REPR = "CallToolResult(meta=None, content=[TextContent(type='text', text='boom', annotations=None)], isError=True)"
# What pydantic prints for `str(result)`.
FIELDS = "meta=None content=[TextContent(type='text', text='boom', annotations=Annotations(priority=0.5))] isError=True"

# LangGraph's `ToolNode` returns it in a list.
ANSWER: JsonObject = {"type": "tool", "content": "boom", "name": "find", "tool_call_id": "c1", "status": "error"}

FAILURES: dict[str, Json] = {
    "mcp": FAILED,
    "mcp, in Python's names": {"content": [BLOCK], "structured_content": None, "is_error": True},
    "more than text": {"content": [BLOCK, {"type": "image", "data": "", "mimeType": "image/png"}], "isError": True},
    "an embedded resource": {
        "content": [{"type": "resource", "resource": {"uri": "log://1", "text": "boom"}}],
        "isError": True,
    },
    "as text": json.dumps(FAILED),
    "as a literal": str(FAILED),
    "as a repr": REPR,
    "as fields": FIELDS,
    "adk": {"result": FAILED},
    "adk, an event": {"id": "adk-1", "name": "run_shell", "response": FAILED},
    "adk, an older release": {"result": FIELDS},
    "wrapped twice": {"output": {"result": FAILED}},
    "json-rpc": {"jsonrpc": "2.0", "id": 7, "result": FAILED},
    "ai sdk, an error": {"type": "error-text", "value": "boom"},
    "mastra": {**FAILED, "toolName": "run_shell", "durationMs": 3},
    "anthropic": {"type": "tool_result", "tool_use_id": "t1", "content": [BLOCK], "is_error": True},
    "anthropic, a text": {"type": "tool_result", "tool_use_id": "t1", "content": "boom", "is_error": True},
    "bedrock": {"toolResult": {"toolUseId": "t1", "status": "error", "content": [{"text": "boom"}]}},
    "langchain": {"type": "tool", "content": "boom", "tool_call_id": "c1", "artifact": None, "status": "error"},
    "langchain, as fields": "content='boom' name='run_shell' tool_call_id='c1' status='error'",
    "autogen": {
        "type": "ToolResult",
        "name": "run_shell",
        "result": [{"type": "TextResultContent", "content": "boom"}],
        "is_error": True,
    },
    "autogen, a call": {"name": "run_shell", "call_id": "c1", "content": "boom", "is_error": True},
    "llamaindex": {
        "blocks": [{"block_type": "text", "text": FIELDS}],
        "tool_name": "run_shell",
        "raw_input": {},
        "is_error": False,
    },
    "a proxy": {"content": [{"type": "text", "text": json.dumps(FAILED)}]},
    "a list of one": [FAILED],
    "a text in place of the blocks": {"content": "boom", "isError": True},
    "a proxy's wrapper": {"root": FAILED},
    "a wrapper with plain values beside it": {"result": FAILED, "serverName": "ops", "duration": 12},
    "text in an unknown wrapper": {"tool_output": json.dumps(FAILED), "server": "ops"},
    "langgraph": {"messages": [ANSWER]},
}


@each_row("shape", FAILURES)
def test_a_failure_flag_beside_content_blocks_is_found_in_every_shape(shape: str):
    found = failed_mcp_result(FAILURES[shape])
    assert found is not None
    assert found.text == "boom"


OTHERS: dict[str, Json] = {
    "a flag alone": {"isError": True},
    "a flag in a wrapper": {"result": {"isError": True}},
    "a flag and a message": {"isError": True, "message": "boom"},
    "a flag and other objects": {"isError": True, "content": [{"title": "boom"}]},
    "an error": {"error": "boom"},
    "a status": {"status": "error", "content": "boom"},
    "a document": {"id": 1, "title": "a", "content": [BLOCK]},
    "a node of an editor": {"type": "paragraph", "content": [BLOCK]},
    "a text with marks": [{"type": "text", "text": "boom", "bold": True}],
    "results beside a list": {"result": FAILED, "rows": [1]},
    "two results": {"first": FAILED, "second": {"content": [BLOCK], "isError": False}},
    "messages of two calls": {"messages": [ANSWER, ANSWER]},
    "a message beside its neighbours": {"message": {"content": "boom", "author": "a"}, "total": 3},
    "a text and a flag beside other members": {"content": "boom", "is_error": True, "title": "a"},
    "hits whose texts are JSON, with a score": [{"text": "{}", "score": 1}],
    "a list of results": [FAILED, FAILED],
    "a text about it": "isError=True: the server said content=[TextContent(...)]",
    "broken": REPR[:-9],
    "blocks in an unknown wrapper": {"payload": {"content": [BLOCK]}, "server": "ops"},
    "nothing": None,
    "an empty list": {"content": []},
    "much too deep": {"result": '{"content":' * 5000},
}


@each_row("shape", OTHERS)
def test_what_any_other_tool_returned_is_no_result_of_mcp(shape: str):
    assert mcp_result(OTHERS[shape]) is None
    assert failed_mcp_result(OTHERS[shape]) is None


def test_a_result_without_its_flag_did_not_fail():
    assert mcp_result({"content": [BLOCK], "isError": False}) == McpResult(("boom",))
    assert failed_mcp_result({"content": [BLOCK], "isError": False}) is None
    assert failed_mcp_result({"status": "success", "content": [{"text": "fine"}]}) is None


def test_wrappers_without_end_are_not_opened():
    wrapped: Json = FAILED
    for _ in range(200):
        wrapped = {"result": wrapped}
    assert mcp_result(wrapped) is None


def test_a_failure_flag_beside_no_content_is_a_failure():
    assert failed_mcp_result({"content": None, "isError": True}) == McpResult((), failed=True)
    assert failed_mcp_result({"root": {"content": None, "isError": True}}) == McpResult((), failed=True)


SPELLINGS: list[Json] = [
    # Spring AI and Strands; OpenAI's Responses API; Semantic Kernel, as Python and as JSON; ADK for Java.
    [{"text": '{"a": 1}'}],
    {"content": [{"text": '{"a": 1}'}]},
    [{"type": "input_text", "text": '{"a": 1}'}],
    {"content": [{"type": "output_text", "text": '{"a": 1}', "annotations": []}]},
    "[TextContent(inner_content=Part(kind='x'), ai_model_id=None, content_type='text', text='{\"a\": 1}')]",
    [{"ai_model_id": None, "metadata": {}, "content_type": "text", "text": '{"a": 1}', "encoding": None}],
    {"content": [{"type": "text", "text": '{"a": 1}'}], "text_output": [{"a": 1}]},
]


@each_row("written", SPELLINGS)
def test_text_blocks_are_opened_in_the_spelling_of_each_producer(written: Json):
    assert mcp_result(written) == McpResult(('{"a": 1}',))
