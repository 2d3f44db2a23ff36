"""`json_similarity`: the agent's final answer against the expected one."""

import json

import pytest

from tests.score.support import not_evaluated, scored, sides, tool_call, trajectory, user
from toolgauge.evaluators.outputs import JsonSimilarity
from toolgauge.model.expected import Expected, ExpectedOutput
from toolgauge.model.json import Json
from toolgauge.model.trajectory import Message, Trajectory


def says(*texts: str) -> Trajectory:
    messages = tuple(Message(role="assistant", text=text, turn=turn) for turn, text in enumerate(texts))
    return trajectory(tool_call("a"), messages=(user("hello", 0), *messages))


def answers(value: Json) -> Trajectory:
    return says("let me see", json.dumps(value))


def answer(value: Json) -> Expected:
    return Expected(turns=(), answer=ExpectedOutput(value=value))


def test_the_score_is_the_mean_over_the_leaves():
    outcome = scored(
        JsonSimilarity(), answers({"a": 80, "b": "pariz", "c": True}), answer({"a": 100, "b": "paris", "c": 1})
    )
    assert outcome.value == pytest.approx((0.8 + 0.8) / 3)
    assert "answer.c is boolean" in outcome.explanation
    assert [difference.where for difference in outcome.differences] == ["answer.a", "answer.b", "answer.c"]
    assert sides(outcome.differences[2]) == (1, True)


def test_json_text_is_read_where_a_structure_is_expected():
    written: list[tuple[str, Json]] = [
        ('{"a": 1.0}', {"a": 1}),
        ('{"b":2,"a":1}', '{"a": 1, "b": 2}'),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ("42", 42),
        ("42", "42"),
        ("null", None),
    ]
    for text, wanted in written:
        assert scored(JsonSimilarity(), says(text), answer(wanted)).value == 1.0


def test_an_answer_that_is_no_json_scores_nothing_where_a_structure_is_expected():
    for text in ("The city is Paris.", '{"a": 1', "1", "[" * 10_000, '"{}"'):
        outcome = scored(JsonSimilarity(), says(text), answer({"a": 1}))
        assert (outcome.value, "no JSON" in outcome.explanation) == (0.0, True)


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
