"""`tool_success` tells calls that worked from calls that did not, and from those nobody saw the end of."""

from tests.score.support import judge, not_evaluated, scored, tool_call, trajectory
from toolgauge.evaluators.tool_checks import ToolSuccess
from toolgauge.model.content import Recorded
from toolgauge.model.observations import CallError
from toolgauge.model.outcomes import NotEvaluated, Scored
from toolgauge.model.trajectory import ToolCall


def test_executed_call_without_an_error_is_a_success():
    outcome = scored(ToolSuccess(), trajectory(tool_call("search")))
    assert outcome.value == 1.0
    assert outcome.explanation == "`search` was executed without an error"


def test_failed_call_names_the_kind_of_error_and_keeps_the_message_apart():
    error = CallError(kind="TimeoutError", message="no answer for card 4111")
    outcome = scored(ToolSuccess(), trajectory(tool_call("pay", error=error)))
    assert outcome.value == 0.0
    assert outcome.explanation == "`pay` failed with `TimeoutError`"
    assert [difference.actual.value for difference in outcome.differences if difference.actual] == [
        "no answer for card 4111"
    ]


def test_rejected_call_is_a_failure_with_or_without_an_error():
    assert scored(ToolSuccess(), trajectory(tool_call("pay", state="rejected"))).value == 0.0
    error = CallError(kind="ToolNotFound", message="")
    outcome = scored(ToolSuccess(), trajectory(tool_call("pay", state="rejected", error=error)))
    assert outcome.explanation == "`pay` was rejected with `ToolNotFound`"


def test_requested_call_counts_as_success_only_when_its_answer_was_seen():
    answered = tool_call("search", state="requested_only", result=Recorded("3 hits"))
    assert scored(ToolSuccess(), trajectory(answered)).value == 1.0
    unanswered = tool_call("search", state="requested_only")
    assert not_evaluated(ToolSuccess(), trajectory(unanswered)) == "results_not_recorded"


def test_requested_call_that_was_answered_with_an_error_is_a_failure():
    call = tool_call("search", state="requested_only", error=CallError(kind="HTTPError", message="502"))
    assert scored(ToolSuccess(), trajectory(call)).value == 0.0


def test_without_calls_there_is_nothing_to_judge():
    assert not_evaluated(ToolSuccess(), trajectory()) == "no_calls"


def test_only_the_tools_that_count_are_judged():
    calls = (tool_call("get_order"), tool_call("issue_refund"))
    assert len(judge(ToolSuccess(tools=("issue_*",)), trajectory(*calls))) == 1
    assert len(judge(ToolSuccess(tools="writes"), trajectory(*calls, writing_tools=["issue_refund"]))) == 1
    assert not_evaluated(ToolSuccess(tools=("delete_*",)), trajectory(*calls)) == "no_calls"


def test_failed_calls_can_be_left_out():
    calls = (tool_call("pay", state="rejected"), tool_call("pay"))
    outcomes = judge(ToolSuccess(failed_calls="ignore"), trajectory(*calls))
    assert [outcome.value for outcome in outcomes if isinstance(outcome, Scored)] == [1.0]


def test_hostile_names_do_not_make_explanations_long():
    error = CallError(kind="E" * 100_000, message="")
    (outcome,) = judge(ToolSuccess(), trajectory(tool_call("n" * 100_000, error=error)))
    assert not isinstance(outcome, NotEvaluated)
    assert isinstance(outcome, Scored)
    assert len(outcome.explanation) < 300


FAILED = CallError(kind="PaymentError", message="card declined")
IGNORE = ToolSuccess(retries="ignore")


def values(evaluator: ToolSuccess, *calls: ToolCall) -> list[tuple[str, float | None, dict[str, float]]]:
    judged = trajectory(*calls)
    return [
        (f"{call.order} {call.name}", outcome.value, dict(outcome.parts))
        if isinstance(outcome, Scored)
        else (call.name, None, {})
        for evaluation in evaluator.evaluate(judged, None)
        if evaluation is not None and (call := evaluation[0]) is not None and (outcome := evaluation[1])
    ]


def test_failures_that_the_same_tool_made_good_count_unless_they_are_ignored():
    calls = (tool_call("pay", {"card": 1}, error=FAILED), tool_call("pay", error=FAILED), tool_call("pay", {"card": 2}))
    assert values(ToolSuccess(), *calls) == [("0 pay", 0.0, {}), ("1 pay", 0.0, {}), ("2 pay", 1.0, {})]
    assert values(IGNORE, *calls) == [("2 pay", 1.0, {"recovered_failures": 2})]
    (outcome,) = judge(IGNORE, trajectory(*calls))
    assert isinstance(outcome, Scored)
    assert outcome.explanation == "`pay` was executed without an error, after 2 failed calls of it"


def test_only_the_first_success_carries_what_it_made_good():
    calls = (tool_call("pay", error=FAILED), tool_call("pay"), tool_call("pay"), tool_call("pay", error=FAILED))
    assert values(IGNORE, *calls) == [("1 pay", 1.0, {"recovered_failures": 1}), ("2 pay", 1.0, {}), ("3 pay", 0.0, {})]


def test_another_tool_or_another_agent_makes_no_failure_good():
    calls = (
        tool_call("pay", error=FAILED, agent="clerk"),
        tool_call("refund", agent="clerk"),
        tool_call("pay", agent="cook"),
    )
    assert values(IGNORE, *calls) == [("0 pay", 0.0, {}), ("1 refund", 1.0, {}), ("2 pay", 1.0, {})]


def test_calls_of_one_turn_are_no_retries_of_each_other():
    calls = (tool_call("get_order", {"id": 1}, error=FAILED, turn=0), tool_call("get_order", {"id": 2}, turn=0))
    assert values(IGNORE, *calls) == [("0 get_order", 0.0, {}), ("1 get_order", 1.0, {})]


def test_a_call_whose_end_was_not_seen_makes_no_failure_good():
    calls = (tool_call("pay", state="rejected"), tool_call("pay", state="requested_only"))
    assert values(IGNORE, *calls) == [("0 pay", 0.0, {}), ("pay", None, {})]
    answered = tool_call("pay", state="requested_only", result=Recorded("paid"))
    assert values(IGNORE, calls[0], answered) == [("1 pay", 1.0, {"recovered_failures": 1})]


def test_a_success_that_made_nothing_good_is_the_usual_outcome():
    evaluator = ToolSuccess(retries="ignore")
    usual = judge(evaluator, trajectory(tool_call("pay")))[0]
    assert judge(evaluator, trajectory(tool_call("find", error=FAILED), tool_call("pay")))[1] is usual


def test_ten_thousand_failures_of_one_turn_take_linear_time():
    together = [tool_call("pay", error=FAILED, turn=0), tool_call("pay", turn=0)] * 5_000
    assert len(judge(IGNORE, trajectory(*together))) == 10_000


def test_a_call_that_was_cancelled_is_not_judged():
    assert not_evaluated(ToolSuccess(), trajectory(tool_call("find", state="cancelled"))) == "not_executed"
