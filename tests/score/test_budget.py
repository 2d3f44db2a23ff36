"""`budget` holds runs to limits."""

import re

import pytest
from msgspec.structs import replace
from pydantic import ValidationError

from tests.rows import each_row
from tests.score.support import TRACE, agent_run, not_evaluated, scored, tool_call, trajectory
from toolgauge.evaluators.run_checks import Budget
from toolgauge.model.observations import CallError
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ClosedBecause, Run, Tokens, ToolCall, Trajectory

SECOND_NS = 1_000_000_000
FAILED = CallError(kind="Timeout", message="")
SPAN = SpanRef(TRACE, "b7ad6b7169203331")


def budget(**parameters: object) -> Budget:
    return Budget.model_validate(parameters)


def timed(name: str, start: float, end: float) -> ToolCall:
    call = replace(tool_call(name), start_ns=round(start * SECOND_NS), end_ns=round(end * SECOND_NS))
    return replace(call, executed_by=SPAN)


def run(start: float, end: float, *, above: SpanRef | None = None, is_agent: bool = True) -> Run:
    times = (round(start * SECOND_NS), round(end * SECOND_NS))
    return agent_run(SPAN, above, agent="clerk", times=times, is_agent=is_agent)


def searches(count: int) -> Trajectory:
    return trajectory(*(tool_call("search") for _ in range(count)))


@each_row(("calls", "value"), [(0, 1.0), (5, 1.0), (6, 5 / 6), (10, 0.5), (20, 0.25)])
def test_beyond_the_limit_the_value_falls_smoothly(calls: int, value: float):
    assert scored(budget(calls=5), searches(calls)).value == pytest.approx(value)


def test_tools_have_limits_of_their_own():
    limits = budget(per_tool={"search_*": {"calls": 1, "errors": 1, "duration": "1s"}, "pay": {"calls": 1}})
    failed = replace(timed("search_b", 1.5, 3), error=FAILED)
    outcome = scored(limits, trajectory(timed("search_a", 1, 2), failed, timed("pay", 5, 9), tool_call("other")))
    of_search = {"calls of search_*": 2, "errors of search_*": 1, "seconds of search_*": 2.0}
    assert (outcome.value, outcome.parts) == (0.5, {"limits": 4, "kept": 2, **of_search, "calls of pay": 1})


ENVELOPE = {"calls": {"0.5": 3, "0.99": 12}, "duration": {"0.99": "4s"}, "per_tool": {"pay": {"calls": {"0.99": 1}}}}


def test_a_quantile_of_an_envelope_is_a_limit():
    only_calls = {"calls": ENVELOPE["calls"]}
    assert scored(budget(envelope=only_calls), searches(12)).value == 1.0
    assert scored(budget(envelope=only_calls, quantile=0.5), searches(12)).value == 0.25
    outcome = scored(budget(envelope=ENVELOPE), trajectory(tool_call("pay"), tool_call("pay")))
    assert outcome.value == 0.5
    assert outcome.parts == {"limits": 3, "kept": 2, "calls": 2, "seconds": 1e-9, "calls of pay": 2}


def test_a_figure_that_is_known_in_part_is_judged_where_the_part_is_too_much():
    some = Tokens(input=8, output=4, unmeasured=1)
    assert scored(budget(tokens=6), replace(searches(1), tokens=some)).value == 0.5
    assert not_evaluated(budget(tokens=12), replace(searches(1), tokens=some)) == "no_content"
    hidden = replace(searches(4), hidden_turns=1)
    assert scored(budget(calls=2), hidden).value == 0.5
    assert not_evaluated(budget(calls=4), hidden) == "no_content"


@each_row(
    ("because", "is_open"),
    [
        ("run_ended", False),
        ("idle", False),
        ("open_idle", True),
        ("max_duration", True),
        ("memory", True),
        ("shutdown", True),
    ],
)
def test_when_closed_unfinished_only_what_is_too_much_is_judged(because: ClosedBecause, is_open: bool):  # noqa: FBT001 - the value under test
    judged = replace(searches(4), closed_because=because, end_ns=4 * SECOND_NS, runs=(run(0, 4, is_agent=False),))
    for limits, kept in ((budget(calls=2), budget(calls=4)), (budget(duration="2s"), budget(duration="4s"))):
        assert scored(limits, judged).value == 0.5
        if is_open:
            assert not_evaluated(kept, judged) == "incomplete"
        else:
            assert scored(kept, judged).value == 1.0


def test_an_agent_run_that_has_ended_is_whole_whatever_is_missing_above_it():
    judged = replace(searches(2), closed_because="open_idle", runs=(run(0, 4),))
    assert scored(budget(calls=2), judged).value == 1.0


@each_row(
    ("parameters", "problem"),
    [
        ({}, "has no limit: give `calls`"),
        ({"duration": 10}, "must be a duration with a unit"),
        ({"calls": -1}, "greater than or equal to 0"),
        ({"calls": True}, "must be a whole number"),
        ({"envelope": {"calls": {"0.5": 3}}}, "has an `envelope` without the quantile 0.99; it has 0.5"),
        ({"per_tool": {"search": {"tokens": 3}}}, "Extra inputs are not permitted"),
    ],
)
def test_limits_that_cannot_be_read_are_refused(parameters: dict[str, object], problem: str):
    with pytest.raises(ValidationError, match=re.escape(problem)):
        Budget.model_validate(parameters)
