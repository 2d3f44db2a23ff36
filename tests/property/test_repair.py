"""What outputs lost is in the next input: damage one output of a recorded run, and its calls are what they were."""

import random
from collections import Counter

import pytest

from tests.captures import Captured, sample
from tests.property.damage import (
    DAMAGES,
    Bench,
    Damage,
    Recording,
    damaged,
    recordings,
    repeated_outputs,
    shown,
    span_ids,
    without,
)

BENCH = Bench()
# The instrumentation joins the calls that were streamed together, and the history shows them apart.
GLUED = {("openinference-openai-js", "stream_parallel")}
_SEEDS = 3


def calls_after(recording: Recording, trace_id: str, span_id: str, damage: Damage) -> list[tuple[str, bytes, bool]]:
    requests = damaged(recording.requests, bytes.fromhex(span_id), damage)
    trajectory = BENCH.joined(requests, recording.logs).get(trace_id)
    return shown(trajectory.calls) if trajectory is not None else []


@pytest.mark.parametrize("damage", DAMAGES)
def test_one_damaged_output_changes_no_call(few_captured: Captured, damage: Damage):
    for recording in recordings(few_captured):
        whole = BENCH.joined(recording.requests, recording.logs)
        for output in repeated_outputs(BENCH, recording.requests):
            # Without its first output, a trace begins with an input whose calls may be of an earlier turn.
            if not (output.is_first and damage == "removed"):
                after = calls_after(recording, output.trace_id, output.span_id, damage)
                assert after == shown(whole[output.trace_id].calls), (recording.name, output.span_id)


def test_recordings_repeat_many_outputs():
    found = [
        output
        for captured in sample().values()
        for recording in recordings(captured)
        for output in repeated_outputs(BENCH, recording.requests)
    ]
    assert len(found) > 100
    assert sum(not output.is_first for output in found) > 50


def test_a_trace_without_its_first_output_gains_no_call(captured: Captured):
    for recording in recordings(captured):
        whole = BENCH.joined(recording.requests, recording.logs)
        for output in repeated_outputs(BENCH, recording.requests):
            if output.is_first:
                after = calls_after(recording, output.trace_id, output.span_id, "removed")
                assert Counter(call[0] for call in after) <= Counter(
                    call.name for call in whole[output.trace_id].calls
                ), recording.name


def test_recordings_as_they_are_need_no_repair(captured: Captured):
    for recording in recordings(captured):
        if (captured.folder, recording.name) not in GLUED:
            repaired = BENCH.joined(recording.requests, recording.logs)
            plain = BENCH.joined(recording.requests, recording.logs, repairs=False)
            assert {trace: shown(one.calls) for trace, one in repaired.items()} == {
                trace: shown(one.calls) for trace, one in plain.items()
            }, recording.name


def test_whatever_spans_are_missing_repair_invents_no_call(few_captured: Captured):
    for recording in recordings(few_captured):
        whole = BENCH.joined(recording.requests, recording.logs)
        for seed in range(_SEEDS):
            chance = random.Random(seed)  # noqa: S311 - nothing is kept secret
            rest = without(recording.requests, {one for one in span_ids(recording.requests) if chance.random() < 0.3})
            plain = BENCH.joined(rest, recording.logs, repairs=False)
            for trace_id, trajectory in BENCH.joined(rest, recording.logs).items():
                made = Counter(call.name for call in whole[trace_id].calls) if trace_id in whole else Counter[str]()
                # Where the two views of a call are not found to be one, both are calls, with or without a repair.
                allowed = made | Counter(call.name for call in plain[trace_id].calls)
                assert Counter(call.name for call in trajectory.calls) <= allowed, (recording.name, seed)
