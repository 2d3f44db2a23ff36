"""The page of comparisons shows known scorers on the same calls: the originals we reproduce, and ours beside them."""

import pytest

from tests.cross_scorer import OTHERS, OURS, Scorer, measured_cases, outcome, table, written
from tests.rows import each_row
from toolgauge.model.outcomes import Scored

CASES = {case["case"]: case for case in measured_cases()}


def value_of(scorer: Scorer, case: str) -> float:
    said = outcome(scorer, CASES[case])
    assert isinstance(said, Scored), (case, said)
    return said.value


@each_row("scorer", OTHERS, ids=lambda scorer: scorer.head)
def test_the_originals_say_what_was_measured(scorer: Scorer):
    measured = {name: case["scores"][scorer.measured] for name, case in CASES.items()}
    # Measured scores are written with three decimals.
    assert {name: value_of(scorer, name) for name in CASES} == pytest.approx(measured, abs=0.0006)


@each_row(
    ("case", "f1", "accuracy", "trajectory"),
    [
        ("called 50x (loop)", 2 / 51, 1 / 50, 2 / 51),
        ("none expected, one called", 0, 0, 0),
        ("none expected, none called", 1, 1, 1),
        ('type drift 1 vs "1"', 0, 0, 0),
        ("one expected, none called", 0, 0, 0),
        ("one extra call", 0.8, 2 / 3, 0.8),
    ],
)
def test_ours_charge_loops_extra_and_missing_calls(case: str, f1: float, accuracy: float, trajectory: float):
    ours = {scorer.evaluator: scorer for scorer in OURS}
    found = [value_of(ours[name], case) for name in ("tool_call_f1", "tool_call_accuracy", "tool_trajectory")]
    assert found == pytest.approx([f1, accuracy, trajectory])


def test_the_table_on_the_page_is_made_from_the_cases():
    assert written() == table(), "run `python -m tests.cross_scorer --write`"
