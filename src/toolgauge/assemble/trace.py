"""Holds one trace while its spans arrive: readings, parents, and the evidence that its run has ended.

Only a complete chain of parents distinguishes the end of the run from the end of a sub-agent.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Literal, Protocol

from msgspec.structs import replace

from toolgauge.assemble.cutting import Cutter, fingerprint
from toolgauge.assemble.join import GatheredTrace, join
from toolgauge.assemble.settings import AssembleSettings
from toolgauge.assemble.weight import LOG_KEY_BYTES, Scale, weight_together
from toolgauge.model.delivery import Assignment, Source
from toolgauge.model.left_out import NOTHING_LEFT_OUT
from toolgauge.model.observations import (
    AgentRun,
    CallRequested,
    ConversationSeen,
    MessageSeen,
    Reading,
    SpanFailed,
    WaitingSpan,
)
from toolgauge.model.trajectory import ClosedBecause, Trajectory

# What a trace takes by itself, the tables in which it is looked up included.
_TRACE_BYTES = 1100
# A trace that was cut is cut again when it has grown by this part.
_SHARE = 4
# What the ids of one span take: two texts and an entry in a table.
_HEAD_BYTES = 210
# What a span that waits as bytes takes beside them: three ids, and entries in two tables.
_WAITING_BYTES = 600


class SpanReader(Protocol):
    """Reads spans that waited as bytes."""

    def read(self, span: WaitingSpan) -> Reading | None:
        """Read all of the span; `None` when nothing can be read from it."""
        ...

    def read_history(self, span: WaitingSpan) -> Sequence[CallRequested | MessageSeen]:
        """Read the calls in the history that a model's span was given."""
        ...


class OpenTrace:
    """A trace that is not closed yet. There may be thousands: empty dicts take a quarter of the memory of empty sets."""

    def __init__(
        self, trace_id: str, settings: AssembleSettings, now_ns: int, scale: Scale, reader: SpanReader
    ) -> None:
        self.trace_id = trace_id
        self.opened_ns = now_ns
        self.active_ns = now_ns
        self.conversation: tuple[int, str] | None = None
        # The sources of requests that hold something of the trace.
        self.entries: dict[Source, None] = {}
        # Scored by an earlier process; it is here for its conversation.
        self.is_scored = False
        self.assignment: Assignment | None = None
        # Another process read its first messages, and they are not read again.
        self.is_begun = False
        self.size_bytes = _TRACE_BYTES
        self._settings = settings
        self._ended_ns: int | None = None
        self._scale = scale
        self._reader = reader
        # By span, and for log records by what they say.
        self._readings: dict[Hashable, Reading | WaitingSpan] = {}
        # Spans of models that were read when they came, for their histories.
        self._inputs: dict[str, WaitingSpan] | None = None
        self._readings_bytes = 0
        # Bytes of what was read; above this the text is cut to what may be kept.
        self._received = 0
        self._cut_above = settings.max_content_bytes
        self._cutter: Cutter | None = None
        # The spans that have arrived, with their parents; where the ids came first, they stay what they were.
        self._parents: dict[str, str | None] = {}
        # Parents of this service, and spans of log records, that have not arrived.
        self._missing: dict[str, None] = {}
        # Chains from agent runs upward: where they wait for the next parent, and which spans they passed.
        self._awaited: dict[str, None] = {}
        self._passed: dict[str, None] = {}

    @property
    def readings(self) -> Sequence[Reading]:
        """What was read so far; spans without a parent are always among it."""
        return [one for one in self._readings.values() if type(one) is Reading]

    def add(self, reading: Reading | WaitingSpan, now_ns: int, given: WaitingSpan | None = None) -> None:
        """Add a new reading, or a span to be read later; `given` is the span of a reading whose model was given a history."""
        if given is not None and given.ref.span_id not in self._readings:
            self._inputs = self._inputs or {}
            self._inputs[given.ref.span_id] = given
            self.size_bytes += _WAITING_BYTES + len(given.raw)
        span_id, parent, is_remote = reading.ref.span_id, reading.parent_span_id, reading.parent_is_remote
        if type(reading) is WaitingSpan:
            if span_id not in self._readings:
                self.active_ns = now_ns
                self._readings[span_id] = reading
                size = len(reading.raw)
                self._received += size
                self.size_bytes += _WAITING_BYTES + size + self._scale.resource(reading.resource)
                self._add_parent(span_id, parent, is_remote=is_remote is True, now_ns=now_ns)
                if reading.operation == "agent_run":
                    self._climb(span_id, now_ns)
                if self._received > self._cut_above:
                    self._cut()
        elif not (reading.observations or reading.attributes):
            if not reading.is_log:
                self.add_ids(span_id, parent, is_remote=is_remote is True, now_ns=now_ns)
        else:
            key: Hashable = span_id
            if reading.is_log:
                # Equal records are repetitions. A hash: the content would take as much memory as the reading itself.
                content = hash(tuple([fingerprint(seen) for seen in reading.observations]))
                key = (span_id, reading.start_ns, reading.scope, reading.size_bytes, content)
            if key not in self._readings:
                self.active_ns = now_ns
                self._readings[key] = reading
                self._received += reading.size_bytes
                self._weigh(reading)
                if self._received > self._cut_above:
                    self._cut()
                if not reading.is_log:
                    self._add_parent(span_id, parent, is_remote=is_remote is True, now_ns=now_ns)
                else:
                    self.size_bytes += LOG_KEY_BYTES
                    if span_id not in self._parents:
                        self._missing[span_id] = None
                self._note(reading, now_ns)

    def add_ids(self, span_id: str, parent: str | None, *, is_remote: bool, now_ns: int) -> None:
        """Add the ids of a span that no dialect reads."""
        if span_id not in self._parents:
            self.active_ns = now_ns
            self.size_bytes += _HEAD_BYTES
            self._add_parent(span_id, parent, is_remote=is_remote, now_ns=now_ns)

    def is_new_entry(self, entry: Source) -> bool:
        """Note that the source holds something of the trace; False where that is known."""
        before = len(self.entries)
        self.entries[entry] = None
        return len(self.entries) > before

    @property
    def is_lost(self) -> bool:
        """Whether its partition belongs to another process."""
        return self.assignment is not None and self.assignment.is_lost

    def due(self) -> tuple[int, ClosedBecause]:
        """Return when the trace closes if nothing more comes, and why."""
        # Asked for often: plain comparisons cost a third of what a list of candidates does.
        limits = self._settings
        if self._missing:
            due_ns, because = self.active_ns + limits.open_idle_timeout, "open_idle"
        else:
            due_ns, because = self.active_ns + limits.idle_timeout, "idle"
        last_ns = self.opened_ns + limits.max_duration
        if last_ns < due_ns:
            due_ns, because = last_ns, "max_duration"
        if self._ended_ns is not None and self._ended_ns + limits.run_end_grace < due_ns:
            return self._ended_ns + limits.run_end_grace, "run_ended"
        return due_ns, because

    def postpone(self, by_ns: int) -> None:
        """Close later: nothing could arrive meanwhile."""
        self.active_ns += by_ns
        if self._ended_ns is not None:
            self._ended_ns += by_ns

    def dangling(self) -> Literal["spans", "log_records"] | None:
        """Return whether parents of agent, model or tool spans, or of log records outside of ended runs, have not arrived."""
        known: dict[str, bool] = {}
        runs: list[Reading | WaitingSpan] = []
        spans: list[Reading | WaitingSpan] = []
        logs: list[Reading] = []
        for one in self._readings.values():
            if type(one) is WaitingSpan:
                is_run, is_of_run = one.operation == "agent_run", True
            elif one.is_log:
                logs.append(one)
                continue
            else:
                is_run = any(type(seen) is AgentRun for seen in one.observations)
                is_of_run = any(type(seen) not in (ConversationSeen, SpanFailed) for seen in one.observations)
            if is_run:
                runs.append(one)
                known[one.ref.span_id] = False
            if is_of_run:
                spans.append(one)
        loose = [one for one in spans if _dangles(one.ref.span_id, known, self._parents)]
        # The spans between a run and its models may be filtered out: then each began while a run was active.
        times = [(run.start_ns, run.end_ns) for run in self._read(runs)] if loose else []
        starts = [one.start_ns for one in self._read(loose)]
        if loose and not (runs and all(any(start <= at <= end for start, end in times) for at in starts)):
            return "spans"
        has_loose_log = not runs and any(_dangles(one.ref.span_id, known, self._parents) for one in logs)
        return "log_records" if has_loose_log else None

    def shows_parents(self) -> bool:
        """Return whether a span has a parent that has arrived."""
        return any(parent in self._parents for parent in self._parents.values())

    def gathered(self) -> GatheredTrace:
        """Read the waiting spans, and return all readings."""
        if self._received > self._settings.max_content_bytes:
            self._cut()
        return self._gathered(self._read(self._readings.values()))

    def trajectory(self, because: ClosedBecause, elsewhere: Sequence[Reading] = ()) -> Trajectory | None:
        """Join the readings, also those found `elsewhere`."""
        gathered = self.gathered()
        if elsewhere:
            gathered = replace(gathered, readings=(*gathered.readings, *elsewhere))
        return join([gathered], scope="trace", closed_because=because)

    def read_waiting(self, which: Callable[[WaitingSpan], bool]) -> None:
        """Read waiting spans."""
        for key, span in [*self._readings.items()]:
            if type(span) is WaitingSpan and which(span):
                self.size_bytes -= _WAITING_BYTES + len(span.raw)
                reading = self._reader.read(span)
                if reading is None:
                    del self._readings[key]
                else:
                    self._readings[key] = reading
                    self._weigh(reading)
                    self._note(reading, self.active_ns)
        for key, span in [*(self._inputs or {}).items()]:
            if self._inputs is not None and which(span):
                del self._inputs[key]
                self.size_bytes -= _WAITING_BYTES + len(span.raw)

    def _history(self, span_id: str) -> Sequence[CallRequested | MessageSeen]:
        """Read the calls in a model's history; none where memory was too short to keep the span."""
        span = self._readings.get(span_id)
        if type(span) is not WaitingSpan:
            span = self._inputs.get(span_id) if self._inputs is not None else None
        return self._reader.read_history(span) if span is not None else ()

    def _read(self, ones: Iterable[Reading | WaitingSpan]) -> list[Reading]:
        read = [self._reader.read(one) if type(one) is WaitingSpan else one for one in ones]
        return [reading for reading in read if reading is not None]

    def _gathered(self, readings: Sequence[Reading]) -> GatheredTrace:
        return GatheredTrace(
            trace_id=self.trace_id,
            readings=readings,
            parents=self._parents,
            left_out=NOTHING_LEFT_OUT if self._cutter is None else self._cutter.left_out,
            history=self._history,
        )

    def _weigh(self, reading: Reading) -> None:
        weight, offered = self._scale.weights(reading)
        self._readings_bytes += weight
        self.size_bytes += weight + offered

    def _cut(self) -> None:
        """Cut the text to the size that may be kept."""
        if self._cutter is None:
            self._cutter = Cutter(self._settings.max_content_bytes)
        self.read_waiting(lambda _span: True)
        readings = {key: one for key, one in self._readings.items() if type(one) is Reading}
        self._cutter.fit(readings)
        self._readings.update(readings)
        before_bytes = self._readings_bytes
        self._readings_bytes = weight_together(readings.values()) + self._cutter.index.size_bytes
        self.size_bytes += self._readings_bytes - before_bytes
        # A long trace is cut many times: each time when it has grown by a share of its size.
        self._cut_above = self._received + max(self._settings.max_content_bytes, self._readings_bytes // _SHARE)

    def _note(self, reading: Reading, now_ns: int) -> None:
        """Note the conversation of the trace, and the end of a run."""
        # Asked of every span: a loop costs half of what a generator does, and classes a fifth of `isinstance`.
        for seen in reading.observations:
            if type(seen) is ConversationSeen:
                ranked = (seen.rank, seen.conversation_id)
                if self.conversation is None or ranked < self.conversation:
                    self.conversation = ranked
            elif type(seen) is AgentRun and not reading.is_log:
                self._climb(reading.ref.span_id, now_ns)

    def _add_parent(self, span_id: str, parent: str | None, *, is_remote: bool, now_ns: int) -> None:
        """Note the parent of a span that arrived; an id that came before keeps its parent."""
        if span_id in self._parents:
            return
        self._parents[span_id] = parent
        if span_id in self._missing:
            del self._missing[span_id]
        if parent is not None and parent not in self._parents and not is_remote:
            self._missing[parent] = None
        if span_id in self._awaited:
            del self._awaited[span_id]
            self._climb(span_id, now_ns)

    def _climb(self, span_id: str, now_ns: int) -> None:
        """Follow the chain of parents of an agent run. Every span is passed once, circles end it."""
        at: str = span_id
        while at not in self._passed:
            self._passed[at] = None
            parent = self._parents[at]
            if parent is None:
                # Keep the first: a run that ends again within the grace does not prolong it.
                self._ended_ns = now_ns if self._ended_ns is None else self._ended_ns
                return
            if parent not in self._parents:
                self._awaited[parent] = None
                return
            at = parent


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
