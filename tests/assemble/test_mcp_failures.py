"""A failure that an MCP server reports inside a result is one of the call, whatever its span shows."""

import json
from typing import Any

import pytest

from tests.assemble.support import answered, args, executed, joined, model, only_call, reading, requested
from tests.rows import each_row
from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import CallError

FAILED: JsonObject = {"content": [{"type": "text", "text": "no such order"}], "isError": True}
ERROR = CallError(kind="_OTHER", message="no such order")
SHAPES: dict[str, Json] = {
    "adk": {"id": "adk-1", "name": "find", "response": FAILED},
    "strands": {"toolUseId": "t1", "status": "error", "content": [{"text": "no such order"}]},
    "ai sdk": {"type": "json", "value": FAILED},
    "llamaindex": "meta=None content=[TextContent(type='text', text='no such order')] isError=True",
    "wrapped text": {"output": json.dumps({"result": FAILED})},
}


@each_row("shape", SHAPES)
def test_a_tool_span_with_a_failed_result_is_a_failed_call(shape: str):
    call = only_call(joined(reading("tool", executed("find", result=Recorded(SHAPES[shape])))))
    assert (call.state, call.error, call.result) == ("executed", ERROR, Recorded(SHAPES[shape]))


def test_an_answer_reports_a_failure_that_the_tool_span_does_not_have():
    trajectory = joined(
        reading("ask", model(), requested("find", args(), id="1"), start=0),
        reading("tool", executed("find", id="1", result=Recorded("no such order")), start=1),
        reading("next", model(), answered("1", json.dumps(FAILED)), start=5),
    )
    assert only_call(trajectory).error == ERROR


@each_row(
    "text",
    [
        # The low-level servers in Python and in TypeScript.
        "Input validation error: 'one' is not of type 'integer'",
        "Input validation error: 'q' is a required property",
        "MCP error -32602: Input validation error: expected number",
    ],
)
def test_a_server_that_refuses_the_arguments_rejects_the_call(text: str):
    refused: Json = {"content": [{"type": "text", "text": text}], "isError": True}
    call = only_call(joined(reading("tool", executed("find", args(n="one"), result=Recorded(refused)))))
    assert (call.state, call.error) == ("rejected", CallError(kind="_OTHER", message=text))


def test_a_failure_in_the_result_of_an_inner_span_is_one_of_the_call():
    trajectory = joined(
        reading("tool", executed("find", result=Recorded("no such order")), start=0, end=9),
        reading("client", executed("find", result=Recorded(FAILED), mcp=True), parent="tool", start=1, end=3),
    )
    assert only_call(trajectory).error == ERROR


@pytest.mark.parametrize("failed", [{"result": Recorded(FAILED)}, {"error": ERROR}])
def test_a_failed_attempt_within_the_tool_is_no_failure_where_a_later_one_went_well(failed: dict[str, Any]):
    trajectory = joined(
        reading("tool", executed("find", result=Recorded("shipped")), start=0, end=9),
        reading("client", executed("find", mcp=True, **failed), parent="tool", start=1, end=3),
        reading("server", executed("find", mcp=True), parent="client", start=2, end=3),
        reading("again", executed("find", mcp=True), parent="tool", start=4, end=6),
    )
    assert only_call(trajectory).error is None
    first = joined(
        reading("tool", executed("find", result=Recorded("shipped")), start=0, end=9),
        reading("client", executed("find", mcp=True, **failed), parent="tool", start=1, end=3),
        reading("server", executed("find", mcp=True), parent="client", start=2, end=3),
    )
    assert only_call(first).error == ERROR


def test_an_error_without_a_message_has_the_text_of_the_blocks():
    error = CallError(kind="tool_error", message="")
    call = only_call(joined(reading("tool", executed("find", result=Recorded(FAILED["content"]), error=error))))
    assert call.error == CallError(kind="tool_error", message="no such order")
