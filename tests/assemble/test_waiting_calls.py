"""The memory of calls that wait at the end of a trace."""

from msgspec.structs import replace

from tests.assemble.support import agent, args, conversation, executed, joined, model, reading, requested
from toolgauge.assemble.cross_trace import WaitingCalls
from toolgauge.model.observations import PAUSED, CallError
from toolgauge.model.trajectory import Trajectory

WAITS = CallError(kind=PAUSED, message="")


def waiting(conversation_id: str) -> Trajectory:
    asked = reading("m", model(), requested("wire", args(n=1), id="c"), parent="run", start=1)
    stopped = reading("t", executed("wire", args(n=1), id="c", error=WAITS), parent="run", start=2)
    return joined(reading("run", agent("clerk"), conversation(conversation_id), end=9), asked, stopped)


def resumed(conversation_id: str) -> Trajectory:
    """Return the trace that carries out the call, which looks like half a trace."""
    run = reading("run", agent("clerk"), conversation(conversation_id), end=99)
    ran = reading("t", executed("wire", args(n=1), id="c"), parent="run", start=2)
    return replace(joined(run, ran), split_sign="a tool ran for which the request of the model never came")


def test_a_waiting_call_explains_its_execution_in_a_later_trace_of_the_conversation():
    memory = WaitingCalls()
    assert memory.explained(waiting("x")).split_sign is None
    assert memory.explained(resumed("x")).split_sign is None
    assert memory.explained(resumed("y")).split_sign is not None


def test_the_oldest_waiting_calls_are_forgotten():
    memory = WaitingCalls(max_entries=6)
    for conversation_id in ("x", "y", "z"):
        memory.explained(waiting(conversation_id))
    assert memory.explained(resumed("x")).split_sign is not None
    assert memory.explained(resumed("z")).split_sign is None
