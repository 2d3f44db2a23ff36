"""`tool_trajectory`: order, groups, what is missing, what is extra, and calls that came too early."""

import pytest
from msgspec.structs import replace
from pydantic import ValidationError

from tests.rows import each_row
from tests.score.support import (
    expect,
    expected,
    expected_turns,
    not_evaluated,
    scored,
    sides,
    tool_call,
    trajectory,
    user,
)
from toolgauge.evaluators.expected_arguments import ToolTrajectory
from toolgauge.model.content import NotRecorded
from toolgauge.model.expected import Expected, ExpectedCall
from toolgauge.model.observations import CallError
from toolgauge.model.trajectory import Trajectory

EXACT = ToolTrajectory()
IN_ORDER = ToolTrajectory(mode="in_order")
ANY_ORDER = ToolTrajectory(mode="any_order")
SUBSET = ToolTrajectory(mode="subset")
SUPERSET = ToolTrajectory(mode="superset")
PARTIAL = ToolTrajectory(mode="partial_order")
FAILED = CallError(kind="ValueError", message="no")


def made(text: str) -> Trajectory:
    """`a bc d`: calls of one word are made in one turn."""
    return trajectory(*[tool_call(name, turn=turn) for turn, word in enumerate(text.split()) for name in word])


def wanted(text: str) -> Expected:
    """`a bc d`: a word of several letters is a group."""
    return expected(
        *[
            ExpectedCall(name=name, group=group if len(word) > 1 else None)
            for group, word in enumerate(text.split())
            for name in word
        ]
    )


@each_row(
    ("mode", "expected_calls", "calls", "value"),
    [
        # The same calls, one of them twice, one missing, one extra, two out of order.
        ("exact", "a b c", "a b c", 1.0),
        ("exact", "a b c", "a b c c", 6 / 7),
        ("exact", "a b c", "b a c", 4 / 6),
        ("in_order", "a b c", "a x b c c", 1.0),
        ("any_order", "a a b", "a b b", 2 / 3),
        ("superset", "a a", "a", 1 / 2),
        ("subset", "a b c", "c a x", 2 / 3),
        ("subset", "a", "a a", 1 / 2),
        ("partial_order", "a bc d", "a c b d", 1.0),
        ("partial_order", "a bc d", "a b d c", 6 / 8),
    ],
)
def test_each_mode_scores_by_what_it_binds(mode: str, expected_calls: str, calls: str, value: float):
    evaluator = ToolTrajectory.model_validate({"mode": mode})
    assert scored(evaluator, made(calls), wanted(expected_calls)).value == pytest.approx(value)


def test_extra_calls_count_or_are_free_where_the_mode_leaves_it_open():
    def value(mode: str, extra_calls: str) -> float:
        evaluator = ToolTrajectory.model_validate({"mode": mode, "extra_calls": extra_calls})
        return scored(evaluator, made("a x b"), wanted("a b")).value

    assert [value(mode, "free") for mode in ("exact", "in_order", "any_order", "partial_order")] == [1.0] * 4
    assert [value(mode, "count") for mode in ("exact", "in_order", "any_order", "partial_order")] == [0.8] * 4
    for mode in ("subset", "superset"):
        with pytest.raises(ValidationError, match="`extra_calls` says nothing about `mode: su"):
            value(mode, "free")


def test_empty_sides_in_every_mode():
    for evaluator in (EXACT, IN_ORDER, ANY_ORDER, SUBSET, SUPERSET, PARTIAL):
        assert scored(evaluator, made(""), wanted("")).value == 1.0
    assert scored(SUBSET, made("a"), wanted("")).value == 0.0
    for evaluator in (IN_ORDER, ANY_ORDER, SUPERSET):
        assert not_evaluated(evaluator, made("a"), wanted("")) == "nothing_expected"
    for evaluator in (EXACT, IN_ORDER, ANY_ORDER, SUPERSET, PARTIAL):
        assert scored(evaluator, made(""), wanted("a")).value == 0.0


def test_arguments_count_by_their_share_unless_names_are_enough():
    reference = expected(expect("book", {"city": "Rome", "nights": 2}))
    called = trajectory(tool_call("book", {"city": "Rome", "nights": 3}))
    outcome = scored(EXACT, called, reference)
    assert (outcome.value, "book: nights differs" in outcome.explanation) == (0.5, True)
    strict = scored(ToolTrajectory(strict=True), called, reference)
    assert (strict.value, strict.parts["recall"], "strict" in strict.explanation) == (0.0, 0.5, True)
    assert scored(ToolTrajectory(match="name"), called, reference).value == 1.0
    unseen = trajectory(tool_call("book", arguments=NotRecorded()))
    assert scored(ToolTrajectory(match="name"), unseen, reference).value == 1.0
    with pytest.raises(ValidationError, match="has rules for arguments"):
        ToolTrajectory.model_validate({"match": "name", "arguments": {"*": "casefold"}})


def test_a_call_may_have_to_wait_for_another():
    evaluator = ToolTrajectory.model_validate({"mode": "superset", "never_before": {"confirm": ["refund", "update_*"]}})

    def value(*names: str) -> float:
        return scored(evaluator, trajectory(*map(tool_call, names)), expected(expect("refund"))).value

    assert value("confirm", "refund") == 1.0
    assert value("refund", "confirm") == value("refund") == 0.0
    assert value("confirm", "refund", "update_a", "refund") == 1.0
    assert value("update_a", "confirm", "refund", "update_b") == pytest.approx(2 / 3)
    together = ToolTrajectory.model_validate({"mode": "any_order", "never_before": {"b": "a"}})
    assert [scored(together, made(calls), wanted("a b")).value for calls in ("ab", "a b")] == [1.0, 0.0]


def test_what_is_waited_for_may_be_a_call_that_does_not_count_and_a_failed_one_does_not_release_where_ignored():
    evaluator = ToolTrajectory.model_validate({"tools": ["pay"], "never_before": {"confirm": "pay"}})
    assert scored(evaluator, trajectory(tool_call("confirm"), tool_call("pay")), expected(expect("pay"))).value == 1.0
    ignoring = ToolTrajectory.model_validate({"failed_calls": "ignore", "never_before": {"confirm": "pay"}})
    failed = trajectory(tool_call("confirm", error=FAILED), tool_call("pay"))
    assert scored(ignoring, failed, expected(expect("pay"))).value == 0.0


def test_too_early_calls_are_told_first_and_as_differences():
    evaluator = ToolTrajectory.model_validate({"never_before": {"confirm": "pay"}})
    called = trajectory(tool_call("pay", {"card": "4111"}), tool_call("confirm"))
    outcome = scored(evaluator, called, expected(expect("confirm"), expect("pay")))
    assert "4111" not in outcome.explanation
    assert (outcome.parts["in_time"], outcome.parts["too_early"]) == (0.0, 1)
    first = outcome.differences[0]
    assert (first.where, first.rule) == ("pay before confirm", "too early")
    assert sides(first) == ("<absent>", {"card": "4111"})


def test_user_turns_are_scored_one_by_one_and_remember_what_came_before():
    evaluator = ToolTrajectory.model_validate({"never_before": {"confirm": "pay"}})
    messages = (user("confirm", 0), user("pay", 1), user("thanks", 2))
    called = trajectory(tool_call("confirm"), tool_call("pay"), messages=messages)
    outcome = scored(evaluator, called, expected_turns((expect("confirm"),), (expect("pay"),), ()))
    assert (outcome.value, outcome.parts["turns_scored"], outcome.parts["in_time"]) == (1.0, 3, 1.0)
    early = replace(called, calls=trajectory(tool_call("pay"), tool_call("confirm")).calls)
    outcome = scored(evaluator, early, expected_turns((expect("pay"),), (expect("confirm"),), ()))
    assert outcome.value == pytest.approx(2 / 3)
