"""Joining a large trace: every call keeps both its views, and the work grows with the calls and no faster."""

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import TypeAlias

from tests.assemble.support import (
    TRACE,
    agent,
    answered,
    args,
    executed,
    functions_called,
    log,
    model,
    reading,
    requested,
)
from tests.rows import each_row
from toolgauge.assemble.join import GatheredTrace, join
from toolgauge.model.content import Recorded
from toolgauge.model.observations import PAUSED, CallError, CodeExecuted, Reading, SpanFailed


def all_log_records_of_one_span_ask(count: int) -> list[Reading]:
    return [log("run", requested("look", args(n=number), id=f"c{number}"), start=number) for number in range(count)]


def a_model_span_sums_up_those_within_it(count: int) -> list[Reading]:
    asked = [requested("look", args(n=number), id=f"c{number}", position=number) for number in range(count)]
    return [
        reading(
            "sum", model(), *[requested("book", id=f"b{number}") for number in range(count)], parent="run", end=9000
        ),
        *[reading(f"{one.position}", model(), one, parent="sum", start=one.position + 1) for one in asked],
    ]


def many_tool_spans_come_twice(count: int) -> list[Reading]:
    return [
        one
        for number in range(count)
        for one in (
            reading(f"m{number}", model(), requested("look"), parent="run", start=2 * number),
            *(reading(f"{copy}{number}", executed("look"), parent="run", start=2 * number + 1) for copy in "ab"),
        )
    ]


def all_calls_share_one_id(count: int) -> list[Reading]:
    asked = [requested(f"look{number}", args(n=number), id="c", position=number) for number in range(count)]
    ran = [executed(f"look{number}", args(n=-number), id="c", result=Recorded("ok")) for number in range(count)]
    return [
        reading("m", model(), *asked, parent="run"),
        *[reading(f"{number}", one, parent="run", start=number + 1) for number, one in enumerate(reversed(ran))],
        reading("next", model(), *[answered("c", "ok")] * count, parent="run", start=9000),
    ]


def equal_calls_wait(count: int) -> list[Reading]:
    waits = executed("look", args(n=1), error=CallError(kind=PAUSED, message=""))
    return [
        one
        for number in range(count)
        for one in (
            reading(f"m{number}", model(), requested("look", args(n=1)), parent="run", start=2 * number),
            reading(f"t{number}", waits, parent="run", start=2 * number + 1),
        )
    ]


@each_row(
    "ask",
    [
        many_tool_spans_come_twice,
        all_calls_share_one_id,
        all_log_records_of_one_span_ask,
        a_model_span_sums_up_those_within_it,
        equal_calls_wait,
    ],
)
def test_four_times_as_many_calls_take_about_four_times_the_work(ask: Callable[[int], list[Reading]]):
    few, many = (_functions_called([reading("run", agent("boss"), end=10_000), *ask(count)]) for count in (100, 400))
    assert many < 5 * few


def copies_of_the_error_of_a_tool(count: int) -> list[Reading]:
    failed = CallError(kind="ValueError", message="declined")
    return [
        reading("ask", model(), parent="run"),
        reading("tool", executed("pay", error=failed), parent="run", start=1, end=2),
        *[reading(f"{number}", SpanFailed(error=failed), parent="run", start=3 + number) for number in range(count)],
    ]


def requests_below_a_long_chain(count: int) -> list[Reading]:
    return [
        *[reading(f"d{number}", model(), parent=f"d{number - 1}" if number else "run") for number in range(count)],
        *[
            reading(f"m{number}", model(), requested("pay", id=f"c{number}"), parent=f"d{count - 1}", start=9)
            for number in range(count)
        ],
    ]


def steps_of_code_and_calls_that_failed(count: int) -> list[Reading]:
    failed = CallError(kind="ValueError", message="declined")
    return [
        *[reading(f"s{number}", CodeExecuted(name="py", error=failed), parent="run") for number in range(count)],
        *[reading(f"t{number}", executed("pay", error=failed), parent="run", start=9) for number in range(count)],
    ]


@each_row("readings", [copies_of_the_error_of_a_tool, requests_below_a_long_chain, steps_of_code_and_calls_that_failed])
def test_four_times_as_many_failures_take_about_four_times_the_lines(readings: Callable[[int], list[Reading]]):
    run = reading("run", agent("boss"), end=10_000)
    few, many = (_lines_run([run, *readings(count)]) for count in (50, 200))
    assert many < 5 * few


def _functions_called(readings: list[Reading]) -> int:
    return functions_called(partial(join, [_gathered(readings)], scope="trace", closed_because="idle"))


TraceFunction: TypeAlias = "Callable[[FrameType, str, object], TraceFunction | None]"


def _lines_run(readings: list[Reading]) -> int:
    """Join a trace and count the lines that were run for it: loops call no functions."""
    lines = 0

    def count(_frame: FrameType, event: str, _argument: object) -> TraceFunction:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        join([_gathered(readings)], scope="trace", closed_because="idle")
    finally:
        sys.settrace(before)
    return lines


def _gathered(readings: list[Reading]) -> GatheredTrace:
    parents = {one.ref.span_id: one.parent_span_id for one in readings if not one.is_log}
    return GatheredTrace(trace_id=TRACE, readings=readings, parents=parents)
