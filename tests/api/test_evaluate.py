"""`toolgauge.evaluate` on recordings, spans and messages."""

from pathlib import Path

import pytest

import toolgauge
from tests.rows import each_row
from toolgauge.config.criteria import DEFAULT_CRITERIA as DEFAULTS
from toolgauge.evaluators import ToolCallArgs

CORPUS = Path(__file__).parents[1] / "corpus"
BAD_ARGUMENTS = CORPUS / "pydantic-ai" / "bad_args.otlp.pb"


def test_a_recording_gives_trajectories_with_results():
    evaluation = toolgauge.evaluate(BAD_ARGUMENTS)
    (evaluated,) = evaluation
    assert [call.name for call in evaluated.trajectory.calls] == ["get_weather", "get_weather"]
    assert not evaluation.passed
    broken, kept = evaluation["default.arguments_schema"]
    assert (broken.outcome, broken.passed, broken.value) == ("fail", False, 0.0)
    assert (kept.outcome, kept.passed, kept.value) == ("pass", True, 1.0)
    assert broken.call is evaluated.trajectory.calls[0]
    assert [(one.where, one.expected, one.actual) for one in broken.differences] == [
        ("get_weather: town", None, '"Lima"'),
        ("get_weather: city", None, None),
    ]
    assert str(broken) in evaluation.why


def test_expected_stands_beside_actual():
    criterion = toolgauge.Criterion(
        "weather",
        ToolCallArgs(),
        expected=[
            {"name": "get_weather", "args": {"town": "Lima"}},
            {"name": "get_weather", "args": {"city": "Quito"}},
        ],
    )
    evaluation = toolgauge.evaluate(BAD_ARGUMENTS, criterion, defaults=False)
    (result,) = evaluation.results
    (difference,) = result.differences
    assert (difference.expected, difference.actual) == ('"Quito"', '"Lima"')
    assert 'expected "Quito", got "Lima"' in result.why


def test_without_defaults_only_the_given_criteria_count():
    criterion = toolgauge.Criterion("f1", "tool_call_f1", expected=["get_weather", "get_weather"])
    evaluation = toolgauge.evaluate(BAD_ARGUMENTS, criterion, defaults=False)
    assert evaluation.criteria == ("f1",)
    assert evaluation.passed
    assert evaluation.why == ""


def test_what_scores_nothing_has_not_passed():
    evaluation = toolgauge.evaluate([])
    assert not evaluation.passed
    assert evaluation.why == "nothing was evaluated: the source has no trajectory"


def test_an_unknown_criterion_is_a_key_error():
    with pytest.raises(KeyError, match=r"there is default\.tool_success"):
        toolgauge.evaluate([])["default.tool_succes"]


@each_row("source", [3, None, b"bytes", {"resourceSpans": []}, [3], ["recording.otlp.pb", 3]])
def test_what_is_no_source_is_a_type_error(source: object):
    with pytest.raises(TypeError, match="give paths of recordings, spans of the OpenTelemetry SDK, or OTLP messages"):
        toolgauge.evaluate(source)  # pyright: ignore[reportArgumentType] # the value under test


async def test_what_is_evaluated_in_a_running_event_loop_may_be_looked_at_again():
    evaluation = toolgauge.evaluate(str(BAD_ARGUMENTS.parent / "multi_turn.01.otlp.pb"))
    assert len(evaluation) == len(list(evaluation)) == len(list(evaluation))
    assert repr(evaluation).startswith("<Evaluation ")
    assert next(repr(one) for one in evaluation).startswith("<EvaluatedTrajectory ")
    assert all(one.why == "" for one in evaluation) is evaluation.passed


def test_a_passing_default_of_any_score_is_no_pass():
    overrides = [f"defaults.{name}=false" for name in DEFAULTS if name not in ("tool_use", "coverage")]
    evaluation = toolgauge.evaluate(BAD_ARGUMENTS, overrides=overrides)
    assert {result.outcome for result in evaluation.results} == {"pass"}
    assert evaluation.why == "nothing was scored, so that nothing could pass"


def test_a_recording_that_cannot_be_read_is_an_error(tmp_path: Path):
    with pytest.raises(toolgauge.RecordingError, match="no such file"):
        toolgauge.evaluate(tmp_path / "nothing.otlp.pb")
    with pytest.raises(toolgauge.RecordingError, match="the path of a recording is empty"):
        toolgauge.evaluate("")


def test_configuration_and_overrides_count(tmp_path: Path):
    file = tmp_path / "toolgauge.yaml"
    file.write_text("criteria: [{name: few, evaluator: tool_call_f1, expected: [get_weather]}]\n")
    evaluation = toolgauge.evaluate(BAD_ARGUMENTS, config=file, overrides=["defaults.enabled=false"])
    assert evaluation.criteria == ("few",)
    with pytest.raises(toolgauge.ConfigError, match="unknown key `nothing`"):
        toolgauge.evaluate(BAD_ARGUMENTS, overrides=["nothing=1"])
