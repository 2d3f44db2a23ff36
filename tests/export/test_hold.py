from toolgauge.model.delivery import NO_ENTRY
from toolgauge.model.records import SpanRef
from toolgauge.otlp.envelope import Container
from toolgauge.pipeline.egress import ENTRY_BYTES, HeldSpan, Hold

A1 = SpanRef("a" * 32, "1" * 16)
A2 = SpanRef("a" * 32, "2" * 16)
B1 = SpanRef("b" * 32, "1" * 16)
SECOND = 1_000_000_000


FIRST, OTHER = Container((), b"", (), b""), Container((), b"", (), b"")


def new_hold(max_bytes: int = 1_000_000) -> Hold:
    return Hold(timeout_ns=30 * SECOND, max_bytes=max_bytes)


def test_the_spans_of_a_trace_leave_together_with_their_containers():
    hold = new_hold()
    assert hold.add(A1, FIRST, b"one", 0)
    assert hold.add(B1, FIRST, b"two", 1)
    assert hold.add(A2, OTHER, b"three", 2)
    assert hold.take(A1.trace_id) == [
        HeldSpan(A1, FIRST, b"one", 0, NO_ENTRY),
        HeldSpan(A2, OTHER, b"three", 2, NO_ENTRY),
    ]
    assert hold.spans == 1
    assert hold.bytes == 3 + ENTRY_BYTES


def test_a_span_that_is_already_held_goes_on():
    hold = new_hold()
    assert hold.add(A1, FIRST, b"x", 0)
    assert not hold.add(A1, FIRST, b"x", 1)
    assert hold.spans == 1


def test_a_span_for_which_there_is_no_room_goes_on():
    hold = new_hold(max_bytes=2 * (ENTRY_BYTES + 10))
    assert hold.add(A1, FIRST, b"x" * 10, 0)
    assert not hold.add(A2, FIRST, b"x" * 11, 0)
    assert hold.add(A2, FIRST, b"x" * 10, 0)
    assert not hold.add(B1, FIRST, b"", 0)
    hold.take(A1.trace_id)
    assert hold.bytes == 0
    assert hold.add(B1, FIRST, b"", 0)


def test_spans_expire_at_the_timeout_in_order_of_time():
    hold = new_hold()
    hold.add(A1, FIRST, b"1", 0)
    hold.add(B1, FIRST, b"2", SECOND)
    hold.add(A2, FIRST, b"3", 2 * SECOND)
    assert hold.expired(30 * SECOND - 1) == []
    assert [held.ref for held in hold.expired(31 * SECOND)] == [A1, B1]
    assert [held.ref for held in hold.take(A1.trace_id)] == [A2]
    assert (hold.spans, hold.bytes) == (0, 0)


def test_a_clock_set_back_does_not_keep_spans_until_it_has_caught_up():
    hold = new_hold()
    hold.add(A1, FIRST, b"1", 3600 * SECOND)
    assert [held.ref for held in hold.expired(0)] == [A1]


def test_everything_leaves_at_the_end():
    hold = new_hold()
    hold.add(A1, FIRST, b"1", 0)
    hold.add(B1, FIRST, b"2", 1)
    assert [held.ref for held in hold.take_all()] == [A1, B1]
    assert (hold.spans, hold.bytes) == (0, 0)
    assert hold.take_all() == []
    assert hold.expired(99 * SECOND) == []
    assert hold.add(A1, FIRST, b"1", 0)
