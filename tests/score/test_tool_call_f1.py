"""`tool_call_f1`: a multiset, where nothing expected and nothing called is a success."""

import pytest

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
from toolgauge.evaluators.expected_calls import ToolCallF1
from toolgauge.model.content import NotRecorded, Unparsed
from toolgauge.model.expected import ExpectedCall
from toolgauge.model.json import JsonObject
from toolgauge.model.observations import CallError
from toolgauge.model.outcomes import Scored

BY_NAME = ToolCallF1(match="name")


def test_the_expected_calls_and_no_others_score_one():
    called = trajectory(tool_call("search", {"q": "x"}), tool_call("book", {"id": 1}))
    outcome = scored(ToolCallF1(), called, expected(expect("book", {"id": 1}), expect("search", {"q": "x"})))
    assert outcome.value == 1.0
    assert outcome.explanation == "2 of 2 expected calls match"
    assert outcome.parts == {
        "recall": 1.0, "precision": 1.0, "matched": 2, "missing": 0, "unexpected": 0, "repeated": 0
    }  # fmt: skip


def test_one_extra_call_scores_four_fifths():
    called = trajectory(tool_call("search", {"q": "x"}), tool_call("book", {"id": 1}), tool_call("log"))
    outcome = scored(ToolCallF1(), called, expected(expect("search", {"q": "x"}), expect("book", {"id": 1})))
    assert outcome.value == pytest.approx(0.8)
    assert (outcome.parts["precision"], outcome.parts["recall"]) == (pytest.approx(2 / 3), 1.0)
    assert outcome.explanation == "2 of 2 expected calls match; unexpected: `log`"


def test_arguments_decide_unless_only_names_are_matched_or_given():
    called = trajectory(tool_call("book", {"id": 2}))
    outcome = scored(ToolCallF1(), called, expected(expect("book", {"id": 1})))
    assert outcome.value == 0.0
    assert outcome.explanation == "0 of 1 expected calls match; same tool, other arguments: `book` (`id` differs)"
    assert scored(BY_NAME, called, expected(expect("book", {"id": 1}))).value == 1.0
    assert scored(ToolCallF1(), called, expected(expect("book"))).value == 1.0


def test_repeats_count_as_a_multiset():
    called = trajectory(*[tool_call("a", {"x": 1})] * 3)
    outcome = scored(ToolCallF1(), called, expected(expect("a", {"x": 1})))
    assert outcome.value == 0.5
    assert outcome.parts["repeated"] == 2
    assert outcome.explanation == "1 of 1 expected calls match; repeated: `a` x2"
    twice = expected(expect("a", {"x": 1}), expect("a", {"x": 1}))
    assert scored(ToolCallF1(), trajectory(tool_call("a", {"x": 1})), twice).value == pytest.approx(2 / 3)


def test_a_call_expected_by_name_leaves_the_exact_one_to_the_exact_call():
    reference = expected(expect("a"), expect("a", {"x": 1}))
    called = trajectory(tool_call("a", {"x": 1}), tool_call("a", {"x": 2}))
    assert scored(ToolCallF1(), called, reference).value == 1.0


def test_no_call_expected_and_none_made_is_a_success_that_says_so():
    outcome = scored(ToolCallF1(), trajectory(), expected())
    assert (outcome.value, outcome.explanation) == (1.0, "no call was expected and none was made")


def test_no_call_expected_but_some_made_is_visible():
    outcome = scored(ToolCallF1(), trajectory(tool_call("pay", {"amount": 3})), expected())
    assert (outcome.value, outcome.explanation) == (0.0, "no call was expected; unexpected: `pay`")
    assert outcome.parts["precision"] == 0.0


def test_calls_expected_but_none_made_score_nothing():
    outcome = scored(ToolCallF1(), trajectory(), expected(expect("a", {})))
    assert (outcome.value, outcome.explanation) == (0.0, "0 of 1 expected calls match; missing: `a`")


def test_without_a_reference_there_is_no_score():
    assert not_evaluated(ToolCallF1(), trajectory(tool_call("a"))) == "no_reference"


def test_true_and_one_are_different_calls():
    assert scored(ToolCallF1(), trajectory(tool_call("a", {"x": True})), expected(expect("a", {"x": 1}))).value == 0.0


def test_unseen_arguments_are_no_score_unless_names_are_enough():
    called, reference = trajectory(tool_call("a", arguments=NotRecorded())), expected(expect("a", {"x": 1}))
    assert not_evaluated(ToolCallF1(), called, reference) == "arguments_not_recorded"
    assert scored(BY_NAME, called, reference).value == 1.0


def test_unparsable_arguments_do_not_match_and_the_explanation_says_why():
    called = trajectory(tool_call("a", arguments=Unparsed("{x")))
    outcome = scored(ToolCallF1(), called, expected(expect("a", {"x": 1})))
    assert outcome.value == 0.0
    assert "unparsable arguments: `a`" in outcome.explanation


def test_optional_calls_count_only_when_made():
    reference = expected(expect("a", {}), expect("log", optional=True))
    assert scored(ToolCallF1(), trajectory(tool_call("a")), reference).value == 1.0
    assert scored(ToolCallF1(), trajectory(tool_call("a"), tool_call("log")), reference).value == 1.0
    assert scored(ToolCallF1(), trajectory(tool_call("a"), tool_call("x")), reference).value == pytest.approx(2 / 3)


def test_a_required_call_is_filled_before_an_optional_one():
    reference = expected(expect("a", {}, optional=True), expect("a", {}))
    outcome = scored(ToolCallF1(), trajectory(tool_call("a")), reference)
    assert (outcome.value, outcome.parts["missing"]) == (1.0, 0)


def test_user_turns_with_nothing_expected_and_nothing_called_are_successes():
    reference = expected_turns((expect("a", {}),), ())
    messages = (user("do a", 0), user("thanks", 1))
    outcome = scored(ToolCallF1(), trajectory(tool_call("a", turn=0), messages=messages), reference)
    assert (outcome.value, outcome.parts["turns_scored"]) == (1.0, 2)


def test_values_stay_out_of_the_explanation_and_are_kept_as_differences():
    called = trajectory(tool_call("pay", {"card": "4111"}))
    outcome = scored(ToolCallF1(), called, expected(expect("pay", {"card": "4222"})))
    assert "4111" not in outcome.explanation
    assert "4222" not in outcome.explanation
    assert [difference.where for difference in outcome.differences] == ["pay"]


def test_ids_bind_where_both_sides_have_one():
    called = trajectory(tool_call("a", {"x": 1}, call_id="1"), tool_call("a", {"x": 1}, call_id="2"))
    same = expected(ExpectedCall(name="a", args={"x": 1}, call_id="2"), ExpectedCall(name="a", call_id="1"))
    assert scored(ToolCallF1(), called, same).value == 1.0
    other = expected(ExpectedCall(name="a", args={"x": 1}, call_id="2"), ExpectedCall(name="a", call_id="3"))
    assert scored(ToolCallF1(), called, other).value == 0.5
    assert scored(BY_NAME, called, other).value == 0.5
    assert scored(ToolCallF1(), trajectory(tool_call("a", {"x": 1})), expected(*other.calls[:1])).value == 1.0


def test_differences_hold_the_arguments_of_what_is_missing_and_of_what_is_extra():
    called = trajectory(tool_call("a", {"x": 2}), tool_call("b", arguments=Unparsed("{")))
    outcome = scored(ToolCallF1(), called, expected(expect("a", {"x": 1})))
    assert [(each.where, each.rule, sides(each)) for each in outcome.differences] == [
        ("a", "other arguments", ({"x": 1}, {"x": 2})),
        ("b", "name_and_args", ("<absent>", None)),
    ]


def test_rules_say_when_an_argument_is_right():
    evaluator = ToolCallF1.model_validate(
        {
            "arguments": {"pay.amount": {"rule": "numeric", "absolute": 0.01}, "*.note": "ignore"},
            "volatile": ["trace_*"],
        }
    )
    called = trajectory(tool_call("pay", {"amount": 20.004, "note": "x", "trace_id": "t"}))
    reference = expected(expect("pay", {"amount": 20, "note": "y"}))
    assert scored(evaluator, called, reference).value == 1.0
    assert scored(ToolCallF1(), called, reference).value == 0.0
    off = trajectory(tool_call("pay", {"amount": 20.2, "note": "x"}))
    assert scored(evaluator, off, reference).value == 0.0


def test_lenience_lets_calls_and_what_is_in_their_arguments_hold_more():
    evaluator = ToolCallF1.model_validate({"arguments": {"*": "lenient", "book.force": "exact"}})
    reference = expected(expect("book", {"flights": [{"number": 1}], "seats": ["A", "B"]}))
    given: JsonObject = {"flights": [{"number": 1.0, "from": "JFK"}], "seats": ["B", "A"], "note": "x"}
    assert scored(evaluator, trajectory(tool_call("book", given)), reference).value == 1.0
    assert scored(ToolCallF1(), trajectory(tool_call("book", given)), reference).value == 0.0
    forced = trajectory(tool_call("book", {**given, "force": True}))
    assert scored(evaluator, forced, reference).value == 0.0


def test_calls_that_change_state_count_once_they_worked_unless_asked_otherwise():
    failed = tool_call("pay", {"by": "card"}, error=CallError(kind="declined", message=""))
    called = trajectory(failed, tool_call("pay", {"by": "cash"}), writing_tools=["pay"])
    reference = expected(expect("pay", {"by": "cash"}))
    assert scored(ToolCallF1(tools="writes"), called, reference).value == 1.0
    assert scored(ToolCallF1(tools=("pay",)), called, reference).value == pytest.approx(2 / 3)
    counting = ToolCallF1(tools="writes", failed_calls="count")
    assert scored(counting, called, reference).value == pytest.approx(2 / 3)


def test_an_equal_value_does_not_meet_a_rule_that_says_otherwise():
    evaluator = ToolCallF1.model_validate({"arguments": {"a.id": {"rule": "regex", "pattern": "A-[0-9]+"}}})
    reference = expected(expect("a", {"id": "any"}))
    assert scored(evaluator, trajectory(tool_call("a", {"id": "any"})), reference).value == 0.0
    assert scored(evaluator, trajectory(tool_call("a", {"id": "A-17"})), reference).value == 1.0


def test_ten_thousand_calls_are_matched_in_slices():
    calls = [tool_call("a", {"x": number}) for number in range(10_000)]
    reference = expected(*[expect("a", {"x": number}) for number in reversed(range(10_000))])
    assert scored(ToolCallF1(), trajectory(*calls), reference).value == 1.0


def other_arguments(outcome: Scored) -> list[tuple[object, object]]:
    found = [each for each in outcome.differences if each.rule == "other arguments"]
    return [sides(each) for each in found]


def test_a_call_with_other_arguments_has_those_that_decide():
    called = trajectory(tool_call("book", {"nights": 3, "room": "a", "note": "!", "breakfast": True}))
    reference = expected(expect("book", {"nights": 2, "room": "A", "note": "?", "name": "Ann"}))
    rules: dict[str, str] = {"book.note": "ignore", "book.room": "casefold"}
    outcome = scored(ToolCallF1.model_validate({"arguments": rules}), called, reference)
    assert other_arguments(outcome) == [({"nights": 2, "name": "Ann"}, {"nights": 3, "breakfast": True})]
    assert outcome.explanation == (
        "0 of 1 expected calls match; same tool, other arguments: "
        "`book` (`nights` differs, without `name`, with `breakfast` that was not expected)"
    )
    assert (outcome.parts["missing"], outcome.parts["unexpected"]) == (1, 1)


def test_the_most_alike_calls_are_put_together():
    called = trajectory(
        tool_call("book", {"id": 1, "n": 3}), tool_call("book", {"id": 9, "n": 9}), tool_call("book", {"id": 2, "n": 4})
    )
    reference = expected(expect("book", {"id": 2, "n": 2}), expect("book", {"id": 1, "n": 1}))
    outcome = scored(ToolCallF1(), called, reference)
    assert other_arguments(outcome) == [({"n": 2}, {"n": 4}), ({"n": 1}, {"n": 3})]
    assert outcome.explanation.endswith("`book` (`n` differs), `book` (`n` differs); unexpected: `book`")


def test_calls_of_other_tools_and_unreadable_ones_stay_missing_and_unexpected():
    called = trajectory(tool_call("b", {"x": 1}), tool_call("a", arguments=Unparsed("{")))
    outcome = scored(ToolCallF1(), called, expected(expect("a", {"x": 1})))
    assert other_arguments(outcome) == []
    assert "missing: `a`; unexpected: `b`, `a`" in outcome.explanation


def test_calls_with_the_ids_of_others_are_not_put_together():
    called = trajectory(tool_call("a", {"x": 2}, call_id="call-2"))
    reference = expected(ExpectedCall(name="a", args={"x": 1}, call_id="call-1"))
    assert other_arguments(scored(ToolCallF1(), called, reference)) == []
