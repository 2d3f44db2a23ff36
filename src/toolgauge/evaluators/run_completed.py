"""`run_completed`: did the run end without an error? Needs no reference."""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict

from toolgauge.model.expected import Expected
from toolgauge.model.observations import OTHER_ERROR, CallError
from toolgauge.model.outcomes import Difference, Level, NotEvaluated, Outcome, Scored, Side
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import Run, ToolCall, Trajectory
from toolgauge.score.selection import CUT_SHORT, shown
from toolgauge.score.summary import listed

# The same objects for all runs: outcomes that are known need no check, and are written once.
_COMPLETED = Scored(value=1.0, explanation="the run ended without an error")
_NOTHING_SEEN = NotEvaluated(reason="no_content", explanation="no model call and no run of an agent was seen")
_HALF_SEEN = NotEvaluated(reason="incomplete", explanation="the run was closed before its end was seen")


class RunCompleted(BaseModel):
    """0 for a run that ended with an error, 1 for any other.

    A run ended with an error when its own span says so, or the span of its last model call or of the turn around that, and
    no model was asked after it. Cancellations, interrupts for a person, hand-offs and guardrails are no errors. A run that the
    same agent then did again with success is made good. Calls that were asked for and never answered are named, and fail nothing:
    tools on the client's side end runs in this way.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "trajectory"
    needs_content: ClassVar[bool] = False
    binary: ClassVar[bool] = True

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:  # noqa: ARG002 (no reference needed)
        """Yield one outcome for the trajectory."""
        yield None, _outcome(trajectory)


def _outcome(trajectory: Trajectory) -> Outcome:
    runs = [run for run in trajectory.runs if run.above is None]
    failed = next((run for run in runs if run.error is not None and not _is_made_good(run, runs)), None)
    if failed is not None and failed.error is not None:
        return _failed(failed, failed.error, trajectory)
    if not trajectory.has_agent_run and (unseen := _unseen(trajectory)) is not None:
        return unseen
    unanswered = _unanswered(trajectory.calls)
    return replace(_COMPLETED, explanation=_COMPLETED.explanation + unanswered) if unanswered else _COMPLETED


def _unseen(trajectory: Trajectory) -> NotEvaluated | None:
    """Return why the end of a run without a span of its own was not seen; `None` where its last model call shows it."""
    if not any(source.model_calls for source in trajectory.sources):
        return _NOTHING_SEEN
    if trajectory.closed_because in CUT_SHORT:
        return _HALF_SEEN
    # Rule: without an agent run, a last turn with calls that were never answered is no end.
    last = max((call.turn for call in trajectory.calls), default=0)
    unanswered = _unanswered([call for call in trajectory.calls if call.turn == last])
    return (
        NotEvaluated(reason="incomplete", explanation=f"nothing shows how the run ended{unanswered}")
        if unanswered
        else None
    )


def _is_made_good(failed: Run, runs: Sequence[Run]) -> bool:
    """Return whether the same agent later did the same run without an error; without its prompt no run is known as the same."""
    same = [run for run in runs if run.error is None and (run.agent, run.prompt) == (failed.agent, failed.prompt)]
    return failed.prompt is not None and any(run.start_ns >= failed.end_ns for run in same)


def _failed(run: Run, error: CallError, trajectory: Trajectory) -> Scored:
    who = f"the run of {shown(run.agent)}" if run.agent else "the run"
    kind = f": {shown(error.kind)}" if error.kind and error.kind != OTHER_ERROR else ""
    message = Difference(where=run.agent or "run", rule="error", actual=Side(value=error.message))
    explanation = f"{who} ended with an error{kind}{_unanswered(trajectory.calls)}"
    return Scored(value=0.0, explanation=explanation, differences=(message,) if error.message else ())


def _unanswered(calls: Sequence[ToolCall]) -> str:
    names = [*dict.fromkeys(call.name for call in calls if call.state == "requested_only")]
    if not names:
        return ""
    return f"; never answered: {listed(names)}"
