"""Holds one trace while its spans arrive: readings, parents, and the evidence that its run has ended.

Only a complete chain of parents distinguishes the end of the run from the end of a sub-agent.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from itertools import compress, repeat
from operator import attrgetter, is_
from typing import Literal, TypeAlias

from msgspec.structs import replace

from toolgauge.assemble.join import GatheredTrace, join
from toolgauge.assemble.memory import LOG_KEY_BYTES, Cutter, Scale, weight_together, written_out
from toolgauge.assemble.settings import AssembleSettings
from toolgauge.model.delivery import Assignment, Source
from toolgauge.model.left_out import NOTHING_LEFT_OUT
from toolgauge.model.observations import (
    AgentRun,
    CallAnswered,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    MessageSeen,
    ModelInput,
    Reading,
    SpanFailed,
)
from toolgauge.model.trajectory import ClosedBecause, Trajectory

# When it has waited so long for a span that contains others, people are told, and runs below that span may be scored.
LONG_WAIT_NS = 180_000_000_000
# A trace without spans, with its entries in tables.
_TRACE_BYTES = 1100
# A trace that was cut is cut again when it has grown by this part.
_SHARE = 4
# The ids of one span: two texts and an entry in a table.
_HEAD_BYTES = 210
# A model's input beside its bytes: three ids, not counting the answers' ids, and a place in a list.
_INPUT_BYTES = 600
_ranked: Callable[[object], tuple[int, str]] = attrgetter("rank", "conversation_id")
# Agents with the same first answer, beside one another: of more, single inputs stay.
_MOST_BRANCHES = 16


# Reads the calls in the history that a model was given.
ReadHistory: TypeAlias = Callable[[ModelInput], Sequence[CallRequested | MessageSeen]]


class OpenTrace:
    """A trace that is not closed yet. There may be thousands: empty dicts take a quarter of the memory of empty sets."""

    def __init__(
        self, trace_id: str, settings: AssembleSettings, now_ns: int, scale: Scale, read_history: ReadHistory
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
        self._read_history = read_history
        # By span, and log records by their contents.
        self._readings: dict[Hashable, Reading] = {}
        # Inputs of models by their first answer: see `_keep_input`.
        self._inputs: dict[str, list[ModelInput]] = {}
        self._readings_bytes = 0
        # Bytes of all readings; above the limit, texts are cut.
        self._received = 0
        self._cut_above = settings.max_content_bytes
        self._cutter: Cutter | None = None
        # The spans that have arrived, with their parents; the first parent that came with an id stays.
        self._parents: dict[str, str | None] = {}
        # Parents of this service, and spans of log records, that have not arrived.
        self._missing: dict[str, None] = {}
        # Chains from agent runs upward: where they wait for the next parent, and which spans they passed.
        self._awaited: dict[str, None] = {}
        self._passed: dict[str, None] = {}
        # Spans of agent runs, with their times of arrival, and the runs that are closed on their own.
        self.runs: dict[str, int] = {}
        self.closed_runs: dict[str, None] = {}
        # Since when an ended run waits for a parent, and when to look for finished runs, once it has waited for long.
        self._waits_ns: int | None = None
        self._look_ns: int | None = None
        self.has_waited_long = self.is_reported = False

    @property
    def readings(self) -> Sequence[Reading]:
        """Its readings so far."""
        return [*self._readings.values()]

    @property
    def service(self) -> str | None:
        """The service of its first span."""
        first = next(iter(self._readings.values()), None)
        return None if first is None else first.service

    def add(self, reading: Reading, now_ns: int, given: ModelInput | None = None) -> None:
        """Add a new reading; `given` is the span of a reading whose model was given a history."""
        span_id, observations, is_log = reading.ref.span_id, reading.observations, reading.is_log
        is_open = reading.end_ns < reading.start_ns
        key: Hashable = span_id
        if is_log and (observations or reading.attributes):
            # Equal records are repetitions. A hash: the content would take as much memory as the reading itself.
            key = (span_id, reading.start_ns, reading.scope, reading.size_bytes, hash(written_out(reading)))
        known = self._readings.get(key)
        if given is not None and not is_open and (known is None or known.is_open):
            self._keep_input(given)
        if not (observations or reading.attributes):
            if not (is_log or is_open):
                self.add_ids(span_id, reading.parent_span_id, is_remote=reading.parent_is_remote is True, now_ns=now_ns)
            return
        if known is not None and not _is_newer(reading, known):
            return
        self.active_ns = now_ns
        self._readings[key] = reading
        self._received += reading.size_bytes
        weight, offered = self._scale.weights(reading)
        if known is not None:
            weight -= self._scale.weights(known)[0]
        self._readings_bytes += weight
        self.size_bytes += weight + offered
        if self._received > self._cut_above:
            self._cut()
        kinds = [*map(type, observations)]
        if is_log:
            self.size_bytes += LOG_KEY_BYTES
            if span_id not in self._parents:
                self._missing[span_id] = None
        elif is_open:
            # As if it had not come: spans below it are not complete before it has ended.
            self._missing[span_id] = None
        else:
            self._add_parent(span_id, reading.parent_span_id, is_remote=reading.parent_is_remote is True, now_ns=now_ns)
            if AgentRun in kinds:
                self.runs.setdefault(span_id, now_ns)
                self._climb(span_id, now_ns)
        if ConversationSeen in kinds:
            ranked = min(map(_ranked, compress(observations, map(is_, kinds, repeat(ConversationSeen)))))
            self.conversation = min(self.conversation or ranked, ranked)

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

    def look_ns(self) -> int | None:
        """Return when it will have waited long for a span that contains others; then, when a run below that span will have ended."""
        if self.is_scored or not self._missing:
            return None
        if self.has_waited_long:
            return self._look_ns
        return (self.active_ns if self._waits_ns is None else self._waits_ns) + LONG_WAIT_NS

    def next_ns(self) -> int:
        """Return when it is to be looked at, or closes."""
        due_ns, look_ns = self.due()[0], self.look_ns()
        return due_ns if look_ns is None else min(due_ns, look_ns)

    def postpone(self, by_ns: int) -> None:
        """Close later: nothing could arrive meanwhile."""
        self.active_ns += by_ns
        if self._ended_ns is not None:
            self._ended_ns += by_ns
        if self._waits_ns is not None:
            self._waits_ns += by_ns

    @property
    def is_waiting(self) -> bool:
        """Whether it was reported as one that waits, and still does."""
        return self.is_reported and bool(self._missing)

    def awaited_span(self) -> str | None:
        """Return a span that contains others of it and has not arrived."""
        above = {parent for parent in self._parents.values() if parent is not None}
        return next((span_id for span_id in (*self._awaited, *self._missing) if span_id in above), None)

    def finish_runs(self, now_ns: int) -> Mapping[str, Trajectory]:
        """Close the runs that have ended below a span that does not, each on its own; look again when another has ended."""
        grace_ns, self.has_waited_long = self._settings.run_end_grace, True
        runs = {run: ended_ns for run, ended_ns in self.runs.items() if run not in self.closed_runs}
        ending_ns = [ended_ns for ended_ns in runs.values() if ended_ns > now_ns - grace_ns]
        self._look_ns = min(ending_ns) + grace_ns if ending_ns else None
        found = _finished_runs(self.readings if runs else (), self._parents, runs, now_ns - grace_ns)
        joined = {
            run: join([self._gathered(together)], scope="trace", closed_because="parent_missing")
            for run, together in found.items()
        }
        self.close_runs(found)
        return {run: trajectory for run, trajectory in joined.items() if trajectory is not None}

    def close_runs(self, runs: Iterable[str]) -> None:
        """Drop what these runs and others that are closed have sent so far."""
        self.closed_runs.update(dict.fromkeys(runs))
        if not self.closed_runs:
            return
        known: dict[str, tuple[str | None, str | None]] = {}
        before = len(self._readings)
        for key, one in [*self._readings.items()]:
            if _place(one.ref.span_id, self._parents, self.closed_runs, known)[1] is not None:
                del self._readings[key]
        for inputs in self._inputs.values():
            for one in [*inputs]:
                if _place(one.span_id, self._parents, self.closed_runs, known)[1] is not None:
                    inputs.remove(one)
                    self.size_bytes -= _INPUT_BYTES + len(one.raw)
        if len(self._readings) < before:
            self._weigh_again()

    def dangling(self) -> Literal["spans", "log_records", "runs"] | None:
        """Return whether parents of agent, model or tool spans, or of log records outside of ended runs, have not arrived.

        Also whether a run has only been seen to begin.
        """
        runs: list[Reading] = []
        spans: list[Reading] = []
        logs: list[Reading] = []
        for one in self._readings.values():
            if one.is_log:
                logs.append(one)
                continue
            is_run = any(type(seen) is AgentRun for seen in one.observations)
            if one.is_open and (is_run or (one.parent_span_id is None and one.observations)):
                return "runs"
            if is_run:
                runs.append(one)
            if any(type(seen) not in (ConversationSeen, SpanFailed) for seen in one.observations):
                spans.append(one)
        ids = {one.ref.span_id for one in runs}
        known: dict[str, tuple[str | None, str | None]] = {}

        def dangles(one: Reading) -> bool:
            missing, run = _place(one.ref.span_id, self._parents, ids, known)
            return missing is not None and run is None

        loose = [*filter(dangles, spans)]
        # The spans between a run and its models may be filtered out: then each began while a run was active.
        if loose and not (
            runs and all(any(run.start_ns <= one.start_ns <= run.end_ns for run in runs) for one in loose)
        ):
            return "spans"
        return "log_records" if not runs and any(map(dangles, logs)) else None

    def shows_parents(self) -> bool:
        """Return whether a span has a parent that has arrived."""
        return any(parent in self._parents for parent in self._parents.values())

    def gathered(self) -> GatheredTrace:
        """Return all readings."""
        if self._received > self._settings.max_content_bytes:
            self._cut()
        return self._gathered(self.readings)

    def trajectory(self, because: ClosedBecause, elsewhere: Sequence[Reading] = ()) -> Trajectory | None:
        """Join the readings, also those found `elsewhere`."""
        gathered = self.gathered()
        if elsewhere:
            gathered = replace(gathered, readings=(*gathered.readings, *elsewhere))
        return join([gathered], scope="trace", closed_because=because)

    def _keep_input(self, given: ModelInput) -> None:
        """Keep an input for its history; of inputs that repeat one another, the first and the newest."""
        inputs = self._inputs.setdefault(given.answered[0] if given.answered else "", [])
        others = inputs[-_MOST_BRANCHES:] if given.answered else []
        repeated = sorted([one for one in others if _goes_on(given, one)], key=lambda one: len(one.answered))
        if repeated and any(_goes_on(one, given) for one in others):
            return
        inputs.append(given)
        self.size_bytes += _INPUT_BYTES + len(given.raw) + self._scale.resource(given.resource)
        for one in repeated[1:]:
            inputs.remove(one)
            self.size_bytes -= _INPUT_BYTES + len(one.raw)

    def _history(self, span_id: str) -> Sequence[CallRequested | MessageSeen]:
        """Read the calls in a model's history, from a later input that repeats it where its own span is not kept."""
        reading = self._readings.get(span_id)
        seen = () if reading is None else reading.observations
        ids = tuple([one.call_id for one in seen if type(one) is CallAnswered])
        inputs = self._inputs.get("" if None in ids else ids[0] or "", ()) if ids else ()
        own = next((one for one in inputs if one.span_id == span_id), None)
        if own is not None:
            return self._read_history(own)
        later = next((one for one in inputs if one.answered[: len(ids)] == ids), None)
        if later is None:
            return ()
        history = self._read_history(later)
        newest: CallRequested | None = None
        end = 0
        for at, one in enumerate(history, 1):
            if type(one) is CallRequested and one.call_id in ids:
                newest, end = one, at
        # Other calls of the same output, and the texts of the user behind them, are of this input, too.
        for one in history[end:]:
            if type(one) is CallRequested and (newest is None or one.output != newest.output):
                break
            end += 1
        return history[:end]

    def _gathered(self, readings: Sequence[Reading]) -> GatheredTrace:
        return GatheredTrace(
            trace_id=self.trace_id,
            readings=readings,
            parents=self._parents,
            left_out=NOTHING_LEFT_OUT if self._cutter is None else self._cutter.left_out,
            history=self._history,
        )

    def _weigh_again(self) -> None:
        before_bytes = self._readings_bytes
        self._readings_bytes = weight_together(self.readings)
        self._readings_bytes += self._cutter.index.size_bytes if self._cutter is not None else 0
        self.size_bytes += self._readings_bytes - before_bytes

    def _cut(self) -> None:
        """Cut the text to the size that may be kept."""
        if self._cutter is None:
            self._cutter = Cutter(self._settings.max_content_bytes)
        self._cutter.fit(self._readings)
        self._weigh_again()
        # A long trace is cut many times: each time when it has grown by a share of its size.
        self._cut_above = self._received + max(self._settings.max_content_bytes, self._readings_bytes // _SHARE)

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
            if not self._awaited:
                self._waits_ns = None
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
                self._waits_ns = now_ns if self._waits_ns is None else self._waits_ns
                if self.has_waited_long and self._look_ns is None:
                    # Looking reads the whole trace: seldom where an agent waits for others.
                    self._look_ns = now_ns + (self._settings.run_end_grace if self.closed_runs else LONG_WAIT_NS)
                return
            at = parent


def _is_newer(copy: Reading, known: Reading) -> bool:
    """Return whether a copy of a span takes the place of an earlier one: it has ended, or ended later, or differs."""
    if copy.is_log or copy.is_open != known.is_open:
        return known.is_open and not copy.is_open
    # A sender repeats the same bytes.
    is_same = copy.end_ns == known.end_ns and copy.size_bytes == known.size_bytes
    return copy.is_open or (copy.end_ns >= known.end_ns and not is_same)


def _goes_on(one: ModelInput, before: ModelInput) -> bool:
    """Return whether an input repeats all answers of another, and has more."""
    count = len(before.answered)
    return len(one.answered) > count and one.answered[:count] == before.answered


def _finished_runs(
    readings: Sequence[Reading], parents: Mapping[str, str | None], runs: Mapping[str, int], until_ns: int
) -> dict[str, list[Reading]]:
    """Return the readings of each run that ended below a span that failed and does not end; `runs` holds when each own span arrived."""
    # Some producers never end the span of a run that raised, and all later runs of the process hang below it. An agent that waits
    # for others looks the same but for the failure: the last of its own spans worked.
    known: dict[str, tuple[str | None, str | None]] = {}
    last: dict[str, Reading] = {}
    found: dict[str, list[Reading]] = {}
    began_ns: dict[str, int] = {}
    for reading in readings:
        missing, run = _place(reading.ref.span_id, parents, runs, known)
        if missing is None:
            continue
        if run is not None:
            found.setdefault(run, []).append(reading)
            if reading.ref.span_id == run and not reading.is_log:
                began_ns[run] = reading.start_ns
        elif missing not in last or (reading.end_ns, _has_failed(reading)) > (
            last[missing].end_ns,
            _has_failed(last[missing]),
        ):
            last[missing] = reading
    finished: dict[str, list[Reading]] = {}
    for run, together in found.items():
        own = last.get(known[run][0] or "")
        is_later = own is not None and _has_failed(own) and own.end_ns <= began_ns.get(run, 0)
        if is_later and runs[run] <= until_ns:
            finished[run] = together
    return finished


def _place(
    span_id: str,
    parents: Mapping[str, str | None],
    runs: Collection[str],
    known: dict[str, tuple[str | None, str | None]],
) -> tuple[str | None, str | None]:
    """Return the missing span at the end of the chain of parents, and the outermost of `runs` on it. `known` remembers places."""
    path: list[str] = []
    at: str | None = span_id
    while at is not None and at not in known and at in parents:
        path.append(at)
        # Circles lead nowhere.
        known[at] = (None, None)
        at = parents[at]
    missing, run = (None, None) if at is None else known.get(at, (at, None))
    for passed in reversed(path):
        run = passed if run is None and passed in runs else run
        known[passed] = (missing, run)
    return missing, run


def _has_failed(reading: Reading) -> bool:
    return reading.status == "error" or any(
        type(seen) is SpanFailed or (type(seen) is CallExecuted and seen.error is not None)
        for seen in reading.observations
    )
