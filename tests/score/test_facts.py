"""Facts that evaluators share: each evaluator finds the same alone and among the others."""

from tests.score.support import tool_call, trajectory
from toolgauge.evaluators.arguments_schema import ArgumentsSchema
from toolgauge.evaluators.error_handling import ErrorHandling
from toolgauge.evaluators.grounded_arguments import GroundedArguments
from toolgauge.evaluators.repeated_calls import RepeatedCalls
from toolgauge.evaluators.run_checks import Coverage, ToolUse
from toolgauge.evaluators.tool_checks import KnownTool, ToolSuccess
from toolgauge.model.content import Recorded
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.criterion import Criterion, ToolKinds
from toolgauge.score.scorer import Scorer

CRITERIA = [
    Criterion(name=type(evaluator).__name__, evaluator_name="any", evaluator=evaluator, revision="1")
    for evaluator in (
        *(ArgumentsSchema(), Coverage(), ErrorHandling(), GroundedArguments(), KnownTool(), RepeatedCalls()),
        *(ToolSuccess(), ToolSuccess(tools=("find",)), ToolUse()),
    )
]


def scores(judged: Trajectory, *criteria: Criterion) -> list[str]:
    return [repr(result) for result in Scorer(criteria, ToolKinds()).score(judged)]


def test_evaluators_find_the_same_alone_and_together():
    refused = Recorded("Error: no such order")
    judged = trajectory(
        tool_call("find", {"order_id": "A-1001"}, result=refused),
        tool_call("find", {"order_id": "A-1001"}, result=refused),
        tool_call("refund", {"order_id": "A-1001"}, result=Recorded({"refunded": True})),
        tool_call("refund", {"order_id": "A-1001"}, state="paused"),
    )
    alone = [result for criterion in CRITERIA for result in scores(judged, criterion)]
    assert scores(judged, *CRITERIA) == alone
    assert any("all its answers in the run are errors" in result for result in alone)
