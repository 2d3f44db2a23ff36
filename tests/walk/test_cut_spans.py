"""A producer's limit on attributes: what the spans say that they lost is blamed on nobody."""

# pyright: reportUnknownMemberType=false

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from tests.walk.support import START_NS, Walk, attributes, key_value

TRACE, AGENT, MODEL, TOOL = b"t" * 16, b"agent...", b"model...", b"tool...."
OFFER = '{"function": {"name": "find", "parameters": {"type": "object"}}}'
MODEL_SPAN = {
    "openinference.span.kind": "LLM",
    "llm.input_messages.0.message.role": "user",
    "llm.input_messages.0.message.content": "find my order",
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.tool_calls.0.tool_call.id": "1",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "refund",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"order_id": "A-17731"}',
    "llm.tools.0.tool.json_schema": OFFER,
}


def results(**dropped: int) -> dict[str, object]:
    """Return outcomes by criterion of a run whose model's span lost something; its tool failed."""
    body = ExportTraceServiceRequest()
    scope = body.resource_spans.add().scope_spans.add()
    scope.scope.name = "openinference.instrumentation.langchain"
    for place, (span_id, parent, given) in enumerate(
        (
            (MODEL, AGENT, MODEL_SPAN),
            (TOOL, AGENT, {"openinference.span.kind": "TOOL", "tool.name": "refund", "tool_call.id": "1"}),
            (AGENT, b"", {"openinference.span.kind": "AGENT", "input.value": "find my order"}),
        )
    ):
        span = scope.spans.add(trace_id=TRACE, span_id=span_id, parent_span_id=parent, name="span")
        span.start_time_unix_nano = START_NS + (0 if span_id == AGENT else (place + 1) * 1_000_000)
        span.end_time_unix_nano = START_NS + (9 if span_id == AGENT else place + 2) * 1_000_000
        span.attributes.extend(key_value(key, value) for key, value in given.items())
        if span_id == TOOL:
            span.status.code = Status.STATUS_CODE_ERROR
        if span_id == MODEL:
            for name, count in dropped.items():
                setattr(span, name, count)
    walk = Walk("events=all")
    walk.send(body.SerializeToString())
    walk.wait(60)
    told = [attributes(event) for event in walk.events()]
    return {str(one["gen_ai.evaluation.name"]): one["toolgauge.outcome"] for one in told}


def test_a_whole_offer_shows_that_a_tool_was_invented():
    assert results()["default.known_tool"] == "fail"


@pytest.mark.parametrize("count", ["dropped_attributes_count", "dropped_events_count"])
def test_an_offer_that_lost_some_does_not(count: str):
    assert results(**{count: 1})["default.known_tool"] == "not_evaluated"


def test_links_are_nothing_that_is_read():
    assert results(dropped_links_count=3) == results()
