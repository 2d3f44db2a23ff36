"""`uipath.*` by the rules of uipath 2.14.44, warts included, and the same from trajectories."""

import json

import pytest

from tests.originals.support import result, score
from tests.rows import each_row
from tests.score.support import expected, judge, not_evaluated, scored, tool_call, trajectory
from toolgauge.model.content import NOT_RECORDED, Recorded
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


# -- arguments ------------------------------------------------------------------------------------------------------


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


def test_lines_can_be_compared_one_by_one():
    evaluator = JsonSimilarity(line_by_line_evaluator=True)
    assert score(evaluator, {"expected_output": "one\n\ntwo"}, {"output": "one\ntwo\nmore"}) == pytest.approx(2 / 3)


# -- live -----------------------------------------------------------------------------------------------------------


def test_what_could_not_be_seen_is_no_score():
    hidden = trajectory(tool_call("a", arguments=NOT_RECORDED, result=NOT_RECORDED))
    wanted = expected(ExpectedCall(name="a", args={"x": 1}, output=ExpectedOutput(value="v")))
    assert not_evaluated(ARGS, hidden, wanted) == "arguments_not_recorded"
    assert not_evaluated(OUTPUT, hidden, wanted) == "results_not_recorded"
    assert not_evaluated(ORDER, hidden, None) == "no_reference"
    assert scored(ARGS, hidden, expected(ExpectedCall(name="a", args={}))).value == 1.0


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
