"""Joining a large trace: every call keeps both its views, and the work grows with the calls and no faster."""

from collections.abc import Callable

import pytest

from tests.assemble.support import TRACE, agent, args, executed, functions_called, log, model, reading, requested
from toolgauge.assemble.join import GatheredTrace, join
from toolgauge.model.observations import Reading
from toolgauge.model.trajectory import Trajectory


def joined(outputs: int) -> Trajectory:
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
    trajectory = join([trace], scope="trace", closed_because="idle")
    assert trajectory is not None
    return trajectory


def test_in_a_large_trace_every_call_has_both_its_views():
    trajectory = joined(1200)
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
    return functions_called(lambda: join([trace], scope="trace", closed_because="idle"))
