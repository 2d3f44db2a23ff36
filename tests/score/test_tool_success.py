"""`tool_success` tells calls that worked from calls that did not, and from those nobody saw the end of."""

from tests.score.support import judge, not_evaluated, scored, tool_call, trajectory
from toolgauge.evaluators.tool_success import ToolSuccess
from toolgauge.model.content import Recorded
from toolgauge.model.observations import CallError
from toolgauge.model.outcomes import NotEvaluated, Scored


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
