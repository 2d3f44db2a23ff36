"""What spans around model outputs tell of them, when they tell it, and to which turn it belongs."""

from tests.assemble.support import (
    agent,
    answered,
    args,
    executed,
    joined,
    model,
    only_call,
    reading,
    requested,
    span_id,
)
from toolgauge.model.content import Recorded
from toolgauge.model.observations import CallError


def test_what_only_the_span_around_one_output_told_belongs_to_that_outputs_turn():
    trajectory = joined(
        reading("run", agent("shopper"), start=0, end=20),
        reading("node", requested("find", args(a=2), id="c2", position=1, usable=False), parent="run", start=1, end=5),
        reading("ask", model(), requested("find", args(a=1), id="c1"), parent="node", start=2, end=4),
        reading("tool", executed("find", args(a=1), id="c1"), parent="run", start=6, end=7),
        reading("again", model(), requested("find", args(a=3), id="c3"), parent="run", start=8, end=9),
    )
    assert [(call.call_id, call.turn, call.position, call.span.span_id) for call in trajectory.calls] == [
        ("c1", 0, 0, span_id("tool")),
        ("c2", 0, 1, span_id("ask")),
        ("c3", 1, 0, span_id("again")),
    ]


def test_span_around_several_outputs_does_not_tell_to_which_a_call_belongs():
    trajectory = joined(
        reading("node", requested("find", args(a=2), id="c2"), start=1, end=9),
        reading("ask", model(), requested("find", args(a=1), id="c1"), parent="node", start=2, end=4),
        reading("again", model(), requested("find", args(a=3), id="c3"), parent="node", start=5, end=6),
    )
    assert [(call.call_id, call.turn) for call in trajectory.calls] == [("c2", 0), ("c1", 1), ("c3", 2)]


def test_nested_spans_that_tell_of_one_call_tell_it_once():
    broken = requested("find", id="c1", usable=False)
    trajectory = joined(
        reading("outer", broken, start=0, end=9),
        reading("inner", broken, parent="outer", start=1, end=8),
        reading("ask", model(), parent="inner", start=2, end=4),
    )
    call = only_call(trajectory)
    assert (call.call_id, call.state, call.span.span_id) == ("c1", "rejected", span_id("ask"))


def test_an_answer_in_the_summary_of_a_run_came_after_the_request_within_it():
    refused = CallError(kind="_OTHER", message="no such tool")
    trajectory = joined(
        reading("run", agent("shopper"), answered("c1", "no such tool", error=refused), start=0, end=9),
        reading("ask", model(), requested("fnd", args(a=1), id="c1"), parent="run", start=1, end=2),
    )
    call = only_call(trajectory)
    assert call.result == Recorded("no such tool")
    assert call.error is not None
