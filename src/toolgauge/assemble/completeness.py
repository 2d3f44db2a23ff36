"""Decides when a trajectory closes whether it may lack spans.

A span arrives when it has ended. So an agent run that arrived is whole, whatever is missing above it, and one that is only
seen by what it called is still going on, has died, or is filtered out on the way. Which of these it is, only the other
traces of its service tell.
"""

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from toolgauge.assemble.open_trajectories import OpenConversation
from toolgauge.assemble.trace import OpenTrace
from toolgauge.model.trajectory import ClosedBecause, Trajectory

# Called once for each service whose spans have parents that never come.
OnMissingParents: TypeAlias = Callable[[str | None], None]

# Closed while more could have come.
_IN_PASSING: frozenset[ClosedBecause] = frozenset(("shutdown", "max_open", "max_open_bytes", "memory", "max_duration"))
_MAX_SERVICES = 1000
# Half of what is known is forgotten then: what is filtered on the way may change.
_MAX_COUNT = 1000
_MAX_UNSEEN = 10_000
_BATCHES_NS = 60_000_000_000
_BEGAN_BEFORE = "it began before this process began to receive"


def _began_before(trajectory: Trajectory, since_ns: int | None, grace_ns: int) -> bool:
    """Return whether it spans the moment. What ended long before was recorded, and is sent again."""
    return since_ns is not None and trajectory.start_ns < since_ns < trajectory.end_ns + grace_ns


class _Service(Struct):
    """How many traces of a service had a parent in them, and how many waited for one in vain."""

    complete: int = 0
    waiting: int = 0
    is_reported: bool = False

    def count(self, *, complete: bool, waiting: bool) -> None:
        """Count a trace."""
        if self.complete + self.waiting >= _MAX_COUNT:
            self.complete, self.waiting = self.complete // 2, self.waiting // 2
        self.complete += complete
        self.waiting += waiting

    @property
    def shows_parents(self) -> bool:
        """Whether the parents of its spans usually come."""
        return self.complete > self.waiting


class Completeness:
    """Decides why a trajectory may lack spans. `live_since_ns`: when receiving began; `None` where nothing was missed."""

    def __init__(self, live_since_ns: int | None, on_missing_parents: OnMissingParents) -> None:
        self._live_since_ns = live_since_ns
        self._on_missing_parents = on_missing_parents
        self._services: dict[str | None, _Service] = {}
        # Calls that only histories hold, and the conversation that had them first.
        self._unseen: dict[str, str | None] = {}

    def receive_since(self, live_since_ns: int) -> None:
        """Take another moment for the start, unless nothing was missed before."""
        if self._live_since_ns is not None:
            self._live_since_ns = live_since_ns

    def of_trace(self, trajectory: Trajectory, trace: OpenTrace, grace_ns: int) -> str | None:
        """Return why the trajectory of a trace may lack spans, in words."""
        because, service = trajectory.closed_because, self._service(trajectory.service)
        since_ns = self._live_since_ns
        if trace.assignment is not None:
            # Written to the broker when its batch was full: well after its spans had ended.
            since_ns, grace_ns = trace.assignment.began_ns, max(grace_ns, _BATCHES_NS)
        if _began_before(trajectory, since_ns, grace_ns):
            return _BEGAN_BEFORE
        if because in _IN_PASSING:
            missing = trace.dangling()
            is_half = missing.spans or (missing.log_records and service.shows_parents)
        elif because == "open_idle":
            missing = trace.dangling()
            # Return whether the parent that never came would have come, as those of its service do; count it.
            waits = missing.spans or missing.log_records
            is_half = waits and service.shows_parents
            service.count(complete=not waits, waiting=waits)
            if not is_half and not service.is_reported:
                service.is_reported = True
                self._on_missing_parents(trajectory.service)
        else:
            service.count(complete=trace.shows_parents(), waiting=False)
            return None
        return f"a span that contains others of it had not arrived when it was closed ({because})" if is_half else None

    def of_conversation(self, trajectory: Trajectory, conversation: OpenConversation, grace_ns: int) -> str | None:
        """Return why the trajectory of a conversation may lack spans, in words."""
        because = trajectory.closed_because
        if conversation.incomplete is not None:
            return conversation.incomplete
        if _began_before(trajectory, self._live_since_ns, grace_ns):
            return _BEGAN_BEFORE
        if trajectory.has_beginning is False and self._has_unseen_calls(trajectory, conversation):
            return "a model was given answers to calls of earlier turns, of which no span came"
        # Where nobody else receives what comes later, nothing comes.
        if self._live_since_ns is not None and because in _IN_PASSING:
            return f"more turns may come after it was closed ({because})"
        return None

    def _has_unseen_calls(self, trajectory: Trajectory, conversation: OpenConversation) -> bool:
        """Return whether histories hold calls of this conversation alone that no span shows: others are examples."""
        name = trajectory.conversation_id
        unseen = conversation.answered_ids().difference([call.call_id for call in trajectory.calls if call.call_id])
        own = [call_id for call_id in unseen if self._unseen.setdefault(call_id, name) == name]
        while len(self._unseen) > _MAX_UNSEEN:
            del self._unseen[next(iter(self._unseen))]
        return bool(own)

    def _service(self, name: str | None) -> _Service:
        known = self._services.get(name)
        if known is None:
            if len(self._services) >= _MAX_SERVICES:
                del self._services[next(iter(self._services))]
            known = self._services[name] = _Service()
        return known
