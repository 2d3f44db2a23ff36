"""The page of comparisons shows known scorers on the same calls: the originals we reproduce, and ours beside them."""

import pytest

from tests.cross_scorer import MEASURED_ONLY, OTHERS, OURS, Scorer, measured_cases, outcome, table, written
from tests.rows import each_row
from toolgauge.model.outcomes import NotEvaluated, Scored

CASES = {case["case"]: case for case in measured_cases()}


def value(evaluator: str, case: str) -> float:
    (scorer,) = [scorer for scorer in OURS if scorer.evaluator == evaluator]
    return value_of(scorer, case)


def value_of(scorer: Scorer, case: str) -> float:
    said = outcome(scorer, CASES[case])
    assert isinstance(said, Scored), (case, said)
    return said.value


@each_row("scorer", OTHERS, ids=lambda scorer: scorer.head)
def test_the_originals_say_what_was_measured(scorer: Scorer):
    measured = {name: case["scores"][scorer.measured] for name, case in CASES.items()}
    # Measured scores are written with three decimals.
    assert {name: value_of(scorer, name) for name in CASES} == pytest.approx(measured, abs=0.0006)


def test_every_measured_scorer_is_in_the_table():
    shown = {scorer.measured for scorer in (*OTHERS, *MEASURED_ONLY)}
    assert shown == {name for case in CASES.values() for name in case["scores"]}


def test_the_table_on_the_page_is_made_from_the_cases():
    assert written() == table(), "run `python -m tests.cross_scorer --write`"


def test_a_loop_of_fifty_calls_is_no_success():
    assert value("tool_call_f1", "called 50x (loop)") == pytest.approx(2 / 51)
    assert value("tool_call_accuracy", "called 50x (loop)") == pytest.approx(1 / 50)
    assert value("tool_trajectory", "called 50x (loop)") == pytest.approx(2 / 51)
    said = outcome(Scorer(head="", evaluator="tool_call_args"), CASES["called 50x (loop)"])
    assert isinstance(said, Scored)
    # Only the arguments of expected calls are its business; it tells of the others.
    assert (said.value, said.parts["repeated"]) == (1.0, 49)


def test_an_unexpected_delete_all_is_a_failure():
    case = "none expected, one called"
    assert {value(name, case) for name in ("tool_call_f1", "tool_call_accuracy", "tool_trajectory")} == {0.0}
    said = outcome(Scorer(head="", evaluator="tool_call_args"), CASES[case])
    assert isinstance(said, NotEvaluated)
    assert said.explanation == "no call was expected; 1 calls were made"


@each_row("evaluator", [scorer.evaluator for scorer in OURS])
def test_a_number_written_as_text_is_not_that_number(evaluator: str):
    assert value(evaluator, 'type drift 1 vs "1"') == 0.0


def test_no_call_expected_and_none_made_is_a_success():
    case = "none expected, none called"
    assert {value(name, case) for name in ("tool_call_f1", "tool_call_accuracy", "tool_trajectory")} == {1.0}
    said = outcome(Scorer(head="", evaluator="tool_call_args"), CASES[case])
    assert isinstance(said, NotEvaluated)
    assert said.reason == "nothing_expected"


@each_row("evaluator", [scorer.evaluator for scorer in OURS])
def test_an_expected_call_that_was_not_made_is_a_failure(evaluator: str):
    assert value(evaluator, "one expected, none called") == 0.0


def test_one_call_too_many_costs_something_and_not_everything():
    assert value("tool_call_f1", "one extra call") == pytest.approx(0.8)
    assert value("tool_call_accuracy", "one extra call") == pytest.approx(2 / 3)
    assert value("tool_trajectory", "one extra call") == pytest.approx(0.8)
