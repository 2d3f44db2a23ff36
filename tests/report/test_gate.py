"""Conditions of the gate: what they count, and that nothing passes for want of a score."""

import pytest

from toolgauge.model.outcomes import Errored, NotEvaluated, Outcome, Scored
from toolgauge.report.findings import CriterionCounts, FailOn, Gate

PASS = Scored(1.0, "fine", passed=True)
FAIL = Scored(0.5, "half", passed=False)
ERROR = Errored(error_type="timeout", message="too long")
UNSEEN = NotEvaluated(reason="no_calls")


def counts(name: str, *outcomes: Outcome, is_default: bool = False, is_shadow: bool = False) -> CriterionCounts:
    counted = CriterionCounts(name, is_default=is_default, is_shadow=is_shadow)
    for outcome in outcomes:
        counted.add(outcome)
    return counted


def sentences(gate: Gate, *counted: CriterionCounts, **without_result: str) -> list[tuple[bool, str]]:
    return [(check.passed, check.sentence) for check in gate.checks(counted, without_result)]


def on(*words: FailOn) -> Gate:
    return Gate(fail_on=words, fail_under={})


def under(**least: float) -> Gate:
    return Gate(fail_under=least)


def test_each_outcome_is_a_condition_of_its_own():
    found = sentences(on("fail", "error", "not_evaluated"), counts("a", PASS, FAIL, FAIL), counts("b", ERROR, UNSEEN))
    assert found == [
        (False, "2 results `fail`: `a` 2"),
        (False, "1 result `error`: `b` 1"),
        (False, "1 result `not_evaluated`: `b` 1"),
    ]


@pytest.mark.parametrize("word", ["fail", "error"])
def test_a_gate_under_which_nothing_was_scored_fails(word: FailOn):
    nothing = [(False, "nothing was scored, so that nothing could pass")]
    assert sentences(on(word), counts("a", UNSEEN)) == nothing
    assert sentences(on(word)) == nothing
    assert sentences(on(word), counts("a", PASS, is_shadow=True)) == nothing


def test_a_mean_is_compared_with_its_limit():
    assert sentences(under(a=0.75), counts("a", PASS, FAIL)) == [
        (True, "the mean of `a` is 0.750 (2 scores), not under 0.75")
    ]
    assert sentences(under(a=0.9), counts("a", PASS, FAIL)) == [
        (False, "the mean of `a` is 0.750 (2 scores), under 0.9")
    ]


def test_what_is_no_score_enters_no_mean_and_is_named_beside_it():
    assert sentences(under(a=1.0), counts("a", PASS, ERROR, UNSEEN)) == [
        (
            True,
            "the mean of `a` is 1.000 (1 score; without a score: 1 error, 1 not evaluated (no_calls 1)), not under 1",
        )
    ]


def test_a_criterion_without_a_score_passes_no_limit_not_even_0():
    assert sentences(under(a=0.0), counts("a", UNSEEN, ERROR)) == [
        (False, "`a` has no score to compare with 0: 1 error, 1 not evaluated (no_calls 1)")
    ]
    assert sentences(under(a=0.5), counts("a"), a="matched no trajectory") == [
        (False, "`a` has no score to compare with 0.5: matched no trajectory")
    ]
