"""Evaluators compare the values in content blocks of MCP, in the shapes in which producers record them."""

import json

from tests.rows import each_row
from tests.score.support import expected, judge, scored, tool_call, trajectory, user
from toolgauge.evaluators.data_flow import DataFlow
from toolgauge.evaluators.grounded_arguments import GroundedArguments
from toolgauge.evaluators.outputs import ToolCallOutput
from toolgauge.evaluators.repeated_calls import RepeatedCalls
from toolgauge.model.content import Recorded
from toolgauge.model.expected import ExpectedCall, ExpectedOutput
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.observations import CallError
from toolgauge.model.outcomes import Scored
from toolgauge.score.recorded_values import result_parts, result_value

ORDER: JsonObject = {"state": "shipped", "id": "Ä-17"}
# Characters beyond ASCII are escaped twice: only opened text shows them.
TEXT = json.dumps(ORDER)
BLOCK: JsonObject = {"type": "text", "text": TEXT, "annotations": None, "meta": None}
RESULT: JsonObject = {"content": [BLOCK], "isError": False}
SHAPES: dict[str, Json] = {
    "mcp": RESULT,
    "structured": {"content": [{"type": "text", "text": "shipped"}], "structuredContent": ORDER, "isError": False},
    "structured alone": {"structuredContent": ORDER},
    "adk": {"id": "adk-1", "name": "find", "response": {"result": RESULT}},
    "adk, an older release": {
        "result": f"meta=None content=[TextContent(type='text', text={TEXT!r}, annotations=None)] isError=False"
    },
    "ai sdk": {"type": "content", "value": [BLOCK]},
    "openai agents, one block": BLOCK,
    "openai agents, a list of texts": [json.dumps(BLOCK)],
    "langchain, with an artifact": [[BLOCK], {"structured_content": ORDER}],
    "langchain, a message": f"content={[BLOCK]!r} name='find' tool_call_id='c1'",
    "strands": {"toolUseId": "t1", "status": "success", "content": [{"text": TEXT}]},
    "bedrock": {"toolResult": {"toolUseId": "t1", "status": "success", "content": [{"json": ORDER}]}},
    "autogen": f"type='ToolResult' name='find' result=[TextResultContent(content={TEXT!r}, type='TextResultContent')] is_error=False",
    "a repr in a list": f"[TextContent(type='text', text={TEXT!r}, annotations=None)]",
    "a resource": {"content": [{"type": "resource", "resource": {"uri": "order://17", "text": TEXT}}]},
}


@each_row("shape", SHAPES)
def test_the_value_in_content_blocks_is_the_output(shape: str):
    call = tool_call("find", result=Recorded(SHAPES[shape]))
    for wanted in (ORDER, RESULT):
        want = ExpectedCall(name="find", args=None, output=ExpectedOutput(value=wanted))
        assert scored(ToolCallOutput(strict=True), trajectory(call), expected(want)).value == 1.0
    other = ExpectedCall(name="find", args=None, output=ExpectedOutput(value={**ORDER, "state": "lost"}))
    assert scored(ToolCallOutput(), trajectory(call), expected(other)).value == 0.0


@each_row("shape", SHAPES)
def test_argument_values_come_from_content_blocks(shape: str):
    found, pay = tool_call("find", result=Recorded(SHAPES[shape])), tool_call("pay", {"order_id": "Ä-17"})
    run = trajectory(found, pay, messages=(user("go on", 0),), writing_tools=("pay",))
    assert scored(GroundedArguments(), run).value == 1.0
    by_path = {"tool": "find", "path": "id"}
    for source, call, score in (
        ({"tool": "find"}, pay, 1.0),
        (by_path, pay, 1.0),
        (by_path, tool_call("pay", {"order_id": "B-18"}), 0.0),
    ):
        flow = DataFlow.model_validate({"rules": {"pay.order_id": {"from": source}}})
        assert scored(flow, trajectory(found, call)).value == score


def test_results_that_differ_in_their_metadata_are_the_same():
    calls = [
        tool_call("find", {"id": 1}, result=Recorded({**RESULT, "_meta": {"request": number}})) for number in range(3)
    ]
    assert isinstance(last := judge(RepeatedCalls(), trajectory(*calls))[-1], Scored)
    assert last.value < 1.0


def test_a_failure_of_mcp_can_be_expected():
    want = ExpectedCall(
        name="find",
        args=None,
        output=ExpectedOutput(value={"content": [{"type": "text", "text": "no such order"}], "isError": True}),
    )
    failed = tool_call("find", error=CallError(kind="_OTHER", message="no such order"))
    assert scored(ToolCallOutput(), trajectory(failed), expected(want)).value == 1.0
    assert scored(ToolCallOutput(), trajectory(tool_call("find", result=Recorded("x"))), expected(want)).value == 0.0


@each_row(
    ("result", "value"),
    [
        ({"content": [{"type": "text", "text": "one"}, {"type": "text", "text": "[2]"}]}, ["one", [2]]),
        ({"content": [{"type": "text", "text": "5"}], "structuredContent": {"result": 5}}, 5),
        ({"content": [{"type": "text", "text": '{"result": 5}'}], "structuredContent": {"result": 5}}, {"result": 5}),
        ({"content": [{"type": "text", "text": '"quoted"'}]}, '"quoted"'),
        ({"content": [], "isError": False}, []),
        ({"content": [{"type": "image", "data": "aGk="}], "isError": False}, {"type": "image", "data": "aGk="}),
    ],
)
def test_blocks_become_the_values_in_them(result: Json, value: Json):
    assert result_value(result) == value


@each_row("result", [ORDER, [ORDER], "prose", None, {"content": "text"}, {"result": ORDER}, ["a", "b"]])
def test_other_results_stay_as_they_are(result: Json):
    assert result_value(result) is result
    assert result_parts(result) == (result,)
