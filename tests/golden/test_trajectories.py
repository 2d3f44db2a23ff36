"""Live, agentevals is given a trajectory and expected calls in place of messages: the score stays the same."""

from pathlib import Path

from msgspec.structs import replace

from tests.golden.goldens import Golden, read_goldens
from toolgauge.cases.actual import trajectory_of
from toolgauge.cases.expectations import expected_of
from toolgauge.model.outcomes import Errored, Outcome, Scored
from toolgauge.model.records import SpanRef
from toolgauge.originals.agentevals import TrajectoryMatch

MODEL = SpanRef(f"{1:032x}", f"{1:016x}")


def live(golden: Golden) -> Outcome:
    """Score the case as if its calls had been seen in outputs of a model."""
    told = trajectory_of(golden.case.actual)
    told = replace(told, calls=tuple(replace(call, requested_by=MODEL) for call in told.calls))
    evaluator = TrajectoryMatch.model_validate(golden.case.config)
    *_, last = evaluator.evaluate(told, expected_of(golden.case.expected))
    assert last is not None
    return last[1]


def agrees(golden: Golden) -> bool:
    outcome = live(golden)
    if "error" in golden.said:
        return isinstance(outcome, Errored)
    return isinstance(outcome, Scored) and outcome.value == golden.said["score"]


def test_a_trajectory_scores_what_its_messages_score():
    goldens = [
        golden
        for golden in read_goldens(Path(__file__).parent)
        if golden.case.evaluator == "agentevals.trajectory_match"
    ]
    assert len(goldens) == 160
    # It says one thing more at its end, which no criterion can expect.
    assert [golden.case.name for golden in goldens if not agrees(golden)] == ["agentevals.trajectory_match/s0045"]
