"""Decides when a trajectory closes whether it may lack spans.

A span arrives when it has ended. So an agent run that arrived is whole, whatever is missing above it, and one that is only
seen by what it called is still going on, has died, or is filtered out on the way. Which of these it is, only the other
traces of its service tell.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct

from toolgauge.model.delivery import Assignment
from toolgauge.model.observations import AgentRun, ConversationSeen, Reading, SpanFailed, UnreadSpan
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


class Dangling(Struct, frozen=True):
    """Whether chains of parents end at a span that has not arrived, where no agent run that has ended holds them."""

    spans: bool = False
    log_records: bool = False


def dangling(
    readings: Collection[Reading | UnreadSpan],
    parents: Mapping[str, str | None],
    read: Callable[[UnreadSpan], Reading | None],
) -> Dangling:
    """Look at the agent, model and tool spans of a trace, and at log records where no agent run was seen."""
    runs = [one for one in readings if _is_run(one)]
    known = {run.ref.span_id: False for run in runs}
    spans = [
        one
        for one in readings
        if type(one) is UnreadSpan
        or (not one.is_log and any(type(seen) not in (ConversationSeen, SpanFailed) for seen in one.observations))
    ]
    loose = [one for one in spans if _dangles(one.ref.span_id, known, parents)]
    # What stands between a run and its models may be filtered out: then their times tell.
    if loose and not (runs and _are_within(_read(loose, read), _read(runs, read))):
        return Dangling(spans=True)
    logs = () if runs else [one for one in readings if type(one) is Reading and one.is_log]
    return Dangling(log_records=any(_dangles(one.ref.span_id, known, parents) for one in logs))


def _dangles(start: str, known: dict[str, bool], parents: Mapping[str, str | None]) -> bool:
    """Follow the chain of parents; every span is passed once, and circles lead nowhere."""
    path: dict[str, None] = {}
    at: str | None = start
    while at is not None and at not in known and at not in path and at in parents:
        path[at] = None
        at = parents[at]
    dangles = at is not None and known.get(at, at not in parents)
    known.update(dict.fromkeys(path, dangles))
    return dangles


def _read(ones: Iterable[Reading | UnreadSpan], read: Callable[[UnreadSpan], Reading | None]) -> list[Reading]:
    found = [read(one) if type(one) is UnreadSpan else one for one in ones]
    return [one for one in found if one is not None]


def _are_within(spans: Iterable[Reading], runs: Sequence[Reading]) -> bool:
    """Return whether each span began while a run of an agent was going on."""
    return all(any(run.start_ns <= one.start_ns <= run.end_ns for run in runs) for one in spans)


def _is_run(one: Reading | UnreadSpan) -> bool:
    if type(one) is UnreadSpan:
        return one.operation == "agent_run"
    return not one.is_log and any(type(seen) is AgentRun for seen in one.observations)


class Chains(Protocol):
    """A trace that closes, as far as the chains of parents in it go."""

    # The partition of the message broker that it was read from.
    assignment: Assignment | None

    def dangling(self) -> Dangling:
        """Return whether they end at a span that has not arrived."""
        ...

    def shows_parents(self) -> bool:
        """Return whether a span has a parent that has arrived."""
        ...


class Turns(Protocol):
    """A conversation that closes."""

    @property
    def incomplete(self) -> str | None:
        """Why one of its traces may lack spans."""
        ...

    def answered_ids(self) -> set[str]:
        """Return the ids of calls that models were given answers to."""
        ...


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
    """Decides why a trajectory may lack spans. Keeps which services show the parents of their spans; bounded.

    `live_since_ns` is when this process began to receive; `None` where nothing was missed before.
    """

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

    def of_trace(self, trajectory: Trajectory, trace: Chains, grace_ns: int) -> str | None:
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

    def of_conversation(self, trajectory: Trajectory, conversation: Turns, grace_ns: int) -> str | None:
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

    def _has_unseen_calls(self, trajectory: Trajectory, conversation: Turns) -> bool:
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
