"""Remembers calls that wait at the end of a trace, for the later traces of their conversation.

A resumed run carries out, or answers, a call for which no model asked in its own trace. Without this memory that would look
like a trace whose first half went to another instance, and results about the whole run would not be evaluated.
Bounded: the oldest entries are dropped.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from toolgauge.assemble.canonical import arguments_key, fold_name
from toolgauge.assemble.split_signs import UNSEEN
from toolgauge.model.trajectory import ToolCall, Trajectory

# A call takes three entries of about a hundred bytes.
_MAX_ENTRIES = 100_000
_MAX_CALLS = 100


class WaitingCalls:
    """Hashes of the ids, and of the names and arguments, of waiting calls with their service and conversation."""

    def __init__(self, max_entries: int = _MAX_ENTRIES) -> None:
        # In the order in which they were last seen to wait.
        self._known: dict[int, None] = {}
        self._max_entries = max_entries

    def explained(self, trajectory: Trajectory) -> Trajectory:
        """Return the trajectory of a trace without a split sign that an earlier waiting call explains; remember its own."""
        if trajectory.conversation_id is None:
            return trajectory
        is_resumed = trajectory.split_sign is not None and self._explains(trajectory)
        waiting = [call for call in trajectory.calls if call.state in ("paused", "requested_only")]
        for call in waiting[:_MAX_CALLS]:
            for key in (_conversation(trajectory), *_keys(trajectory, call)):
                self._known.pop(key, None)
                self._known[key] = None
        while len(self._known) > self._max_entries:
            del self._known[next(iter(self._known))]
        return replace(trajectory, split_sign=None) if is_resumed else trajectory

    def _explains(self, trajectory: Trajectory) -> bool:
        if trajectory.split_sign == UNSEEN:
            return _conversation(trajectory) in self._known
        return any(key in self._known for call in trajectory.calls for key in _keys(trajectory, call))


def _conversation(trajectory: Trajectory) -> int:
    return hash((trajectory.service, trajectory.conversation_id))


def _keys(trajectory: Trajectory, call: ToolCall) -> Iterator[int]:
    conversation = _conversation(trajectory)
    if call.call_id is not None:
        yield hash((conversation, call.call_id))
    key = arguments_key(call.arguments)
    if key is not None:
        yield hash((conversation, fold_name(call.name), key))
