"""`uipath.*` by the rules of uipath 2.14.44, warts included, and the same from trajectories."""

import json

import pytest

from tests.originals.support import result, score
from tests.rows import each_row
from tests.score.support import expected, judge, not_evaluated, scored, tool_call, trajectory
from toolgauge.model.content import NOT_RECORDED, Recorded, Unparsed
from toolgauge.model.expected import Expected, ExpectedCall, ExpectedOutput
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import Errored, Scored, Side
from toolgauge.model.trajectory import Message
from toolgauge.originals.uipath.json_similarity import JsonSimilarity
from toolgauge.originals.uipath.tool_calls import ToolCallArgs, ToolCallCount, ToolCallOrder, ToolCallOutput
from toolgauge.testing.evaluators import check_evaluator

Offline = ToolCallArgs | ToolCallOutput | ToolCallOrder | ToolCallCount | JsonSimilarity
ARGS, OUTPUT, ORDER, COUNT, SIMILARITY = (
    ToolCallArgs(),
    ToolCallOutput(),
    ToolCallOrder(),
    ToolCallCount(),
    JsonSimilarity(),
)


def spans(*attributes: JsonObject) -> JsonObject:
    return {"spans": [{"name": "span", "attributes": entry} for entry in attributes]}


def made(name: str, args: Json = None, **more: Json) -> JsonObject:
    """Attributes of one tool span; arguments that are not text are written as JSON."""
    text = args if isinstance(args, str) else json.dumps(args)
    return {"tool.name": name, **({} if args is None else {"input.value": text}), **more}


def calls(*wanted: JsonObject) -> JsonObject:
    return {"tool_calls": [{"args": {}, **call} for call in wanted]}


@each_row("evaluator", [ToolCallArgs(strict=True), ToolCallOutput(strict=True)])
def test_the_contract_is_kept_where_matching_is_strict(evaluator: Offline):
    check_evaluator(evaluator)


# -- which spans count ----------------------------------------------------------------------------------------------


@each_row(
    ("attributes", "counted"),
    [
        ({"tool.name": "a"}, "['a']"),
        ({"tool.name": ""}, "[]"),
        ({"tool.name": "a", "tool.synthesized": True}, "[]"),
        ({"tool.name": "a", "tool.synthesized": "false"}, "[]"),
        ({"tool.name": "a", "tool.synthesized": False}, "['a']"),
        ({"tool.name": "a", "tool.id": 0}, "['0']"),
        ({"tool.name": "a", "tool.id": ""}, "['']"),
        ({"tool.name": 5}, "['5']"),
        ({"gen_ai.tool.name": "a"}, "[]"),
    ],
)
def test_a_span_counts_by_its_tool_name(attributes: JsonObject, counted: str):
    said = result(ORDER, {"tool_calls_order": ["z"]}, spans(attributes)).original["details"]
    assert said == {"actual": counted, "expected": "['z']", "lcs": []}


@each_row(
    ("wanted", "name", "value"),
    [
        ("Web Search", "Web_Search", 1.0),
        ("a.b", "ab", 1.0),
        ("!!", "??", 1.0),
        ("a", "A", 0.0),
        ("x" * 70, "x" * 64, 1.0),
        ("a \t b", "a_b", 1.0),
    ],
)
def test_names_are_compared_after_sanitising(wanted: str, name: str, value: float):
    assert score(ARGS, calls({"name": wanted}), spans(made(name))) == value


@each_row(
    ("wanted", "value"),
    [({"name": "a", "id": "u1"}, 1.0), ({"name": "u1"}, 1.0), ({"name": "a"}, 0.0), ({"name": "a", "id": "u2"}, 0.0)],
)
def test_the_id_of_a_made_call_alone_decides(wanted: JsonObject, value: float):
    assert score(ARGS, calls(wanted), spans(made("a", **{"tool.id": "u1"}))) == value


# -- arguments ------------------------------------------------------------------------------------------------------


@each_row(
    ("args", "written", "value"),
    [
        ({"x": 1}, '{"x": 1, "y": 2}', 1.0),
        ({"x": 1}, "{'x': True}", 1.0),
        ({"x": 1.0}, '{"x": 1}', 1.0),
        ({"x": None}, "{}", 0.0),
        ({"x": None}, "{'x': None}", 1.0),
        ({"x": None}, '{"x": null}', 1.0),
        ({"x": [1, 2]}, "{'x': (1, 2)}", 0.0),
        ({"x": 1}, '"{\\"x\\": 1}"', 0.0),
        ({"x": 2}, '{"x": 1, "x": 2}', 1.0),
        ({"x": 1}, "{x: 1}", 0.0),
        ({}, "{x: 1}", 1.0),
        ({"x": 1}, "{1: 2}", "ValueError"),
        ({"x": {"k": 1}}, '{"x": {"k": 1, "m": 2}}', 0.0),
        ({"x": {"k": 1, "m": 2}}, '{"x": {"m": 2, "k": 1}}', 1.0),
    ],
)
def test_all_expected_arguments_have_to_be_equal(args: JsonObject, written: str, value: float | str):
    assert score(ARGS, calls({"name": "a", "args": args}), spans(made("a", written))) == value
    assert score(ToolCallArgs(subset=True), calls({"name": "a", "args": args}), spans(made("a", written))) == value


def test_what_differs_stands_beside_what_the_closest_call_was_given():
    wanted = calls({"name": "a", "args": {"x": 1, "y": 2}}, {"name": "a", "args": {"x": 5}}, {"name": "b", "args": {}})
    outcome = result(ARGS, wanted, spans(made("a", {"x": 9, "y": 2}), made("a", {"x": 5}))).outcome
    assert isinstance(outcome, Scored)
    assert [(one.where, one.rule, one.expected, one.actual) for one in outcome.differences] == [
        ("`a`", "other arguments", Side(value={"x": 1}), Side(value={"x": 9})),
        ("`b`", "missing", Side(value={}), None),
    ]


def test_keys_are_accepted_in_either_spelling():
    parameters = {"name": "n", "strict": True, "defaultEvaluationCriteria": {"toolCallsOrder": ["a"]}}
    evaluator = ToolCallOrder.model_validate(parameters)
    assert score(evaluator, {}, spans(made("a"))) == 1.0


# -- final output ---------------------------------------------------------------------------------------------------


@each_row(
    ("wanted", "output", "value"),
    [
        ({"x": 1}, {"x": 1.0}, 1.0),
        ({"x": 1}, {"x": True}, 0.0),
        ({"x": [1, 2]}, {"x": [2, 1]}, 0.25),
        ({"x": "Paris"}, {"x": "paris"}, 0.8),
        ({"x": []}, {"x": {}}, 1.0),
        ({}, {"x": 1}, 1.0),
        ({"x": 100}, {"x": 190}, pytest.approx(0.1)),
        ({"x": -10}, {"x": 10}, 0.0),
        ({"x": 0}, {"x": 1e-13}, 1.0),
        ({"x": {"a": 1, "b": 2}}, {"x": 5}, 0.0),
        ({"x": None, "y": "a"}, {"x": None}, 0.5),
        ({"x": 1}, "x", 0.0),
        ("kitten", "sitting", pytest.approx(4 / 7)),
        ("", "", 1.0),
        ({"x": 10**400}, {"x": 1}, "OverflowError"),
    ],
)
def test_outputs_are_compared_leaf_by_leaf(wanted: Json, output: Json, value: float | str):
    assert score(SIMILARITY, {"expected_output": wanted}, {"output": output}) == value


@each_row(
    ("key", "wanted", "output", "value"),
    [
        ("a.b[0]", {"a": {"b": [1]}}, {"a": {"b": [1, 2]}}, 1.0),
        ("a", '{"a": 1}', {"a": 1}, 1.0),
        ("a", "no json", {"a": 1}, "invalid_expected_output"),
        ("b", {"b": 1}, {"a": 1}, "target_output_key_not_found"),
        (["a", "b"], {"a": 1, "b": 2}, {"a": 1, "b": 4}, 0.5),
        (["a"], {"a": 1}, "text", "invalid_actual_output"),
        ("..", {"a": 1}, {"a": 1}, "invalid_path"),
    ],
)
def test_a_part_of_the_output_can_be_compared(key: str | list[str], wanted: Json, output: Json, value: float | str):
    evaluator = JsonSimilarity(target_output_key=key)
    assert score(evaluator, {"expected_output": wanted}, {"output": output}) == value


def test_lines_can_be_compared_one_by_one():
    evaluator = JsonSimilarity(line_by_line_evaluator=True)
    assert score(evaluator, {"expected_output": "one\n\ntwo"}, {"output": "one\ntwo\nmore"}) == pytest.approx(2 / 3)


# -- live -----------------------------------------------------------------------------------------------------------


def test_a_trajectory_scores_as_its_spans_do():
    run = trajectory(tool_call("a", {"x": 1}), tool_call("b", {"y": [2]}))
    wanted = expected(ExpectedCall(name="b", args={"y": [2]}), ExpectedCall(name="a", args={"x": 2}))
    assert scored(ARGS, run, wanted).value == 0.5
    assert scored(ORDER, run, wanted).value == 0.5
    assert scored(COUNT, run, wanted).value == 1.0


def test_what_could_not_be_seen_is_no_score():
    hidden = trajectory(tool_call("a", arguments=NOT_RECORDED, result=NOT_RECORDED))
    wanted = expected(ExpectedCall(name="a", args={"x": 1}, output=ExpectedOutput(value="v")))
    assert not_evaluated(ARGS, hidden, wanted) == "arguments_not_recorded"
    assert not_evaluated(OUTPUT, hidden, wanted) == "results_not_recorded"
    assert not_evaluated(ORDER, hidden, None) == "no_reference"
    assert scored(ARGS, hidden, expected(ExpectedCall(name="a", args={}))).value == 1.0


def test_arguments_that_could_not_be_parsed_are_none():
    run = trajectory(tool_call("a", arguments=Unparsed("{x: 1")))
    assert scored(ARGS, run, expected(ExpectedCall(name="a", args={"x": 1}))).value == 0.0


def test_live_outputs_are_read_out_of_their_envelope():
    wanted = expected(ExpectedCall(name="a", output=ExpectedOutput(value="v")))
    for content in (Recorded("v"), Recorded({"content": "v"})):
        assert scored(OUTPUT, trajectory(tool_call("a", result=content)), wanted).value == 1.0


def test_optional_and_repeated_calls_are_more_than_the_original_knows():
    run = trajectory(tool_call("a"))
    for evaluator in (ARGS, OUTPUT, ORDER):
        (outcome,) = judge(evaluator, run, expected(ExpectedCall(name="a", optional=True)))
        assert isinstance(outcome, Errored)
        assert outcome.error_type == "unsupported_reference"
    assert scored(COUNT, run, expected(ExpectedCall(name="a", repeat=(1, 1_000_000)))).value == 1.0


def test_the_final_answer_is_compared_live():
    said = (Message(role="assistant", text='{"city": "Paris", "days": 3}', turn=1),)
    wanted = Expected(turns=((),), answer=ExpectedOutput(value={"city": "paris", "days": 3}))
    assert scored(SIMILARITY, trajectory(messages=said), wanted).value == 0.9
    assert not_evaluated(SIMILARITY, trajectory(), wanted) == "no_content"
