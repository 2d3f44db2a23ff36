"""What holds for every evaluator: the contract on runs of all kinds, and no score of what was not seen."""

from msgspec.structs import replace

from tests.rows import each_row
from tests.score.support import expect, expected, expected_turns, not_evaluated, tool_call, trajectory, user
from toolgauge.evaluators.answer_checks import GroundedAnswer, HonestAnswer
from toolgauge.evaluators.arguments_schema import ArgumentsSchema
from toolgauge.evaluators.data_flow import DataFlow
from toolgauge.evaluators.error_handling import ErrorHandling
from toolgauge.evaluators.expected_arguments import ToolCallAccuracy, ToolCallArgs, ToolParameterMatch, ToolTrajectory
from toolgauge.evaluators.expected_calls import ToolCallCount, ToolCallF1, ToolCallOrder
from toolgauge.evaluators.grounded_arguments import GroundedArguments
from toolgauge.evaluators.order_rules import OrderRules
from toolgauge.evaluators.outputs import JsonSimilarity, ToolCallOutput
from toolgauge.evaluators.policy import Policy
from toolgauge.evaluators.repeated_calls import OneEffect, RepeatedCalls
from toolgauge.evaluators.run_checks import Budget, Coverage, ToolUse
from toolgauge.evaluators.tool_checks import KnownTool, ToolContract, ToolSuccess
from toolgauge.model.content import NOT_RECORDED, NotRecorded, Recorded, Unparsed
from toolgauge.model.expected import Expected, ExpectedCall, ExpectedOutput
from toolgauge.model.observations import CallError
from toolgauge.model.ports import Evaluator
from toolgauge.model.trajectory import Message
from toolgauge.testing.evaluators import check_evaluator
from toolgauge.testing.samples import SECRET

FAILED = CallError(kind="TimeoutError", message=SECRET)
RUN = trajectory(
    tool_call("find_order", {"order_id": SECRET}, result=Recorded({"content": f'{{"order": "{SECRET}"}}'})),
    tool_call("find_order", {"order_id": "x", "n": 10**400, "name": "\ud800"}, error=FAILED),
    tool_call("refund_order", arguments=Unparsed(SECRET), result=NotRecorded("redacted")),
    tool_call("never_expected", {"a": [SECRET]}, result=Recorded(SECRET)),
    tool_call("refund_order", {"order_id": SECRET}, error=FAILED),
    messages=(user(SECRET, 0), Message(role="assistant", text=f'{{"answer": "{SECRET}"}}', turn=5)),
    offered=("find_order", "refund_order"),
    attributes={"user.id": SECRET},
    writing_tools=("refund_order",),
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
FLOW = DataFlow.model_validate(
    {
        "rules": {
            "*": {"not_in": ["never_*"]},
            "refund_order.order_id": {"from": {"tool": "find_*"}, "equals_attribute": "user.id"},
            "find_order.order_id": {"from": {"tool": "find_order", "path": "order"}, "by": "casefold"},
        }
    }
)
RULES = OrderRules.model_validate(
    {"rules": [{"before": "refund*", "call": "find*"}, {"requires_confirmation": "refund*"}]}
)
ENVELOPE = {"calls": {"0.5": 3, "0.99": 12}, "per_tool": {"find_order": {"calls": {"0.99": 1}}}}


@each_row(
    "evaluator",
    [
        ArgumentsSchema(),
        Budget.model_validate({"calls": 3, "errors": 1, "duration": "1s", "tokens": 5, "envelope": ENVELOPE}),
        Coverage(tools=("find_*",), failed_calls="ignore"),
        FLOW,
        ErrorHandling(),
        GroundedAnswer(),
        GroundedArguments(),
        HonestAnswer(),
        JsonSimilarity(),
        JsonSimilarity(target_output_key=("answer",), subset=True),
        KnownTool(tools=("f*",)),
        OneEffect(tools=("re*",), failed_calls="ignore"),
        RULES,
        Policy.model_validate({"forbid": [{"tool": "refund*", "arguments": {"order_id": {"matches": ".*"}}}]}),
        RepeatedCalls(retries=0, tools=("find_*",), failed_calls="ignore"),
        ToolCallAccuracy(ordered=False, strict=True, volatile=("a",)),
        ToolCallArgs.model_validate({"similarity": "json", "arguments": {"*.order_id": "casefold"}}),
        ToolCallCount.model_validate({"counts": {"find_order": 1, "*": "<= 2"}, "others": 0, "strict": True}),
        ToolCallF1.model_validate({"arguments": {"*": "casefold"}}),
        ToolCallOrder(strict=True, tools=("find_*",)),
        ToolCallOutput(strict=True, similarity="json", failed_calls="ignore"),
        ToolParameterMatch(match_mode="name_and_required_args", ordered=True),
        ToolContract(tools=("find_*",)),
        ToolSuccess(retries="ignore"),
        ToolTrajectory(mode="any_order", extra_calls="count"),
        ToolTrajectory.model_validate({"mode": "partial_order", "never_before": {"find_*": ["refund_order"]}}),
        ToolUse(tools=("find_*",), failed_calls="ignore"),
    ],
    ids=repr,
)
def test_evaluators_keep_their_contract(evaluator: Evaluator):
    check_evaluator(evaluator, (RUN, ANSWERED), REFERENCES)


REFUND = expected(expect("refund_order", {"order_id": SECRET}))


@each_row(
    ("evaluator", "reference"),
    [
        (ArgumentsSchema(schemas={"refund_order": {"properties": {"order_id": {}}}}), None),
        (FLOW, None),
        (GroundedArguments(), None),
        (OneEffect(), None),
        (ToolCallAccuracy(), REFUND),
        (ToolCallArgs(), REFUND),
        (ToolCallF1(), REFUND),
        (ToolParameterMatch(), REFUND),
        (ToolTrajectory(), REFUND),
    ],
)
def test_arguments_that_nobody_saw_are_no_score(evaluator: Evaluator, reference: Expected | None):
    for arguments, reason in (
        (NOT_RECORDED, "arguments_not_recorded"),
        (NotRecorded("redacted"), "redacted"),
        (Unparsed('{"order_id": ', "truncated"), "truncated"),
    ):
        call = tool_call("refund_order", arguments=arguments)
        judged = trajectory(call, messages=(user("go on", 0),), writing_tools=("refund_order",))
        assert not_evaluated(evaluator, judged, reference) == reason


@each_row(
    ("evaluator", "reference"),
    [
        (ArgumentsSchema(), None),
        (FLOW, None),
        (ErrorHandling(), None),
        (KnownTool(), None),
        (Policy.model_validate({"forbid": ["pay"]}), None),
        (RULES, None),
        (RepeatedCalls(), None),
        (ToolSuccess(), None),
        (ToolTrajectory(mode="subset"), REFUND),
    ],
)
def test_without_calls_nothing_is_judged_and_calls_that_were_not_recorded_may_be_what_counts(
    evaluator: Evaluator, reference: Expected | None
):
    empty = trajectory(offered=("pay",))
    assert not_evaluated(evaluator, empty, reference) == "no_calls"
    assert not_evaluated(evaluator, replace(empty, hidden_turns=1), reference) == "no_content"
