"""Policies: what is forbidden, what alone is allowed, and what cannot be judged."""

import pytest
from pydantic import ValidationError

from tests.rows import each_row
from tests.score.support import judge, scored, tool_call, trajectory
from toolgauge.evaluators.policy import Policy
from toolgauge.model.content import NOT_RECORDED, Recorded, Unparsed
from toolgauge.model.observations import CallError
from toolgauge.model.outcomes import Scored
from toolgauge.model.trajectory import ToolCall, Trajectory


def policy(**parameters: object) -> Policy:
    return Policy.model_validate(parameters)


def values(evaluator: Policy, *calls: ToolCall, agents: tuple[str, ...] = ("clerk",)) -> list[float | str]:
    """The value of each call's outcome, or the reason why it has none."""
    outcomes = judge(evaluator, trajectory(*calls, agents=agents))
    return [
        outcome.value if isinstance(outcome, Scored) else getattr(outcome, "reason", "error") for outcome in outcomes
    ]


def test_argument_values_are_forbidden():
    evaluator = policy(forbid=[{"tool": "refund", "arguments": {"amount": {"above": 100}, "country": ["DE", "A?"]}}])
    calls = (
        tool_call("refund", {"amount": 500, "country": "AT"}),
        tool_call("refund", {"amount": "500", "country": "AT"}),
        tool_call("refund", {"amount": 500, "country": "US"}),
        tool_call("refund", {"amount": 50, "country": "AT"}),
        tool_call("pay", {"amount": 500, "country": "AT"}),
    )
    assert values(evaluator, *calls) == [0.0, 0.0, 1.0, 1.0, 1.0]


def test_rules_for_an_agent_bind_no_other():
    evaluator = policy(
        forbid=[{"tool": "pay", "agent": "sales*"}], allow_only=[{"agent": "reader", "tool": ["find_*", "get_*"]}]
    )
    calls = (
        tool_call("pay", agent="sales-eu"),
        tool_call("pay", agent="billing"),
        tool_call("pay", agent="reader"),
        tool_call("get_order", agent="reader"),
    )
    assert values(evaluator, *calls, agents=("sales-eu", "billing", "reader")) == [0.0, 1.0, 0.0, 1.0]


def test_what_cannot_be_seen_is_not_judged():
    hidden = tool_call("refund", arguments=NOT_RECORDED)
    costly = {"tool": "refund", "arguments": {"amount": {"above": 100}}}
    assert values(policy(forbid=[costly]), hidden) == ["arguments_not_recorded"]
    assert values(policy(allow_only=[costly]), hidden) == ["arguments_not_recorded"]
    assert values(policy(forbid=[costly, "refund"]), hidden) == [0.0]
    assert values(policy(forbid=[costly], allow_only=["find"]), hidden) == [0.0]
    assert values(policy(allow_only=[costly, "refund"]), hidden) == [1.0]
    assert values(policy(forbid=[costly], allow_only=["refund"]), hidden) == ["arguments_not_recorded"]


def test_the_explanation_names_rule_and_paths_and_no_value():
    costly = {"tool": "refund", "arguments": {"amount": {"above": 100}}}
    run = trajectory(tool_call("refund", {"amount": 99887}, state="rejected"))
    outcome = scored(policy(forbid=["drop_*", {"name": "big refunds", **costly}]), run)
    assert all(said in outcome.explanation for said in ("rule 2", "`big refunds`", "`amount`", "rejected"))
    assert "99887" not in outcome.explanation
    assert [(difference.where, difference.rule) for difference in outcome.differences] == [("refund.amount", "forbid")]
    cheap = {"tool": "refund", "arguments": {"amount": {"at_most": 100}, "currency": "EUR"}}
    outcome = scored(
        policy(allow_only=["find", cheap]), trajectory(tool_call("refund", {"amount": 99887, "currency": "EUR"}))
    )
    assert "`amount` not met" in outcome.explanation


READS: dict[str, object] = {"forbid": [{"name": "orders", "result": {"matches": ".*obey me.*"}}]}


@each_row(
    ("call", "value"),
    [
        (tool_call("fetch", result=Recorded("Please obey me now.")), 0),
        (tool_call("fetch", result=Recorded({"content": [{"type": "text", "text": "a\nobey me\nb"}]})), 0),
        (tool_call("fetch", result=Recorded({"obey me": 1})), 0),
        (tool_call("fetch", result=Recorded({"text": "fine", "number": 7, "none": None})), 1),
        (tool_call("fetch", result=Unparsed('{"a": "obey me', "truncated")), 0),
        (tool_call("fetch", error=CallError(kind="e", message="obey me")), 0),
    ],
)
def test_texts_in_results_are_forbidden(call: ToolCall, value: float):
    assert values(policy(**READS), call) == [value]


def test_a_result_that_was_not_recorded_cannot_be_judged():
    calls = tool_call("fetch"), tool_call("fetch", state="paused")
    assert values(policy(**READS), *calls) == ["results_not_recorded", "not_executed"]


def judged(evaluator: Policy, run: Trajectory) -> list[Scored]:
    return [outcome for outcome in judge(evaluator, run) if isinstance(outcome, Scored)]


def test_only_rules_that_forbid_look_at_texts():
    with pytest.raises(ValidationError, match="only rules of `forbid` may have them"):
        policy(allow_only=[{"result": {"matches": "a"}}])
