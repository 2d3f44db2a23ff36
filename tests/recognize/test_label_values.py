"""Verdicts as people, spreadsheets and feedback buttons write them."""

from tests.rows import each_row
from toolgauge.recognize.feedback_reader import verdict_of


@each_row(
    "value", ["passed", " Pass ", "TRUE", "yes", "1", "1.0", 1, 1.0, True, "thumbs up", "thumbs-up", "good", "👍"]
)
def test_is_a_pass(value: str | float):
    assert verdict_of(value) is True


@each_row(
    "value", ["failed", "FAIL", "false", "No", "0", "-1", 0, -1.0, False, "Thumbs Down", "thumbs_down", "bad", "👎"]
)
def test_is_a_failure(value: str | float):
    assert verdict_of(value) is False


@each_row("value", ["", "maybe", "0.5", 0.5, 5, "nan", "inf", float("nan"), "passed" * 10])
def test_is_no_verdict(value: str | float):
    assert verdict_of(value) is None


def test_numbers_pass_from_a_threshold_on():
    assert [verdict_of(value, 4) for value in (5, "4", 3.9, "1", "passed", "-1")] == [
        True,
        True,
        False,
        False,
        True,
        False,
    ]


def test_a_truth_value_is_no_number():
    assert verdict_of(True, 4) is True
