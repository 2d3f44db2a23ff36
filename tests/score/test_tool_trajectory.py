"""`tool_trajectory`: order, groups, what is missing, what is extra, and calls that came too early."""

import pytest
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
from toolgauge.evaluators.tool_trajectory import ToolTrajectory
from toolgauge.model.content import NotRecorded, Unparsed
from toolgauge.model.expected import Expected, ExpectedCall
from toolgauge.model.observations import CallError
from toolgauge.model.trajectory import Trajectory
from toolgauge.testing.evaluators import check_evaluator

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
        ("exact", "a b c", "a c", 4 / 5),
        ("exact", "a b c", "a x b c", 6 / 7),
        ("exact", "a b c", "b a c", 4 / 6),
        ("exact", "a b c", "ab c", 1.0),
        ("exact", "a b c", "ba c", 1.0),
        ("in_order", "a b c", "a x b c c", 1.0),
        ("in_order", "a b c", "a c", 2 / 3),
        ("in_order", "a b c", "b a c", 2 / 3),
        ("any_order", "a b c", "c x b a", 1.0),
        ("any_order", "a a b", "a b b", 2 / 3),
        ("superset", "a b c", "c x b a", 1.0),
        ("superset", "a a", "a", 1 / 2),
        ("subset", "a b c", "c a", 1.0),
        ("subset", "a b c", "c a x", 2 / 3),
        ("subset", "a", "a a", 1 / 2),
        ("partial_order", "a bc d", "a c b d", 1.0),
        ("partial_order", "a bc d", "a bc d", 1.0),
        ("partial_order", "a bc d", "b a c d", 6 / 8),
        ("partial_order", "a bc d", "a b d c", 6 / 8),
        ("partial_order", "a bc d", "a b x c d", 8 / 9),
        ("exact", "a bc d", "a c b d", 1.0),
        ("in_order", "a bc d", "x a c x b d", 1.0),
        ("any_order", "a bc d", "d c b a", 1.0),
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


@each_row("evaluator", [EXACT, PARTIAL, ToolTrajectory(mode="in_order", extra_calls="count")])
def test_nothing_expected_and_something_called_is_no_success(evaluator: ToolTrajectory):
    outcome = scored(evaluator, made("a b"), wanted(""))
    assert (outcome.value, outcome.explanation) == (0.0, "no call was expected, 2 made; unexpected: `a`, `b`")
    assert (outcome.parts["precision"], "recall" in outcome.parts) == (0.0, False)


def test_empty_sides_in_every_mode():
    for evaluator in (EXACT, IN_ORDER, ANY_ORDER, SUBSET, SUPERSET, PARTIAL):
        outcome = scored(evaluator, made(""), wanted(""))
        assert (outcome.value, outcome.explanation) == (1.0, "no call was expected and none was made")
    assert scored(SUBSET, made("a"), wanted("")).value == 0.0
    for evaluator in (IN_ORDER, ANY_ORDER, SUPERSET):
        assert not_evaluated(evaluator, made("a"), wanted("")) == "nothing_expected"
    for evaluator in (EXACT, IN_ORDER, ANY_ORDER, SUPERSET, PARTIAL):
        assert scored(evaluator, made(""), wanted("a")).value == 0.0
    assert not_evaluated(SUBSET, made(""), wanted("a")) == "no_calls"


def test_without_a_reference_there_is_no_score():
    assert not_evaluated(EXACT, made("a"), None) == "no_reference"


def test_optional_and_repeated_calls_count_where_they_were_made():
    reference = expected(expect("a"), expect("b", optional=True), expect("c", repeat=(1, 3)), expect("d"))
    assert [scored(PARTIAL, made(calls), reference).value for calls in ("a b c d", "a c c c d")] == [1.0, 1.0]
    assert scored(PARTIAL, made("a d"), reference).value == pytest.approx(4 / 5)
    assert scored(PARTIAL, made("a c c c c d"), reference).value == pytest.approx(10 / 11)
    assert scored(PARTIAL, made("a c b d"), reference).value == pytest.approx(6 / 7)


def test_optional_and_repeated_calls_of_a_group_have_no_order():
    reference = expected(
        expect("a"), ExpectedCall(name="b", repeat=(1, 2), group=0), ExpectedCall(name="c", optional=True, group=0)
    )
    assert [scored(PARTIAL, made(calls), reference).value for calls in ("a b c b", "a b", "a c b")] == [1.0] * 3
    assert scored(PARTIAL, made("b a c b"), reference).value == pytest.approx(6 / 7)


def test_arguments_count_by_their_share_unless_names_are_enough():
    reference = expected(expect("book", {"city": "Rome", "nights": 2}))
    called = trajectory(tool_call("book", {"city": "Rome", "nights": 3}))
    outcome = scored(EXACT, called, reference)
    assert outcome.value == 0.5
    assert outcome.explanation == (
        "0 of 1 expected calls are as expected, 1 made; book: nights differs (number, exact)"
    )
    assert scored(ToolTrajectory(match="name"), called, reference).value == 1.0


def test_arguments_can_have_rules_of_their_own():
    reference = expected(expect("book", {"city": "Rome", "nights": 2}))
    called = trajectory(tool_call("book", {"city": "ROME", "nights": 2.1}))
    evaluator = ToolTrajectory.model_validate(
        {"arguments": {"book.city": "casefold", "*.nights": {"rule": "numeric", "absolute": 0.5}}}
    )
    assert scored(evaluator, called, reference).value == 1.0


def test_rules_for_arguments_that_are_not_looked_at_are_refused():
    with pytest.raises(ValidationError, match="has rules for arguments, and `match: name`"):
        ToolTrajectory.model_validate({"match": "name", "arguments": {"*": "casefold"}})


def test_strict_is_all_or_nothing():
    strict = ToolTrajectory(strict=True)
    assert scored(strict, made("a b"), wanted("a b")).value == 1.0
    outcome = scored(strict, made("a"), wanted("a b"))
    assert (outcome.value, outcome.parts["recall"]) == (0.0, 0.5)
    assert outcome.explanation.endswith("strict: it has to be all of it")


def test_the_explanation_names_what_is_missing_and_unexpected():
    outcome = scored(EXACT, made("a d"), wanted("a b"))
    assert outcome.explanation == "1 of 2 expected calls are as expected, 2 made; missing: `b`; unexpected: `d`"
    assert [(difference.where, difference.rule) for difference in outcome.differences] == [
        ("b", "missing call"),
        ("d", "unexpected call"),
    ]


def test_of_neighbours_that_changed_places_one_is_out_of_order():
    outcome = scored(EXACT, made("a c b d"), wanted("a b c d"))
    assert outcome.explanation == "3 of 4 expected calls are as expected, 4 made; out of order: `c`"
    assert outcome.parts["out_of_order"] == 1


def test_an_optional_call_at_the_wrong_place_costs_only_where_extra_calls_do():
    reference = expected(expect("b"), expect("a", optional=True))
    free = scored(IN_ORDER, made("a b"), reference)
    assert (free.value, free.explanation) == (1.0, "1 of 1 expected calls are as expected, 2 made")
    charged = scored(EXACT, made("a b"), reference)
    assert charged.value == pytest.approx(2 / 3)
    assert charged.explanation.endswith("unexpected: `a`")


def test_a_call_at_the_wrong_place_is_out_of_order():
    late = scored(EXACT, made("b c a"), wanted("a b c"))
    assert late.explanation == "2 of 3 expected calls are as expected, 3 made; out of order: `a`"
    early = scored(EXACT, made("c a b"), wanted("a b c"))
    assert early.explanation == "2 of 3 expected calls are as expected, 3 made; out of order: `c`"
    assert [difference.rule for difference in early.differences] == ["out of order"]


def test_a_loop_is_plainly_claimed_once_and_named_a_repeat():
    outcome = scored(EXACT, made("a" + " b" * 50), wanted("a b"))
    assert outcome.value == pytest.approx(4 / 53)
    assert outcome.explanation == "2 of 2 expected calls are as expected, 51 made; repeated: `b` x49"
    assert outcome.parts["repeated"] == 49
    assert len(outcome.differences) == 20
    assert {difference.rule for difference in outcome.differences} == {"repeated call"}


def test_calls_that_cost_nothing_are_left_and_no_difference():
    outcome = scored(IN_ORDER, made("a x c"), wanted("a b c"))
    assert outcome.explanation == "2 of 3 expected calls are as expected, 3 made; missing: `b`"
    assert [difference.where for difference in outcome.differences] == ["b"]
    assert scored(IN_ORDER, made("a x b c"), wanted("a b c")).explanation == (
        "3 of 3 expected calls are as expected, 4 made"
    )
    subset = scored(SUBSET, made("a x"), wanted("a b"))
    assert subset.explanation == "1 of 2 expected calls are as expected, 2 made; unexpected: `x`"


def test_many_calls_are_named_up_to_a_bound():
    outcome = scored(EXACT, made("a x b y c z d w e v f u t"), wanted("a b c d e f g"))
    assert outcome.explanation == (
        "6 of 7 expected calls are as expected, 13 made; missing: `g`; unexpected: `x`, `y`, `z`, `w`, `v` and 2 more"
    )


def test_a_call_may_have_to_wait_for_another():
    evaluator = ToolTrajectory.model_validate({"mode": "superset", "never_before": {"confirm": ["refund", "update_*"]}})
    reference = expected(expect("refund"))

    def outcome(*names: str) -> tuple[float, str]:
        found = scored(evaluator, trajectory(*map(tool_call, names)), reference)
        return found.value, found.explanation.partition("made")[2]

    assert outcome("confirm", "refund") == (1.0, "")
    assert outcome("refund", "confirm") == (0.0, "; too early: `refund` before `confirm`")
    assert outcome("refund")[0] == 0.0
    assert outcome("confirm", "refund", "update_a", "refund")[0] == 1.0
    value, told = outcome("update_a", "confirm", "refund", "update_b")
    assert value == pytest.approx(2 / 3)
    assert told.endswith("too early: `update_a` before `confirm`")


def test_calls_of_one_turn_do_not_wait_for_each_other():
    evaluator = ToolTrajectory.model_validate({"mode": "any_order", "never_before": {"b": "a"}})
    assert scored(evaluator, made("ab"), wanted("a b")).value == 1.0
    assert scored(evaluator, made("a b"), wanted("a b")).value == 0.0


def test_what_is_waited_for_may_be_a_call_that_does_not_count_and_a_failed_one_does_not_release_where_ignored():
    evaluator = ToolTrajectory.model_validate({"tools": ["pay"], "never_before": {"confirm": "pay"}})
    assert scored(evaluator, trajectory(tool_call("confirm"), tool_call("pay")), expected(expect("pay"))).value == 1.0
    ignoring = ToolTrajectory.model_validate({"failed_calls": "ignore", "never_before": {"confirm": "pay"}})
    failed = trajectory(tool_call("confirm", error=FAILED), tool_call("pay"))
    assert scored(ignoring, failed, expected(expect("pay"))).value == 0.0


def test_waiting_calls_are_judged_even_where_nothing_is_expected():
    evaluator = ToolTrajectory.model_validate({"mode": "superset", "never_before": {"confirm": "pay"}})
    assert scored(evaluator, trajectory(tool_call("pay")), expected()).value == 0.0
    assert scored(evaluator, trajectory(tool_call("confirm"), tool_call("pay")), expected()).value == 1.0
    assert not_evaluated(evaluator, trajectory(tool_call("confirm")), expected()) == "nothing_expected"


def test_too_early_calls_are_told_first_and_as_differences():
    evaluator = ToolTrajectory.model_validate({"never_before": {"confirm": "pay"}})
    called = trajectory(tool_call("pay", {"card": "4111"}), tool_call("confirm"))
    outcome = scored(evaluator, called, expected(expect("confirm"), expect("pay")))
    assert "4111" not in outcome.explanation
    assert (outcome.parts["in_time"], outcome.parts["too_early"]) == (0.0, 1)
    first = outcome.differences[0]
    assert (first.where, first.rule) == ("pay before confirm", "too early")
    assert sides(first) == ("<absent>", {"card": "4111"})


@each_row(
    "written", [{"confirm": []}, {"": ["a"]}, {"confirm": [""]}, {"confirm": 3}, ["a", "b"], {"confirm": [["a"]]}]
)
def test_rules_of_waiting_that_cannot_be_are_refused(written: object):
    with pytest.raises(ValidationError):
        ToolTrajectory.model_validate({"never_before": written})


def test_user_turns_are_scored_one_by_one_and_remember_what_came_before():
    evaluator = ToolTrajectory.model_validate({"never_before": {"confirm": "pay"}})
    messages = (user("confirm", 0), user("pay", 1), user("thanks", 2))
    called = trajectory(tool_call("confirm"), tool_call("pay"), messages=messages)
    outcome = scored(evaluator, called, expected_turns((expect("confirm"),), (expect("pay"),), ()))
    assert (outcome.value, outcome.parts["turns_scored"], outcome.parts["in_time"]) == (1.0, 3, 1.0)
    early = trajectory(tool_call("pay"), tool_call("confirm"), messages=messages)
    outcome = scored(evaluator, early, expected_turns((expect("pay"),), (expect("confirm"),), ()))
    assert outcome.value == pytest.approx(2 / 3)


def test_unseen_arguments_are_no_score_unless_names_are_enough():
    called, reference = trajectory(tool_call("a", arguments=NotRecorded())), expected(expect("a", {"x": 1}))
    assert not_evaluated(EXACT, called, reference) == "arguments_not_recorded"
    assert scored(ToolTrajectory(match="name"), called, reference).value == 1.0


def test_unparsable_arguments_score_nothing_and_the_explanation_says_why():
    called = trajectory(tool_call("a", arguments=Unparsed("{x")))
    outcome = scored(EXACT, called, expected(expect("a", {"x": 1})))
    assert outcome.value == 0.0
    assert "unparsable arguments: `a`" in outcome.explanation


def test_failed_calls_can_be_ignored_and_tools_chosen():
    called = trajectory(tool_call("look"), tool_call("pay", error=FAILED), tool_call("pay"))
    assert scored(EXACT, called, expected(expect("pay"))).value == 0.5
    chosen = ToolTrajectory(tools=("pay",), failed_calls="ignore")
    assert scored(chosen, called, expected(expect("pay"), expect("other"))).value == 1.0


def test_true_and_one_are_different_calls():
    assert scored(EXACT, trajectory(tool_call("a", {"x": True})), expected(expect("a", {"x": 1}))).value == 0.0


def test_hostile_names_are_bounded_and_without_control_characters():
    name = "\x1b[31m;\n" + "x" * 5000
    outcome = scored(EXACT, trajectory(tool_call(name), tool_call("\ud800")), expected(expect(name, {}), expect("`")))
    assert "\x1b" not in outcome.explanation
    assert "\n" not in outcome.explanation
    assert len(outcome.explanation) < 500
    assert all(len(difference.where) <= 100 for difference in outcome.differences)


@each_row(
    "evaluator",
    [
        EXACT,
        ToolTrajectory(mode="in_order", match="name"),
        ToolTrajectory(mode="any_order", extra_calls="count"),
        ToolTrajectory(mode="subset", strict=True),
        ToolTrajectory.model_validate({"mode": "partial_order", "never_before": {"find_*": ["refund_order"]}}),
    ],
    ids=repr,
)
def test_it_keeps_the_contract(evaluator: ToolTrajectory):
    groups = Expected(turns=((ExpectedCall(name="find_order", group=0), ExpectedCall(name="refund_order", group=0)),))
    check_evaluator(evaluator, (), (groups,))
