"""`call_budget`: did the agent keep to a number of tool calls? Needs no reference."""

from collections.abc import Iterator
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from toolgauge.model.expected import Expected
from toolgauge.model.outcomes import Level, NotEvaluated, Scored
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import Trajectory

# The agent may have gone on after these.
_CUT_SHORT = ("max_duration", "max_open", "max_open_bytes", "memory", "shutdown", "open_idle")


class CallBudget(BaseModel):
    """1 when there were at most `max_calls` calls, and the share that was within the budget when there were more."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # Raised when scores change their meaning: it is part of the criterion's revision.
    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "trajectory"

    # The fields are what a criterion may set.
    max_calls: int = Field(default=10, ge=1)

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        """Yield one outcome; an evaluation of more than 10 s is cut off."""
        del expected
        made = len(trajectory.calls)
        if made <= self.max_calls and (trajectory.hidden_turns or trajectory.closed_because in _CUT_SHORT):
            # More calls may have been made than were seen: only too many are certain.
            reason = "no_content" if trajectory.hidden_turns else "incomplete"
            yield None, NotEvaluated(reason=reason, explanation="not all calls were seen")
            return
        if not made:
            # Not a score: "nothing to judge" must not move anybody's mean.
            yield None, NotEvaluated(reason="no_calls", explanation="no call to judge")
            return
        yield (
            None,
            Scored(
                value=min(1.0, self.max_calls / made),
                explanation=f"{made} calls, {self.max_calls} allowed",
                parts={"calls": made, "allowed": self.max_calls},
            ),
        )
