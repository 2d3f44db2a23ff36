"""`strands.*`: what strands-agents-evals 1.7.0 gave for these cases, and the same from trajectories."""

import math

import pytest
from msgspec.structs import replace
from pydantic import ValidationError

from tests.rows import each_row
from tests.score.support import expect, expected, judge, not_evaluated, scored, tool_call, trajectory
from toolgauge.model.json import Json
from toolgauge.model.judging import Question
from toolgauge.model.outcomes import Errored, Outcome, Scored
from toolgauge.originals.strands import (
    AnyOrderMatchScorer,
    ExactMatchScorer,
    InOrderMatchScorer,
    ToolCalled,
    ToolSelectionAccuracy,
    TrajectoryJudge,
)

EXACT, IN_ORDER, ANY_ORDER = ExactMatchScorer(), InOrderMatchScorer(), AnyOrderMatchScorer()


def test_names_of_called_tools_are_the_steps_of_a_trajectory():
    judged = trajectory(tool_call("a"), tool_call("c"), tool_call("b"))
    wanted = expected(expect("a"), expect("b"))
    assert [scored(scorer, judged, wanted).value for scorer in (EXACT, IN_ORDER, ANY_ORDER)] == [0.5, 1, 1]
    assert scored(EXACT, judged, wanted).explanation == "1 of 2 expected calls were in place"
    assert scored(ToolCalled(tool_name="c"), judged).value == 1
    assert scored(ToolCalled(tool_name="d"), judged).explanation == "`d` was not called"


def test_no_call_is_a_zero_and_calls_that_cannot_be_seen_are_none():
    hidden = replace(trajectory(), hidden_turns=1)
    assert scored(ToolCalled(tool_name="a"), trajectory()).value == 0
    assert not_evaluated(ToolCalled(tool_name="a"), hidden) == "no_content"
    for scorer in (EXACT, IN_ORDER, ANY_ORDER):
        assert scored(scorer, trajectory(), expected(expect("a"))).value == 0
        assert not_evaluated(scorer, hidden, expected(expect("a"))) == "no_content"
        assert not_evaluated(scorer, trajectory(tool_call("a"))) == "no_reference"
        (outcome,) = judge(scorer, trajectory(), expected(expect("a", repeat=(0, 2))))
        assert isinstance(outcome, Errored)
        assert outcome.error_type == "unsupported_reference"


def judged(score: Json) -> Outcome:
    judge_of_rubric = TrajectoryJudge(rubric="short")
    (_, asked), *_ = [asking for asking in judge_of_rubric.questions(trajectory(), None) if asking is not None]
    assert isinstance(asked, Question)
    return judge_of_rubric.outcome(asked, {"score": score, "test_pass": True, "reason": "r"})


@each_row("score", [math.nan, math.inf, -math.inf, 10**400])
def test_a_score_that_is_no_number_of_finite_size_is_no_verdict(score: Json):
    outcome = judged(score)
    assert isinstance(outcome, Errored)
    assert outcome.error_type == "invalid_verdict"


@each_row(("score", "value"), [(-0.5, 0), (0.5, 0.5), (1.5, 1)])
def test_a_judge_s_score_is_kept_between_0_and_1(score: float, value: float):
    outcome = judged(score)
    assert isinstance(outcome, Scored)
    assert outcome.value == value


@pytest.mark.parametrize(
    ("parameter", "complaint"),
    [({"model": "us.anthropic"}, "`judge.model` of the configuration"), ({"version": "v1"}, "`version: v0` only")],
)
def test_a_judge_that_would_not_be_the_one_that_is_asked_for_is_refused(parameter: dict[str, str], complaint: str):
    with pytest.raises(ValidationError, match=complaint):
        ToolSelectionAccuracy.model_validate(parameter)
