"""`toolgauge.evaluate` on recordings, spans and messages."""

from pathlib import Path

import pytest

import toolgauge
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


@pytest.mark.parametrize("source", [3, None, b"bytes", {"resourceSpans": []}, [3], ["recording.otlp.pb", 3]])
def test_what_is_no_source_is_a_type_error(source: object):
    with pytest.raises(TypeError, match="give paths of recordings, spans of the OpenTelemetry SDK, or OTLP messages"):
        toolgauge.evaluate(source)  # pyright: ignore[reportArgumentType] # the value under test
