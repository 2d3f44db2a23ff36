"""When something is due: lazily moved, never late, never missed."""

import weakref

from tests.assemble.support import head
from toolgauge.assemble.cross_trace import RecentSpans
from toolgauge.assemble.open_trajectories import Schedule


def test_what_moved_later_is_due_later():
    due = {"a": 10, "b": 20}
    schedule = Schedule(due.get)
    for key, due_ns in due.items():
        schedule.note(key, due_ns)
    due["a"] = 30
    assert (schedule.pop_due(15), schedule.next_due_ns()) == (None, 20)
    assert (schedule.pop_due(20), schedule.next_due_ns()) == ("b", 30)


def test_what_moved_earlier_is_due_earlier():
    due = {"a": 30, "b": 20}
    schedule = Schedule(due.get)
    for key, due_ns in due.items():
        schedule.note(key, due_ns)
    due["a"] = 5
    schedule.note("a", 5)
    assert (schedule.pop_due(5), schedule.pop_due(5), schedule.pop_due(100), schedule.pop_due(100)) == (
        "a",
        None,
        "b",
        None,
    )


def test_of_those_that_are_due_together_the_first_noted_comes_first():
    due = {"z": 20, "a": 20, "m": 20}
    schedule = Schedule(due.get)
    for key in due:
        schedule.note(key, 10)
    assert [schedule.pop_due(20) for _ in due] == ["z", "a", "m"]


def test_what_is_gone_is_not_due():
    due = {"a": 10}
    schedule = Schedule(due.get)
    schedule.note("a", 10)
    del due["a"]
    schedule.forget("a")
    assert (schedule.next_due_ns(), schedule.pop_due(100)) == (None, None)


def test_what_was_forgotten_leaves_memory_before_its_time():
    class Key(str):
        """A key that can be watched; plain texts cannot."""

    far, soon = 10**12, 10
    schedule = Schedule(lambda _: None)
    watched: list[weakref.ref[Key]] = []
    for number in range(10_000):
        key = Key(f"trace {number}")
        watched.append(weakref.ref(key))
        schedule.note(key, far)
        schedule.note(key, soon)
        schedule.forget(key)
        del key
    assert sum(ref() is not None for ref in watched) < 2000


def test_recent_spans_are_bounded_and_given_away_once():
    recent = RecentSpans(2)
    heads = [head(f"h{number}") for number in range(6)]
    for one in heads:
        recent.add_heads([one])
    assert [one.span_id for one in recent.take_heads(heads[0].trace_id)] == [one.span_id for one in heads[4:]]
    assert recent.take_heads(heads[0].trace_id) == []


def test_recent_spans_come_back_with_their_parents():
    heads = [
        head("root"),
        head("child", parent="root", is_remote=False),
        head("served", parent="child", is_remote=True),
    ]
    recent = RecentSpans(10)
    for one in heads:
        recent.add_heads([one])
    assert [
        (one.trace_id, one.span_id, one.parent_span_id, bool(one.parent_is_remote))
        for one in recent.take_heads(heads[0].trace_id)
    ] == [(one.trace_id, one.span_id, one.parent_span_id, bool(one.parent_is_remote)) for one in heads]
