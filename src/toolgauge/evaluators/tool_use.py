"""`tool_use`: did the run of an agent call a tool at all? Needs no reference."""

from collections.abc import Iterator
from typing import ClassVar

from toolgauge.model.expected import Expected
from toolgauge.model.outcomes import Level, NotEvaluated, Outcome, Scored
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.selection import CUT_SHORT, CallSelection, hidden_calls

# The same objects for all runs: outcomes that are known need no check, and are written once.
_CALLED = Scored(value=1.0, explanation="the run called a tool")
_ASKED = Scored(value=1.0, explanation="a model asked for tools, and which ones was not recorded")
_NOT_CALLED = Scored(value=0.0, explanation="the run called no tool")
_ONLY_NEUTRAL = Scored(value=0.0, explanation="the run called only tools that answer, think or hand over")
_NO_RUN = NotEvaluated(reason="incomplete", explanation="no run of an agent was seen")
_HALF_SEEN = NotEvaluated(reason="incomplete", explanation="no tool call was seen before the run was closed unfinished")


class ToolUse(CallSelection):
    """1 for a run that called a tool, 0 for one that called none.

    The state of a call does not matter: a rejected one, or one known only from the model's request, is a call.
    """

    version: ClassVar[str] = "2"
    level: ClassVar[Level] = "trajectory"
    needs_content: ClassVar[bool] = False
    needs_agent_run: ClassVar[bool] = True
    binary: ClassVar[bool] = True

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:  # noqa: ARG002 (no reference needed)
        """Yield one outcome for the trajectory."""
        yield None, self._outcome(trajectory)

    def _outcome(self, trajectory: Trajectory) -> Outcome:
        if not trajectory.has_agent_run:
            return _NO_RUN
        calls = self.calls(trajectory)
        # Rule: a call of a neutral tool (answers, thinking, hand-offs) is no tool use, unless `tools` names the tool.
        if any(self.tools is not None or call.name not in trajectory.neutral_tools for call in calls):
            return _CALLED
        if trajectory.hidden_turns:
            return _ASKED if self.tools is None and self.failed_calls == "count" else hidden_calls(trajectory)
        if trajectory.closed_because in CUT_SHORT:
            return _HALF_SEEN
        return _ONLY_NEUTRAL if calls else _NOT_CALLED
