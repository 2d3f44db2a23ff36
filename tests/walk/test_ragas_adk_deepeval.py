"""Originals live: recorded spans go in, the score of the original comes out as an event."""

from pathlib import Path

import pytest

from tests.walk.support import Walk, attributes
from toolgauge.service.criteria_factory import load_for_replay

# What `pydantic-ai/multi_turn` and `google-adk/multi_turn_legacy` did in their second of two user turns.
GET_USER = "{name: get_user, args: {user_id: 7}}"
GET_WEATHER = "{name: get_weather, args: {city: København, unit: celsius}}"
SEND_EMAIL = "{name: send_email, args: {to: zoe@example.com, subject: Weather, body: 11.5 celsius}}"
OTHER_EMAIL = "{name: send_email, args: {to: zoe@example.com, subject: Weather, body: rainy}}"


def said(folder: Path, criterion: str, framework: str, scenario: str) -> dict[str, object]:
    file = folder / "criteria.yaml"
    file.write_text(f"- {{name: original, scope: conversation, {criterion}}}\n")
    _, criteria = load_for_replay((), (), (str(file),), {})
    walk = Walk("events=all", "assemble.conversation_idle_timeout=20s", criteria=criteria)
    walk.send_folder(framework, scenario)
    walk.wait(90)
    (event,) = [told for told in map(attributes, walk.events()) if told["gen_ai.evaluation.name"] == "original"]
    return event


def score(folder: Path, criterion: str, framework: str = "pydantic-ai", scenario: str = "multi_turn") -> object:
    event = said(folder, criterion, framework, scenario)
    assert "gen_ai.evaluation.score.value" in event, event
    return event["gen_ai.evaluation.score.value"]


@pytest.mark.parametrize(
    ("criterion", "value"),
    [
        (f"evaluator: ragas.tool_call_f1, expected: [{GET_USER}, {GET_WEATHER}, {SEND_EMAIL}]", 1.0),
        (f"evaluator: ragas.tool_call_f1, expected: [{GET_USER}, {GET_WEATHER}, {OTHER_EMAIL}]", 0.6667),
        (f"evaluator: ragas.tool_call_accuracy, expected: [{GET_USER}, {GET_WEATHER}, {OTHER_EMAIL}]", 8 / 9),
        (f"evaluator: ragas.tool_call_accuracy, expected: [{GET_USER}, {SEND_EMAIL}, {GET_WEATHER}]", 0.0),
        (
            "evaluator: ragas.tool_call_accuracy, strict_order: false, "
            f"expected: [{GET_USER}, {SEND_EMAIL}, {GET_WEATHER}]",
            1.0,
        ),
    ],
)
def test_ragas_scores_recorded_calls(tmp_path: Path, criterion: str, value: float):
    assert score(tmp_path, criterion) == pytest.approx(value)


@pytest.mark.parametrize(
    ("parameters", "value"),
    [
        ("", 1.0),
        ("evaluation_params: [input_parameters],", 8 / 9),
        ("evaluation_params: [input_parameters], strict_mode: true,", 0.0),
        ("evaluation_params: [input_parameters, output], should_consider_ordering: true,", 0.0),
    ],
)
def test_deepeval_scores_recorded_calls(tmp_path: Path, parameters: str, value: float):
    calls = f"[{GET_USER}, {GET_WEATHER}, {OTHER_EMAIL}]"
    criterion = f"evaluator: deepeval.tool_correctness, {parameters} expected: {calls}"
    assert score(tmp_path, criterion) == pytest.approx(value)


@pytest.mark.parametrize(
    ("criterion", "value"),
    [
        ("evaluator: adk.tool_trajectory", 0.5),
        ("evaluator: adk.tool_trajectory, match_type: any-order, ignore_args: true", 1.0),
        ("evaluator: adk.tool_parameter_match", (1 + 5 / 6) / 2),
    ],
)
@pytest.mark.parametrize(
    ("framework", "scenario"), [("google-adk", "multi_turn_legacy"), ("pydantic-ai", "multi_turn")]
)
def test_adk_scores_each_user_turn(tmp_path: Path, framework: str, scenario: str, criterion: str, value: float):
    turns = f"expected_turns: [[{GET_USER}], [{GET_WEATHER}, {OTHER_EMAIL}]]"
    assert score(tmp_path, f"{criterion}, {turns}", framework, scenario) == pytest.approx(value)


def test_adk_does_not_score_arguments_that_nobody_recorded(tmp_path: Path):
    criterion = f"evaluator: adk.tool_trajectory, expected: [{GET_WEATHER}]"
    event = said(tmp_path, criterion, "google-adk", "content_off")
    assert event["toolgauge.not_evaluated.reason"] == "arguments_not_recorded"


def test_adk_cannot_pair_other_numbers_of_turns(tmp_path: Path):
    criterion = f"evaluator: adk.tool_trajectory, expected_turns: [[{GET_USER}], [{GET_WEATHER}], [{SEND_EMAIL}]]"
    event = said(tmp_path, criterion, "pydantic-ai", "multi_turn")
    assert (event["toolgauge.outcome"], event["error.type"]) == ("error", "ValueError")
