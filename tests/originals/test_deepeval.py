"""`deepeval.tool_correctness`: what DeepEval 4.3.1 scores, habits included; the values were measured with the package."""

import pytest
from pydantic import ValidationError

from tests.rows import each_row
from tests.score.support import expect, expected, not_evaluated, scored, tool_call, trajectory
from toolgauge.model.content import NotRecorded, Recorded
from toolgauge.model.expected import ExpectedCall, ExpectedOutput
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import Errored, Scored
from toolgauge.originals.deepeval import ToolCorrectness
from toolgauge.recognize.values import MAX_DEPTH

NAMES = ToolCorrectness()
ARGUMENTS = ToolCorrectness(evaluation_params=("input_parameters",))
ORDERED = ToolCorrectness(evaluation_params=("input_parameters",), should_consider_ordering=True)
EXACT = ToolCorrectness(evaluation_params=("input_parameters",), should_exact_match=True)


def call(name: str, args: Json = None, **more: Json) -> JsonObject:
    return {"name": name, "args": args, **more}


def value(evaluator: ToolCorrectness, wanted: list[Json], made: list[Json]) -> float:
    outcome = evaluator.score_case({"calls": wanted}, {"calls": made}).outcome
    assert isinstance(outcome, Scored), outcome
    return outcome.value


def test_names_are_all_that_is_compared_unless_more_is_asked_for():
    called = trajectory(tool_call("a", {"x": 2}))
    assert scored(NAMES, called, expected(expect("a", {"x": 1}))).value == 1.0
    assert scored(ARGUMENTS, called, expected(expect("a", {"x": 1}))).value == 0.0


def test_arguments_beyond_the_expected_ones_cost_and_objects_count_by_their_share():
    assert value(ARGUMENTS, [call("a", {"x": 1})], [call("a", {"x": 1, "y": 2})]) == 0.5
    assert value(ARGUMENTS, [call("a", {"x": {"b": 1}})], [call("a", {"x": {"b": 1, "c": 2}})]) == 0.5
    wanted: JsonObject = {"x": {"b": {"c": 1, "d": 1}}, "y": 1}
    made: JsonObject = {"x": {"b": {"c": 1, "d": 2}, "e": 1}, "y": 1}
    assert value(ARGUMENTS, [call("a", wanted)], [call("a", made)]) == 0.625
    assert value(ARGUMENTS, [call("a", {"x": [{"b": 1}]})], [call("a", {"x": [{"b": 1, "c": 2}]})]) == 0.0


def test_true_is_one():
    assert value(ARGUMENTS, [call("a", {"x": 1})], [call("a", {"x": True})]) == 1.0


def test_two_equal_calls_are_taken_together():
    assert (
        value(NAMES, [call("a", {"x": 1}), call("a", {"x": 1})], [call("a", {"x": 1}), call("a", {"x": True})]) == 0.5
    )
    assert value(NAMES, [call("a", {"x": 1}), call("a", {"x": 1})], [call("a", {"x": 1}), call("a", {"x": 2})]) == 1.0
    # The type does not tell calls apart that are equal otherwise.
    assert value(NAMES, [call("a"), call("a", type="MCP")], [call("a"), call("a", type="MCP")]) == 0.5


def test_the_order_of_expected_calls_decides_who_takes_what():
    short, long = call("a", {"x": 1}), call("a", {"x": 1, "y": 2})
    made: list[Json] = [call("a", {"x": 1, "y": 2}), call("a", {"z": 0})]
    assert value(ARGUMENTS, [short, long], made) == 0.25
    assert value(ARGUMENTS, [long, short], made) == 0.5


def test_in_order_the_heaviest_common_subsequence_counts():
    wanted: list[Json] = [call("a", {"x": 1}), call("b", {})]
    assert value(ORDERED, wanted, [call("b", {}), call("a", {"x": 1})]) == 0.5
    assert value(ORDERED, wanted, [call("a", {"x": 1}), call("c", {}), call("b", {})]) == 1.0
    assert value(ORDERED, [call("a", {"x": 1})] * 2, [call("a", {"x": 1})] * 2) == 1.0


def test_exact_means_the_same_calls_at_the_same_places():
    wanted: list[Json] = [call("a", {"x": 1}), call("b", {})]
    assert value(EXACT, wanted, [call("a", {"x": 1.0}), call("b", {})]) == 1.0
    assert value(EXACT, wanted, [call("b", {}), call("a", {"x": 1})]) == 0.0
    assert value(EXACT, wanted, wanted[:1]) == 0.0
    assert value(EXACT, [call("a", type="MCP")], [call("a")]) == 0.0
    assert value(EXACT, [call("a", None)], [call("a", {})]) == 0.0


def test_outputs_count_where_asked_and_a_missing_one_is_null():
    evaluator = ToolCorrectness(evaluation_params=("output",))
    assert value(evaluator, [call("a", {}, output={"n": 1})], [call("a", {"x": 1}, output={"n": 1.0})]) == 1.0
    assert value(evaluator, [call("a", {}, output="x")], [call("a", {})]) == 0.0
    assert value(evaluator, [call("a", {}, output=None)], [call("a", {})]) == 1.0
    reference = expected(ExpectedCall(name="a", output=ExpectedOutput(value="ok")))
    assert scored(evaluator, trajectory(tool_call("a", result=Recorded("ok"))), reference).value == 1.0
    assert not_evaluated(evaluator, trajectory(tool_call("a")), reference) == "results_not_recorded"


@each_row("evaluator", [NAMES, ARGUMENTS, ORDERED, EXACT])
def test_empty_sides(evaluator: ToolCorrectness):
    assert value(evaluator, [], []) == 1.0
    assert value(evaluator, [], [call("a")]) == 0.0
    assert value(evaluator, [call("a")], []) == 0.0


@pytest.mark.parametrize("evaluator", [ARGUMENTS, ORDERED])
def test_null_arguments_break_the_original(evaluator: ToolCorrectness):
    outcome = evaluator.score_case({"calls": [call("a", None)]}, {"calls": [call("a", {})]}).outcome
    assert isinstance(outcome, Errored)
    assert outcome.error_type == "AttributeError"
    assert value(evaluator, [call("a", None)], [call("a", None)]) == 1.0
    assert value(evaluator, [call("a", None)], [call("b", {})]) == 0.0
    assert value(NAMES, [call("a", None)], [call("a", {})]) == 1.0


def test_null_arguments_that_are_never_met_do_no_harm_unless_order_is_considered():
    calls: list[Json] = [call("a", None), call("a", {"x": 1})]
    assert value(ARGUMENTS, calls[:1], calls[:1]) == 1.0
    backwards: list[Json] = [call("a", None)]
    assert value(ARGUMENTS, [call("a", None), call("a", {"x": 1})], backwards) == 0.5
    outcome = ORDERED.score_case({"calls": calls}, {"calls": backwards}).outcome
    assert isinstance(outcome, Errored)


def test_strict_mode_knows_only_one_and_zero():
    strict = ToolCorrectness(strict_mode=True, threshold=0.2)
    said = strict.score_case({"calls": [call("a"), call("b")]}, {"calls": [call("a")]})
    assert isinstance(said.outcome, Scored)
    assert (said.outcome.value, said.original) == (0.0, {"passed": False})


def test_the_threshold_says_what_the_original_would_have_passed():
    half: tuple[JsonObject, JsonObject] = ({"calls": [call("a"), call("b")]}, {"calls": [call("a")]})
    assert NAMES.score_case(*half).original == {"passed": True}
    assert ToolCorrectness(threshold=0.6).score_case(*half).original == {"passed": False}
    assert ToolCorrectness(threshold=None).score_case(*half).original == {"passed": None}
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


def test_values_as_deep_as_any_recorded_one_are_compared():
    deep: Json = {"a": 1}
    other: Json = {"a": 2}
    for _ in range(MAX_DEPTH - 1):
        deep, other = {"a": deep}, {"a": other}
    made = trajectory(tool_call("a", {"x": deep, "y": 1}))
    assert scored(ARGUMENTS, made, expected(expect("a", {"x": other, "y": 1}))).value == 0.5


CASES: list[tuple[JsonObject, str]] = [
    ({"tool_calls": []}, "there are no `calls`"),
    ({"calls": [call("a", {}, type="AGENT")]}, "`type` of `a` must be one of FUNCTION, MCP"),
    ({"calls": ["a"]}, "a call must be an object"),
    ({"calls": [call("a", {}), {}]}, "`expected.calls[1].name` must be a text, not null"),
]


@each_row(("wanted", "message"), CASES)
def test_cases_that_are_none_say_why(wanted: JsonObject, message: str):
    outcome = NAMES.score_case(wanted, {"calls": []}).outcome
    assert isinstance(outcome, Errored)
    assert outcome.error_type == "invalid_case"
    assert outcome.message.startswith(message)
