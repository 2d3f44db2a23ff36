"""`coverage` counts what could not be looked at, and why."""

import pytest
from msgspec.structs import replace

from tests.rows import each_row
from tests.score.support import scored, tool_call, trajectory
from toolgauge.evaluators.run_checks import Coverage
from toolgauge.model.content import NOT_RECORDED, Content, NotRecorded, Unparsed
from toolgauge.model.observations import ToolDefinition
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


def test_calls_that_were_not_recorded_hide_everything():
    hidden = replace(offered(tool_call("find")), hidden_turns=1)
    outcome = scored(COVERAGE, hidden)
    assert (outcome.value, outcome.parts) == (0.5, {"calls": 2, "no_content": 3})
    assert scored(COVERAGE, replace(trajectory(), hidden_turns=2)).value == 0.0
