"""Why a value that was not found may have been seen all the same: what of a trajectory could not be looked at."""

from collections.abc import Mapping

from toolgauge.model.outcomes import NotEvaluated, Reason
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.selection import hidden_calls

NO_USER = NotEvaluated(
    reason="no_content", explanation="a value was not found, and what the user wrote was not recorded"
)


_UNSEEN_EARLIER: tuple[tuple[Reason, str], ...] = (
    ("incomplete", "earlier turns of its conversation were not seen, or are not remembered"),
    ("truncated", "content of an earlier trace of its conversation was cut off"),
    ("redacted", "content of an earlier trace of its conversation was redacted"),
    ("results_not_recorded", "a result in an earlier trace of its conversation was not recorded"),
    ("no_content", "content of an earlier trace of its conversation was not recorded"),
)
# By the reason why earlier traces of the conversation may have shown more than is remembered of them.
_EARLIER_GAPS: Mapping[str, NotEvaluated] = {
    reason: NotEvaluated(reason=reason, explanation=f"a value was not found, and {what}")
    for reason, what in _UNSEEN_EARLIER
}


def gap_of(trajectory: Trajectory) -> NotEvaluated | None:
    """Return what could not be looked at, as far as the trajectory shows."""
    if trajectory.hidden_turns:
        return hidden_calls(trajectory)
    if trajectory.calls and trajectory.calls[-1].order != len(trajectory.calls) - 1:
        explanation = "a value was not found, and the calls of other agents were not looked at"
        return NotEvaluated(reason="incomplete", explanation=explanation)
    if trajectory.left_out.texts:
        return NotEvaluated(reason="truncated", explanation="a value was not found, and texts were too long to keep")
    if trajectory.has_media:
        explanation = "a value was not found, and the user sent pictures, sound or files, which are not read"
        return NotEvaluated(reason="no_content", explanation=explanation)
    if trajectory.earlier is not None:
        return _EARLIER_GAPS.get(trajectory.earlier.gap or "")
    if trajectory.has_beginning is False and trajectory.earlier_turns is not None:
        return None
    if trajectory.has_beginning is False:
        explanation = "a value was not found, and the first model call had messages of earlier turns that were not recorded by themselves"
        return NotEvaluated(reason="incomplete", explanation=explanation)
    if trajectory.scope == "trace" and trajectory.conversation_id is not None and not trajectory.has_beginning:
        explanation = (
            "a value was not found in this trace, and earlier traces of its conversation were not looked at: "
            "`scope: conversation` does"
        )
        return NotEvaluated(reason="incomplete", explanation=explanation)
    return None
