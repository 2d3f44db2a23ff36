"""From spans to scores: results of MCP servers as the instrumentations of several producers record them.

The spans have the attributes that each producer writes; none of them has an error status.
"""

import json

from tests.rows import each_row
from tests.walk.shapes import evaluated, span
from toolgauge.model.json import Json

GENAI: dict[str, Json] = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "find",
    "gen_ai.tool.call.id": "c1",
}
PRODUCERS: dict[str, tuple[str, dict[str, Json], str]] = {
    "google adk": ("gcp.vertex.agent", {**GENAI, "gcp.vertex.agent.llm_request": "{}"}, "gcp.vertex.agent.tool_response"),
    "conventions": ("my.agent", GENAI, "gen_ai.tool.call.result"),
    "openinference": (
        "openinference.instrumentation.google_adk",
        {"openinference.span.kind": "TOOL", "tool.name": "find", "output.mime_type": "application/json"},
        "output.value",
    ),
    "ai sdk": ("ai", {"operation.name": "ai.toolCall", "ai.operationId": "ai.toolCall", "ai.toolCall.name": "find",
                      "ai.toolCall.id": "c1", "ai.toolCall.args": "{}"}, "ai.toolCall.result"),
    "traceloop": (
        "opentelemetry.instrumentation.langchain",
        {"traceloop.span.kind": "tool", "traceloop.entity.name": "find", "traceloop.entity.input": "{}"},
        "traceloop.entity.output",
    ),
    "mastra": ("@mastra/otel", {**GENAI, "mastra.span.type": "mcp_tool_call"}, "gen_ai.tool.call.result"),
}  # fmt: skip
FAILED: Json = {"content": [{"type": "text", "text": "no such order"}], "isError": True}


@each_row("producer", PRODUCERS)
def test_a_failure_flag_fails_the_call_and_a_tools_own_value_does_not(producer: str):
    scope, recorded, key = PRODUCERS[producer]

    def outcome(result: Json) -> str:
        made = span("execute_tool find", {**recorded, key: json.dumps(result)}, id="tool", parent=None, scope=scope)
        (one,) = evaluated(made)
        (judged,) = one.of("default.tool_success")
        return judged.outcome

    assert outcome(FAILED) == outcome({"result": FAILED}) == "fail"
    assert outcome({"content": [{"type": "text", "text": "shipped"}], "isError": False}) == "pass"
    assert outcome({"isError": True, "message": "no such order"}) == "fail"
    assert outcome({"isError": True, "item": "A-17", "parts": 3}) == "pass"
