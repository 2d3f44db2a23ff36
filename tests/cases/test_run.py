"""Cases scored one after the other: by the live evaluators, the originals, and evaluators that ask a judge."""

from dataclasses import replace

from tests.rows import each_row
from toolgauge.cases.case import Case
from toolgauge.cases.scoring import Cases, result_object
from toolgauge.model.json import JsonObject


def case(
    evaluator: str, expected: JsonObject, actual: JsonObject, *, config: JsonObject | None = None, pass_at: float = 1.0
) -> Case:
    return Case(
        place="here",
        name="c",
        evaluator=evaluator,
        config=config or {},
        expected=expected,
        actual=actual,
        pass_at=pass_at,
        verdicts=(),
    )


def said(scored: Case) -> JsonObject:
    return result_object(Cases().score(scored))


CALLS: JsonObject = {"calls": [{"name": "a", "args": {"x": 1}}, {"name": "b", "args": {"x": 2}}]}
SPANS: JsonObject = {"spans": [{"name": "s", "attributes": {"tool.name": "a", "input.value": '{"x": 1}'}}]}


def test_an_evaluator_of_ours_runs_on_the_shapes_of_others():
    wanted: JsonObject = {"tool_calls": [{"name": "a", "args": {"x": 1}}]}
    messages: JsonObject = {"messages": [{"role": "assistant", "tool_calls": CALLS["calls"]}]}
    for actual in (CALLS, SPANS, messages):
        result = said(case("tool_call_args", wanted, actual))
        assert (result["outcome"], result["value"]) == ("pass", 1.0)


@each_row("actual", [{"output": "done"}, {"trajectory": None}, {"output": "done", "messages": None}])
def test_a_trajectory_judge_of_strands_ends_in_an_error_where_no_trajectory_is_recorded(actual: JsonObject):
    result = said(judged(actual))
    assert (result["outcome"], result["reason"]) == ("error", "Exception")


def judged(actual: JsonObject) -> Case:
    verdict: JsonObject = {"score": 0.75, "test_pass": True, "reason": "r"}
    asking = case("strands.trajectory_judge", {}, actual, config={"rubric": "It makes sense."}, pass_at=0.5)
    return replace(asking, verdicts=(verdict,))


def test_details_show_values_and_what_the_original_says():
    result = said(case("uipath.tool_call_args", {"tool_calls": [{"name": "a", "args": {"x": 2}}]}, SPANS))
    assert result == {
        "id": "c",
        "outcome": "fail",
        "value": 0.0,
        "reason": None,
        "details": {
            "explanation": "0 of 1 expected calls were made with the expected arguments",
            "parts": {"matched": 0, "expected": 1, "calls": 1},
            "differences": [{"where": "`a`", "rule": "other arguments", "expected": {"x": 2}, "actual": {"x": 1}}],
            "original": {
                "details": {
                    "expected": "[ToolCall(name='a', args={'x': 2}, id=None)]",
                    "actual": "[ToolCall(name='a', args={'x': 1}, id=None)]",
                    "explained_tool_calls_args": {"a_0": "Actual: {'x': 1}, Expected: {'x': 2}, Score: 0.0"},
                }
            },
        },
    }


def test_an_evaluator_that_judges_calls_gives_their_mean():
    result = said(case("known_tool", {}, {"traces": [{"spans": [AGENT, TOOL | {"name": "a"}, TOOL]}]}, pass_at=0.4))
    assert (result["outcome"], result["value"]) == ("pass", 0.5)
    details = result["details"]
    assert isinstance(details, dict)
    assert isinstance(details["calls"], list)
    assert [call["outcome"] for call in details["calls"] if isinstance(call, dict)] == ["pass", "fail"]


def test_calls_that_a_tool_accepted_pass_with_any_mean():
    schema: JsonObject = {"properties": {"n": {"type": "integer"}}}
    agent: JsonObject = {**AGENT, "available_tools": [{"name": "z", "parameters": schema}]}
    for more, outcome in (({"result": "ok"}, "pass"), ({}, "fail")):
        tool: JsonObject = {**TOOL, "args": {"n": "one"}, **more}
        result = said(case("arguments_schema", {}, {"traces": [{"spans": [agent, tool]}]}))
        assert (result["outcome"], result["value"]) == (outcome, 0.0)


AGENT: JsonObject = {
    "type": "agent",
    "span_id": "r",
    "parent_span_id": None,
    "start": 0,
    "end": 9,
    "available_tools": [{"name": "a"}],
}
TOOL: JsonObject = {
    "type": "tool",
    "span_id": "t",
    "parent_span_id": "r",
    "start": 1,
    "end": 2,
    "name": "z",
    "args": {},
}


def test_a_wrong_parameter_names_itself_and_only_this_case_suffers():
    cases = Cases()
    broken = result_object(cases.score(case("uipath.tool_call_args", {}, SPANS, config={"stric": True})))
    assert broken["outcome"] == "error"
    assert broken["reason"] == "invalid_config"
    assert broken["details"] == {
        "explanation": "config: unknown parameter `stric` of evaluator `uipath.tool_call_args` (did you mean `strict`?)"
    }
    fine = case("uipath.tool_call_args", {"tool_calls": [{"name": "a", "args": {}}]}, SPANS)
    assert result_object(cases.score(fine))["outcome"] == "pass"
