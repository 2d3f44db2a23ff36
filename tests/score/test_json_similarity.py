"""`json_similarity`: the agent's final answer against the expected one."""

import json

import pytest
from pydantic import ValidationError

from tests.rows import each_row
from tests.score.support import not_evaluated, scored, sides, tool_call, trajectory, user
from toolgauge.evaluators.outputs import JsonSimilarity
from toolgauge.model.expected import Expected, ExpectedOutput
from toolgauge.model.json import Json
from toolgauge.model.left_out import MARK
from toolgauge.model.trajectory import Message, Trajectory


def says(*texts: str) -> Trajectory:
    messages = tuple(Message(role="assistant", text=text, turn=turn) for turn, text in enumerate(texts))
    return trajectory(tool_call("a"), messages=(user("hello", 0), *messages))


def answers(value: Json) -> Trajectory:
    return says("let me see", json.dumps(value))


def answer(value: Json) -> Expected:
    return Expected(turns=(), answer=ExpectedOutput(value=value))


def test_the_same_answer_scores_one():
    value: Json = {"user": {"name": "Alice", "age": 25}, "tags": ["a", "b"]}
    outcome = scored(JsonSimilarity(), answers(value), answer(value))
    assert outcome.value == 1.0
    assert outcome.explanation == "4 leaves compared"
    assert outcome.parts == {"leaves": 4, "matched_leaves": 4.0}


def test_the_score_is_the_mean_over_the_leaves():
    outcome = scored(JsonSimilarity(), answers({"a": 1, "b": "x", "c": True}), answer({"a": 1, "b": "x", "c": False}))
    assert outcome.value == pytest.approx(2 / 3)
    assert outcome.explanation == "3 leaves compared; answer.c differs (boolean, similarity)"
    (difference,) = outcome.differences
    assert (difference.where, sides(difference)) == ("answer.c", (False, True))


def test_numbers_and_texts_may_be_alike():
    outcome = scored(JsonSimilarity(), answers({"n": 80, "t": "pariz"}), answer({"n": 100, "t": "paris"}))
    assert outcome.value == pytest.approx((0.8 + 0.8) / 2)


def test_surplus_keys_and_items_cost_as_much_as_missing_ones():
    expected = answer({"a": 1, "items": [1, 2]})
    assert scored(JsonSimilarity(), answers({"a": 1, "items": [1, 2], "b": 2}), expected).value == 0.75
    assert scored(JsonSimilarity(), answers({"a": 1, "items": [1, 2, 3]}), expected).value == 0.75
    assert scored(JsonSimilarity(), answers({"a": 1, "items": [1]}), expected).value == pytest.approx(2 / 3)
    assert scored(JsonSimilarity(), answers({"a": 1}), answer({})).value == 0.0


def test_with_subset_keys_that_are_not_expected_are_free():
    subset = JsonSimilarity(subset=True)
    actual: Json = {"a": {"x": 1, "y": 2}, "list": [{"k": 1, "l": 2}, {"k": 2}], "more": [1]}
    assert scored(subset, answers(actual), answer({"a": {"x": 1}, "list": [{"k": 1}, {"k": 2}]})).value == 1.0
    assert scored(subset, answers(actual), answer({"a": {"x": 2}})).value == 0.5
    assert scored(subset, answers(actual), answer({"list": [{"k": 1}]})).value == pytest.approx(1 / 2)
    assert scored(subset, answers([1]), answer({"a": 1})).value == 0.0


def test_an_empty_structure_accepts_nothing_but_its_like():
    assert scored(JsonSimilarity(), answers([]), answer([])).value == 1.0
    assert scored(JsonSimilarity(), answers([]), answer({})).value == 0.0
    assert scored(JsonSimilarity(), answers([1]), answer([])).value == 0.0


def test_text_is_compared_as_text():
    assert scored(JsonSimilarity(), says("It is sunny."), answer("It is sunny.")).value == 1.0
    outcome = scored(JsonSimilarity(), says("It is funny."), answer("It is sunny."))
    assert outcome.value == pytest.approx(11 / 12)
    assert "sunny" not in outcome.explanation


def test_json_text_is_read_where_a_structure_is_expected():
    assert scored(JsonSimilarity(), says('{"a": 1.0}'), answer({"a": 1})).value == 1.0
    assert scored(JsonSimilarity(), says('{"b":2,"a":1}'), answer('{"a": 1, "b": 2}')).value == 1.0
    assert scored(JsonSimilarity(), says('```json\n{"a": 1}\n```'), answer({"a": 1})).value == 1.0
    assert scored(JsonSimilarity(), says("42"), answer(42)).value == 1.0
    assert scored(JsonSimilarity(), says("null"), answer(None)).value == 1.0
    assert scored(JsonSimilarity(), says("42"), answer("42")).value == 1.0


def test_an_answer_that_is_no_json_scores_nothing_where_a_structure_is_expected():
    for text in ("The city is Paris.", '{"a": 1', "1", "[" * 10_000, '"{}"'):
        outcome = scored(JsonSimilarity(), says(text), answer({"a": 1}))
        assert (outcome.value, outcome.explanation.split("; ")[1]) == (0.0, "the answer is no JSON")


def test_the_last_message_of_the_assistant_is_the_answer():
    assert scored(JsonSimilarity(), says("no", "yes"), answer("yes")).value == 1.0


def test_only_the_target_keys_are_compared():
    actual: Json = {"result": {"score": 95, "items": [{"id": 7}]}, "stamp": "now"}
    expected = answer({"result": {"score": 95, "items": [{"id": 7}]}, "stamp": "then"})
    assert scored(JsonSimilarity(target_output_key=("result",)), answers(actual), expected).value == 1.0
    assert scored(JsonSimilarity(target_output_key=("result.items[0].id",)), answers(actual), expected).value == 1.0
    both = JsonSimilarity.model_validate({"target_output_key": ["result.score", "stamp"]})
    outcome = scored(both, answers(actual), expected)
    assert (outcome.value, outcome.parts["leaves"]) == (0.5, 2)


def test_a_target_key_that_is_missing_scores_nothing_and_one_not_expected_is_no_score():
    key = JsonSimilarity.model_validate({"target_output_key": "a.b"})
    outcome = scored(key, answers({"a": {}}), answer({"a": {"b": {"x": 1, "y": 2}}}))
    assert (outcome.value, outcome.parts["leaves"]) == (0.0, 2)
    assert not_evaluated(key, answers({"a": {"b": 1}}), answer({"a": {}})) == "nothing_expected"
    assert scored(key, answers({"a.b": 1}), answer({"a.b": 1})).value == 1.0
    assert scored(key, answers({"a": {"b": None}}), answer({"a": {"b": None}})).value == 1.0


@each_row("key", ["", "a..b", "a[x]", "a[", [], ["*", "a"], "[]"])
def test_a_target_key_that_is_no_path_is_refused(key: object):
    with pytest.raises(ValidationError):
        JsonSimilarity.model_validate({"target_output_key": key})


def test_what_cannot_be_seen_is_no_score():
    assert not_evaluated(JsonSimilarity(), trajectory(messages=(user("hi", 0),)), answer("hi")) == "no_content"
    assert not_evaluated(JsonSimilarity(), says("hi"), None) == "no_reference"
    assert not_evaluated(JsonSimilarity(), says("hi"), Expected(turns=((),))) == "no_reference"
    assert not_evaluated(JsonSimilarity(), says("x" * 40 + MARK + "y" * 40), answer("hi")) == "truncated"


def test_large_and_deep_answers_are_compared_in_slices():
    wide: Json = {str(number): [number, {"x": str(number)}] for number in range(5000)}
    assert scored(JsonSimilarity(), answers(wide), answer(wide)).value == 1.0
    assert scored(JsonSimilarity(subset=True), answers(wide), answer(wide)).value == 1.0
    deep: Json = 1
    for _ in range(300):
        deep = {"a": [deep]}
    assert scored(JsonSimilarity(subset=True), answers(deep), answer(deep)).value == 1.0
