"""Calls that wait for a person, as joined from the traces of one run or of several."""

import pytest

from tests.assemble.support import agent, answered, args, executed, joined, model, only_call, reading, requested
from toolgauge.model.content import Recorded
from toolgauge.model.observations import PAUSED, REFUSED, CallAnswered, CallError, Reading
from toolgauge.model.trajectory import Trajectory

LATER = "0" * 31 + "2"
WAITS = CallError(kind=PAUSED, message="")
PAUSE = CallAnswered(call_id="c", name="wire", error=WAITS)
REFUSAL = CallAnswered(call_id="c", name="wire", error=CallError(kind=REFUSED, message=""))


def asked() -> list[Reading]:
    return [
        reading("run", agent("clerk"), PAUSE, end=10),
        reading("m", model(), requested("wire", args(n=1), id="c"), parent="run", start=1),
    ]


def test_an_execution_in_a_later_trace_counts_more_than_the_pause_in_an_earlier_one():
    ran = executed("wire", args(n=1), id="c", result=Recorded("done"))
    call = only_call(joined(*asked(), reading("t", ran, start=21, trace=LATER)))
    assert (call.state, call.result) == ("executed", Recorded("done"))


def test_an_execution_that_shows_nothing_leaves_the_call_paused():
    ran = executed("wire", args(n=1), id="c")
    assert only_call(joined(*asked(), reading("t", ran, parent="run", start=3))).state == "paused"


def states(trajectory: Trajectory) -> list[str]:
    return [call.state for call in trajectory.calls]


@pytest.mark.parametrize("name", ["wire", None])
def test_a_refusal_of_an_id_that_is_used_again_is_that_of_one_call(name: str | None):
    refusal = CallAnswered(call_id="c", name=name, error=REFUSAL.error)
    run = [
        reading("run", agent("clerk"), end=100),
        reading("m1", model(), requested("wire", args(n=1), id="c"), parent="run", start=1),
        reading("m2", model(), refusal, requested("wire", args(n=2), id="c"), parent="run", start=5),
        reading("t2", executed("wire", args(n=2), id="c", result=Recorded("x")), parent="run", start=7),
        reading("m3", model(), refusal, answered("c", "x"), parent="run", start=9),
    ]
    assert states(joined(*run)) == ["refused", "executed"]


def test_a_pause_of_an_id_that_is_used_again_hides_no_results():
    run = [
        reading("run", agent("clerk"), end=100),
        reading("m1", model(), requested("wire", args(n=1), id="c"), PAUSE, parent="run", start=1),
        reading("t1", executed("wire", args(n=1), id="c", result=Recorded("x")), parent="run", start=3),
        reading("m2", model(), requested("wire", args(n=2), id="c"), parent="run", start=5),
        reading("t2", executed("wire", args(n=2), id="c", result=Recorded("y")), parent="run", start=7),
    ]
    assert states(joined(*run)) == ["executed", "executed"]


def test_tool_spans_that_were_sent_twice_in_each_of_two_turns_are_two_calls():
    run = [reading("run", agent("clerk"), end=100)]
    for turn in range(2):
        for copy in "ab":
            run.append(reading(f"m{turn}{copy}", model(), requested("look"), parent="run", start=10 * turn + 1))
            run.append(reading(f"t{turn}{copy}", executed("look", args(n=1)), parent="run", start=10 * turn + 3))
    assert [call.turn for call in joined(*run).calls] == [0, 1]
