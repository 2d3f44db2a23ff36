"""`tool_call_count`: how often tools are called, also where none is."""

from collections.abc import Mapping

import pytest
from msgspec.structs import replace
from pydantic import ValidationError

from tests.rows import each_row
from tests.score.support import expect, expected, not_evaluated, scored, sides, tool_call, trajectory
from toolgauge.evaluators.expected_calls import ToolCallCount
from toolgauge.model.observations import CallError
from toolgauge.model.trajectory import Trajectory


def evaluator(**parameters: object) -> ToolCallCount:
    return ToolCallCount.model_validate(parameters)


def called(**times: int) -> Trajectory:
    return trajectory(*[tool_call(name) for name, number in times.items() for _ in range(number)])


def test_each_rule_counts_alike():
    outcome = scored(evaluator(counts={"a": 1, "b": 5, "c": 1}), called(a=1, b=3, c=1))
    assert outcome.value == pytest.approx(2 / 3)
    assert outcome.explanation == "2 of 3 counts are right; `b`: 3 calls instead of exactly 5"
    assert outcome.parts == {"rules": 3, "met": 2, "calls of a": 1, "calls of b": 3, "calls of c": 1}
    (difference,) = outcome.differences
    assert (difference.where, difference.rule, sides(difference)) == ("b", "count", ("exactly 5", 3))


def test_strict_wants_all_of_them():
    outcome = scored(evaluator(counts={"a": 1, "b": 1}, strict=True), called(a=1, b=2))
    assert (outcome.value, outcome.parts["met"]) == (0.0, 1)
    assert outcome.explanation.endswith("`b`: 2 calls instead of exactly 1; strict: all of them have to be")
    assert scored(evaluator(counts={"a": 1, "b": 2}, strict=True), called(a=1, b=2)).value == 1.0


@each_row(
    ("written", "right", "wrong"),
    [
        (2, (2,), (1, 3)),
        ("2", (2,), (1, 3)),
        ("= 2", (2,), (1, 3)),
        (["==", 2], (2,), (1, 3)),
        ("<= 2", (0, 2), (3,)),
        (["<", "2"], (0, 1), (2,)),
        (">=2", (2, 9), (1,)),
        ([">", 2], (3,), (2,)),
        ("!= 2", (1, 3), (2,)),
        ({"min": 1, "max": 2}, (1, 2), (0, 3)),
        ({"min": 1}, (1, 9), (0,)),
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
        ("<> 3", "must be a whole number"),
        (True, "must be a whole number"),
        ([">=", True], "must be a whole number"),
        (1.5, "must be a whole number"),
        ({}, "must be a whole number"),
        ({"at_least": 1}, "must be a whole number"),
        (-1, "must not be negative"),
        ("< 0", "can never be met"),
        ({"min": 3, "max": 1}, "can never be met"),
        ({"min": "1"}, "must have whole numbers"),
        (None, "must be a whole number"),
    ],
)
def test_a_count_that_cannot_be_read_says_what_is_allowed(written: object, message: str):
    with pytest.raises(ValidationError, match=message):
        evaluator(counts={"a": written})


def test_a_run_without_calls_meets_a_tool_that_must_not_be_called():
    assert scored(evaluator(counts={"delete_all": 0}), trajectory()).value == 1.0
    outcome = scored(evaluator(counts={"delete_all": 0, "search": ">= 1"}), trajectory())
    assert (outcome.value, outcome.parts["calls of delete_all"]) == (0.5, 0)
    assert outcome.explanation == "1 of 2 counts are right; `search`: 0 calls instead of at least 1"


def test_an_unwanted_call_is_seen():
    outcome = scored(evaluator(counts={"delete_all": 0}), called(search=1, delete_all=1))
    assert outcome.value == 0.0
    assert outcome.explanation == "0 of 1 counts are right; `delete_all`: 1 call instead of exactly 0"


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
    assert outcome.value == pytest.approx(2 / 3)
    assert outcome.explanation == "2 of 3 counts are right; `b`: 1 call instead of at least 2"
    assert scored(ToolCallCount(strict=True), called(a=2, b=7, c=1), wanted).value == 1.0
    too_many = scored(ToolCallCount(), called(a=1, b=7, c=2, d=9), wanted)
    assert too_many.explanation == (
        "1 of 3 counts are right; `a`: 1 call instead of exactly 2; `c`: 2 calls instead of 0 to 1"
    )


def test_expected_calls_that_must_not_be_made_are_a_rule_of_a_run_without_calls():
    wanted = expected(expect("delete_all", optional=True, repeat=(0, 0)))
    assert scored(ToolCallCount(), trajectory(), wanted).value == 1.0
    assert scored(ToolCallCount(), called(delete_all=1), wanted).value == 0.0


def test_counts_go_before_expected_calls_and_tools_say_which_of_those_count():
    wanted = expected(expect("a"), expect("b"))
    assert scored(evaluator(counts={"a": 2}), called(a=2), wanted).value == 1.0
    assert scored(evaluator(tools=["a"]), called(a=1), wanted).value == 1.0
    assert not_evaluated(evaluator(tools=["x"]), called(a=1), wanted) == "nothing_expected"


def test_the_name_of_an_expected_call_is_no_glob():
    assert scored(ToolCallCount(), called(ab=1), expected(expect("a*"))).value == 0.0


def test_of_a_hundred_thousand_expected_names_few_are_told():
    wanted = expected(*[expect(f"tool_{number}") for number in range(100_000)])
    outcome = scored(ToolCallCount(), called(tool_7=1), wanted)
    assert outcome.value == pytest.approx(1 / 100_000)
    assert (len(outcome.parts), len(outcome.differences)) == (102, 50)


def test_calls_that_were_not_recorded_cannot_be_counted():
    hidden = replace(called(a=1), hidden_turns=2)
    assert not_evaluated(evaluator(counts={"a": 1}), hidden) == "no_content"


def test_failed_calls_and_other_tools_can_be_left_out():
    failed = tool_call("a", error=CallError(kind="E", message=""))
    run = trajectory(failed, tool_call("a"), tool_call("b"))
    assert scored(evaluator(counts={"a": 2}), run).value == 1.0
    assert scored(evaluator(counts={"a": 1}, failed_calls="ignore"), run).value == 1.0
    assert scored(evaluator(counts={"*": 1}, tools=["b"]), run).value == 1.0


def test_ten_thousand_calls_with_names_of_any_kind_are_counted():
    names = ["x" * 100_000, "a\nb\x00`; drop", "\udcff", "*", ""]
    run = trajectory(*[tool_call(names[number % 5]) for number in range(10_000)])
    outcome = scored(evaluator(counts={"*": 10_000, "x": 0}, others=0), run)
    assert outcome.value == 1.0
    loud = scored(evaluator(counts={"x": 0}, others=0), run)
    assert "\n" not in loud.explanation
    assert len(loud.explanation) < 1000


def test_rules_are_read_from_any_mapping():
    counts: Mapping[str, object] = {"a": [">=", 1]}
    assert evaluator(counts=counts) == evaluator(counts={"a": ">= 1"})
