"""`tool_call_accuracy`: partial credit by argument, in order or not, and one extra call is one extra call."""

import pytest
from msgspec.structs import replace

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
from toolgauge.evaluators.tool_call_args import ToolCallAccuracy
from toolgauge.model.content import NotRecorded, Unparsed
from toolgauge.model.expected import ExpectedCall
from toolgauge.model.json import JsonObject

ORDERED = ToolCallAccuracy()
FREE = ToolCallAccuracy(ordered=False)
STRICT = ToolCallAccuracy(strict=True)
SEARCH: JsonObject = {"query": "python", "limit": 10, "sort": "date"}


def test_the_expected_calls_with_the_expected_arguments_score_one():
    called = trajectory(tool_call("search", SEARCH), tool_call("book", {"id": 1}))
    outcome = scored(ORDERED, called, expected(expect("search", SEARCH), expect("book", {"id": 1})))
    assert (outcome.value, outcome.explanation) == (1.0, "2 of 2 expected calls are right")
    assert outcome.parts == {
        "matched": 2, "missing": 0, "unexpected": 0, "repeated": 0, "out_of_order": 0,
        "arguments": 1.0, "recall": 1.0, "precision": 1.0,
    }  # fmt: skip


def test_each_argument_has_its_share():
    called = trajectory(tool_call("search", {**SEARCH, "sort": "relevance"}))
    outcome = scored(ORDERED, called, expected(expect("search", SEARCH)))
    assert outcome.value == pytest.approx(2 / 3)
    assert outcome.explanation == "0 of 1 expected calls are right; search: sort differs (text, exact)"
    assert [sides(difference) for difference in outcome.differences] == [("date", "relevance")]


def test_an_argument_that_nobody_expects_has_its_share_too():
    called = trajectory(tool_call("search", {**SEARCH, "page": 2}))
    outcome = scored(ORDERED, called, expected(expect("search", SEARCH)))
    assert (outcome.value, outcome.parts["invented"]) == (0.75, 1)
    assert scored(ORDERED, trajectory(tool_call("a", {"x": 1})), expected(expect("a", {}))).value == 0.0
    assert scored(ORDERED, trajectory(tool_call("a", {"x": 1})), expected(expect("a"))).value == 1.0


def test_one_extra_call_takes_its_share_and_no_more():
    called = trajectory(tool_call("a", {"x": 1}), tool_call("log"), tool_call("b", {"y": 2}))
    outcome = scored(ORDERED, called, expected(expect("a", {"x": 1}), expect("b", {"y": 2})))
    assert outcome.value == pytest.approx(2 / 3)
    assert (outcome.parts["precision"], outcome.parts["recall"]) == (pytest.approx(2 / 3), 1.0)
    assert outcome.explanation == "2 of 2 expected calls are right; unexpected: `log`"


def test_one_missing_call_takes_its_share():
    called = trajectory(tool_call("a", {"x": 1}))
    assert scored(ORDERED, called, expected(expect("a", {"x": 1}), expect("b"))).value == 0.5


def test_order_matters_unless_it_does_not():
    called = trajectory(tool_call("filter"), tool_call("search"))
    reference = expected(expect("search", {}), expect("filter", {}))
    outcome = scored(ORDERED, called, reference)
    assert (outcome.value, outcome.parts["out_of_order"]) == (0.5, 1)
    assert outcome.explanation.endswith("out of order: 1")
    free = scored(FREE, called, reference)
    assert (free.value, free.parts["out_of_order"]) == (1.0, 1)
    assert scored(STRICT, called, reference).value == 0.0


def test_calls_of_one_turn_and_expected_calls_of_one_group_have_no_order():
    at_once = trajectory(tool_call("w", {"c": "London"}, turn=0), tool_call("w", {"c": "Paris"}, turn=0))
    assert scored(STRICT, at_once, expected(expect("w", {"c": "Paris"}), expect("w", {"c": "London"}))).value == 1.0
    one_by_one = trajectory(tool_call("w", {"c": "London"}), tool_call("w", {"c": "Paris"}))
    grouped = expected(
        ExpectedCall(name="w", args={"c": "Paris"}, group=0), ExpectedCall(name="w", args={"c": "London"}, group=0)
    )
    assert scored(STRICT, one_by_one, grouped).value == 1.0
    assert scored(ORDERED, one_by_one, expected(*grouped.calls[:1], expect("w", {"c": "London"}))).value == 0.5


def test_repeated_calls_are_paired_for_the_best_sum():
    called = trajectory(tool_call("a", {"x": 2}), tool_call("a", {"x": 3}))
    reference = expected(expect("a", {"x": 1}), expect("a", {"x": 2}))
    assert scored(FREE, called, reference).value == 0.5


def test_strict_is_all_or_nothing():
    reference = expected(expect("a", {"x": 1, "y": 2}))
    assert scored(STRICT, trajectory(tool_call("a", {"x": 1, "y": 2})), reference).value == 1.0
    outcome = scored(STRICT, trajectory(tool_call("a", {"x": 1, "y": 3})), reference)
    assert (outcome.value, outcome.parts["arguments"]) == (0.0, 0.5)
    extra = trajectory(tool_call("a", {"x": 1, "y": 2}), tool_call("b"))
    assert scored(STRICT, extra, reference).value == 0.0


def test_the_empty_cases():
    for evaluator in (ORDERED, FREE, STRICT):
        assert scored(evaluator, trajectory(), expected()).value == 1.0
        assert scored(evaluator, trajectory(tool_call("a")), expected()).value == 0.0
        assert scored(evaluator, trajectory(), expected(expect("a", {}))).value == 0.0
    maybe = expected(expect("a", {}, optional=True))
    assert scored(ORDERED, trajectory(), maybe).value == 1.0
    assert not_evaluated(ORDERED, trajectory(tool_call("b")), maybe) == "nothing_expected"


def test_types_are_kept_apart_and_rules_say_what_is_enough():
    called = trajectory(tool_call("pay", {"amount": 20.001, "to": "ANN", "confirmed": True}))
    reference = expected(expect("pay", {"amount": 20, "to": "Ann", "confirmed": 1}))
    assert scored(ORDERED, called, reference).value == 0.0
    lenient = ToolCallAccuracy.model_validate(
        {
            "arguments": {
                "pay.amount": {"rule": "numeric", "absolute": 0.01},
                "*.to": "casefold",
                "*.confirmed": "ignore",
            }
        }
    )
    assert scored(lenient, called, reference).value == 1.0
    volatile = ToolCallAccuracy(volatile=("request_id",))
    stamped = trajectory(tool_call("a", {"x": 1, "request_id": "r"}))
    assert scored(volatile, stamped, expected(expect("a", {"x": 1}))).value == 1.0


def test_what_cannot_be_seen_is_no_score_and_what_cannot_be_parsed_is_wrong():
    reference = expected(expect("a", {"x": 1}))
    assert not_evaluated(ORDERED, trajectory(tool_call("a"))) == "no_reference"
    assert not_evaluated(ORDERED, trajectory(tool_call("a", arguments=NotRecorded())), reference) == (
        "arguments_not_recorded"
    )
    assert not_evaluated(ORDERED, replace(trajectory(), hidden_turns=1), reference) == "no_content"
    outcome = scored(ORDERED, trajectory(tool_call("a", arguments=Unparsed("{x"))), reference)
    assert (outcome.value, "unparsable" in outcome.explanation) == (0.0, True)


def test_user_turns_are_scored_one_by_one():
    called = trajectory(tool_call("a", {"x": 1}), tool_call("b"), messages=(user("one", 0), user("two", 1)))
    reference = expected_turns((expect("a", {"x": 1}),), (expect("b", {"y": 1}),))
    outcome = scored(ORDERED, called, reference)
    assert (outcome.value, outcome.parts["turns_scored"], outcome.parts["arguments"]) == (0.5, 2, 0.5)


def test_thirds_of_arguments_do_not_round_up_to_all_of_them():
    called = trajectory(*[tool_call("a", {"x": 1, "y": 2, "z": number}) for number in range(7)])
    reference = expected(*[expect("a", {"x": 1, "y": 2, "z": 9})] * 7)
    assert scored(ORDERED, called, reference).value == pytest.approx(2 / 3)


def test_ten_thousand_calls_are_scored_in_slices():
    calls = [tool_call("a", {"x": number % 50, "y": number}) for number in range(10_000)]
    reference = expected(*[expect("a", {"x": number % 50, "y": number}) for number in range(10_000)])
    assert scored(STRICT, trajectory(*calls), reference).value == 1.0
    assert scored(FREE, trajectory(*reversed(calls)), reference).value == 1.0
    assert scored(ORDERED, trajectory(*calls[1:]), reference).value == pytest.approx(0.9999)
