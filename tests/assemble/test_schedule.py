"""When something is due: lazily moved, never late, never missed."""

import weakref

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
