"""Remembers calls that wait at the end of a trace, for the later traces of their conversation.

A resumed run carries out, or answers, a call for which no model asked in its own trace. Without this memory that would look
like a trace whose first half went to another instance, and what judges the whole would not be evaluated. Bounded: the oldest go.
"""

from collections.abc import Iterator
from typing import TypeAlias

from msgspec.structs import replace

from toolgauge.assemble.canonical import arguments_key, fold_name
from toolgauge.assemble.split_signs import UNSEEN
from toolgauge.model.trajectory import ToolCall, Trajectory

_MAX_CONVERSATIONS = 10_000
_MAX_CALLS = 100
_Conversation: TypeAlias = tuple[str | None, str]


class WaitingCalls:
    """Hashes of the ids, and of the names and arguments, of waiting calls by service and conversation."""

    def __init__(self) -> None:
        self._known: dict[_Conversation, set[int]] = {}

    def explained(self, trajectory: Trajectory) -> Trajectory:
        """Return the trajectory of a trace without a split sign that an earlier waiting call explains; remember its own."""
        if trajectory.conversation_id is None:
            return trajectory
        conversation = (trajectory.service, trajectory.conversation_id)
        known = frozenset(self._known.get(conversation, ()))
        waiting = [call for call in trajectory.calls if call.state in ("paused", "requested_only")]
        if waiting:
            keys = self._known.pop(conversation, set())
            keys.update(key for call in waiting[:_MAX_CALLS] for key in _keys(call))
            self._known[conversation] = keys
            while len(self._known) > _MAX_CONVERSATIONS:
                del self._known[next(iter(self._known))]
        if trajectory.split_sign is None or not known:
            return trajectory
        is_resumed = any(key in known for call in trajectory.calls for key in _keys(call))
        return replace(trajectory, split_sign=None) if is_resumed or trajectory.split_sign == UNSEEN else trajectory


def _keys(call: ToolCall) -> Iterator[int]:
    if call.call_id is not None:
        yield hash(call.call_id)
    key = arguments_key(call.arguments)
    if key is not None:
        yield hash((fold_name(call.name), key))
