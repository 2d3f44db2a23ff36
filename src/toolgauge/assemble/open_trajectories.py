"""Open traces and conversations: by id, in the order in which they opened, with their memory and due times.

A turn of a dialogue is often a trace of its own: closed traces are gathered by conversation id until the conversation is idle.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from hashlib import blake2b
from heapq import heapify, heappop, heappush
from math import inf

from msgspec.structs import replace

from toolgauge.assemble.cross_trace import raw_id
from toolgauge.assemble.join import GatheredTrace, join
from toolgauge.assemble.settings import AssembleSettings
from toolgauge.assemble.trace import OpenTrace
from toolgauge.model.delivery import Source
from toolgauge.model.observations import ModelInput, Reading
from toolgauge.model.records import SpanHead
from toolgauge.model.trajectory import ClosedBecause, Trajectory


class ClosedIds:
    """Remembers ids for `keep_ns` after they were last heard of, at most `capacity`."""

    def __init__(self, capacity: int, keep_ns: int) -> None:
        self._capacity = capacity
        self._keep_ns = keep_ns
        # When it was closed and last heard of; the least recently heard of first.
        self._closed = OrderedDict[bytes, tuple[int, int]]()

    def add(self, closed_id: str, now_ns: int, closed_ns: int | None = None) -> None:
        """Remember from now on that something was closed, now or earlier."""
        key = _compact(closed_id)
        self._closed[key] = (now_ns if closed_ns is None else closed_ns, now_ns)
        self._closed.move_to_end(key)
        while len(self._closed) > self._capacity or now_ns - next(iter(self._closed.values()))[1] > self._keep_ns:
            self._closed.popitem(last=False)

    def remove(self, closed_id: str) -> None:
        """Forget that something was closed."""
        self._closed.pop(_compact(closed_id), None)

    def holds(self, closed_id: str, now_ns: int) -> bool:
        """Return whether it is known to be closed."""
        entry = self._closed.get(_compact(closed_id)) if self._closed else None
        return entry is not None and now_ns - entry[1] <= self._keep_ns

    def late_by_ns(self, closed_id: str, now_ns: int) -> int | None:
        """Return how long ago it was closed, and remember it on: who is late once may be late again."""
        if not self.holds(closed_id, now_ns):
            return None
        closed_ns, _ = self._closed[_compact(closed_id)]
        self.add(closed_id, now_ns, closed_ns)
        return now_ns - closed_ns


def _compact(closed_id: str) -> bytes:
    """Return 16 bytes that stand for the id."""
    return blake2b(closed_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()


_MOSTLY_STALE = 4
_ALLOWED_STALE = 1000


class Schedule:
    """Keys by due time, of equal times the first noted first; `due_of` returns the true time of a key, `None` when it is gone."""

    def __init__(self, due_of: Callable[[str], int | None]) -> None:
        self._due_of = due_of
        self._heap: list[tuple[float, int, str]] = []
        # The entry in the heap that counts for a key, which is never later than the true time, and the key's number.
        self._entry: dict[str, tuple[float, int]] = {}
        self._notes = 0

    def note(self, key: str, due_ns: int) -> None:
        """Note that a key may be due at this time; a later time than noted before is ignored."""
        noted_ns, number = self._entry.get(key, (inf, None))
        if due_ns >= noted_ns:
            return
        if number is None:
            number = self._notes = self._notes + 1
        self._entry[key] = (due_ns, number)
        heappush(self._heap, (due_ns, number, key))
        if len(self._heap) > _MOSTLY_STALE * len(self._entry) + _ALLOWED_STALE:
            # A trace that ended waits no longer for the parent it lacked, but the time of that wait is in the heap.
            self._heap = [(*entry, one) for one, entry in self._entry.items()]
            heapify(self._heap)

    def next_due_ns(self, until_ns: float = inf) -> int | None:
        """Return when the first key is due, `None` when that is later than `until_ns`."""
        # As entries are never late, the first one later than that ends the search.
        while self._heap and self._heap[0][0] <= until_ns:
            entry_ns, number, key = self._heap[0]
            if self._entry.get(key) != (entry_ns, number):
                heappop(self._heap)
                continue
            due_ns = self._due_of(key)
            if due_ns is not None and due_ns <= entry_ns:
                return due_ns
            heappop(self._heap)
            self._entry[key] = (inf, number)
            if due_ns is None:
                del self._entry[key]
            else:
                self.note(key, due_ns)
        return None

    def pop_due(self, now_ns: int) -> str | None:
        """Take away the first key if it is due."""
        if not self._heap or self._heap[0][0] > now_ns or self.next_due_ns(now_ns) is None:
            return None
        key = heappop(self._heap)[2]
        del self._entry[key]
        return key

    def forget(self, key: str) -> None:
        """Drop a key; its entry in the heap goes when its time comes, or when too many such entries wait."""
        self._entry.pop(key, None)


class OpenTraces:
    """Open traces by id and raw id, and the ids of closed ones."""

    def __init__(self, settings: AssembleSettings) -> None:
        self.size_bytes = 0
        self.by_id: dict[str, OpenTrace] = {}
        # The ids of most spans are raw bytes.
        self.by_raw_id: dict[bytes, OpenTrace] = {}
        self.closed = ClosedIds(settings.late_memory.traces, settings.late_memory.for_)
        self._by_conversation: dict[str, set[str]] = {}
        self._schedule = Schedule(lambda trace_id: self.by_id[trace_id].next_ns() if trace_id in self.by_id else None)
        # Traces whose due time may have changed since the schedule was last asked: each span changes that of its trace.
        self._moved: dict[OpenTrace, None] = {}

    def __len__(self) -> int:
        return len(self.by_id)

    def __iter__(self) -> Iterator[OpenTrace]:
        return iter(self.by_id.values())

    @property
    def oldest(self) -> OpenTrace | None:
        """The trace that was opened first."""
        return next(iter(self.by_id.values()), None)

    def open(self, trace: OpenTrace) -> None:
        """Add a trace."""
        self.by_id[trace.trace_id] = trace
        self.by_raw_id[raw_id(trace.trace_id)] = trace
        self.size_bytes += trace.size_bytes

    def add(self, trace: OpenTrace, reading: Reading, now_ns: int, given: ModelInput | None) -> None:
        """Add a reading to its trace."""
        before_bytes, conversation = trace.size_bytes, trace.conversation
        try:
            trace.add(reading, now_ns, given)
        finally:
            self.size_bytes += trace.size_bytes - before_bytes
        self._moved[trace] = None
        if trace.conversation is not conversation:
            self._leave_conversation(trace, conversation)
            if trace.conversation is not None:
                self._by_conversation.setdefault(trace.conversation[1], set()).add(trace.trace_id)

    def add_head(self, trace: OpenTrace, head: SpanHead, now_ns: int) -> None:
        """Add the ids of a span that no dialect reads to its trace."""
        before_bytes = trace.size_bytes
        parent = head.parent_span_id.hex() or None
        trace.add_ids(head.span_id.hex(), parent, is_remote=head.parent_is_remote is True, now_ns=now_ns)
        self.size_bytes += trace.size_bytes - before_bytes
        self._moved[trace] = None

    def finish_runs(self, trace: OpenTrace, now_ns: int) -> Iterator[Trajectory]:
        """Close the runs of a trace that have ended below a span that does not, unless an earlier process closed them."""
        before_bytes = trace.size_bytes
        for trajectory in trace.finish_runs(now_ns).values():
            if not self.closed.holds(trajectory.closed_id, now_ns):
                self.closed.add(trajectory.closed_id, now_ns)
                yield trajectory
        self.size_bytes += trace.size_bytes - before_bytes
        self._moved[trace] = None

    def postpone(self, trace: OpenTrace, by_ns: int) -> None:
        """Close a trace later: nothing of it could arrive meanwhile."""
        trace.postpone(by_ns)
        self._moved[trace] = None

    def take(self, trace: OpenTrace, now_ns: int) -> None:
        """Remove a trace, which is closed from here on."""
        self.remove(trace)
        self.closed.add(trace.trace_id, now_ns)

    def remove(self, trace: OpenTrace) -> None:
        """Remove a trace without closing it."""
        del self.by_id[trace.trace_id]
        del self.by_raw_id[raw_id(trace.trace_id)]
        self.size_bytes -= trace.size_bytes
        self._moved.pop(trace, None)
        self._schedule.forget(trace.trace_id)
        self._leave_conversation(trace, trace.conversation)

    def next_due_ns(self) -> int | None:
        """Return when a trace may be due, or may have runs that ended below a span that is missing."""
        return self._noted().next_due_ns()

    def pop_due(self, now_ns: int) -> OpenTrace | None:
        """Return a trace that is due, which is still open; it is not returned again unless it moves."""
        trace_id = self._noted().pop_due(now_ns)
        return None if trace_id is None else self.by_id[trace_id]

    def _noted(self) -> Schedule:
        for trace in self._moved:
            self._schedule.note(trace.trace_id, trace.next_ns())
        self._moved.clear()
        return self._schedule

    def conversation_due_ns(self, conversation_id: str) -> int | None:
        """Return when any open trace of the conversation is due, `None` without one; then another trace is asked."""
        trace_id = next(iter(self._by_conversation.get(conversation_id, ())), None)
        return None if trace_id is None else self.by_id[trace_id].due()[0]

    def _leave_conversation(self, trace: OpenTrace, conversation: tuple[int, str] | None) -> None:
        if conversation is not None and (together := self._by_conversation.get(conversation[1])) is not None:
            together.discard(trace.trace_id)
            if not together:
                del self._by_conversation[conversation[1]]


class OpenConversation:
    """A conversation that is not closed yet."""

    def __init__(self, conversation_id: str, settings: AssembleSettings, now_ns: int) -> None:
        self.conversation_id = conversation_id
        self.opened_ns = now_ns
        self.active_ns = now_ns
        self.size_bytes = 0
        self.traces: list[GatheredTrace] = []
        # Each once for every trace that needs it.
        self.entries: list[Source] = []
        # Why one of the traces may lack spans.
        self.incomplete: str | None = None
        self.is_scored = False
        self._settings = settings

    def due(self) -> tuple[int, ClosedBecause]:
        """Return when the conversation closes if no trace of it comes, and why."""
        idle_ns = self.active_ns + self._settings.conversation_idle_timeout
        last_ns = self.opened_ns + self._settings.max_duration
        return (idle_ns, "conversation_idle") if idle_ns <= last_ns else (last_ns, "max_duration")

    def trajectory(self, because: ClosedBecause) -> Trajectory | None:
        """Join the traces: an answer may be in another trace than its call."""
        joined = join(self.traces, scope="conversation", closed_because=because)
        return replace(joined, conversation_id=self.conversation_id) if joined is not None else None


class OpenConversations:
    """Open conversations by id, and the ids of closed ones."""

    def __init__(self, settings: AssembleSettings, traces: OpenTraces) -> None:
        self.size_bytes = 0
        self.settings = settings
        self.by_id: dict[str, OpenConversation] = {}
        self.closed = ClosedIds(settings.late_memory.traces, settings.late_memory.for_)
        self._traces = traces
        self.schedule = Schedule(self._due_ns)

    def __len__(self) -> int:
        return len(self.by_id)

    @property
    def oldest(self) -> OpenConversation | None:
        """The conversation that was opened first."""
        return next(iter(self.by_id.values()), None)

    def add(self, conversation_id: str, trace: OpenTrace, incomplete: str | None, now_ns: int) -> int | None:
        """Add a closed trace; return how late it is where its conversation was closed before."""
        conversation = self.by_id.get(conversation_id)
        if conversation is None:
            late_ns = self.closed.late_by_ns(conversation_id, now_ns)
            if late_ns is not None:
                return late_ns
            conversation = self.by_id[conversation_id] = OpenConversation(conversation_id, self.settings, now_ns)
        conversation.traces.append(trace.gathered())
        conversation.entries.extend(trace.entries)
        conversation.incomplete = conversation.incomplete or incomplete
        conversation.active_ns = now_ns
        conversation.size_bytes += trace.size_bytes
        self.size_bytes += trace.size_bytes
        self.schedule.note(conversation_id, conversation.due()[0])
        return None

    def pop_due(self, now_ns: int) -> tuple[OpenConversation, int] | None:
        """Remove a conversation that is due, if there is one; also return since when it is."""
        conversation_id = self.schedule.pop_due(now_ns)
        if conversation_id is None:
            return None
        conversation, due_ns = self.by_id[conversation_id], self._due_ns(conversation_id)
        self.take(conversation, now_ns)
        return conversation, now_ns if due_ns is None else due_ns

    def take(self, conversation: OpenConversation, now_ns: int) -> None:
        """Remove a conversation, which is closed from here on."""
        del self.by_id[conversation.conversation_id]
        self.size_bytes -= conversation.size_bytes
        self.schedule.forget(conversation.conversation_id)
        self.closed.add(conversation.conversation_id, now_ns)

    def _due_ns(self, conversation_id: str) -> int | None:
        conversation = self.by_id.get(conversation_id)
        if conversation is None:
            return None
        due_ns, because = conversation.due()
        open_until_ns = self._traces.conversation_due_ns(conversation_id)
        if because == "max_duration" or open_until_ns is None:
            return due_ns
        # A turn that is still running is activity, however long its model takes.
        last_ns = conversation.opened_ns + self.settings.max_duration
        return min(last_ns, max(due_ns, open_until_ns + self.settings.conversation_idle_timeout))
