"""Accounts for other processes: those before a restart, and those that had a partition of a message broker.

Traces that they closed are not scored again, and traces that they began to read are not whole here.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence

from toolgauge.assemble.eviction import Eviction
from toolgauge.assemble.open_trajectories import OpenConversations, OpenTraces
from toolgauge.assemble.trace import OpenTrace
from toolgauge.model.delivery import Assignment, Source
from toolgauge.model.journal import ClosedId

_MAX_BEGUN = 100_000


class Recovery:
    """What other processes did with traces that are read here."""

    def __init__(self, traces: OpenTraces, conversations: OpenConversations, eviction: Eviction) -> None:
        self._traces = traces
        self._conversations = conversations
        self._eviction = eviction
        # Ids of traces whose first messages are committed, in order of time.
        self._begun: dict[str, None] = {}
        # Since when the message broker could not be read.
        self._stalled_since_ns: int | None = None
        # While the journal of an earlier process is read.
        self.is_running = False

    def restore(self, closed: Iterable[ClosedId], now_ns: int) -> None:
        """Remember what an earlier process closed, before its journal is read: the traces are not scored again."""
        self.is_running = True
        for one in closed:
            # However long ago: what is in the journal is as old.
            memory = self._traces.closed if one.scope == "trace" else self._conversations.closed
            memory.restore(one.id, one.closed_ns, now_ns)

    def remember(self, closed: Iterable[ClosedId], begun: Iterable[str], now_ns: int) -> None:
        """Remember traces that other processes have closed, and those `begun`, whose first messages are not read again."""
        for one in closed:
            self._traces.closed.restore(one.id, one.closed_ns, now_ns)
        self._begun.update(dict.fromkeys(begun))
        while len(self._begun) > _MAX_BEGUN:
            del self._begun[next(iter(self._begun))]

    def has_begun(self, trace_id: str) -> bool:
        """Return whether another process read the first messages of the trace."""
        return trace_id in self._begun

    def forget(self) -> Iterator[tuple[str, Collection[Source]]]:
        """Drop open traces of lost partitions, as if they had never come; yield their ids and entries."""
        for trace in [trace for trace in self._traces if trace.is_lost]:
            self._traces.remove(trace)
            yield trace.trace_id, trace.entries
        self._eviction.relax()
        for trace in self._eviction.take_lost():
            self._traces.closed.remove(trace.trace_id)
            yield trace.trace_id, trace.entries

    def open_traces_of(self, entries: Collection[Source]) -> Sequence[tuple[str, Assignment]]:
        """Return the ids of open traces that need one of these entries, with their partitions."""
        wanted = set(entries)
        return [
            (trace.trace_id, trace.assignment)
            for trace in self._traces
            if trace.assignment is not None and not wanted.isdisjoint(trace.entries)
        ]

    def stall(self, now_ns: int) -> None:
        """Pause the timeouts of traces from the message broker until `resume`: it cannot be read."""
        if self._stalled_since_ns is None:
            self._stalled_since_ns = now_ns

    def is_stalled(self, trace: OpenTrace) -> bool:
        """Return whether the timeouts of the trace are paused."""
        return self._stalled_since_ns is not None and trace.assignment is not None

    def resume(self, now_ns: int) -> None:
        """Close traces from the message broker later, by the time for which it could not be read."""
        since_ns, self._stalled_since_ns = self._stalled_since_ns, None
        if since_ns is not None:
            for trace in self._traces:
                if trace.assignment is not None:
                    self._traces.postpone(trace, max(0, now_ns - since_ns))
