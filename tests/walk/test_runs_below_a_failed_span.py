"""A run that raised and whose span never ends, as openinference-smolagents leaves it: later runs of the process hang below it."""

import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans

from tests.cli.command import run
from tests.recordings.corpus import diagnosed_with_trajectories
from tests.walk.shapes import ERROR, OK, request, span
from tests.walk.support import MemoryJournal, Walk, attributes
from tests.walk.test_feedback import cells
from toolgauge.model.json import Json

SCOPE, KIND = "openinference.instrumentation.smolagents", "openinference.span.kind"
NEVER_ENDS = "crashed"


def failed_step(*, fails: bool = True) -> list[ScopeSpans]:
    """Return the step and the call of a run that raised at 0 s: its own span is not among it."""
    status = ERROR if fails else OK
    step = span("Step 1", {KIND: "CHAIN"}, id="step", parent=NEVER_ENDS, scope=SCOPE, status=status, message="boom")
    return [call("find0", "step", 0), step]


def later_run(name: str, at: float, parent: str = NEVER_ENDS, call_id: str = "") -> list[ScopeSpans]:
    """Return a run of two calls that ended 2 s after it began."""
    own = span("CodeAgent.run", {KIND: "AGENT"}, id=name, parent=parent, at=at, seconds=2, scope=SCOPE)
    return [call(f"{name}0", name, at, call_id), call(f"{name}1", name, at + 1), own]


def call(id: str, parent: str, at: float, call_id: str = "") -> ScopeSpans:
    kept: dict[str, Json] = {
        KIND: "TOOL",
        "tool.name": "find",
        "input.value": {"id": at},
        "output.value": f"found {at}",
    }
    if call_id:
        kept["tool_call.id"] = call_id
    return span("find", kept, id=id, parent=parent, at=at, seconds=0.05, scope=SCOPE)


def end_of_all() -> list[ScopeSpans]:
    return [span("CodeAgent.run", {KIND: "AGENT"}, id=NEVER_ENDS, parent=None, seconds=900, scope=SCOPE)]


def send(walk: Walk, spans: Sequence[ScopeSpans]) -> None:
    walk.send(request(*spans, service="smol-shop").SerializeToString())


def closed(walk: Walk) -> Counter[str]:
    """Return how many trajectories were closed, by why."""
    return Counter(str(attributes(each)["toolgauge.closed_because"]) for each in walk.scorecards())


def counted_calls(walk: Walk) -> float:
    return sum(cells(walk, "toolgauge.tool_calls").values())


def test_runs_below_a_span_that_failed_are_scored_six_seconds_after_their_end():
    walk = Walk()
    send(walk, [*failed_step(), *later_run("second", 10)])
    walk.wait(170)
    assert walk.scorecards() == []
    walk.wait(20)
    assert closed(walk) == {"parent_missing": 1}
    send(walk, later_run("third", 190))
    walk.wait(5)
    assert len(walk.scorecards()) == 1
    walk.wait(3)
    assert closed(walk) == {"parent_missing": 2}
    assert counted_calls(walk) == 4
    first, second = walk.scorecards()
    assert first.span_id != second.span_id
    assert attributes(first)["toolgauge.incomplete"] is True


@pytest.mark.parametrize("ends", [True, False])
def test_nothing_is_scored_twice_when_the_whole_trace_closes(*, ends: bool):
    walk = Walk()
    send(walk, [*failed_step(), *later_run("second", 10), *later_run("third", 20)])
    walk.wait(190)
    # A repetition, and a late span.
    send(walk, later_run("second", 10))
    send(walk, [call("late", "third", 21)])
    if ends:
        send(walk, end_of_all())
    walk.wait(16 * 60)
    assert counted_calls(walk) == 5
    assert walk.pipeline.assembler.open_count == 0
    assert walk.pipeline.assembler.eviction.open_bytes == 0
    rest = attributes(walk.scorecards()[-1])
    assert rest["toolgauge.closed_because"] == ("run_ended" if ends else "open_idle")
    assert rest["toolgauge.incomplete"] is True


def test_agents_that_an_agent_waits_for_stay_parts_of_its_run():
    walk = Walk()
    send(walk, [*failed_step(fails=False), *later_run("second", 10), *later_run("third", 20)])
    walk.wait(400)
    assert walk.scorecards() == []
    send(walk, end_of_all())
    walk.wait(7)
    assert closed(walk) == {"run_ended": 1}
    assert counted_calls(walk) == 5


def test_a_run_that_went_on_after_a_failure_of_its_own_keeps_its_agents():
    walk = Walk()
    went_on = span("Step 2", {KIND: "CHAIN"}, id="step2", parent=NEVER_ENDS, at=30, scope=SCOPE, status=ERROR)
    send(walk, [*failed_step(), *later_run("second", 10), went_on])
    walk.wait(400)
    assert walk.scorecards() == []


def test_a_process_that_takes_up_the_trace_scores_no_run_again():
    journal = MemoryJournal()
    before = Walk(journal=journal)
    send(before, [*failed_step(), *later_run("second", 10)])
    before.wait(190)
    assert counted_calls(before) == 2
    after = Walk(journal=journal)
    after.recover()
    send(after, later_run("third", 190))
    after.wait(200)
    assert counted_calls(after) == 2
    after.wait(16 * 60)
    assert counted_calls(after) == 3
    assert [entry for entry in journal.left() if not entry.own] == []


def test_a_trace_that_waits_is_named_once(caplog: pytest.LogCaptureFixture):
    walk = Walk()
    with caplog.at_level(logging.WARNING, "toolgauge"):
        send(walk, failed_step())
        walk.wait(178)
        assert caplog.records == []
        walk.wait(400)
    (record,) = caplog.records
    assert "a trace of smol-shop has waited 3 m for span" in record.getMessage()
    assert walk.metrics.traces_waiting.current() == {(): 1}
    walk.wait(16 * 60)
    assert walk.metrics.traces_waiting.current() == {(): 0}


def test_the_runs_of_a_process_that_went_on_after_a_crash_are_found_in_a_recording():
    """One run, one that raised in its second step and two more: smolagents 1.26.0, openinference-instrumentation-smolagents 0.1.43."""
    file = Path(__file__).parents[1] / "recordings" / "crashed" / "openinference-smolagents.otlp.pb"
    _, found = diagnosed_with_trajectories([str(file)])
    closed = [(one.closed_because, [call.name for call in one.calls], one.incomplete is None) for one in found]
    assert closed == [
        ("run_ended", ["find", "final_answer"], True),
        ("parent_missing", ["find", "final_answer"], False),
        ("parent_missing", ["find", "final_answer"], False),
        ("open_idle", ["find"], False),
    ]
    assert "parent missing: 2 runs" in run("doctor", str(file)).err
