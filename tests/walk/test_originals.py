"""Evaluators that compare with a reference, live: recorded spans go in, the score comes out as an event."""

import pytest

from tests.rows import each_row
from tests.walk.support import Walk, attributes
from toolgauge.service.criteria_factory import load_for_replay

USER = "{name: get_user, args: {user_id: 7}}"
WEATHER = "{name: get_weather, args: {city: København, unit: celsius}}"
# What `multi_turn` did in its second turn, and what it did not.
EMAIL, OTHER = (
    f"{{name: send_email, args: {{to: zoe@example.com, subject: Weather, body: {body}}}}}"
    for body in ("11.5 celsius", "rainy")
)
THREE = f"expected: [{USER}, {WEATHER}, {OTHER}]"
TURNS = f"scope: conversation, expected_turns: [[{USER}], [{WEATHER}, {OTHER}]]"
ACCEPTED = (
    "allowed: [{name: get_weather, args: {city: [Kopenhagen, KØBENHAVN], unit: ['', celsius]}},"
    " {name: get_user, args: {user_id: [7]}}, {name: send_email, args: {to: [ZOE@example.com],"
    " subject: [vejret-i-københavn], body: ['11.5 °C', '115 °c zoë ågren']}}]"
)
CITIES = ("{city: Lima, unit: fahrenheit}", "{city: København, unit: celsius}", "{city: 東京, unit: celsius}")
PARALLEL = ", ".join(f"{{name: get_weather, args: {city}}}" for city in CITIES)
NAMES = "mode: exact, match: name, expected: [get_user, get_weather, send_email]"
ALPHA = "mode: exact, expected: [{name: flaky_lookup, args: {key: alpha}}]"


def said(criterion: str, framework: str = "pydantic-ai", scenario: str = "sequence3") -> dict[str, object]:
    """Send recorded spans through a pipeline with one criterion and return what its event says."""
    settings = (
        *("defaults.enabled=false", "events=all", "assemble.conversation_idle_timeout=20s"),
        f"criteria=[{{name: original, evaluator: {criterion}}}]",
    )
    walk = Walk(*settings, criteria=load_for_replay((), settings, (), {})[1])
    walk.send_folder(framework, scenario)
    walk.wait(400)
    (event,) = map(attributes, walk.events())
    return event


@each_row(
    ("criterion", "framework", "scenario", "value"),
    [
        ("agentevals.trajectory_match, expected: [get_weather, get_user, send_email]", "pydantic-ai", "sequence3", 0.0),
        (
            "agentevals.trajectory_match, trajectory_match_mode: superset, tool_args_match_overrides: {get_weather: [city]},"
            " expected: [{name: get_weather, args: {city: København}}]",
            *("pydantic-ai", "sequence3", 1.0),
        ),
        (
            "strands.in_order_match_scorer, expected: [get_user, send_email, get_weather]",
            *("pydantic-ai", "sequence3", 2 / 3),
        ),
        ("strands.tool_called, tool_name: send_email", "strands", "sequence3_latest", 1.0),
        ("strands.tool_called, tool_name: send_email", "pydantic-ai", "no_tool", 0.0),
        (f"bfcl.ast, {ACCEPTED}", "pydantic-ai", "sequence3", 1.0),
        (f"ragas.tool_call_f1, scope: conversation, {THREE}", "pydantic-ai", "multi_turn", 0.6667),
        (f"ragas.tool_call_accuracy, scope: conversation, {THREE}", "pydantic-ai", "multi_turn", 8 / 9),
        (
            f"deepeval.tool_correctness, scope: conversation, evaluation_params: [input_parameters], {THREE}",
            *("pydantic-ai", "multi_turn", 8 / 9),
        ),
        (f"adk.tool_trajectory, {TURNS}", "google-adk", "multi_turn_legacy", 0.5),
        (f"adk.tool_trajectory, {TURNS}", "pydantic-ai", "multi_turn", 0.5),
        (f"adk.tool_parameter_match, {TURNS}", "pydantic-ai", "multi_turn", (1 + 5 / 6) / 2),
        ("uipath.tool_call_order, expected: [get_user, pay, send_email, pay]", "pydantic-ai", "sequence3", 0.5),
        (
            f"uipath.tool_call_args, expected: [{WEATHER}, {{name: get_user, args: {{user_id: 8}}}}]",
            *("pydantic-ai", "sequence3", 0.5),
        ),
        (f"tool_trajectory, {NAMES}", "pydantic-ai", "mcp_sequence3", 1.0),
        (f"tool_trajectory, {NAMES}", "otel-util-genai", "sequence3", 1.0),
        (f"tool_trajectory, {NAMES}", "google-adk", "sequence3_full", 1.0),
        (f"tool_trajectory, mode: exact, expected: [{PARALLEL}]", "vercel-ai", "parallel", 1.0),
        (f"tool_trajectory, {ALPHA}", "vercel-ai", "retry", 2 / 3),
        (f"tool_trajectory, failed_calls: ignore, {ALPHA}", "vercel-ai", "retry", 1.0),
    ],
)
def test_recorded_calls_score_what_the_original_would_score(
    criterion: str, framework: str, scenario: str, value: float
):
    assert said(criterion, framework, scenario)["gen_ai.evaluation.score.value"] == pytest.approx(value)


@each_row(
    ("criterion", "value", "explanation"),
    [
        ("bfcl.ast, expected: [get_user]", 0.0, "multiple_function_checker:wrong_count"),
        (
            "tool_trajectory, match: name, expected: [get_weather, get_user, ask_user, send_email]",
            *(4 / 7, "out of order: `get_user`; missing: `ask_user`"),
        ),
        (
            "tool_trajectory, mode: superset, expected: [send_email], never_before: {send_email: [get_user]}",
            *(0.0, "too early: `get_user` before `send_email`"),
        ),
    ],
)
def test_what_differs_is_named(criterion: str, value: float, explanation: str):
    event = said(criterion)
    assert event["gen_ai.evaluation.score.value"] == pytest.approx(value)
    assert explanation in str(event["gen_ai.evaluation.explanation"])


def test_what_nobody_recorded_is_not_scored():
    event = said(f"adk.tool_trajectory, expected: [{WEATHER}]", "google-adk", "content_off")
    assert event["toolgauge.not_evaluated.reason"] == "arguments_not_recorded"


def test_adk_cannot_pair_other_numbers_of_turns():
    turns = f"expected_turns: [[{USER}], [{WEATHER}], [{EMAIL}]]"
    event = said(f"adk.tool_trajectory, scope: conversation, {turns}", "pydantic-ai", "multi_turn")
    assert (event["toolgauge.outcome"], event["error.type"]) == ("error", "ValueError")
