"""`ragas.*`: what Ragas 0.4.3 scores, habits included; the values were measured with the package."""

from tests.score.support import expect, expected, not_evaluated, scored, tool_call, trajectory
from toolgauge.model.content import NotRecorded, Unparsed
from toolgauge.model.outcomes import Errored
from toolgauge.originals.ragas import ToolCallAccuracy, ToolCallF1


def test_f1_takes_repeats_for_one_call_and_rounds():
    called = trajectory(*[tool_call("a", {"x": 1})] * 50)
    assert scored(ToolCallF1(), called, expected(expect("a", {"x": 1}))).value == 1.0
    outcome = scored(ToolCallF1(), called, expected(expect("a", {"x": 1}), expect("b")))
    assert outcome.value == 0.6667
    assert outcome.parts == {"precision": 1.0, "recall": 0.5}
    assert outcome.explanation == "1 of 2 different expected calls are among 1 different calls made"


def test_arguments_that_cannot_be_seen_are_not_scored():
    reference = expected(expect("a", {"x": 1}))
    for evaluator in (ToolCallF1(), ToolCallAccuracy()):
        for arguments, reason in (
            (NotRecorded(), "arguments_not_recorded"),
            (NotRecorded("redacted"), "redacted"),
            (Unparsed("{", "truncated"), "truncated"),
            (Unparsed("{"), "unparsable"),
        ):
            assert not_evaluated(evaluator, trajectory(tool_call("a", arguments=arguments)), reference) == reason
        assert not_evaluated(evaluator, trajectory()) == "no_reference"


def test_a_call_of_another_tool_needs_no_arguments_to_zero_accuracy():
    called = trajectory(tool_call("b", arguments=NotRecorded()))
    assert scored(ToolCallAccuracy(), called, expected(expect("a", {"x": 1}))).value == 0.0


def test_a_reference_that_the_original_does_not_know_is_an_error():
    evaluation = next(iter(ToolCallF1().evaluate(trajectory(), expected(expect("a", optional=True)))))
    assert evaluation is not None
    assert isinstance(evaluation[1], Errored)
    assert evaluation[1].error_type == "unsupported_reference"
