"""Which calls count for an evaluator, and what it may say about them.

Agents explore with reads: a score over all calls of a run is close to a coin toss, one over the calls that
change state is not. So each of our evaluators can be told which tools count.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from toolgauge.model.content import NotRecorded, Recorded, Unparsed
from toolgauge.model.expected import ExpectedCall
from toolgauge.model.outcomes import NotEvaluated, Outcome
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.globs import Globs

# Names and globs; those that change state; `None` is all of them.
Tools: TypeAlias = tuple[str, ...] | Literal["writes"] | None
FailedCalls: TypeAlias = Literal["count", "ignore"]

_SHOWN_LENGTH = 80
_MAX_VERDICTS = 256


class Verdicts(dict[str, Outcome]):
    """What is said of calls of a tool, by its name: the same few tools are called all day long.

    Bounded, as names come from producers.
    """

    __slots__ = ()

    def keep(self, name: str, outcome: Outcome) -> Outcome:
        """Return the outcome, which is to be said of this tool again."""
        if len(name) <= _SHOWN_LENGTH:
            if len(self) >= _MAX_VERDICTS:
                self.clear()
            self[name] = outcome
        return outcome


class CallSelection(BaseModel):
    """The parameters that all our evaluators share."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # Which tools count: names and globs, or `writes` for those that change state.
    tools: Tools = None
    # Whether calls that failed or were rejected count like any other.
    failed_calls: FailedCalls = "count"

    @cached_property
    def _globs(self) -> Globs | None:
        return Globs(self.tools) if isinstance(self.tools, tuple) else None

    @cached_property
    def _usual(self) -> Verdicts:
        """What is nearly always said of a tool, for evaluators of which that depends on nothing but its name."""
        return Verdicts()

    def calls(self, trajectory: Trajectory) -> tuple[ToolCall, ...]:
        """Pick the calls that count, in order."""
        calls = trajectory.calls
        if self.failed_calls != "count":
            calls = tuple(call for call in calls if not has_failed(call))
        return calls if self.tools is None else tuple(call for call in calls if self._counts(call.name, trajectory))

    def expected_calls(self, expected: Sequence[ExpectedCall], trajectory: Trajectory) -> tuple[ExpectedCall, ...]:
        """Pick the expected calls that count: what is not looked for among the calls is not missed either."""
        if self.tools is None:
            return tuple(expected)
        return tuple(call for call in expected if self._counts(call.name, trajectory))

    def _counts(self, name: str, trajectory: Trajectory) -> bool:
        if self.tools == "writes":
            return name in trajectory.writing_tools
        return self._globs is None or self._globs.match(name)


def nothing_to_judge(trajectory: Trajectory) -> NotEvaluated:
    """Say why there is no call: none was made, or those that were made cannot be seen."""
    if trajectory.hidden_turns:
        return hidden_calls(trajectory)
    return NotEvaluated(reason="no_calls", explanation="no call to judge")


def hidden_calls(trajectory: Trajectory) -> NotEvaluated:
    """Say that calls were made and not recorded."""
    asked = f"{trajectory.hidden_turns} model calls asked for tools, and which ones was not recorded"
    return NotEvaluated(reason="no_content", explanation=asked)


def unseen_arguments(call: ToolCall) -> NotEvaluated | None:
    """Say why nobody can tell with which arguments the call was made; `None` when they were recorded, readable or not."""
    match call.arguments:
        case NotRecorded(reason="redacted"):
            return NotEvaluated(reason="redacted", explanation=f"the arguments of {shown(call.name)} were redacted")
        case NotRecorded():
            explanation = f"the arguments of {shown(call.name)} were not recorded"
            return NotEvaluated(reason="arguments_not_recorded", explanation=explanation)
        case Unparsed(reason="truncated"):
            return NotEvaluated(reason="truncated", explanation=f"the arguments of {shown(call.name)} were cut off")
        case Recorded() | Unparsed():
            return None


def has_failed(call: ToolCall) -> bool:
    """Tell whether the call was rejected or ended in an error."""
    return call.state == "rejected" or call.error is not None


def shown(name: str) -> str:
    """Write a name for an explanation; producers decide what is in it, so its length is bounded."""
    if len(name) <= _SHOWN_LENGTH and name.isprintable():
        return f"`{name}`"
    start = name[:_SHOWN_LENGTH]
    if not start.isprintable():
        start = "".join(character if character.isprintable() else " " for character in start)
    return f"`{start}{'...' if len(name) > _SHOWN_LENGTH else ''}`"
