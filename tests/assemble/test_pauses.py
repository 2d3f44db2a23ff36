"""Joining a large trace pauses in each of its stages, and sorting with pauses is sorting."""

from collections.abc import Generator
from typing import TypeVar

from toolgauge.assemble.pauses import Pace, in_order, parts

_T = TypeVar("_T")


def run(steps: Generator[None, None, _T]) -> tuple[_T, int]:
    """What came of the steps, and how many pauses there were."""
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, pauses
        pauses += 1


def test_what_comes_in_order_stays_and_is_looked_at_with_pauses():
    ordered, pauses = run(in_order(range(10_000), lambda number: number, Pace()))
    assert ordered == list(range(10_000))
    assert pauses >= 6


def test_sorting_with_pauses_is_sorting_and_keeps_equals_as_they_came():
    pairs = [(number * number % 47, number) for number in range(5_003)]
    ordered, pauses = run(in_order(pairs, lambda pair: pair[0], Pace()))
    assert ordered == sorted(pairs, key=lambda pair: pair[0])
    assert pauses >= 3


def test_what_is_short_is_sorted_at_once():
    assert run(in_order((3, 1, 2), lambda number: number, Pace())) == ([1, 2, 3], 0)
    assert run(in_order(range(0), lambda number: number, Pace())) == ([], 0)


def test_parts_leave_nothing_out():
    assert [list(part) for part in parts(range(3))] == [[0, 1, 2]]
    assert [number for part in parts(range(1234)) for number in part] == list(range(1234))
    assert max(map(len, parts(range(1234)))) <= 500
