"""Criteria that ask a judge mean the same trajectories as others do, and their outcomes are checked like others."""

from dataclasses import replace
from typing import NoReturn

from tests.judge.support import RightTool, WholeRun
from tests.score.support import expected, tool_call, trajectory
from toolgauge.evaluators.tool_checks import ToolSuccess
from toolgauge.model.judging import Answers, JudgeEvaluator
from toolgauge.model.outcomes import Errored, NotEvaluated, Scored
from toolgauge.score.criterion import Criterion, Lookup, ToolKinds, When
from toolgauge.score.scorer import Scorer

OF = trajectory(tool_call("find", agent="clerk"), tool_call("buy", agent="buyer"), agents=("clerk", "buyer"))


def criterion(evaluator: JudgeEvaluator, when: When | None = None, pass_at: float = 1.0) -> Criterion:
    return Criterion(
        name="right",
        evaluator_name="right_tool",
        evaluator=evaluator,
        revision="r1",
        when=when or When(),
        pass_at=pass_at,
    )


def scorer(*criteria: Criterion) -> Scorer:
    return Scorer(criteria, ToolKinds())


def test_a_criterion_that_asks_is_not_scored_and_one_that_scores_does_not_ask():
    success = Criterion(name="ok", evaluator_name="tool_success", evaluator=ToolSuccess(), revision="r")
    both = scorer(success, criterion(RightTool()))
    assert {result.criterion for result in both.score(OF)} == {"ok"}
    assert [inquiry.criterion for inquiry in both.inquiries(OF)] == ["right"]


def test_the_conditions_of_a_criterion_hold_and_narrow_the_calls():
    assert scorer(criterion(RightTool(), When(service="other"))).inquiries(OF) == ()
    (inquiry,) = scorer(criterion(RightTool(), When(agent="buyer"))).inquiries(OF)
    assert [call.name for call in inquiry.trajectory.calls] == ["buy"]
    (whole,) = scorer(criterion(WholeRun(), When(agent="buyer"))).inquiries(OF)
    assert [call.name for call in whole.trajectory.calls] == ["find", "buy"]
    assert whole.trajectory.writing_tools == frozenset({"buy"})


def test_a_trajectory_without_its_reference_is_settled_without_asking():
    asking = replace(criterion(RightTool()), reference=Lookup("case", {"a": expected()}))
    (inquiry,) = scorer(asking).inquiries(OF)
    assert inquiry.settled == NotEvaluated(reason="no_reference", explanation="the trajectory names no known case")


def test_outcomes_of_judges_pass_and_are_checked_as_others_are():
    judging = scorer(criterion(RightTool(), pass_at=0.5))
    (inquiry,) = judging.inquiries(OF)
    find, buy = inquiry.trajectory.calls
    judged = ((find, Scored(value=0.5, explanation="fine")), (buy, Scored(value=1.5, explanation="too good")))
    first, second = judging.judged(Answers(trajectory=OF, answers=((inquiry, judged),)))
    assert first.call is find
    assert first.target == find.span
    assert first.outcome == Scored(value=0.5, explanation="fine", passed=True)
    assert second.call is None
    assert second.outcome == Errored(
        error_type="invalid_outcome", message="the evaluator gave a score that is not a number from 0 to 1"
    )


class Cracked(dict[str, float]):
    """Parts of an evaluator's own making."""

    def items(self) -> NoReturn:
        """Fail, as foreign code does."""
        raise RuntimeError("cracked")


def test_an_outcome_that_cannot_even_be_checked_takes_no_other_with_it():
    judging = scorer(criterion(RightTool()), criterion(WholeRun()))
    calls, whole = judging.inquiries(OF)
    find, buy = calls.trajectory.calls
    judged = ((find, Scored(1.0, "fine")), (buy, Scored(1.0, "fine", Cracked(a=1.0))))
    answers = Answers(trajectory=OF, answers=((calls, judged), (whole, ((None, Scored(1.0, "fine")),))))
    assert [(result.call, result.outcome) for result in judging.judged(answers)] == [
        (find, Scored(1.0, "fine", passed=True)),
        (None, Errored(error_type="RuntimeError", message="the outcome could not be checked")),
        (None, Scored(1.0, "fine", passed=True)),
    ]
