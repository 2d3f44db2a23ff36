"""`coverage` counts what could not be looked at, and why."""

import pytest
from msgspec.structs import replace

from tests.rows import each_row
from tests.score.support import scored, tool_call, trajectory
from toolgauge.evaluators.run_checks import Coverage
from toolgauge.model.content import NOT_RECORDED, Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.observations import CallError, ToolDefinition
from toolgauge.model.trajectory import ToolCall, Trajectory

COVERAGE = Coverage()
TOOLS = (ToolDefinition(name="find", parameters={"type": "object"}), ToolDefinition(name="pay"))


def offered(*calls: ToolCall) -> Trajectory:
    return replace(trajectory(*calls), tools_offered=TOOLS)


def test_a_trajectory_of_which_all_was_seen_is_1():
    outcome = scored(COVERAGE, offered(tool_call("find")))
    assert (outcome.value, outcome.parts) == (1.0, {})


@each_row(
    ("arguments", "reason"),
    [
        (NOT_RECORDED, "arguments_not_recorded"),
        (NotRecorded("redacted"), "redacted"),
        (Unparsed("{"), "unparsable"),
        (Unparsed("{", "truncated"), "truncated"),
    ],
)
def test_unseen_arguments_are_counted_by_reason(arguments: Content, reason: str):
    outcome = scored(COVERAGE, offered(tool_call("find", arguments=arguments), tool_call("find")))
    assert (outcome.value, outcome.parts) == (pytest.approx(5 / 6), {"calls": 2, reason: 1})


def test_a_call_whose_end_was_not_seen_is_counted():
    asked = tool_call("find", state="requested_only")
    assert scored(COVERAGE, offered(asked)).parts == {"calls": 1, "results_not_recorded": 1}
    assert scored(COVERAGE, offered(replace(asked, result=Recorded("x")))).value == 1.0
    assert scored(COVERAGE, offered(replace(asked, error=CallError(kind="E", message="")))).value == 1.0
    assert scored(COVERAGE, offered(replace(asked, state="rejected"))).value == 1.0


def test_definitions_of_tools_are_counted_with_the_offer():
    assert scored(COVERAGE, trajectory(tool_call("find"))).parts == {"calls": 1, "no_tool_offer": 1}
    assert scored(COVERAGE, offered(tool_call("pay"))).parts == {"calls": 1, "no_schema": 1}
    assert scored(COVERAGE, offered(tool_call("invented"))).value == 1.0


def test_calls_that_were_not_recorded_hide_everything():
    hidden = replace(offered(tool_call("find")), hidden_turns=1)
    outcome = scored(COVERAGE, hidden)
    assert (outcome.value, outcome.parts) == (0.5, {"calls": 2, "no_content": 3})
    assert scored(COVERAGE, replace(trajectory(), hidden_turns=2)).value == 0.0
