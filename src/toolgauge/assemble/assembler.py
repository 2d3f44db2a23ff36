"""Gathers readings by trace, and traces by conversation, until evidence shows that they are complete.

Readings arrive in any order, some twice and some too late. A closed trace stays closed: scored twice, it would count
twice in every metric. `Completeness` decides whether a missing span is still running or was filtered out on the way.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.assemble.cross_trace import RecentSpans, UnmatchedResults, WaitingCalls, head_of, raw_id
from toolgauge.assemble.eviction import Eviction, Recovery
from toolgauge.assemble.memory import Scale
from toolgauge.assemble.open_trajectories import OpenConversation, OpenConversations, OpenTraces
from toolgauge.assemble.settings import AssembleSettings
from toolgauge.assemble.trace import OpenTrace, ReadHistory
from toolgauge.model.delivery import NO_ENTRY, BrokerMessage, Source
from toolgauge.model.observations import CallAnswered, ConversationSeen, ModelInput, Reading
from toolgauge.model.records import PackedHead, SpanHead, SpanRef
from toolgauge.model.trajectory import ClosedBecause, Trajectory
from toolgauge.selfmetrics import SelfMetrics

# Called once for each service whose spans have parents that never arrived.
OnMissingParents: TypeAlias = Callable[[str | None], None]
# Called with the service of a trace that has waited for `LONG_WAIT_NS`, and the span that it waits for.
OnLongWait: TypeAlias = Callable[[str | None, SpanRef], None]

# Closed while more could have come.
_IN_PASSING: frozenset[ClosedBecause] = frozenset(("shutdown", "max_open", "max_open_bytes", "memory", "max_duration"))
_MAX_SERVICES = 1000
# Half of the entries are forgotten then, because filters on the way may change.
_MAX_COUNT = 1000
_MAX_UNSEEN = 10_000
_BATCHES_NS = 60_000_000_000
_BEGUN = "its first messages were committed while it was open (`max_uncommitted`), and its partition has moved since"
_PART = "it is one of several runs of a trace, below a span that failed and never ended (parent_missing)"
_REST = (
    "runs of its trace were scored on their own, as a span that contains them failed and did not end (parent_missing)"
)
_BEGAN_BEFORE = "it began before this process began to receive"


def _began_before(trajectory: Trajectory, since_ns: int | None, grace_ns: int) -> bool:
    """Return whether it began before the moment. One that ended `grace_ns` before it was recorded, and is sent again."""
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
        """Reset the start time used to detect half-seen runs, unless nothing was missed before."""
        if self._live_since_ns is not None:
            self._live_since_ns = live_since_ns

    def of_trace(self, trajectory: Trajectory, trace: OpenTrace, settings: AssembleSettings) -> str | None:
        """Return why the trajectory of a trace may lack spans, in words."""
        if trace.is_begun:
            return _BEGUN
        because, since_ns = trajectory.closed_because, self._live_since_ns
        # Senders retry refused requests; they do not resend spans that an earlier process accepted and lost.
        grace_ns = max(settings.run_end_grace, settings.sender_retry)
        service = self._services.get(trajectory.service)
        if service is None:
            if len(self._services) >= _MAX_SERVICES:
                del self._services[next(iter(self._services))]
            service = self._services[trajectory.service] = _Service()
        if trace.assignment is not None:
            # Written to the broker when its batch was full: well after its spans had ended.
            since_ns, grace_ns = trace.assignment.began_ns, max(settings.run_end_grace, _BATCHES_NS)
        if _began_before(trajectory, since_ns, grace_ns):
            return _BEGAN_BEFORE
        if because in _IN_PASSING:
            dangling = trace.dangling()
            is_half = dangling in ("spans", "runs") or (dangling == "log_records" and service.shows_parents)
        elif because == "open_idle":
            waits = (dangling := trace.dangling()) is not None
            is_half = waits and (service.shows_parents or dangling == "runs")
            service.count(complete=not waits, waiting=waits)
            if not is_half and not service.is_reported:
                service.is_reported = True
                self._on_missing_parents(trajectory.service)
        else:
            service.count(complete=trace.shows_parents(), waiting=False)
            return None
        what = (
            "a run of it had not ended" if dangling == "runs" else "a span that contains others of it had not arrived"
        )
        return f"{what} when it was closed ({because})" if is_half else None

    def waits_for_parents(self, service: str | None) -> bool:
        """Return whether the parents of the service's spans are expected: not where they are traced elsewhere."""
        known = self._services.get(service)
        return known is None or known.complete >= known.waiting

    def of_conversation(self, trajectory: Trajectory, conversation: OpenConversation, grace_ns: int) -> str | None:
        """Return why the trajectory of a conversation may lack spans, in words."""
        because = trajectory.closed_because
        if conversation.incomplete is not None:
            return conversation.incomplete
        if _began_before(trajectory, self._live_since_ns, grace_ns):
            return _BEGAN_BEFORE
        if trajectory.has_beginning is False:
            # Calls in histories of this conversation alone that no span shows: others are examples.
            name = trajectory.conversation_id
            seen = (one for trace in conversation.traces for reading in trace.readings for one in reading.observations)
            answered = {one.call_id for one in seen if type(one) is CallAnswered and one.call_id is not None}
            unseen = answered.difference([call.call_id for call in trajectory.calls])
            own = [call_id for call_id in unseen if self._unseen.setdefault(call_id, name) == name]
            while len(self._unseen) > _MAX_UNSEEN:
                del self._unseen[next(iter(self._unseen))]
            if own:
                return "a model was given answers to calls of earlier turns, of which no span came"
        # Later turns can only come where a process still receives: a replay has none.
        if self._live_since_ns is not None and because in _IN_PASSING:
            return f"more turns may come after it was closed ({because})"
        return None


# Parents end after their children: what arrives before a trace opens is seldom needed, and not for long.
_RECENT_SPANS = 50_000
_NS_PER_S = 1_000_000_000


class Assembler:
    """Opens traces, closes them as trajectories. Ask `closed` with every tick: evicted traces leave through it, too."""

    def __init__(
        self,
        settings: AssembleSettings,
        metrics: SelfMetrics,
        read_history: ReadHistory,
        *,
        conversations: bool,
        live_since_ns: int | None = None,
        on_missing_parents: OnMissingParents = lambda _service: None,
        on_long_wait: OnLongWait = lambda _service, _span: None,
    ) -> None:
        """`conversations`: whether criteria use them; `live_since_ns`: see `Completeness`."""
        self.settings = settings
        self._metrics = metrics
        self._read_history = read_history
        self._gathers_conversations = conversations
        # Never runs backwards: a clock that is set back must not keep traces open.
        self._now_ns = 0
        # Since when the trajectory that was closed last had been due.
        self.due_ns = 0
        self._traces = OpenTraces(settings)
        self._conversations = OpenConversations(settings, self._traces)
        self.eviction = Eviction(settings, self._traces, self._conversations)
        self.recovery = Recovery(self._traces, self._conversations, self.eviction)
        self.completeness = Completeness(live_since_ns, on_missing_parents)
        self._recent = RecentSpans(_RECENT_SPANS)
        self._unmatched = UnmatchedResults()
        self._waiting_calls = WaitingCalls()
        self._scale = Scale()
        self._on_long_wait = on_long_wait
        # Runs of traces that are still open.
        self._finished_runs: deque[Trajectory] = deque()
        # Changes since the last call of each `take_` method.
        self._claims = 0
        self._released: list[Source] = []
        self._recalled: list[tuple[OpenTrace, Sequence[SpanHead]]] = []

    @property
    def open_count(self) -> int:
        """Traces and conversations that are being assembled."""
        return len(self._traces) + len(self._conversations)

    @property
    def waiting_count(self) -> int:
        """Traces that have waited long for a span that contains others."""
        # Another thread may be opening some.
        return sum([trace.is_waiting for trace in tuple(self._traces.by_id.values())])

    def knows(self, trace_id: str) -> bool:
        """Return whether the trace has a run of an agent, open or closed a while ago."""
        return trace_id in self._traces.by_id or self._traces.closed.holds(trace_id, self._now_ns)

    def adopt(self, settings: AssembleSettings, *, conversations: bool) -> None:
        """Use other settings; open traces keep their times, and the memory of closed ones keeps its size."""
        self.settings = self._conversations.settings = settings
        self.eviction.adopt(settings, self._now_ns)
        self._gathers_conversations = conversations

    def add(self, reading: Reading, now_ns: int, entry: Source = NO_ENTRY, *, given: ModelInput | None = None) -> bool:
        """Add a reading from the request `entry`; False when it is late. `given` has a history."""
        now_ns = self._now_ns = max(now_ns, self._now_ns)
        trace = self._traces.by_id.get(reading.ref.trace_id)
        if trace is None:
            closed = self._traces.closed
            is_late = closed.holds(reading.ref.trace_id, now_ns)
            if is_late and reading.dialect is not None and not reading.is_log and not self.recovery.is_running:
                self._metrics.late.record((closed.late_by_ns(reading.ref.trace_id, now_ns) or 0) / _NS_PER_S)
            # Closed before a restart: it is needed again for its conversation.
            is_scored = is_late and self.recovery.is_running and self._gathers_conversations
            if is_late and not is_scored:
                return False
            # Many spans carry nothing but a session id: they are about no agent.
            if all(isinstance(seen, ConversationSeen) for seen in reading.observations):
                self._recent.add(reading)
                return True
            trace = self._open(reading.ref.trace_id, now_ns, entry, is_scored=is_scored)
        self._traces.add(trace, reading, now_ns, given)
        # Asked here as well: hardly any span is a trace of its own.
        if reading.parent_span_id is None:
            self._unmatched.note(reading)
        if entry and trace.is_new_entry(entry):
            self._claims += 1
        if self._traces.size_bytes > self.eviction.above_bytes:
            self._evict(now_ns)
        return True

    def add_heads(self, heads: Sequence[PackedHead], now_ns: int, entry: Source = NO_ENTRY) -> None:
        """Add the ids of spans that no dialect reads."""
        now_ns = self._now_ns = max(now_ns, self._now_ns)
        open_traces = self._traces.by_raw_id
        others = [head for head in heads if head[0] not in open_traces] if open_traces else heads
        if others:
            self._recent.add_heads(others)
        if len(others) == len(heads):
            return
        for trace_id, rest in heads:
            trace = open_traces.get(trace_id)
            if trace is not None:
                self._traces.add_head(trace, SpanHead(trace_id, rest), now_ns)
                if entry and trace.is_new_entry(entry):
                    self._claims += 1
        if self._traces.size_bytes > self.eviction.above_bytes:
            self._evict(now_ns)

    def take_opened(self) -> tuple[int, Sequence[tuple[OpenTrace, Sequence[SpanHead]]]]:
        """Return how many more open traces need the entry that was read since the last call.

        Also new traces with heads of earlier spans, whose requests may have left the journal.
        """
        claims, recalled = self._claims, self._recalled
        self._claims, self._recalled = 0, []
        return claims, recalled

    def take_released(self) -> Sequence[Source]:
        """Return the entries of traces closed since the last call, each once for every trace that needed it."""
        released, self._released = self._released, []
        return released

    def take_overloaded(self) -> Sequence[str]:
        """Return ids of traces that will not be scored, noted since the last call; count the shed ones."""
        overloaded, shed = self.eviction.overloaded, self.eviction.shed_traces
        if not overloaded:
            return ()
        self.eviction.overloaded, self.eviction.shed_traces = [], []
        self._metrics.trajectories_shed.add(len(shed))
        for trace in shed:
            self._released.extend(trace.entries)
        return overloaded

    def end_recovery(self, now_ns: int) -> None:
        """Hand traces that were closed before to their conversations."""
        now_ns = self._now_ns = max(now_ns, self._now_ns)
        for trace in [trace for trace in self._traces if trace.is_scored]:
            self._traces.take(trace, now_ns)
            self._finish(trace, "idle", now_ns)
        self.recovery.is_running = False
        self._evict(now_ns)

    def next_due_ns(self) -> int | None:
        """Return when something may become due."""
        evicted_ns = self.eviction.next_due_ns()
        if evicted_ns is not None or self._finished_runs:
            return self._now_ns if evicted_ns is None else evicted_ns
        dues = (self._traces.next_due_ns(), self._conversations.schedule.next_due_ns())
        return min([due for due in dues if due is not None], default=None)

    def closed(self, now_ns: int) -> Iterator[Trajectory]:
        """Yield the trajectories that are due, each closed as it is yielded: the others stay due."""
        now_ns = self._now_ns = max(now_ns, self._now_ns)
        while True:
            if (evicted := self.eviction.take(now_ns)) is not None:
                ended, because, self.due_ns = evicted
            elif self._finished_runs:
                yield self._finished_runs.popleft()
                continue
            elif (trace := self._traces.pop_due(now_ns)) is not None:
                look_ns = trace.look_ns()
                # A stalled one is due again when its broker can be read.
                if self.recovery.is_stalled(trace):
                    continue
                if look_ns is not None and look_ns <= now_ns:
                    self.due_ns = look_ns
                    self._look_at_wait(trace, now_ns)
                    continue
                self._traces.take(trace, now_ns)
                ended, (self.due_ns, because) = trace, trace.due()
            elif (conversation := self._conversations.pop_due(now_ns)) is not None:
                ended, self.due_ns = conversation
                because = ended.due()[1]
            else:
                return
            trajectory = self._finish(ended, because, now_ns)
            if trajectory is not None:
                yield trajectory

    def close_all(self, now_ns: int) -> Iterator[Trajectory]:
        """Yield everything that is open, at shutdown."""
        now_ns = self._now_ns = max(now_ns, self._now_ns)
        while True:
            self.due_ns = self.next_due_ns() or now_ns
            because: ClosedBecause = "shutdown"
            if (evicted := self.eviction.take()) is not None:
                ended, because, _ = evicted
            elif self._finished_runs:
                yield self._finished_runs.popleft()
                continue
            elif (ended := self._traces.oldest) is not None:
                self._traces.take(ended, now_ns)
            elif (ended := self._conversations.oldest) is not None:
                self._conversations.take(ended, now_ns)
            else:
                return
            trajectory = self._finish(ended, because, now_ns)
            if trajectory is not None:
                yield trajectory

    def _open(self, trace_id: str, now_ns: int, entry: Source, *, is_scored: bool) -> OpenTrace:
        trace = OpenTrace(trace_id, self.settings, now_ns, self._scale, self._read_history)
        trace.is_scored = is_scored
        trace.is_begun = trace_id in self.recovery.begun
        trace.assignment = entry.assignment if isinstance(entry, BrokerMessage) else None
        self._traces.open(trace)
        self.eviction.above_bytes = 0
        heads, readings = self._recent.take_heads(raw_id(trace_id)), self._recent.take(trace_id)
        if entry and (heads or readings):
            self._recalled.append((trace, [*heads, *map(head_of, readings)]))
        for head in heads:
            self._traces.add_head(trace, head, now_ns)
        for reading in readings:
            self._traces.add(trace, reading, now_ns, None)
        return trace

    def _evict(self, now_ns: int) -> None:
        # During recovery everything fitted into the process before, and traces for conversations leave soon.
        if not self.recovery.is_running:
            self.eviction.evict(now_ns)

    def _look_at_wait(self, trace: OpenTrace, now_ns: int) -> None:
        """Report a trace that has waited long, and close its runs that have ended."""
        span_id = None if trace.has_waited_long else trace.awaited_span()
        if span_id is not None and self.completeness.waits_for_parents(trace.service):
            trace.is_reported = True
            self._on_long_wait(trace.service, SpanRef(trace.trace_id, span_id))
        for run in self._traces.finish_runs(trace, now_ns):
            trajectory = self._waiting_calls.explained(run)
            self._finished_runs.append(replace(trajectory, opened_ns=trace.opened_ns, incomplete=_PART))

    def _finish(self, ended: OpenTrace | OpenConversation, because: ClosedBecause, now_ns: int) -> Trajectory | None:
        is_kept, incomplete, partition = False, None, None
        if isinstance(ended, OpenConversation):
            trajectory = ended.trajectory(because)
            if trajectory is not None:
                incomplete = self.completeness.of_conversation(trajectory, ended, self.settings.run_end_grace)
        else:
            if ended.assignment is not None:
                partition = ended.assignment.partition
            closed = self._traces.closed
            ended.close_runs([run for run in ended.runs if closed.holds(f"{ended.trace_id}-{run}", now_ns)])
            trajectory = ended.trajectory(because, self._unmatched.found(ended.readings))
            if trajectory is None and not ended.closed_runs:
                # Nothing was scored, so nothing can be scored twice: the run may still come.
                closed.remove(ended.trace_id)
            elif trajectory is not None:
                trajectory = self._waiting_calls.explained(trajectory)
                incomplete = self.completeness.of_trace(trajectory, ended, self.settings)
                incomplete = incomplete or trajectory.split_sign or (_REST if ended.closed_runs else None)
                if trajectory.conversation_id is not None:
                    is_kept = self._keep(ended, trajectory.conversation_id, incomplete, now_ns)
        if ended.entries and not is_kept:
            self._released.extend(ended.entries)
        if trajectory is None or ended.is_scored:
            return None
        return replace(trajectory, opened_ns=ended.opened_ns, incomplete=incomplete, partition=partition)

    def _keep(self, trace: OpenTrace, conversation_id: str, incomplete: str | None, now_ns: int) -> bool:
        """Hand a closed trace to its conversation; False when none takes it."""
        # Where no criterion asks for conversations any more, open ones end, and none begins.
        if not self._gathers_conversations and conversation_id not in self._conversations.by_id:
            return False
        late_ns = self._conversations.add(conversation_id, trace, incomplete, now_ns)
        if late_ns is not None and not self.recovery.is_running:
            self._metrics.late.record(late_ns / _NS_PER_S)
        self._evict(now_ns)
        return late_ns is None
