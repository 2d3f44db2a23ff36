"""The calls that a run failed with: named by criteria, else those that failed themselves."""

from msgspec.structs import replace

from tests.export.scorecards import call_result, trajectory_result
from tests.score.support import tool_call, trajectory
from toolgauge.model.observations import CallError
from toolgauge.model.outcomes import Difference, Result, Scored, Side
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.failing_calls import failing_calls

FAILED = CallError(kind="E", message="no such order")
RUN = trajectory(
    tool_call("find", {"id": 1}),
    tool_call("pay", {"id": 2}),
    tool_call("pay", {"id": 3}, error=FAILED),
    tool_call("ship", {"id": 4}),
)


def failed(*differences: Difference) -> Scored:
    return Scored(0.0, "differs", differences=differences, passed=False)


def orders(*results: Result, of: Trajectory = RUN) -> list[int]:
    return [call.order for call in failing_calls(results, of.calls)]


def test_calls_that_a_criterion_failed_are_the_failing_ones():
    assert orders(call_result(failed(), RUN.calls[1])) == [1]
    assert orders(call_result(Scored(1.0, "fine", passed=True), RUN.calls[1])) == []


def test_a_difference_names_the_call_by_tool_and_value():
    assert orders(trajectory_result(failed(Difference(where="ship: id", rule="exact", expected=Side(value=5))))) == [3]
    two = Difference(where="pay: id", rule="exact", expected=Side(value=5), actual=Side(value=3))
    assert orders(trajectory_result(failed(two))) == [2]


def test_a_call_that_was_not_expected_is_a_failing_one_and_a_missing_one_is_none():
    extra = Difference(where="pay", rule="extra call", actual=Side(value={"id": 2}))
    assert orders(trajectory_result(failed(extra))) == [1]
    assert orders(trajectory_result(failed(replace(extra, where="ship", actual=Side(value=None))))) == [3]
    healthy = trajectory(tool_call("find"))
    missing = Difference(where="find", rule="missing call", expected=Side(value={}))
    assert orders(trajectory_result(failed(missing)), of=healthy) == []


def test_where_no_criterion_names_a_call_those_count_that_failed_themselves():
    assert orders(trajectory_result(failed())) == [2]
    assert orders() == []
