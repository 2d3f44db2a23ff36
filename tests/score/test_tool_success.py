"""`tool_success` tells calls that worked from calls that did not, and from those nobody saw the end of."""

from tests.score.support import judge, not_evaluated, scored, tool_call, trajectory
from toolgauge.evaluators.tool_checks import ToolSuccess
from toolgauge.model.content import Recorded
from toolgauge.model.observations import CallError
from toolgauge.model.outcomes import Scored
from toolgauge.model.trajectory import CallState, ToolCall


def test_failed_call_names_the_kind_of_error_and_keeps_the_message_apart():
    error = CallError(kind="TimeoutError" + "E" * 10_000, message="no answer for card 4111")
    states: tuple[CallState, ...] = ("executed", "requested_only", "rejected")
    for state in states:
        outcome = scored(ToolSuccess(), trajectory(tool_call("n" * 10_000, state=state, error=error)))
        assert outcome.value == 0.0
        assert "`TimeoutError" in outcome.explanation
        assert len(outcome.explanation) < 300
        assert [one.actual.value for one in outcome.differences if one.actual] == ["no answer for card 4111"]
    assert scored(ToolSuccess(), trajectory(tool_call("pay", state="rejected"))).value == 0.0


def test_requested_call_counts_as_success_only_when_its_answer_was_seen():
    answered = tool_call("search", state="requested_only", result=Recorded("3 hits"))
    for call in (answered, tool_call("search")):
        assert scored(ToolSuccess(), trajectory(call)).value == 1.0
    unended: tuple[tuple[CallState, str], ...] = (
        ("requested_only", "results_not_recorded"),
        ("cancelled", "not_executed"),
    )
    for state, reason in unended:
        assert not_evaluated(ToolSuccess(), trajectory(tool_call("find", state=state))) == reason


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
