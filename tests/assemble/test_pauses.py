"""Joining a large trace pauses in each of its stages, and sorting with pauses is sorting."""

from collections.abc import Callable, Generator
from typing import TypeVar

import pytest

from tests.assemble.support import TRACE, agent, args, executed, functions_called, log, model, reading, requested
from toolgauge.assemble.join import GatheredTrace, joining
from toolgauge.assemble.pauses import Pace, in_order, parts
from toolgauge.model.observations import Reading
from toolgauge.model.trajectory import Trajectory

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


def joined_with_pauses(outputs: int) -> tuple[Trajectory, int]:
    """Join a run of so many model outputs, each with two calls; of the second nobody knows the id."""
    readings = [reading("run", agent("boss"), end=100_000_000)]
    for number in range(outputs):
        asked = requested("look", args(n=number), id=f"c{number}"), requested("book", args(n=number), position=1)
        ran = executed("look", args(n=number), id=f"c{number}"), executed("book", args(n=number))
        readings.append(reading(f"m{number}", model(), *asked, parent="run", start=10 * number))
        readings += [
            reading(f"{name}{number}", one, parent="run", start=10 * number + 2)
            for name, one in zip("ab", ran, strict=True)
        ]
    parents = {one.ref.span_id: one.parent_span_id for one in readings}
    trace = GatheredTrace(trace_id=TRACE, readings=readings, parents=parents)
    trajectory, pauses = run(joining([trace], scope="trace", closed_because="idle"))
    assert trajectory is not None
    return trajectory, pauses


def test_a_trace_as_most_are_is_joined_without_a_pause():
    trajectory, pauses = joined_with_pauses(4)
    assert (len(trajectory.calls), pauses) == (8, 0)


def test_a_large_trace_is_joined_with_pauses_and_every_call_has_both_its_views():
    trajectory, pauses = joined_with_pauses(1200)
    assert pauses >= 40
    assert [(call.turn, call.position, call.name) for call in trajectory.calls[-2:]] == [
        (1199, 0, "look"),
        (1199, 1, "book"),
    ]
    assert len(trajectory.calls) == 2400
    assert all(call.requested_by is not None and call.executed_by is not None for call in trajectory.calls)
    assert all(call.arguments == args(n=call.turn) for call in trajectory.calls)


def all_log_records_of_one_span_ask(count: int) -> list[Reading]:
    return [log("run", requested("look", args(n=number), id=f"c{number}"), start=number) for number in range(count)]


def all_log_records_of_one_span_show_calls(count: int) -> list[Reading]:
    return [log("run", executed("look", args(n=number), id=f"c{number}"), start=number) for number in range(count)]


def spans_that_are_no_models_ask(count: int) -> list[Reading]:
    return [
        reading(f"{number}", requested("look", args(n=number), id=f"c{number}"), parent="run", start=number)
        for number in range(count)
    ]


def a_model_span_sums_up_those_within_it(count: int) -> list[Reading]:
    asked = [requested("look", args(n=number), id=f"c{number}", position=number) for number in range(count)]
    return [
        reading(
            "sum", model(), *[requested("book", id=f"b{number}") for number in range(count)], parent="run", end=9000
        ),
        *[reading(f"{one.position}", model(), one, parent="sum", start=one.position + 1) for one in asked],
    ]


@pytest.mark.parametrize(
    "ask",
    [
        all_log_records_of_one_span_ask,
        all_log_records_of_one_span_show_calls,
        spans_that_are_no_models_ask,
        a_model_span_sums_up_those_within_it,
    ],
)
def test_four_times_as_many_calls_take_about_four_times_the_work(ask: Callable[[int], list[Reading]]):
    few, many = (_functions_called([reading("run", agent("boss"), end=10_000), *ask(count)]) for count in (100, 400))
    assert many < 5 * few


def _functions_called(readings: list[Reading]) -> int:
    parents = {one.ref.span_id: one.parent_span_id for one in readings if not one.is_log}
    trace = GatheredTrace(trace_id=TRACE, readings=readings, parents=parents)
    return functions_called(lambda: run(joining([trace], scope="trace", closed_because="idle")))
