"""`tool_call_accuracy`: partial credit by argument, in order or not, and one extra call is one extra call."""

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
from toolgauge.evaluators.expected_arguments import ToolCallAccuracy
from toolgauge.model.content import Unparsed
from toolgauge.model.expected import ExpectedCall
from toolgauge.model.json import JsonObject

ORDERED = ToolCallAccuracy()
FREE = ToolCallAccuracy(ordered=False)
STRICT = ToolCallAccuracy(strict=True)
SEARCH: JsonObject = {"query": "python", "limit": 10, "sort": "date"}


def test_each_argument_has_its_share():
    reference = expected(*[expect("search", SEARCH)] * 7)
    outcome = scored(ORDERED, trajectory(*[tool_call("search", {**SEARCH, "sort": "relevance"})] * 7), reference)
    # Thirds of arguments do not round up to all of them.
    assert outcome.value == pytest.approx(2 / 3)
    assert "search: sort differs" in outcome.explanation
    assert sides(outcome.differences[0]) == ("date", "relevance")


def test_one_extra_or_missing_call_takes_its_share_and_no_more():
    reference = expected(expect("a", {"x": 1}), expect("b", {"y": 2}))
    calls = (tool_call("a", {"x": 1}), tool_call("log"), tool_call("b", {"y": 2}))
    outcome = scored(ORDERED, trajectory(*calls), reference)
    assert outcome.value == pytest.approx(2 / 3)
    assert (outcome.parts["precision"], outcome.parts["recall"]) == (pytest.approx(2 / 3), 1.0)
    assert scored(ORDERED, trajectory(calls[0]), reference).value == 0.5
    turns = trajectory(calls[0], tool_call("b"), messages=(user("one", 0), user("two", 1)))
    outcome = scored(ORDERED, turns, expected_turns((expect("a", {"x": 1}),), (expect("b", {"y": 1}),)))
    assert (outcome.value, outcome.parts["turns_scored"], outcome.parts["arguments"]) == (0.5, 2, 0.5)


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


def test_the_empty_cases():
    for evaluator in (ORDERED, FREE, STRICT):
        assert scored(evaluator, trajectory(), expected()).value == 1.0
        assert scored(evaluator, trajectory(tool_call("a")), expected()).value == 0.0
        assert scored(evaluator, trajectory(), expected(expect("a", {}))).value == 0.0
    maybe = expected(expect("a", {}, optional=True))
    assert scored(ORDERED, trajectory(), maybe).value == 1.0
    assert not_evaluated(ORDERED, trajectory(tool_call("b")), maybe) == "nothing_expected"


def test_what_cannot_be_parsed_is_wrong():
    outcome = scored(ORDERED, trajectory(tool_call("a", arguments=Unparsed("{x"))), expected(expect("a", {"x": 1})))
    assert (outcome.value, "unparsable" in outcome.explanation) == (0.0, True)
