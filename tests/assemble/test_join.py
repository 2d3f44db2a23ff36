"""Joining requested and executed views to calls."""

from tests.assemble.support import agent, answered, args, executed, joined, model, only_call, reading, requested, shown
from toolgauge.model.content import Recorded
from toolgauge.model.observations import CallError


def test_a_request_and_its_tool_span_are_one_call():
    trajectory = joined(
        reading("run", agent("shopper"), start=0, end=10),
        reading("ask", model(), requested("get_weather", args(city="Paris"), id="c1"), parent="run", start=1, end=2),
        reading(
            "tool",
            executed("get_weather", args(city="Paris"), id="c1", result=Recorded(21)),
            parent="run",
            start=3,
            end=4,
        ),
    )
    call = only_call(trajectory)
    assert (call.name, call.arguments, call.result, call.state) == (
        "get_weather",
        args(city="Paris"),
        Recorded(21),
        "executed",
    )
    assert (call.call_id, call.agent, call.agent_path, call.dialect) == ("c1", "shopper", ("shopper",), "test")
    assert (call.start_ns, call.end_ns) == (3_000_000, 4_000_000)


def test_calls_of_one_output_are_one_turn_in_the_models_order():
    trajectory = joined(
        reading("ask", model(), requested("b", id="2", position=1), requested("a", id="1", position=0), start=0),
        reading("t1", executed("b", id="2"), parent="ask", start=5),
        reading("t2", executed("a", id="1"), parent="ask", start=6),
    )
    assert shown(trajectory) == [(0, 0, "a", "executed"), (0, 1, "b", "executed")]


def test_a_request_for_a_tool_that_is_not_there_is_rejected():
    trajectory = joined(
        reading("ask", model(), requested("get_wether", args(), id="1"), start=0),
        reading("ask2", model(), answered("1", error=CallError(kind="retry", message="no such tool")), start=5),
    )
    call = only_call(trajectory)
    assert (call.state, call.error) == ("rejected", CallError(kind="retry", message="no such tool"))
