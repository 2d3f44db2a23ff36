"""Keeps open traces and conversations within their limits: the oldest leave first, and wait here until they are closed.

Where too many wait, the oldest of them will not be scored (`overload`); where too many of these wait, traces without a conversation are
shed: no scorecard is written for them. Otherwise a burst would keep all from being scored in time.
`Recovery` counts traces of other processes.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from toolgauge.assemble.open_trajectories import OpenConversation, OpenConversations, OpenTraces
from toolgauge.assemble.settings import AssembleSettings
from toolgauge.assemble.trace import OpenTrace
from toolgauge.model.delivery import Assignment, Source
from toolgauge.model.journal import ClosedId
from toolgauge.model.trajectory import ClosedBecause

# So many wait to be scored, and as many that will not be scored.
_MAX_WAITING = 1000
# Traces that wait to be scored may take this part of the open bytes in addition.
_BYTES_SHARE = 4


class Evicted(NamedTuple):
    """A trace or conversation that left early, and when."""

    ended: OpenTrace | OpenConversation
    because: ClosedBecause
    since_ns: int


class Eviction:
    """Evicts traces and conversations beyond `settings`, or the settings before them until everything fits the new ones."""

    def __init__(self, settings: AssembleSettings, traces: OpenTraces, conversations: OpenConversations) -> None:
        self._settings = settings
        self._limits = settings
        self._adopted_ns = 0
        self._traces = traces
        self._conversations = conversations
        self._waiting: deque[Evicted] = deque()
        self._unscored: deque[Evicted] = deque()
        self.waiting_bytes = 0
        # Whether the last one that was taken is not to be scored.
        self.is_overloaded = False
        # Ids of traces that will not be scored, and traces that were shed, for `Assembler.take_overloaded`.
        self.overloaded: list[str] = []
        self.shed_traces: list[OpenTrace] = []
        # While open traces take no more than this, none is evicted.
        self.above_bytes = 0

    def __len__(self) -> int:
        return len(self._waiting) + len(self._unscored)

    @property
    def open_bytes(self) -> int:
        """About how much memory open traces and conversations take."""
        return self._traces.size_bytes + self._conversations.size_bytes

    def adopt(self, settings: AssembleSettings, now_ns: int) -> None:
        """Use other settings. Traces that exceed them are due at once, but close one by one: there may be thousands."""
        self._settings = settings
        self._adopted_ns = now_ns
        if self._excess(settings) is None:
            self._limits = settings
        self.above_bytes = 0

    def next_due_ns(self) -> int | None:
        """Return since when something waits to be closed, or exceeds new settings."""
        if len(self):
            return (self._unscored or self._waiting)[0].since_ns
        return self._adopted_ns if self._limits is not self._settings else None

    def evict(self, now_ns: int) -> None:
        """Evict what exceeds the limits."""
        while (excess := self._excess(self._limits)) is not None:
            self._evict(*excess, now_ns)
        self.above_bytes = self._limits.max_open_bytes - self._conversations.size_bytes

    def shed(self, now_ns: int) -> None:
        """Evict the oldest until half of the bytes are left: memory is short."""
        kept = self.open_bytes // 2
        while self.open_bytes > kept and (oldest := self._oldest()) is not None:
            self._evict(oldest, "memory", now_ns)

    def take(self, now_ns: int | None = None) -> Evicted | None:
        """Return the first that waits to be closed; where the time is given, else one that exceeds new settings."""
        self.is_overloaded = bool(self._unscored)
        if self._unscored:
            return self._unscored.popleft()
        if self._waiting:
            self.waiting_bytes -= self._waiting[0].ended.size_bytes
            return self._waiting.popleft()
        if now_ns is None or self._limits is self._settings:
            return None
        excess = self._excess(self._settings)
        if excess is not None:
            self._evict(*excess, now_ns)
            evicted = self.take()
            return None if evicted is None else evicted._replace(since_ns=self._adopted_ns)
        self._limits = self._settings
        self.above_bytes = 0
        return None

    def take_lost(self) -> list[OpenTrace]:
        """Return waiting traces of partitions that are lost."""
        lost: list[OpenTrace] = []
        for queue in (self._waiting, self._unscored):
            for one in tuple(queue):
                if isinstance(one.ended, OpenTrace) and one.ended.is_lost:
                    queue.remove(one)
                    lost.append(one.ended)
        self.waiting_bytes = sum(one.ended.size_bytes for one in self._waiting)
        return lost

    def _excess(self, limits: AssembleSettings) -> tuple[OpenTrace | OpenConversation, ClosedBecause] | None:
        """Return the trace or conversation that must leave next, and why."""
        trace, conversation = self._traces.oldest, self._conversations.oldest
        if trace is not None and len(self._traces) > limits.max_open:
            return trace, "max_open"
        if conversation is not None and len(self._conversations) > limits.max_open:
            return conversation, "max_open"
        oldest = self._oldest() if self.open_bytes > limits.max_open_bytes else None
        return None if oldest is None else (oldest, "max_open_bytes")

    def _oldest(self) -> OpenTrace | OpenConversation | None:
        trace, conversation = self._traces.oldest, self._conversations.oldest
        if trace is None or conversation is None:
            return trace or conversation
        return trace if trace.opened_ns <= conversation.opened_ns else conversation

    def _evict(self, oldest: OpenTrace | OpenConversation, because: ClosedBecause, now_ns: int) -> None:
        if isinstance(oldest, OpenTrace):
            self._traces.take(oldest, now_ns)
        else:
            self._conversations.take(oldest, now_ns)
        self._waiting.append(Evicted(oldest, because, now_ns))
        self.waiting_bytes += oldest.size_bytes
        max_bytes = self._settings.max_open_bytes // _BYTES_SHARE
        while (
            len(self._waiting) - 1 > _MAX_WAITING or self.waiting_bytes - self._waiting[0].ended.size_bytes > max_bytes
        ):
            evicted = self._waiting.popleft()
            ended = evicted.ended
            self.waiting_bytes -= ended.size_bytes
            if isinstance(ended, OpenTrace):
                self.overloaded.append(ended.trace_id)
                # Traces of a conversation are needed to mark that as incomplete.
                if len(self._unscored) >= _MAX_WAITING and not ended.is_scored and ended.conversation is None:
                    self.shed_traces.append(ended)
                    continue
            self._unscored.append(evicted)


_MAX_BEGUN = 100_000


class Recovery:
    """What other processes did with traces that are read here."""

    def __init__(self, traces: OpenTraces, conversations: OpenConversations, eviction: Eviction) -> None:
        self._traces = traces
        self._conversations = conversations
        self._eviction = eviction
        # Ids of traces whose first messages are committed, in order of time.
        self.begun: dict[str, None] = {}
        # Since when the message broker could not be read.
        self._stalled_since_ns: int | None = None
        # While the journal of an earlier process is read.
        self.is_running = False

    def restore(self, closed: Iterable[ClosedId], now_ns: int) -> None:
        """Remember what an earlier process closed, before its journal is read: the traces are not scored again."""
        self.is_running = True
        self.remember(closed, (), now_ns)

    def remember(self, closed: Iterable[ClosedId], begun: Iterable[str], now_ns: int) -> None:
        """Remember what other processes have closed, and traces `begun`, whose first messages are not read again."""
        for one in closed:
            # At any age: entries of a journal may be as old.
            memory = self._traces.closed if one.scope == "trace" else self._conversations.closed
            memory.add(one.id, now_ns, one.closed_ns)
        self.begun.update(dict.fromkeys(begun))
        while len(self.begun) > _MAX_BEGUN:
            del self.begun[next(iter(self.begun))]

    def forget(self) -> Iterator[tuple[str, Collection[Source]]]:
        """Drop open traces of lost partitions, as if they had never come; yield their ids and entries."""
        for trace in [trace for trace in self._traces if trace.is_lost]:
            self._traces.remove(trace)
            yield trace.trace_id, trace.entries
        for trace in self._eviction.take_lost():
            self._traces.closed.remove(trace.trace_id)
            yield trace.trace_id, trace.entries

    def open_traces_of(self, entries: Collection[Source]) -> Sequence[tuple[str, Assignment]]:
        """Return the ids of open traces that need one of these entries, with their partitions."""
        wanted = set(entries)
        needing = [trace for trace in self._traces if not wanted.isdisjoint(trace.entries)]
        return [(trace.trace_id, trace.assignment) for trace in needing if trace.assignment is not None]

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
