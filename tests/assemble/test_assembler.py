"""When a trace closes, what comes too late, and what happens at every limit."""

from tests.assemble.support import (
    SECOND_NS,
    agent,
    args,
    assembler,
    conversation,
    executed,
    head,
    log,
    model,
    only_call,
    reading,
    requested,
)
from tests.rows import each_row
from toolgauge.assemble.assembler import Assembler
from toolgauge.assemble.settings import AssembleSettings
from toolgauge.model.observations import MessageSeen, Reading
from toolgauge.model.trajectory import Trajectory

MINUTE_NS = 60 * SECOND_NS


def run_out(box: Assembler) -> tuple[int, Trajectory]:
    """Step the clock to whatever is due until a trajectory closes."""
    while (due_ns := box.next_due_ns()) is not None:
        for trajectory in box.closed(due_ns):
            return due_ns, trajectory
    raise AssertionError("nothing is open")


def test_run_closes_a_grace_after_its_root_has_come():
    box, _ = assembler()
    box.add(reading("tool", executed("search"), parent="run"), 0)
    box.add(reading("run", agent("shopper")), 1 * SECOND_NS)
    assert box.next_due_ns() == 7 * SECOND_NS
    assert list(box.closed(7 * SECOND_NS - 1)) == []
    (trajectory,) = box.closed(7 * SECOND_NS)
    assert (trajectory.closed_because, len(trajectory.calls), box.open_count, box.eviction.open_bytes) == (
        "run_ended",
        1,
        0,
        0,
    )
    assert box.next_due_ns() is None


def test_spans_within_the_grace_do_not_prolong_it():
    box, _ = assembler()
    box.add(reading("run", agent("shopper")), 0)
    box.add(reading("tool", executed("search"), parent="run"), 5 * SECOND_NS)
    due_ns, trajectory = run_out(box)
    assert (due_ns, len(trajectory.calls)) == (6 * SECOND_NS, 1)


@each_row("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2), (2, 0, 3, 1)])
def test_the_chain_of_parents_runs_through_unread_spans_in_any_order(order: tuple[int, ...]):
    box, _ = assembler()
    spans = (
        reading("run", agent("a"), parent="h1"),
        head("h1", parent="h2"),
        reading("h2", parent="h3", attributes=(("tier", "gold"),)),
        head("h3"),
    )
    for number in order:
        span = spans[number]
        if isinstance(span, Reading):
            box.add(span, number * 1000)
        else:
            box.add_heads([span], number * 1000)
    _, trajectory = run_out(box)
    assert (trajectory.closed_because, trajectory.attributes) == ("run_ended", {"tier": "gold"})


def test_without_a_missing_parent_a_trace_closes_when_idle():
    box, _ = assembler()
    box.add(reading("ask", model()), 0)
    box.add_heads([head("more", parent="ask")], 10 * SECOND_NS)
    due_ns, trajectory = run_out(box)
    assert (due_ns, trajectory.closed_because) == (40 * SECOND_NS, "idle")


def test_a_missing_local_parent_keeps_a_trace_open():
    box, _ = assembler()
    box.add(reading("tool", executed("search"), parent="run"), 0)
    due_ns, trajectory = run_out(box)
    assert (due_ns, trajectory.closed_because) == (15 * MINUTE_NS, "open_idle")


def test_a_remote_parent_that_never_comes_counts_as_idle():
    box, _ = assembler()
    box.add(reading("run", agent("a"), parent="caller", is_remote=True), 0)
    due_ns, trajectory = run_out(box)
    assert (due_ns, trajectory.closed_because) == (30 * SECOND_NS, "idle")


def test_a_trace_that_never_rests_closes_at_the_longest_duration():
    box, _ = assembler(AssembleSettings(max_duration=MINUTE_NS))
    for second in range(0, 60, 10):
        box.add(reading(f"t{second}", executed("poll"), parent="run", start=second), second * SECOND_NS)
    due_ns, trajectory = run_out(box)
    assert (due_ns, trajectory.closed_because, len(trajectory.calls)) == (MINUTE_NS, "max_duration", 6)


def test_a_trace_that_is_idle_when_its_longest_duration_ends_closes_as_idle():
    box, _ = assembler(AssembleSettings(idle_timeout=MINUTE_NS, max_duration=MINUTE_NS))
    box.add(reading("tool", executed("search"), parent="caller", is_remote=True), 0)
    due_ns, trajectory = run_out(box)
    assert (due_ns, trajectory.closed_because) == (MINUTE_NS, "idle")


def test_log_records_wait_for_their_span():
    box, _ = assembler()
    box.add(log("ask", requested("f", args(n=1), id="1")), 0)
    assert not list(box.closed(5 * SECOND_NS))
    box.add(reading("ask", model()), 5 * SECOND_NS)
    due_ns, trajectory = run_out(box)
    assert (due_ns, only_call(trajectory).arguments) == (35 * SECOND_NS, args(n=1))


def test_late_span_is_counted_and_not_rescored():
    box, metrics = assembler()
    box.add(reading("run", agent("shopper")), 0)
    assert len(list(box.closed(6 * SECOND_NS))) == 1
    assert not box.add(reading("tool", executed("search"), parent="run"), 8 * SECOND_NS)
    assert not box.add(reading("run", agent("shopper")), 9 * SECOND_NS)
    assert not box.add(reading("web", attributes=(("tier", "gold"),)), 9 * SECOND_NS)
    box.add_heads([head("h")], 9 * SECOND_NS)
    assert (metrics.late.cells[()].count, metrics.late.cells[()].sum) == (2, 5.0)
    assert list(box.close_all(60 * SECOND_NS)) == []


def test_oldest_trace_is_evicted_when_too_many_are_open():
    box, metrics = assembler(AssembleSettings(max_open=2))
    for number in range(3):
        box.add(reading("run", agent("shopper"), parent="far", trace=f"{number:032x}"), number)
    assert (box.open_count, box.next_due_ns()) == (2, 2)
    box.add(reading("tool", executed("late"), trace=f"{0:032x}"), 3)
    (trajectory,) = box.closed(5)
    assert (trajectory.trace_id, trajectory.closed_because) == (f"{0:032x}", "max_open")
    assert metrics.late.cells[()].count == 1


def test_what_no_longer_fits_when_limits_are_lowered_is_due_at_once_and_leaves_one_by_one():
    box, _ = assembler()
    for number in range(5):
        box.add(reading("run", agent("a"), parent="far", trace=f"{number:032x}"), number)
    box.adopt(AssembleSettings(max_open=2), conversations=False)
    assert (box.open_count, len(box.eviction), box.next_due_ns()) == (5, 0, 4)
    closing = box.closed(9)
    first = next(closing)
    assert (first.trace_id, first.closed_because, box.open_count) == (f"{0:032x}", "max_open", 4)
    # What comes meanwhile has its place: the oldest go.
    box.add(reading("run", agent("a"), parent="far", trace=f"{5:032x}"), 9)
    assert (box.open_count, len(box.eviction)) == (5, 0)
    assert [one.trace_id for one in closing] == [f"{number:032x}" for number in range(1, 4)]
    box.add(reading("run", agent("a"), parent="far", trace=f"{6:032x}"), 10)
    assert (box.open_count, len(box.eviction)) == (2, 1)


def test_bytes_that_no_longer_fit_leave_at_once_too():
    box, _ = assembler()
    said = MessageSeen(role="user", text="u" * 8000)
    for number in range(3):
        box.add(reading("run", agent("a"), said, parent="far", trace=f"{number:032x}"), number)
    box.adopt(AssembleSettings(max_open_bytes=12_000), conversations=False)
    assert [one.closed_because for one in box.closed(3)] == ["max_open_bytes"] * 2
    assert (box.open_count, box.next_due_ns()) == (1, 2 + 3 * MINUTE_NS)


def test_oldest_trace_is_evicted_when_open_traces_take_too_much():
    box, _ = assembler(AssembleSettings(max_open_bytes=15_000))
    said = MessageSeen(role="user", text="u" * 8000)
    box.add(reading("run", agent("a"), said, parent="far", trace=f"{1:032x}"), 0)
    box.add(reading("run", agent("b"), said, parent="far", trace=f"{2:032x}"), 1)
    (trajectory,) = box.closed(1)
    assert (trajectory.agents, trajectory.closed_because, box.open_count) == (("a",), "max_open_bytes", 1)
    assert 8000 < box.eviction.open_bytes < 15_000


def test_one_trace_that_is_too_large_alone_is_closed_with_what_came():
    box, _ = assembler(AssembleSettings(max_open_bytes=1000))
    box.add(reading("run", agent("a"), parent="far", size=5000), 0)
    assert (box.open_count, box.eviction.open_bytes) == (0, 0)
    (trajectory,) = box.close_all(1)
    assert trajectory.closed_because == "max_open_bytes"


def test_unread_spans_of_an_open_trace_count_against_its_bytes():
    box, _ = assembler(AssembleSettings(max_open_bytes=10_000))
    box.add(reading("run", agent("a"), parent="far"), 0)
    box.add_heads([head(f"h{number}", parent="run") for number in range(100)], 1)
    (trajectory,) = box.closed(1)
    assert trajectory.closed_because == "max_open_bytes"


def test_traces_of_no_agent_never_open():
    box, _ = assembler()
    box.add_heads([head("h")], 0)
    box.add(reading("web", attributes=(("tier", "gold"),)), 0)
    box.add(reading("page", conversation("c")), 0)
    assert (box.open_count, box.next_due_ns(), list(box.close_all(1))) == (0, None, [])


def test_what_came_before_a_trace_opened_is_not_lost():
    box, _ = assembler()
    box.add(reading("page", conversation("c"), parent="web", attributes=(("tier", "gold"),)), 0)
    box.add(reading("run", agent("a"), parent="page"), 1)
    (trajectory,) = box.close_all(2)
    assert (trajectory.conversation_id, trajectory.attributes) == ("c", {"tier": "gold"})


def test_messages_without_a_run_are_no_trajectory():
    box, _ = assembler()
    box.add(log("ask", MessageSeen(role="user", text="hello")), 0)
    assert (box.open_count, list(box.closed(MINUTE_NS * 20)), box.open_count) == (1, [], 0)
    box.add(reading("ask", agent("a")), MINUTE_NS * 21)
    assert len(list(box.close_all(MINUTE_NS * 22))) == 1


def test_a_clock_that_is_set_back_is_ignored():
    box, _ = assembler()
    box.add(reading("run", agent("a")), 100 * SECOND_NS)
    assert len(list(box.closed(106 * SECOND_NS))) == 1
    box.add(reading("run", agent("b"), trace="f" * 32), 1 * SECOND_NS)
    assert box.next_due_ns() == 112 * SECOND_NS
