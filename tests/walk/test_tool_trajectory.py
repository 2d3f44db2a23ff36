"""Recorded spans in, the score of the order of calls out."""

from pathlib import Path

import pytest

from tests.walk.support import Walk, attributes
from toolgauge.service.criteria_factory import load_for_replay


def said(folder: Path, criterion: str, framework: str, scenario: str) -> dict[str, object]:
    """Send recorded spans through a pipeline with one criterion and return what its event says."""
    file = folder / "criteria.yaml"
    file.write_text(f"- {{name: path, evaluator: tool_trajectory, {criterion}}}\n")
    _, criteria = load_for_replay((), (), (str(file),), {})
    walk = Walk("events=all", criteria=criteria)
    walk.send_folder(framework, scenario)
    walk.wait(400)
    (event,) = [told for told in map(attributes, walk.events()) if told["gen_ai.evaluation.name"] == "path"]
    return event


SEQUENCES = [
    ("pydantic-ai", "sequence3"),
    ("pydantic-ai", "mcp_sequence3"),
    ("strands", "sequence3_latest"),
    ("otel-util-genai", "sequence3"),
    ("google-adk", "sequence3_full"),
]


@pytest.mark.parametrize(("framework", "scenario"), SEQUENCES)
def test_the_same_sequence_scores_the_same_from_any_producer(tmp_path: Path, framework: str, scenario: str):
    criterion = "mode: exact, match: name, expected: [get_user, get_weather, send_email]"
    event = said(tmp_path, criterion, framework, scenario)
    assert (event["gen_ai.evaluation.score.value"], event["toolgauge.outcome"]) == (1.0, "pass")


def test_a_missing_step_and_one_out_of_order_are_named(tmp_path: Path):
    criterion = "match: name, expected: [get_weather, get_user, ask_user, send_email]"
    event = said(tmp_path, criterion, "pydantic-ai", "sequence3")
    assert event["gen_ai.evaluation.score.value"] == pytest.approx(4 / 7)
    assert event["toolgauge.outcome"] == "fail"
    explanation = str(event["gen_ai.evaluation.explanation"])
    assert explanation.startswith(
        "2 of 4 expected calls are as expected, 3 made; out of order: `get_user`; missing: `ask_user`"
    )


def test_a_partial_order_with_optional_steps_holds_for_real_spans(tmp_path: Path):
    criterion = (
        "mode: partial_order, expected: [[{name: get_weather, args: {city: København, unit: celsius}},"
        " {name: get_user, args: {user_id: 7}}, {name: find_user, optional: true}], {name: send_email, repeat: [1, 2]}]"
    )
    event = said(tmp_path, criterion, "pydantic-ai", "sequence3")
    assert event["gen_ai.evaluation.score.value"] == 1.0


def test_a_mail_before_the_user_was_looked_up_is_too_early(tmp_path: Path):
    rule = "never_before: {send_email: [get_user], lookup_consent: send_email}"
    event = said(tmp_path, f"mode: superset, expected: [send_email], {rule}", "pydantic-ai", "sequence3")
    assert event["gen_ai.evaluation.score.value"] == 0.0
    assert str(event["gen_ai.evaluation.explanation"]).endswith(
        "too early: `get_user` before `send_email`, `send_email` before `lookup_consent`"
    )


CITIES = ("{city: Lima, unit: fahrenheit}", "{city: København, unit: celsius}", "{city: 東京, unit: celsius}")


@pytest.mark.parametrize("framework", ["strands", "vercel-ai", "otel-util-genai"])
def test_parallel_calls_have_no_order(tmp_path: Path, framework: str):
    calls = ", ".join(f"{{name: get_weather, args: {city}}}" for city in CITIES)
    event = said(tmp_path, f"mode: exact, expected: [{calls}]", framework, "parallel")
    assert event["gen_ai.evaluation.score.value"] == 1.0


def test_a_failed_try_counts_or_is_ignored(tmp_path: Path):
    criterion = "mode: exact, expected: [{name: flaky_lookup, args: {key: alpha}}]"
    event = said(tmp_path, criterion, "vercel-ai", "retry")
    assert event["gen_ai.evaluation.score.value"] == pytest.approx(2 / 3)
    assert str(event["gen_ai.evaluation.explanation"]).startswith(
        "1 of 1 expected calls are as expected, 2 made; repeated: `flaky_lookup`"
    )
    ignoring = said(tmp_path, f"failed_calls: ignore, {criterion}", "vercel-ai", "retry")
    assert ignoring["gen_ai.evaluation.score.value"] == 1.0


def test_a_criterion_that_cannot_be_names_the_evaluator_and_the_line(tmp_path: Path):
    with pytest.raises(Exception, match="`extra_calls` says nothing about `mode: subset`"):
        said(tmp_path, "mode: subset, extra_calls: count, expected: [a]", "pydantic-ai", "sequence3")
