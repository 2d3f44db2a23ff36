"""Recorded spans in, the numbers of agentevals, Strands and BFCL out."""

from pathlib import Path

import pytest

from tests.walk.support import Walk, attributes
from toolgauge.service.criteria_factory import load_for_replay


def said(
    folder: Path, criterion: str, framework: str = "pydantic-ai", scenario: str = "sequence3"
) -> dict[str, object]:
    """Send recorded spans through a pipeline with one criterion and return what its event says."""
    file = folder / "criteria.yaml"
    file.write_text(f"- {{name: original, {criterion}}}\n")
    _, criteria = load_for_replay((), (), (str(file),), {})
    walk = Walk("events=all", criteria=criteria)
    walk.send_folder(framework, scenario)
    walk.wait(400)
    (event,) = [told for told in map(attributes, walk.events()) if told["gen_ai.evaluation.name"] == "original"]
    return event


def score(folder: Path, criterion: str, framework: str = "pydantic-ai", scenario: str = "sequence3") -> object:
    return said(folder, criterion, framework, scenario)["gen_ai.evaluation.score.value"]


WHOLE = "{name: get_user, args: {user_id: 7}}, {name: get_weather, args: {city: København, unit: celsius}}, {name: send_email}"


@pytest.mark.parametrize(
    ("parameters", "expected", "value"),
    [
        ("", WHOLE, 1.0),
        ("", "get_weather, get_user, send_email", 0.0),
        ("", "[get_user, get_weather], send_email", 0.0),
        ("trajectory_match_mode: unordered,", "get_weather, get_user, send_email", 1.0),
        ("trajectory_match_mode: superset,", "get_user", 1.0),
        ("trajectory_match_mode: subset,", "get_user", 0.0),
        ("trajectory_match_mode: superset,", "{name: get_user, args: {user_id: 8}}", 0.0),
        ("trajectory_match_mode: superset, tool_args_match_mode: ignore,", "{name: get_user, args: {user_id: 8}}", 1.0),
        (
            "trajectory_match_mode: superset, tool_args_match_overrides: {get_weather: [city]},",
            "{name: get_weather, args: {city: København}}",
            1.0,
        ),
    ],
)
def test_agentevals_compares_real_calls(tmp_path: Path, parameters: str, expected: str, value: float):
    criterion = f"evaluator: agentevals.trajectory_match, {parameters} expected: [{expected}]"
    assert score(tmp_path, criterion) == value


@pytest.mark.parametrize(
    ("scorer", "value"),
    [("exact_match_scorer", 1 / 3), ("in_order_match_scorer", 2 / 3), ("any_order_match_scorer", 1)],
)
def test_scorers_of_strands_compare_the_names_of_real_calls(tmp_path: Path, scorer: str, value: float):
    criterion = f"evaluator: strands.{scorer}, expected: [get_user, send_email, get_weather]"
    assert score(tmp_path, criterion) == pytest.approx(value)


def test_a_called_tool_is_found_and_no_call_is_a_zero(tmp_path: Path):
    called = "evaluator: strands.tool_called, tool_name: send_email"
    assert score(tmp_path, called, "strands", "sequence3_latest") == 1.0
    assert score(tmp_path, called, "pydantic-ai", "no_tool") == 0.0


ALLOWED = (
    "allowed: [{name: get_weather, args: {city: [Kopenhagen, KØBENHAVN], unit: ['', celsius]}},"
    " {name: get_user, args: {user_id: [7]}}, {name: send_email, args: %s}]"
)


def test_bfcl_accepts_real_calls_by_the_schemas_that_were_on_offer(tmp_path: Path):
    mail = "{to: [ZOE@example.com], subject: [vejret-i-københavn], body: ['11.5 °C', '115 °c zoë ågren']}"
    event = said(tmp_path, f"evaluator: bfcl.ast, {ALLOWED % mail}")
    assert event["toolgauge.outcome"] == "pass", event
    event = said(tmp_path, "evaluator: bfcl.ast, expected: [get_user]")
    assert event["gen_ai.evaluation.score.value"] == 0.0
    assert event["gen_ai.evaluation.explanation"] == "multiple_function_checker:wrong_count"


def test_bfcl_says_when_no_tools_on_offer_were_recorded(tmp_path: Path):
    event = said(tmp_path, "evaluator: bfcl.ast, expected: [get_user]", "pydantic-ai", "content_off")
    assert event["toolgauge.outcome"] == "not_evaluated"
