"""Evaluators with parameters and references that the samples of the contract checker do not have."""

from tests.rows import each_row
from tests.score.support import expect, expected, expected_turns, tool_call, trajectory, user
from toolgauge.evaluators.expected_calls import ToolCallCount, ToolCallF1, ToolCallOrder
from toolgauge.evaluators.outputs import JsonSimilarity, ToolCallOutput
from toolgauge.evaluators.run_checks import ToolUse
from toolgauge.evaluators.tool_call_args import ToolCallAccuracy
from toolgauge.model.content import NotRecorded, Recorded, Unparsed
from toolgauge.model.expected import Expected, ExpectedCall, ExpectedOutput
from toolgauge.model.observations import CallError
from toolgauge.model.ports import Evaluator
from toolgauge.model.trajectory import Message
from toolgauge.testing.evaluators import check_evaluator
from toolgauge.testing.samples import SECRET

FAILED = CallError(kind="TimeoutError", message=SECRET)
RUN = trajectory(
    tool_call("find_order", {"order_id": SECRET}, result=Recorded({"content": f'{{"order": "{SECRET}"}}'})),
    tool_call("find_order", {"order_id": "x"}, error=FAILED),
    tool_call("refund_order", arguments=Unparsed(SECRET), result=NotRecorded("redacted")),
    tool_call("never_expected", {"a": [SECRET]}, result=Recorded(SECRET)),
    messages=(user(SECRET, 0), Message(role="assistant", text=f'{{"answer": "{SECRET}"}}', turn=4)),
)
ANSWERED = trajectory(messages=(Message(role="assistant", text=SECRET, turn=0),))


def output(value: str, args: str | None = None) -> ExpectedCall:
    wanted = ExpectedOutput(value={"order": value})
    return ExpectedCall(name="find_order", args=None if args is None else {"order_id": args}, output=wanted)


REFERENCES = (
    expected(output(SECRET), output("other", "x")),
    expected_turns((output(SECRET), expect("refund_order", {}))),
    expected(
        ExpectedCall(name="find_order", group=0), ExpectedCall(name="refund_order", group=0), expect("find_order")
    ),
    Expected(turns=(), answer=ExpectedOutput(value={"answer": "other", "more": [1]})),
    Expected(turns=(), answer=ExpectedOutput(value="other")),
)


@each_row(
    "evaluator",
    [
        ToolUse(),
        ToolUse(tools=("find_*",), failed_calls="ignore"),
        ToolCallOutput(),
        ToolCallOutput(strict=True, similarity="json", failed_calls="ignore"),
        ToolCallOrder(),
        ToolCallOrder(strict=True, tools=("find_*",)),
        ToolCallCount.model_validate({"counts": {"find_order": 1, "*": "<= 2"}, "others": 0, "strict": True}),
        JsonSimilarity(),
        JsonSimilarity(target_output_key=("answer",), subset=True),
        ToolCallF1.model_validate({"arguments": {"*": "casefold"}}),
        ToolCallAccuracy(),
        ToolCallAccuracy(ordered=False, strict=True, volatile=("a",)),
    ],
    ids=repr,
)
def test_evaluators_keep_their_contract(evaluator: Evaluator):
    check_evaluator(evaluator, (RUN, ANSWERED), REFERENCES)
