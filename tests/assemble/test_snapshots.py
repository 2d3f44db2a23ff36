"""Producers that send a copy of a span when it begins, and the whole span when it has ended."""

from itertools import permutations

from msgspec.structs import replace

from tests.assemble.support import (
    SECOND_NS,
    agent,
    args,
    assembler,
    conversation,
    executed,
    model,
    only_call,
    reading,
    requested,
)
from tests.rows import each_row
from toolgauge.model.content import Recorded
from toolgauge.model.observations import CallError, Reading

FAILURE = CallError(kind="ValueError", message="boom")
TOOL = reading("tool", executed("search", args(q="x"), id="1", error=FAILURE), parent="run", start=3, end=5)
MODEL = reading("model", model(), requested("search", args(q="x"), id="1"), parent="run", start=1, end=2)
RUN = reading("run", agent("shopper"), start=0, end=9)


def begun(span: Reading) -> Reading:
    """Return the copy of a span that was sent when it began: without an end, and without how it ended."""
    seen = [replace(one, error=None) if isinstance(one, type(executed(""))) else one for one in span.observations]
    return replace(span, end_ns=0, start_ns=span.start_ns + 1, observations=tuple(seen), size_bytes=span.size_bytes - 9)


@each_row("order", list(permutations((begun(TOOL), TOOL, begun(RUN), RUN)))[::3])
def test_the_copy_of_a_span_that_has_ended_counts_whatever_came_first(order: tuple[Reading, ...]):
    box, _ = assembler()
    for one in (MODEL, *order):
        box.add(one, 0)
    (trajectory,) = box.closed(6 * SECOND_NS)
    call = only_call(trajectory)
    assert (call.state, call.error, trajectory.closed_because, trajectory.incomplete) == (
        "executed",
        FAILURE,
        "run_ended",
        None,
    )
    assert box.eviction.open_bytes == 0


@each_row(
    ("earlier", "later"),
    [
        (replace(TOOL, observations=(executed("search", args(q="x"), id="1"),), end_ns=4_000_000), TOOL),
        (replace(TOOL, observations=(executed("search", args(q="x"), id="1"),), size_bytes=400), TOOL),
        (begun(TOOL), replace(begun(TOOL), observations=TOOL.observations)),
    ],
    ids=["ends later", "ends at the same time", "both go on"],
)
def test_of_two_copies_the_later_one_counts(earlier: Reading, later: Reading):
    box, _ = assembler()
    for one in (MODEL, earlier, later, RUN):
        box.add(one, 0)
    (trajectory,) = box.closed(6 * SECOND_NS)
    assert only_call(trajectory).error == FAILURE


def test_a_run_that_has_only_begun_is_not_scored_as_finished():
    box, _ = assembler()
    for one in (begun(RUN), MODEL, replace(TOOL, observations=(executed("search", id="1", result=Recorded("ok")),))):
        box.add(one, 0)
    assert list(box.closed(60 * SECOND_NS)) == []
    (trajectory,) = box.closed(900 * SECOND_NS)
    assert (trajectory.closed_because, trajectory.incomplete) == (
        "open_idle",
        "a run of it had not ended when it was closed (open_idle)",
    )


def test_a_call_that_goes_on_when_its_run_stops_has_neither_run_nor_failed():
    box, _ = assembler()
    for one in (begun(RUN), MODEL, begun(TOOL)):
        box.add(one, 0)
    (trajectory,) = box.close_all(1)
    assert (only_call(trajectory).state, only_call(trajectory).error) == ("paused", None)


def test_copies_with_nothing_but_a_session_wait_for_their_trace():
    box, _ = assembler()
    http = reading("http", conversation("c"), start=0, end=10)
    for one in (begun(http), http, replace(RUN, parent_span_id=http.ref.span_id), MODEL, TOOL):
        box.add(one, 0)
    (trajectory,) = box.closed(6 * SECOND_NS)
    assert (trajectory.conversation_id, trajectory.closed_because) == ("c", "run_ended")
