"""Runs of thousands of calls take little time."""

import time

from tests.rows import each_row
from tests.score.support import expected, scored
from toolgauge.cases.actual import trajectory_of
from toolgauge.evaluators.expected_arguments import ToolCallAccuracy, ToolCallArgs
from toolgauge.evaluators.expected_calls import ToolCallF1, ToolCallOrder
from toolgauge.model.expected import ExpectedCall
from toolgauge.model.json import Json
from toolgauge.model.ports import Evaluator

CALLS = 5_000


@each_row(
    "evaluator", [ToolCallArgs(), ToolCallF1(), ToolCallOrder(), ToolCallAccuracy()], ids=lambda one: type(one).__name__
)
def test_calls_that_are_all_missing_and_all_unexpected_take_little_time(evaluator: Evaluator):
    made: list[Json] = [{"name": f"made{number}", "args": {"x": 1}} for number in range(CALLS)]
    wanted = [ExpectedCall(name=f"wanted{number}", args={"x": 1}) for number in range(CALLS)]
    run, reference = trajectory_of({"calls": made}), expected(*wanted)
    started = time.process_time()
    assert scored(evaluator, run, reference).value == 0
    # Ten times what was measured, because test machines are shared.
    assert time.process_time() - started < 3
