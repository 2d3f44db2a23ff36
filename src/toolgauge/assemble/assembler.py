"""Gathers readings by trace, and traces by conversation, until evidence shows that they are complete.

Readings arrive in any order, over several connections, some of them twice and some too late. What is closed
stays closed: scoring a trajectory a second time would count it twice in every metric. Everything is bounded.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from msgspec.structs import replace

from toolgauge.assemble.closing import ClosedIds, Schedule
from toolgauge.assemble.completeness import Completeness, OnMissingParents
from toolgauge.assemble.conversations import Conversations, OpenConversation
from toolgauge.assemble.cross_trace import RecentSpans, UnmatchedResults, WaitingCalls, head_of, raw_id
from toolgauge.assemble.settings import AssembleSettings
from toolgauge.assemble.trace import OpenTrace, Reader
from toolgauge.assemble.weight import Scale
from toolgauge.model.delivery import Assignment
from toolgauge.model.journal import ClosedId
from toolgauge.model.observations import ConversationSeen, Reading, UnreadSpan
from toolgauge.model.records import PackedHead, SpanHead
from toolgauge.model.trajectory import ClosedBecause, Trajectory
from toolgauge.selfmetrics import SelfMetrics

# Parents end after their children: what arrives before a trace opens is seldom needed, and not for long.
_RECENT_SPANS = 50_000
_NS_PER_S = 1_000_000_000
# Larger spans are read when they arrive, and when memory gets short, model calls above the other size: of their histories
# little is kept. What is read from arguments and results takes more memory than their bytes.
_LARGEST_WAITING = 64 * 1024
_SMALL = 2048
_MAX_BEGUN = 100_000
_BEGUN = "its first messages were committed while it was open (`max_uncommitted`), and its partition has moved since"


def _ignore(service: str | None) -> None:
    """Do nothing, where that is not logged."""
    del service


class Assembler:
    """Open traces and conversations. Ask `closed` after every request: evicted traces leave through it."""

    def __init__(
        self,
        settings: AssembleSettings,
        metrics: SelfMetrics,
        reader: Reader,
        *,
        conversations: bool,
        content: bool = True,
        live_since_ns: int | None = None,
        on_missing_parents: OnMissingParents = _ignore,
    ) -> None:
        """`conversations` and `content`: whether criteria use them.

        `live_since_ns` is when this process began to receive; `None` where it missed nothing before. `on_missing_parents` is
        called once for each service whose spans have parents that never come.
        """
        self._settings = settings
        # How much may be open: as the settings say, or those before them, until what no longer fits has left.
        self._limits = settings
        self._adopted_ns = 0
        self._metrics = metrics
        self._now_ns = 0
        self._open: dict[str, OpenTrace] = {}
        # The same traces by raw id, which is what most spans have.
        self._open_by_id: dict[bytes, OpenTrace] = {}
        self._trace_bytes = 0
        # When open traces take no more than this, none is evicted.
        self._evict_above = 0
        self._schedule = Schedule(self._due_ns)
        # Traces whose time may have changed since the schedule was last asked, in the order in which they opened: each span changes that of its trace.
        self._moved: dict[OpenTrace, None] = {}
        self._recent = RecentSpans(_RECENT_SPANS)
        self._closed = ClosedIds(settings.late_memory.traces, settings.late_memory.for_)
        self._reader = reader
        self._with_content = content
        # From half of the memory that may be taken, and until it is a quarter.
        self._is_short = False
        self._gathers_conversations = conversations
        self._conversations = Conversations(settings, self._open_until_ns) if conversations else None
        self._open_by_conversation: dict[str, set[str]] = {}
        self._unmatched = UnmatchedResults()
        self._waiting = WaitingCalls()
        self._scale = Scale()
        # With the time when they were: that is since when they are due.
        self._evicted: deque[tuple[OpenTrace | OpenConversation, ClosedBecause, int]] = deque()
        self._evicted_bytes = 0
        self._completeness = Completeness(live_since_ns, on_missing_parents)
        # How many more traces hold the entry of the journal that is being read, and the entries of what has closed.
        self._claims = 0
        self._released: list[int] = []
        # Since when the message broker could not be read.
        self._stalled_since_ns: int | None = None
        # Traces whose first messages are committed while they were open elsewhere, in order of time.
        self._begun: dict[str, None] = {}
        self._recalled: list[tuple[OpenTrace, Sequence[SpanHead]]] = []
        self._is_recovering = False

    @property
    def open_count(self) -> int:
        """Traces and conversations that are being assembled."""
        return len(self._open) + (len(self._conversations) if self._conversations is not None else 0)

    @property
    def open_bytes(self) -> int:
        """About how much memory they take."""
        return self._trace_bytes + (self._conversations.size_bytes if self._conversations is not None else 0)

    @property
    def run_end_grace_ns(self) -> int:
        """How long a run that has ended waits for spans of other services."""
        return self._settings.run_end_grace

    @property
    def evicted_count(self) -> int:
        """Evicted traces and conversations that wait to be asked for."""
        return len(self._evicted)

    @property
    def evicted_bytes(self) -> int:
        """About how much memory those take."""
        return self._evicted_bytes

    @property
    def defers(self) -> bool:
        """Whether spans may wait as bytes: not where a conversation's id has to be known at once."""
        return not self._gathers_conversations and not self._conversations

    def may_wait(self, span: UnreadSpan) -> bool:
        """Return whether this span may wait as bytes until its trace is closed."""
        size = len(span.raw)
        return size <= _SMALL or (size <= _LARGEST_WAITING and not (self._is_short and _has_history(span)))

    def adopt(self, settings: AssembleSettings, *, conversations: bool, content: bool = True) -> None:
        """Use other settings; open traces keep their times, and the memory of closed ones keeps its size.

        Traces that exceed the new limits are due at once, but close one by one: there may be thousands of them.
        """
        self._settings = settings
        self._adopted_ns = self._now_ns
        if self._excess(settings) is None:
            self._limits = settings
        self._evict_above = 0
        self._with_content = content
        self._gathers_conversations = conversations
        if self._conversations is not None:
            self._conversations.adopt(settings)
        elif conversations:
            self._conversations = Conversations(settings, self._open_until_ns)
            for trace in self._open.values():
                self._read_waiting(trace, lambda _span: True)
                self._index(trace, None)

    def add(
        self,
        reading: Reading | UnreadSpan,
        now_ns: int,
        entry: int = 0,
        *,
        given: UnreadSpan | None = None,
        assignment: Assignment | None = None,
    ) -> bool:
        """Take what was read from one span or log record, or a span to be read later; False when it comes too late.

        `entry` is the number of its request in the journal, 0 without one. `given` is the span of a model with a history.
        """
        now_ns = self._clock(now_ns)
        trace = self._open.get(reading.ref.trace_id)
        is_scored = False
        if trace is None:
            if self._is_late(reading, now_ns):
                is_scored = self._is_recovering and self._gathers_conversations
                if not is_scored:
                    return False
            if type(reading) is Reading and not _opens(reading):
                self._recent.add(reading)
                return True
            trace = self._open_trace(reading.ref.trace_id, now_ns, entry)
            trace.is_scored = is_scored
            trace.assignment = assignment
            trace.is_begun = bool(self._begun) and reading.ref.trace_id in self._begun
        self._add_to(trace, reading, now_ns, given)
        self._moved[trace] = None
        if entry and trace.is_new_entry(entry):
            self._claims += 1
        if self._trace_bytes > self._evict_above:
            self._evict(now_ns)
        return True

    def add_heads(self, heads: Sequence[PackedHead], now_ns: int, entry: int = 0) -> None:
        """Take the ids of spans that no dialect reads."""
        now_ns = self._clock(now_ns)
        open_traces = self._open_by_id
        others = [head for head in heads if head[0] not in open_traces] if open_traces else heads
        if others:
            self._recent.add_heads(others)
        if len(others) == len(heads):
            return
        for trace_id, rest in heads:
            trace = open_traces.get(trace_id)
            if trace is not None:
                self._add_head_to(trace, SpanHead(trace_id, rest), now_ns)
                self._moved[trace] = None
                if entry and trace.is_new_entry(entry):
                    self._claims += 1
        if self._trace_bytes > self._evict_above:
            self._evict(now_ns)

    def take_claims(self) -> int:
        """Return how many more open traces hold the entry of the journal that was read since this was asked last."""
        claims, self._claims = self._claims, 0
        return claims

    def take_recalled(self) -> Sequence[tuple[OpenTrace, Sequence[SpanHead]]]:
        """Return traces that were opened since this was asked last, with the heads of theirs that had come before.

        Their requests may have left the journal.
        """
        recalled, self._recalled = self._recalled, []
        return recalled

    def take_released(self) -> Sequence[int]:
        """Return the entries of what has closed since this was asked last, each once for every trace that held it."""
        released, self._released = self._released, []
        return released

    def receive_since(self, live_since_ns: int) -> None:
        """Take another moment for the one at which this process began to receive, where it is live."""
        self._completeness.receive_since(live_since_ns)

    def restore(self, closed: Iterable[ClosedId], now_ns: int) -> None:
        """Remember what an earlier process closed and scored, in the order of time.

        What is read until `end_recovery` came before that process ended: traces that were closed then are put together again for
        their conversations, which may be open, and are not scored again.
        """
        now_ns = self._clock(now_ns)
        self._is_recovering = True
        for one in closed:
            # However long ago: what is in the journal is as old.
            if one.scope == "trace":
                self._closed.restore(one.id, one.closed_ns, now_ns)
            elif self._conversations is not None:
                self._conversations.restore_closed(one.id, one.closed_ns, now_ns)

    def remember(self, closed: Iterable[ClosedId], begun: Iterable[str], now_ns: int) -> None:
        """Remember traces that other processes have closed, and those `begun`, whose first messages are not read again."""
        now_ns = self._clock(now_ns)
        for one in closed:
            self._closed.restore(one.id, one.closed_ns, now_ns)
        for trace_id in begun:
            self._begun[trace_id] = None
        while len(self._begun) > _MAX_BEGUN:
            del self._begun[next(iter(self._begun))]

    def forget(self) -> Iterator[tuple[str, Collection[int]]]:
        """Drop open traces of lost partitions, as if they had never come; yield their ids and entries."""
        for trace in [trace for trace in self._open.values() if _is_lost(trace)]:
            self._leave(trace)
            yield trace.trace_id, trace.entries or ()
        lost = [one for one in self._evicted if isinstance(one[0], OpenTrace) and _is_lost(one[0])]
        for evicted in lost:
            trace = evicted[0]
            self._evicted.remove(evicted)
            self._evicted_bytes -= trace.size_bytes
            if isinstance(trace, OpenTrace):
                self._closed.remove(trace.trace_id)
                yield trace.trace_id, trace.entries or ()

    def open_traces_of(self, entries: Collection[int]) -> Sequence[tuple[str, Assignment]]:
        """Return the ids of open traces that need one of these entries, with their partitions."""
        wanted = set(entries)
        return [
            (trace.trace_id, trace.assignment)
            for trace in self._open.values()
            if trace.assignment is not None and trace.entries is not None and not wanted.isdisjoint(trace.entries)
        ]

    def stall(self, now_ns: int) -> None:
        """Take nothing of a message broker for quiet until `resume`: it cannot be read."""
        if self._stalled_since_ns is None:
            self._stalled_since_ns = self._clock(now_ns)

    def resume(self, now_ns: int) -> None:
        """Go on to close what comes from the message broker, as much later as it could not be read."""
        since_ns, self._stalled_since_ns = self._stalled_since_ns, None
        if since_ns is not None:
            for trace in self._open.values():
                if trace.assignment is not None:
                    trace.postpone(self._clock(now_ns) - since_ns)
                    self._moved[trace] = None

    def end_recovery(self, now_ns: int) -> None:
        """Hand traces that were closed before to their conversations."""
        now_ns = self._clock(now_ns)
        for trace in [trace for trace in self._open.values() if trace.is_scored]:
            self._take_out(trace, now_ns)
            for _ in self._finish(trace, "idle", now_ns):
                pass
        self._is_recovering = False
        self._evict(now_ns)

    def shed(self, now_ns: int) -> None:
        """Evict open traces, oldest first, until half of their bytes are left: memory is short."""
        now_ns = self._clock(now_ns)
        kept = self.open_bytes // 2
        while self.open_bytes > kept and (oldest := self._oldest()) is not None:
            self._evict_one(oldest, "memory", now_ns)

    def next_due_ns(self) -> int | None:
        """Return when something may become due."""
        if self._evicted:
            return self._evicted[0][2]
        if self._limits is not self._settings:
            return self._adopted_ns
        self._update_schedule()
        dues = [self._schedule.next_due_ns()]
        if self._conversations is not None:
            dues.append(self._conversations.next_due_ns())
        return min((due for due in dues if due is not None), default=None)

    def closed(self, now_ns: int) -> Iterator[Trajectory]:
        """Yield the trajectories that are due, each closed as it is yielded: the others stay due."""
        now_ns = self._clock(now_ns)
        yield from self._finish_evicted(now_ns)
        yield from self._finish_what_no_longer_fits(now_ns)
        self._update_schedule()
        while (trace_id := self._schedule.pop_due(now_ns)) is not None:
            trace = self._open[trace_id]
            if self._stalled_since_ns is not None and trace.assignment is not None:
                # Due again when it goes on.
                continue
            self._take_out(trace, now_ns)
            yield from self._finish(trace, trace.due()[1], now_ns)
        conversations = self._conversations
        while conversations is not None and (due := conversations.take_due(now_ns)) is not None:
            yield from self._finish(*due, now_ns)
        yield from self._finish_evicted(now_ns)

    def close_all(self, now_ns: int) -> Iterator[Trajectory]:
        """Yield everything that is open, at shutdown."""
        now_ns = self._clock(now_ns)
        yield from self._finish_evicted(now_ns)
        while self._open:
            trace = next(iter(self._open.values()))
            self._take_out(trace, now_ns)
            yield from self._finish(trace, "shutdown", now_ns)
        conversations = self._conversations
        while conversations is not None and (conversation := conversations.oldest) is not None:
            conversations.take(conversation, now_ns)
            yield from self._finish(conversation, "shutdown", now_ns)
        yield from self._finish_evicted(now_ns)

    def _clock(self, now_ns: int) -> int:
        """Never run backwards: a clock that is set back must not keep traces open."""
        if now_ns > self._now_ns:
            self._now_ns = now_ns
        return self._now_ns

    def _update_schedule(self) -> None:
        for trace in self._moved:
            self._schedule.note(trace.trace_id, trace.due()[0])
        self._moved.clear()

    def _due_ns(self, trace_id: str) -> int | None:
        trace = self._open.get(trace_id)
        return trace.due()[0] if trace is not None else None

    def _open_until_ns(self, conversation_id: str) -> int | None:
        # Any of them will do, there may be thousands: when its time has come, another one is asked.
        trace_id = next(iter(self._open_by_conversation.get(conversation_id, ())), None)
        return None if trace_id is None else self._open[trace_id].due()[0]

    def _is_late(self, reading: Reading | UnreadSpan, now_ns: int) -> bool:
        if not self._closed.holds(reading.ref.trace_id, now_ns):
            return False
        if self._is_recovering:
            return True
        if type(reading) is UnreadSpan or (reading.dialect is not None and not reading.is_log):
            late_ns = self._closed.late_by_ns(reading.ref.trace_id, now_ns)
            self._metrics.late.record((late_ns or 0) / _NS_PER_S)
        return True

    def _open_trace(self, trace_id: str, now_ns: int, entry: int) -> OpenTrace:
        trace = self._open[trace_id] = OpenTrace(trace_id, self._settings, now_ns, self._scale, self._reader)
        raw = raw_id(trace_id)
        self._open_by_id[raw] = trace
        self._trace_bytes += trace.size_bytes
        # One more may be one too many.
        self._evict_above = 0
        heads, readings = self._recent.take_heads(raw), self._recent.take(trace_id)
        if entry and (heads or readings):
            self._recalled.append((trace, [*heads, *map(head_of, readings)]))
        for head in heads:
            self._add_head_to(trace, head, now_ns)
        for reading in readings:
            self._add_to(trace, reading, now_ns, None)
        return trace

    def _add_to(self, trace: OpenTrace, reading: Reading | UnreadSpan, now_ns: int, given: UnreadSpan | None) -> None:
        before_bytes, before = trace.size_bytes, trace.conversation
        try:
            trace.add(reading, now_ns, given)
        finally:
            self._trace_bytes += trace.size_bytes - before_bytes
        # Asked here as well: hardly any span is a trace of its own.
        if reading.parent_span_id is None and type(reading) is Reading:
            self._unmatched.note(reading)
        if trace.conversation is not before:
            self._index(trace, before)

    def _add_head_to(self, trace: OpenTrace, head: SpanHead, now_ns: int) -> None:
        before_bytes = trace.size_bytes
        parent = head.parent_span_id.hex() or None
        trace.add_ids(head.span_id.hex(), parent, is_remote=head.parent_is_remote is True, now_ns=now_ns)
        self._trace_bytes += trace.size_bytes - before_bytes

    def _index(self, trace: OpenTrace, before: tuple[int, str] | None) -> None:
        """Keep track of which conversation an open trace belongs to."""
        if self._conversations is None:
            return
        self._unindex(trace.trace_id, before)
        if trace.conversation is not None:
            self._open_by_conversation.setdefault(trace.conversation[1], set()).add(trace.trace_id)

    def _unindex(self, trace_id: str, conversation: tuple[int, str] | None) -> None:
        together = self._open_by_conversation.get(conversation[1]) if conversation is not None else None
        if conversation is None or together is None:
            return
        together.discard(trace_id)
        if not together:
            del self._open_by_conversation[conversation[1]]

    def _read_waiting(self, trace: OpenTrace, which: Callable[[UnreadSpan], bool]) -> None:
        before_bytes = trace.size_bytes
        try:
            trace.read_waiting(which)
        finally:
            self._trace_bytes += trace.size_bytes - before_bytes

    def _evict(self, now_ns: int) -> None:
        if self._is_recovering:
            # It fitted into the process before, and traces that are here for their conversations leave soon.
            return
        if not self._is_short and self.open_bytes > self._limits.max_open_bytes // 2:
            self._is_short = True
            for trace in self._open.values():
                self._read_waiting(trace, _is_long_history)
        while (excess := self._excess(self._limits)) is not None:
            self._evict_one(*excess, now_ns)
        limit = self._limits.max_open_bytes if self._is_short else self._limits.max_open_bytes // 2
        self._evict_above = limit - (self.open_bytes - self._trace_bytes)

    def _excess(self, limits: AssembleSettings) -> tuple[OpenTrace | OpenConversation, ClosedBecause] | None:
        """Return what has to go next, and why."""
        conversations = self._conversations
        if len(self._open) > limits.max_open:
            return next(iter(self._open.values())), "max_open"
        if conversations is not None and len(conversations) > limits.max_open and conversations.oldest:
            return conversations.oldest, "max_open"
        oldest = self._oldest() if self.open_bytes > limits.max_open_bytes else None
        return None if oldest is None else (oldest, "max_open_bytes")

    def _oldest(self) -> OpenTrace | OpenConversation | None:
        trace = next(iter(self._open.values()), None)
        conversation = self._conversations.oldest if self._conversations is not None else None
        if trace is None or conversation is None:
            return trace or conversation
        return trace if trace.opened_ns <= conversation.opened_ns else conversation

    def _evict_one(self, oldest: OpenTrace | OpenConversation, because: ClosedBecause, now_ns: int) -> None:
        if isinstance(oldest, OpenTrace):
            self._take_out(oldest, now_ns)
        elif self._conversations is not None:
            self._conversations.take(oldest, now_ns)
        self._evicted.append((oldest, because, now_ns))
        self._evicted_bytes += oldest.size_bytes

    def _take_out(self, trace: OpenTrace, now_ns: int) -> None:
        """From here on the trace is closed."""
        self._leave(trace)
        self._closed.add(trace.trace_id, now_ns)

    def _leave(self, trace: OpenTrace) -> None:
        del self._open[trace.trace_id]
        del self._open_by_id[raw_id(trace.trace_id)]
        self._trace_bytes -= trace.size_bytes
        if self._is_short and self.open_bytes < self._limits.max_open_bytes // 4:
            self._is_short = False
            self._evict_above = 0
        self._moved.pop(trace, None)
        self._schedule.forget(trace.trace_id)
        self._unindex(trace.trace_id, trace.conversation)

    def _finish_evicted(self, now_ns: int) -> Iterator[Trajectory]:
        while self._evicted:
            ended, because, _ = self._evicted.popleft()
            self._evicted_bytes -= ended.size_bytes
            yield from self._finish(ended, because, now_ns)

    def _finish_what_no_longer_fits(self, now_ns: int) -> Iterator[Trajectory]:
        """Close as much as has to go since the limits were lowered."""
        while self._limits is not self._settings:
            excess = self._excess(self._settings)
            if excess is None:
                self._limits = self._settings
                self._evict_above = 0
                return
            self._evict_one(*excess, now_ns)
            yield from self._finish_evicted(now_ns)

    def _finish(self, ended: OpenTrace | OpenConversation, because: ClosedBecause, now_ns: int) -> Iterator[Trajectory]:
        trajectory = self._joined(ended, because)
        incomplete = None if trajectory is None else self._incomplete(ended, trajectory)
        is_kept = False
        if isinstance(ended, OpenTrace):
            if trajectory is None:
                # Nothing was scored, so nothing can be scored twice: the run may still come.
                self._closed.remove(ended.trace_id)
            elif trajectory.conversation_id is not None:
                is_kept = self._pass_on(ended, trajectory.conversation_id, incomplete, now_ns)
        if ended.entries and not is_kept:
            self._released.extend(ended.entries)
        if trajectory is not None and not ended.is_scored:
            of_partition = ended.assignment if isinstance(ended, OpenTrace) else None
            partition = None if of_partition is None else of_partition.partition
            yield replace(trajectory, opened_ns=ended.opened_ns, incomplete=incomplete, partition=partition)

    def _incomplete(self, ended: OpenTrace | OpenConversation, trajectory: Trajectory) -> str | None:
        grace_ns = self.run_end_grace_ns
        if isinstance(ended, OpenTrace):
            if ended.is_begun:
                return _BEGUN
            return self._completeness.of_trace(trajectory, ended, grace_ns) or trajectory.split_sign
        return self._completeness.of_conversation(trajectory, ended, grace_ns)

    def _joined(self, ended: OpenTrace | OpenConversation, because: ClosedBecause) -> Trajectory | None:
        if isinstance(ended, OpenConversation):
            return ended.trajectory(because)
        elsewhere = tuple(self._unmatched.found(ended.readings))
        trajectory = ended.trajectory(because, elsewhere, with_content=self._with_content)
        return None if trajectory is None else self._waiting.explained(trajectory)

    def _pass_on(self, trace: OpenTrace, conversation_id: str, incomplete: str | None, now_ns: int) -> bool:
        """Hand a closed trace to its conversation; False when none takes it."""
        # Where no criterion asks for them any more, those that are open end, and none begins.
        if self._conversations is None or not (
            self._gathers_conversations or self._conversations.holds(conversation_id)
        ):
            return False
        late_ns = self._conversations.add(
            conversation_id, trace.gathered(), trace.size_bytes, now_ns, trace.entries, incomplete
        )
        if late_ns is not None and not self._is_recovering:
            self._metrics.late.record(late_ns / _NS_PER_S)
        self._evict(now_ns)
        return late_ns is None


def _is_lost(trace: OpenTrace) -> bool:
    return trace.assignment is not None and trace.assignment.is_lost


def _has_history(span: UnreadSpan) -> bool:
    return span.operation == "model_call"


def _is_long_history(span: UnreadSpan) -> bool:
    return _has_history(span) and len(span.raw) > _SMALL


def _opens(reading: Reading) -> bool:
    """Return whether a reading is about an agent at all; many spans carry nothing but a session id."""
    return any(not isinstance(seen, ConversationSeen) for seen in reading.observations)
