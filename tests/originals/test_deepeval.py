"""`deepeval.tool_correctness`: what DeepEval 4.3.1 scores, habits included; the values were measured with the package."""

import pytest
from pydantic import ValidationError

from tests.originals.support import result, score
from tests.score.support import expect, expected, not_evaluated, scored, tool_call, trajectory
from toolgauge.model.content import NotRecorded, Recorded
from toolgauge.model.expected import ExpectedCall, ExpectedOutput
from toolgauge.model.json import Json, JsonObject
from toolgauge.originals.deepeval import ToolCorrectness

NAMES = ToolCorrectness()
ARGUMENTS = ToolCorrectness(evaluation_params=("input_parameters",))


def call(name: str, args: Json = None, **more: Json) -> JsonObject:
    return {"name": name, "args": args, **more}


def value(evaluator: ToolCorrectness, wanted: list[Json], made: list[Json]) -> float | str:
    return score(evaluator, {"calls": wanted}, {"calls": made})


def test_outputs_count_where_asked_and_a_missing_one_is_null():
    evaluator = ToolCorrectness(evaluation_params=("output",))
    assert value(evaluator, [call("a", {}, output={"n": 1})], [call("a", {"x": 1}, output={"n": 1.0})]) == 1.0
    assert value(evaluator, [call("a", {}, output="x")], [call("a", {})]) == 0.0
    assert value(evaluator, [call("a", {}, output=None)], [call("a", {})]) == 1.0
    reference = expected(ExpectedCall(name="a", output=ExpectedOutput(value="ok")))
    assert scored(evaluator, trajectory(tool_call("a", result=Recorded("ok"))), reference).value == 1.0
    assert not_evaluated(evaluator, trajectory(tool_call("a")), reference) == "results_not_recorded"


def test_the_threshold_says_what_the_original_would_have_passed():
    half: tuple[JsonObject, JsonObject] = ({"calls": [call("a"), call("b")]}, {"calls": [call("a")]})
    assert result(NAMES, *half).original == {"passed": True}
    assert result(ToolCorrectness(threshold=0.6), *half).original == {"passed": False}
    assert result(ToolCorrectness(threshold=None), *half).original == {"passed": None}
    called = trajectory(tool_call("a"))
    assert scored(NAMES, called, expected(expect("a"), expect("b"))).parts == {"passed": 1.0}


def test_parameters_that_ask_a_judge_are_refused():
    with pytest.raises(ValidationError, match="asks a judge"):
        ToolCorrectness.model_validate({"available_tools": [{"name": "a"}]})
    assert ToolCorrectness.model_validate({"available_tools": None}) == NAMES


def test_names_need_no_arguments_to_be_recorded():
    called = trajectory(tool_call("a", arguments=NotRecorded()), tool_call("b", arguments=NotRecorded()))
    assert scored(NAMES, called, expected(expect("a"))).value == 1.0
    assert not_evaluated(ARGUMENTS, called, expected(expect("a", {"x": 1}))) == "arguments_not_recorded"
    assert scored(ARGUMENTS, called, expected(expect("c", {"x": 1}))).value == 0.0


def test_a_call_of_another_kind_of_tool_is_another_call():
    assert value(NAMES, [call("a", {}, type="MCP")], [call("a", {})]) == 0.0
    assert value(NAMES, [call("a", {}, type="FUNCTION")], [call("a", {})]) == 1.0
    assert value(NAMES, [call("a", {}, type="MCP")], [call("a", {}, type="MCP")]) == 1.0
