"""When something is due, and what is remembered of closed traces and conversations."""

import weakref

from toolgauge.assemble.open_trajectories import ClosedIds, Schedule

# -- when something is due: lazily moved, never late, never missed


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


# -- what is remembered of what was closed: whether and when, in a few bytes

TRACE = "0af7651916cd43dd8448eb211c80319c"


def test_what_was_closed_is_known_for_a_while():
    closed = ClosedIds(10, 60)
    closed.add(TRACE, 100)
    assert [closed.holds(TRACE, now_ns) for now_ns in (100, 160, 161)] == [True, True, False]


def test_who_came_late_outlives_what_was_closed_after_it():
    closed = ClosedIds(2, 1000)
    closed.add("first", 0)
    closed.add("second", 1)
    closed.late_by_ns("first", 2)
    closed.add("third", 3)
    assert [closed.holds(name, 3) for name in ("first", "second", "third")] == [True, False, True]


def test_what_was_given_back_is_closed_no_more():
    closed = ClosedIds(10, 60)
    closed.add(TRACE, 0)
    closed.remove(TRACE)
    assert not closed.holds(TRACE, 0)


def test_as_many_are_remembered_as_allowed():
    closed = ClosedIds(1600, 10**9)
    names = [f"{number:032x}" for number in range(5000)]
    for now_ns, name in enumerate(names):
        closed.add(name, now_ns)
    assert [name for name in names if closed.holds(name, 5000)] == names[-1600:]
