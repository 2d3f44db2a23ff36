"""`tool_call_count`: how often tools are called, also where none is."""

import pytest
from msgspec.structs import replace
from pydantic import ValidationError

from tests.rows import each_row
from tests.score.support import expect, expected, not_evaluated, scored, sides, tool_call, trajectory
from toolgauge.evaluators.expected_calls import ToolCallCount
from toolgauge.model.trajectory import Trajectory


def evaluator(**parameters: object) -> ToolCallCount:
    return ToolCallCount.model_validate(parameters)


def called(**times: int) -> Trajectory:
    return trajectory(*[tool_call(name) for name, number in times.items() for _ in range(number)])


def test_each_rule_counts_alike():
    outcome = scored(evaluator(counts={"a": 1, "b": 5, "c": 1}), called(a=1, b=3, c=1))
    assert outcome.value == pytest.approx(2 / 3)
    assert "`b`: 3 calls instead of exactly 5" in outcome.explanation
    assert outcome.parts == {"rules": 3, "met": 2, "calls of a": 1, "calls of b": 3, "calls of c": 1}
    (difference,) = outcome.differences
    assert (difference.where, difference.rule, sides(difference)) == ("b", "count", ("exactly 5", 3))
    strict = evaluator(counts={"a": 1, "b": 1}, strict=True)
    assert [scored(strict, called(a=1, b=b)).value for b in (2, 1)] == [0.0, 1.0]
    assert not_evaluated(strict, replace(called(a=1), hidden_turns=2)) == "no_content"


@each_row(
    ("written", "right", "wrong"),
    [
        (2, (2,), (1, 3)),
        ("2", (2,), (1, 3)),
        (["==", 2], (2,), (1, 3)),
        ("<= 2", (0, 2), (3,)),
        (["<", "2"], (0, 1), (2,)),
        (">=2", (2, 9), (1,)),
        ([">", 2], (3,), (2,)),
        ("!= 2", (1, 3), (2,)),
        ({"min": 1, "max": 2}, (1, 2), (0, 3)),
        ({"max": 0}, (0,), (1,)),
    ],
)
def test_counts_are_written_in_several_ways(written: object, right: tuple[int, ...], wrong: tuple[int, ...]):
    rule = evaluator(counts={"a": written})
    assert [scored(rule, called(a=number, b=1)).value for number in right] == [1.0] * len(right)
    assert [scored(rule, called(a=number, b=1)).value for number in wrong] == [0.0] * len(wrong)


@each_row(
    ("written", "message"),
    [
        ("many", "must be a whole number"),
        (True, "must be a whole number"),
        ([">=", True], "must be a whole number"),
        ({}, "must be a whole number"),
        (-1, "must not be negative"),
        ("< 0", "can never be met"),
        ({"min": 3, "max": 1}, "can never be met"),
        ({"min": "1"}, "must have whole numbers"),
    ],
)
def test_a_count_that_cannot_be_read_says_what_is_allowed(written: object, message: str):
    with pytest.raises(ValidationError, match=message):
        evaluator(counts={"a": written})


def test_a_glob_counts_all_tools_it_matches_and_names_may_be_in_several_rules():
    outcome = scored(
        evaluator(counts={"delete_*": 0, "*": "<= 5", "delete_one": 2}), called(delete_one=2, delete_two=1)
    )
    assert outcome.parts == {"rules": 3, "met": 2, "calls of delete_*": 3, "calls of *": 3, "calls of delete_one": 2}


def test_tools_that_are_not_named_are_free_unless_others_are_counted():
    run = called(a=1, b=2, c=1)
    assert scored(evaluator(counts={"a": 1}), run).value == 1.0
    outcome = scored(evaluator(counts={"a": 1}, others=0), run)
    assert (outcome.value, outcome.parts["calls of other tools"]) == (0.5, 3)
    assert outcome.explanation == "1 of 2 counts are right; other tools (`b`, `c`): 3 calls instead of exactly 0"
    assert scored(evaluator(others=0), trajectory()).value == 1.0


def test_without_a_rule_nothing_is_expected():
    assert not_evaluated(ToolCallCount(), called(a=1)) == "nothing_expected"


def test_without_a_rule_expected_calls_say_how_many_there_may_be():
    wanted = expected(expect("a"), expect("b", repeat=(2, 1_000_000)), expect("a"), expect("c", optional=True))
    outcome = scored(ToolCallCount(), called(a=2, b=1), wanted)
    assert (outcome.value, "`b`: 1 call instead of at least 2" in outcome.explanation) == (pytest.approx(2 / 3), True)
    assert scored(ToolCallCount(strict=True), called(a=2, b=7, c=1), wanted).value == 1.0
    too_many = scored(ToolCallCount(), called(a=1, b=7, c=2, d=9), wanted)
    assert "exactly 2; `c`: 2 calls instead of 0 to 1" in too_many.explanation
    assert scored(ToolCallCount(), called(ab=1), expected(expect("a*"))).value == 0.0
