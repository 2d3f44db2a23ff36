"""`tool_call_order`: the longest common subsequence, where parallel calls have no order."""

import pytest
from msgspec.structs import replace

from tests.score.support import expect, expected, expected_turns, not_evaluated, scored, tool_call, trajectory, user
from toolgauge.evaluators.expected_calls import ToolCallOrder
from toolgauge.model.content import NotRecorded
from toolgauge.model.expected import Expected, ExpectedCall
from toolgauge.model.trajectory import Trajectory

STRICT = ToolCallOrder(strict=True)


def made(*turns: str) -> Trajectory:
    """Build one turn of each text, a call of each letter."""
    return trajectory(*[tool_call(name, turn=turn) for turn, names in enumerate(turns) for name in names])


def wanted(names: str) -> Expected:
    return expected(*[expect(name) for name in names])


def grouped(*groups: str) -> Expected:
    return expected(*[ExpectedCall(name=name, group=group) for group, names in enumerate(groups) for name in names])


def test_the_score_is_the_common_subsequence_by_the_expected_calls():
    outcome = scored(ToolCallOrder(), made("A", "X", "B", "D"), wanted("ABCD"))
    assert outcome.value == 0.75
    assert outcome.explanation == "3 of 4 expected calls are in order; missing: `C`; unexpected: `X`"
    assert outcome.parts == {
        "recall": 0.75, "precision": 0.75, "matched": 3, "missing": 1, "unexpected": 1, "repeated": 0, "out_of_order": 0
    }  # fmt: skip


def test_extra_calls_are_free_in_the_score_and_seen_in_precision():
    outcome = scored(ToolCallOrder(), made("A", "X", "X", "B"), wanted("AB"))
    assert (outcome.value, outcome.parts["precision"], outcome.parts["unexpected"]) == (1.0, 0.5, 2)


def test_the_wrong_order_counts_what_is_still_in_order():
    outcome = scored(ToolCallOrder(), made("B", "A"), wanted("AB"))
    assert (outcome.value, outcome.parts["out_of_order"]) == (0.5, 1)
    assert "1 calls are out of order" in outcome.explanation
    assert [difference.rule for difference in outcome.differences] == ["order", "order"]


def test_strict_wants_the_same_sequence():
    assert scored(STRICT, made("A", "B"), wanted("AB")).value == 1.0
    for turns in (("B", "A"), ("A", "B", "C"), ("A",), ("A", "B", "B")):
        outcome = scored(STRICT, made(*turns), wanted("AB"))
        assert outcome.value == 0.0
        assert outcome.explanation.endswith("strict: these calls, in this order, and no others")


def test_calls_of_one_turn_have_no_order():
    assert scored(STRICT, made("BA", "C"), wanted("ABC")).value == 1.0
    assert scored(STRICT, made("B", "A", "C"), wanted("ABC")).value == 0.0


def test_expected_calls_of_one_group_have_no_order():
    for turns in (("A", "B", "C", "D"), ("A", "C", "B", "D"), ("A", "CB", "D")):
        assert scored(STRICT, made(*turns), grouped("A", "BC", "D")).value == 1.0
    assert scored(ToolCallOrder(), made("B", "A", "C", "D"), grouped("A", "BC", "D")).value == 0.75


def test_groups_and_turns_that_overlap_are_paired_for_the_most():
    assert scored(ToolCallOrder(), made("BD", "AC"), grouped("AB", "CD")).value == 0.75


def test_repeats_are_places_of_their_own():
    assert scored(ToolCallOrder(), made("A", "B", "A"), wanted("ABA")).value == 1.0
    assert scored(ToolCallOrder(), made("A", "B"), wanted("ABA")).value == pytest.approx(2 / 3)


def test_calls_that_may_be_missing_or_repeated():
    reference = expected(expect("A"), expect("B", optional=True), expect("C", repeat=(1, 3)))
    assert scored(STRICT, made("A", "C"), reference).value == 1.0
    assert scored(STRICT, made("A", "B", "C", "C", "C"), reference).value == 1.0
    assert scored(STRICT, made("A", "C", "B"), reference).value == 0.0
    assert scored(STRICT, made("A", "C", "C", "C", "C"), reference).value == 0.0


def test_ids_bind_where_both_sides_have_one():
    reference = expected(ExpectedCall(name="A", call_id="1"), ExpectedCall(name="A", call_id="2"))
    swapped = trajectory(tool_call("A", call_id="2"), tool_call("A", call_id="1"))
    assert scored(ToolCallOrder(), swapped, reference).value == 0.5
    assert scored(ToolCallOrder(), made("A", "A"), reference).value == 1.0


def test_the_empty_cases():
    assert scored(ToolCallOrder(), trajectory(), wanted("")).value == 1.0
    assert scored(STRICT, trajectory(), wanted("")).value == 1.0
    outcome = scored(ToolCallOrder(), made("A"), wanted(""))
    assert (outcome.value, outcome.explanation) == (0.0, "no call was expected; unexpected: `A`")
    assert scored(ToolCallOrder(), trajectory(), wanted("A")).value == 0.0
    optional = expected(expect("A", optional=True))
    assert scored(ToolCallOrder(), trajectory(), optional).value == 1.0
    assert not_evaluated(ToolCallOrder(), made("X"), optional) == "nothing_expected"
    assert scored(STRICT, made("X"), optional).value == 0.0


def test_what_cannot_be_seen_is_no_score():
    assert not_evaluated(ToolCallOrder(), made("A")) == "no_reference"
    assert not_evaluated(ToolCallOrder(), replace(made("A"), hidden_turns=1), wanted("A")) == "no_content"


def test_arguments_are_not_looked_at():
    called = trajectory(tool_call("A", arguments=NotRecorded()), tool_call("B", {"x": 1}))
    assert scored(STRICT, called, expected(expect("A", {"x": 1}), expect("B", {"x": 2}))).value == 1.0


def test_only_the_tools_that_count_have_an_order():
    called = made("A", "read", "B")
    assert scored(ToolCallOrder(strict=True, tools=("A", "B")), called, expected(expect("A"), expect("B"))).value == 1.0


def test_each_user_turn_has_its_own_order():
    messages = (user("first", 0), user("second", 2))
    called = replace(made("A", "B", "D", "C"), messages=messages)
    reference = expected_turns((expect("A"), expect("B")), (expect("C"), expect("D")))
    outcome = scored(ToolCallOrder(), called, reference)
    assert (outcome.value, outcome.parts["recall"], outcome.parts["turns_scored"]) == (0.75, 0.75, 2)


def test_ten_thousand_calls_are_scored_in_slices():
    names = "ABCDEFGHIJ" * 1000
    assert scored(STRICT, made(*names), wanted(names)).value == 1.0
    outcome = scored(ToolCallOrder(), made(*names[5:]), wanted(names))
    assert outcome.value > 0.99
