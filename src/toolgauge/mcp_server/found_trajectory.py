"""The trajectory that a question is about: by id, by the beginning of one, or the newest that failed."""

from collections.abc import Sequence
from difflib import get_close_matches

from toolgauge.mcp_server.plain_text import cut
from toolgauge.mcp_server.scored_recordings import ScoredRecording
from toolgauge.model.errors import RecordingError
from toolgauge.model.trajectory import Trajectory
from toolgauge.report.filters import Filters
from toolgauge.report.kept import KeptTrajectory

_MAX_NAMED = 5
_ID = 120


def newest_failed(scored: ScoredRecording, criterion: str) -> KeptTrajectory:
    """Return the newest trajectory that failed, under this criterion or any; raise `RecordingError` where none did."""
    kept = scored.kept
    for outcome in ("failed", "error"):
        filters = Filters(outcome=outcome, criterion=criterion)
        if (found := next((one for one in kept if filters.matches(one)), None)) is not None:
            return found
    under = f" under `{cut(criterion, _ID)}`" if criterion else ""
    raise RecordingError(
        f"no trajectory of {scored.trajectories} failed{under}",
        hint="`list_trajectories` shows what was not evaluated; `diagnose_recording` finds out what was not recorded",
    )


def trajectory_of(scored: ScoredRecording, wanted: str) -> KeptTrajectory | None:
    """Return the trajectory of this id, of this conversation, or whose id begins so; `None` where none is kept.

    Raise `RecordingError` where several are meant.
    """
    kept, asked = scored.kept, wanted.lower()
    for found in (
        [one for one in kept if one.id.lower() == asked],
        [one for one in kept if one.trajectory.scope == "conversation" and one.trajectory.conversation_id == wanted],
        [one for one in kept if one.trajectory.conversation_id == wanted],
        [one for one in kept if _begins(one.trajectory, asked)],
    ):
        # A conversation has the trace of its last turn.
        meant = [one for one in found if one.trajectory.scope == "trace"] or found
        if len(meant) == 1:
            return meant[0]
        if meant:
            raise _several(meant, wanted)
    return None


def is_meant(trajectory: Trajectory, wanted: str) -> bool:
    """Return whether `trajectory_of` would look at a trajectory for this id."""
    return trajectory.conversation_id == wanted or _begins(trajectory, wanted.lower())


def unknown_trajectory(scored: ScoredRecording, wanted: str) -> RecordingError:
    """Make the error for an id that no trajectory has, with the ids nearest to it."""
    ids = [one.id for one in scored.kept]
    ids += [one.trajectory.conversation_id for one in scored.kept if one.trajectory.conversation_id is not None]
    near = get_close_matches(wanted, ids, n=3, cutoff=0.5)
    named = near or ids[:3]
    hint = f"there is {', '.join(f'`{cut(one, _ID)}`' for one in named)}" if named else None
    return RecordingError(f"no trajectory `{cut(wanted, _ID)}` in the recording", hint=hint)


def _begins(trajectory: Trajectory, asked: str) -> bool:
    if trajectory.trace_id.startswith(asked):
        return True
    return (trajectory.conversation_id or "").lower().startswith(asked)


def _several(found: Sequence[KeptTrajectory], wanted: str) -> RecordingError:
    named = ", ".join(f"`{one.id}` ({one.outcome})" for one in found[:_MAX_NAMED])
    return RecordingError(f"`{cut(wanted, _ID)}` means {len(found)} trajectories", hint=f"name one of them: {named}")
