"""`tool_call_f1`: a multiset, where nothing expected and nothing called is a success."""

import pytest

from tests.score.support import (
    expect,
    expected,
    scored,
    sides,
    tool_call,
    trajectory,
)
from toolgauge.evaluators.expected_calls import ToolCallF1
from toolgauge.model.content import NotRecorded, Unparsed
from toolgauge.model.expected import ExpectedCall
from toolgauge.model.json import JsonObject
from toolgauge.model.observations import CallError
from toolgauge.model.outcomes import Scored

BY_NAME = ToolCallF1(match="name")


def test_one_extra_call_scores_four_fifths():
    reference = expected(expect("search", {"q": "x"}), expect("book", {"id": 1}))
    both = (tool_call("book", {"id": 1}), tool_call("search", {"q": "x"}))
    assert scored(ToolCallF1(), trajectory(*both), reference).value == 1.0
    outcome = scored(ToolCallF1(), trajectory(*both, tool_call("log")), reference)
    assert outcome.value == pytest.approx(0.8)
    assert (outcome.parts["precision"], outcome.parts["recall"]) == (pytest.approx(2 / 3), 1.0)
    assert "unexpected: `log`" in outcome.explanation


def test_arguments_decide_unless_only_names_are_matched_or_given():
    called = trajectory(tool_call("book", {"id": 4111}))
    outcome = scored(ToolCallF1(), called, expected(expect("book", {"id": 4222})))
    assert (outcome.value, "`book` (`id` differs)" in outcome.explanation) == (0.0, True)
    assert not any(value in outcome.explanation for value in ("4111", "4222"))
    assert scored(BY_NAME, called, expected(expect("book", {"id": 1}))).value == 1.0
    assert scored(ToolCallF1(), called, expected(expect("book"))).value == 1.0
    unseen = trajectory(tool_call("book", arguments=NotRecorded()))
    assert scored(BY_NAME, unseen, expected(expect("book", {"id": 1}))).value == 1.0


def test_differences_hold_the_arguments_of_what_is_missing_and_of_what_is_extra():
    called = trajectory(tool_call("a", {"x": 2}), tool_call("b", arguments=Unparsed("{")))
    outcome = scored(ToolCallF1(), called, expected(expect("a", {"x": 1})))
    assert [(each.where, each.rule, sides(each)) for each in outcome.differences] == [
        ("a", "other arguments", ({"x": 1}, {"x": 2})),
        ("b", "name_and_args", ("<absent>", None)),
    ]


def test_lenience_lets_calls_and_what_is_in_their_arguments_hold_more():
    evaluator = ToolCallF1.model_validate({"arguments": {"*": "lenient", "book.force": "exact"}})
    reference = expected(expect("book", {"flights": [{"number": 1}], "seats": ["A", "B"]}))
    given: JsonObject = {"flights": [{"number": 1.0, "from": "JFK"}], "seats": ["B", "A"], "note": "x"}
    assert scored(evaluator, trajectory(tool_call("book", given)), reference).value == 1.0
    assert scored(ToolCallF1(), trajectory(tool_call("book", given)), reference).value == 0.0
    assert scored(evaluator, trajectory(tool_call("book", {**given, "force": True})), reference).value == 0.0


def test_calls_that_change_state_count_once_they_worked_unless_asked_otherwise():
    failed = tool_call("pay", {"by": "card"}, error=CallError(kind="declined", message=""))
    called = trajectory(failed, tool_call("pay", {"by": "cash"}), writing_tools=["pay"])
    reference = expected(expect("pay", {"by": "cash"}))
    assert scored(ToolCallF1(tools="writes"), called, reference).value == 1.0
    assert scored(ToolCallF1(tools=("pay",)), called, reference).value == pytest.approx(2 / 3)
    counting = ToolCallF1(tools="writes", failed_calls="count")
    assert scored(counting, called, reference).value == pytest.approx(2 / 3)


def other_arguments(outcome: Scored) -> list[tuple[object, object]]:
    found = [each for each in outcome.differences if each.rule == "other arguments"]
    return [sides(each) for each in found]


def test_a_call_with_other_arguments_has_those_that_decide():
    called = trajectory(tool_call("book", {"nights": 3, "room": "a", "note": "!", "breakfast": True}))
    reference = expected(expect("book", {"nights": 2, "room": "A", "note": "?", "name": "Ann"}))
    rules: dict[str, str] = {"book.note": "ignore", "book.room": "casefold"}
    outcome = scored(ToolCallF1.model_validate({"arguments": rules}), called, reference)
    assert other_arguments(outcome) == [({"nights": 2, "name": "Ann"}, {"nights": 3, "breakfast": True})]
    assert "`nights` differs, without `name`, with `breakfast`" in outcome.explanation
    assert (outcome.parts["missing"], outcome.parts["unexpected"]) == (1, 1)
    ids = expected(ExpectedCall(name="a", args={"x": 1}, call_id="call-1"))
    assert other_arguments(scored(ToolCallF1(), trajectory(tool_call("a", {"x": 2}, call_id="call-2")), ids)) == []


def test_the_most_alike_calls_are_put_together():
    called = trajectory(
        tool_call("book", {"id": 1, "n": 3}), tool_call("book", {"id": 9, "n": 9}), tool_call("book", {"id": 2, "n": 4})
    )
    reference = expected(expect("book", {"id": 2, "n": 2}), expect("book", {"id": 1, "n": 1}))
    outcome = scored(ToolCallF1(), called, reference)
    assert other_arguments(outcome) == [({"n": 2}, {"n": 4}), ({"n": 1}, {"n": 3})]
    assert outcome.explanation.endswith("`book` (`n` differs), `book` (`n` differs); unexpected: `book`")
