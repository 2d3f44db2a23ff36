"""From spans to scores: results of MCP servers as the instrumentations of several producers record them.

The spans have the attributes that each producer writes; none of them has an error status.
"""

import json

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from tests.walk.support import START_NS, Walk, attributes, key_value
from toolgauge.model.json import Json

PASS, FAIL = (1, 0), (0, 1)
GENAI = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find", "gen_ai.tool.call.id": "c1"}
PRODUCERS: dict[str, tuple[str, dict[str, str], str]] = {
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


def tool_success(producer: str, result: Json) -> tuple[object, ...]:
    """Return how many calls passed and failed; the span of the only one has the result."""
    scope, recorded, key = PRODUCERS[producer]
    span = Span(
        trace_id=b"\1" * 16,
        span_id=b"\2" * 8,
        name="execute_tool find",
        start_time_unix_nano=START_NS,
        end_time_unix_nano=START_NS + 1,
        attributes=[key_value(name, value) for name, value in {**recorded, key: json.dumps(result)}.items()],
    )
    scoped = ScopeSpans(scope=InstrumentationScope(name=scope, version="1.0.0"), spans=[span])
    service = Resource(attributes=[key_value("service.name", "shop")])
    walk = Walk()
    walk.send(
        ExportTraceServiceRequest(
            resource_spans=[ResourceSpans(resource=service, scope_spans=[scoped])]
        ).SerializeToString()
    )
    walk.wait(1000)
    (scorecard,) = walk.scorecards()
    counted = attributes(scorecard)
    return tuple(counted[f"toolgauge.eval.default.tool_success.calls.{outcome}"] for outcome in ("passed", "failed"))


@pytest.mark.parametrize("producer", PRODUCERS)
def test_a_failure_flag_fails_the_call_and_a_tools_own_value_does_not(producer: str):
    failed: Json = {"content": [{"type": "text", "text": "no such order"}], "isError": True}
    assert tool_success(producer, failed) == FAIL
    assert tool_success(producer, {"result": failed}) == FAIL
    assert tool_success(producer, {"content": [{"type": "text", "text": "shipped"}], "isError": False}) == PASS
    assert tool_success(producer, {"isError": True, "message": "no such order"}) == FAIL
    assert tool_success(producer, {"isError": True, "item": "A-17", "parts": 3}) == PASS
