"""Open traces and conversations: by id, in the order in which they opened, with their memory and due times.

A turn of a dialogue is often a trace of its own: closed traces are gathered by conversation id until the conversation is idle.
"""

from collections.abc import Callable, Iterable, Iterator

from msgspec.structs import replace

from toolgauge.assemble.closing import ClosedIds, Schedule
from toolgauge.assemble.cross_trace import raw_id
from toolgauge.assemble.join import GatheredTrace, join
from toolgauge.assemble.settings import AssembleSettings
from toolgauge.assemble.trace import OpenTrace
from toolgauge.model.delivery import Source
from toolgauge.model.observations import CallAnswered, Reading, UnreadSpan
from toolgauge.model.records import SpanHead
from toolgauge.model.trajectory import ClosedBecause, Trajectory


class OpenTraces:
    """Open traces by id and raw id, and the ids of closed ones."""

    def __init__(self, settings: AssembleSettings) -> None:
        self.size_bytes = 0
        self.by_id: dict[str, OpenTrace] = {}
        # The ids of most spans are raw bytes.
        self.by_raw_id: dict[bytes, OpenTrace] = {}
        self.closed = ClosedIds(settings.late_memory.traces, settings.late_memory.for_)
        self._by_conversation: dict[str, set[str]] = {}
        self._schedule = Schedule(self._due_ns)
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

    def add(self, trace: OpenTrace, reading: Reading | UnreadSpan, now_ns: int, given: UnreadSpan | None) -> None:
        """Add a reading to its trace."""
        before_bytes, conversation = trace.size_bytes, trace.conversation
        try:
            trace.add(reading, now_ns, given)
        finally:
            self.size_bytes += trace.size_bytes - before_bytes
        self._moved[trace] = None
        if trace.conversation is not conversation:
            self._leave_conversation(trace, conversation)
            self._enter_conversation(trace)

    def add_head(self, trace: OpenTrace, head: SpanHead, now_ns: int) -> None:
        """Add the ids of a span that no dialect reads to its trace."""
        before_bytes = trace.size_bytes
        parent = head.parent_span_id.hex() or None
        trace.add_ids(head.span_id.hex(), parent, is_remote=head.parent_is_remote is True, now_ns=now_ns)
        self.size_bytes += trace.size_bytes - before_bytes
        self._moved[trace] = None

    def read_waiting(self, trace: OpenTrace, which: Callable[[UnreadSpan], bool]) -> None:
        """Read waiting spans of a trace, which may show its conversation."""
        before_bytes, conversation = trace.size_bytes, trace.conversation
        try:
            trace.read_waiting(which)
        finally:
            self.size_bytes += trace.size_bytes - before_bytes
        self._leave_conversation(trace, conversation)
        self._enter_conversation(trace)

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
        """Return when a trace may be due."""
        self._note_moved()
        return self._schedule.next_due_ns()

    def pop_due(self, now_ns: int) -> OpenTrace | None:
        """Return a trace that is due, which is still open; it is not returned again unless it moves."""
        self._note_moved()
        trace_id = self._schedule.pop_due(now_ns)
        return None if trace_id is None else self.by_id[trace_id]

    def _note_moved(self) -> None:
        for trace in self._moved:
            self._schedule.note(trace.trace_id, trace.due()[0])
        self._moved.clear()

    def conversation_due_ns(self, conversation_id: str) -> int | None:
        """Return when an open trace of the conversation is due; `None` without one.

        Any of them will do, there may be thousands: when its time has come, another one is asked.
        """
        trace_id = next(iter(self._by_conversation.get(conversation_id, ())), None)
        return None if trace_id is None else self._due_ns(trace_id)

    def _due_ns(self, trace_id: str) -> int | None:
        trace = self.by_id.get(trace_id)
        return trace.due()[0] if trace is not None else None

    def _enter_conversation(self, trace: OpenTrace) -> None:
        if trace.conversation is not None:
            self._by_conversation.setdefault(trace.conversation[1], set()).add(trace.trace_id)

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

    def answered_ids(self) -> set[str]:
        """Return the ids of all calls that models were given answers to, those in their histories included."""
        seen = (one for trace in self.traces for reading in trace.readings for one in reading.observations)
        return {one.call_id for one in seen if type(one) is CallAnswered and one.call_id is not None}

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
        self._schedule = Schedule(self._due_ns)

    def __len__(self) -> int:
        return len(self.by_id)

    @property
    def oldest(self) -> OpenConversation | None:
        """The conversation that was opened first."""
        return next(iter(self.by_id.values()), None)

    def add(
        self,
        conversation_id: str,
        trace: GatheredTrace,
        size_bytes: int,
        now_ns: int,
        *,
        entries: Iterable[Source],
        incomplete: str | None,
    ) -> int | None:
        """Add a closed trace; return how late it is where its conversation was closed before."""
        conversation = self.by_id.get(conversation_id)
        if conversation is None:
            late_ns = self.closed.late_by_ns(conversation_id, now_ns)
            if late_ns is not None:
                return late_ns
            conversation = self.by_id[conversation_id] = OpenConversation(conversation_id, self.settings, now_ns)
        conversation.traces.append(trace)
        conversation.entries.extend(entries)
        conversation.incomplete = conversation.incomplete or incomplete
        conversation.active_ns = now_ns
        conversation.size_bytes += size_bytes
        self.size_bytes += size_bytes
        self._schedule.note(conversation_id, conversation.due()[0])
        return None

    def next_due_ns(self) -> int | None:
        """Return when a conversation may close."""
        return self._schedule.next_due_ns()

    def take_due(self, now_ns: int) -> tuple[OpenConversation, ClosedBecause] | None:
        """Remove a conversation that is due, if there is one."""
        conversation_id = self._schedule.pop_due(now_ns)
        if conversation_id is None:
            return None
        conversation = self.by_id[conversation_id]
        self.take(conversation, now_ns)
        return conversation, conversation.due()[1]

    def take(self, conversation: OpenConversation, now_ns: int) -> None:
        """Remove a conversation, which is closed from here on."""
        del self.by_id[conversation.conversation_id]
        self.size_bytes -= conversation.size_bytes
        self._schedule.forget(conversation.conversation_id)
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
