"""The order of the stages: receive -> read -> recognize -> assemble -> score (and judge) -> watch -> export.

`consume` takes requests, `tick` takes time, `flush` hands what is ready to the outbox. One thread owns all of it, and
each of these runs to its end. Nothing here does I/O, and a fault in the middle never costs a sender its spans: they are
handed on even when reading them failed.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from msgspec.structs import replace

from toolgauge.assemble.assembler import Assembler
from toolgauge.assemble.misrouting import LoopDetector, SplitDetector
from toolgauge.assemble.settings import AssembleSettings
from toolgauge.export.redact import Redactor
from toolgauge.export.results import Annotations
from toolgauge.model.delivery import Accepted, Answer, Assignment, Invalid, Outbox, Outgoing, Signal
from toolgauge.model.errors import DecodeError
from toolgauge.model.feedback import FeedbackSink
from toolgauge.model.journal import ClosedId, JournalEntry, ShownValues
from toolgauge.model.judging import Answers, Judging
from toolgauge.model.observations import Reading, ToolDefinition, UnreadSpan
from toolgauge.model.outcomes import Reason, Result, Scorecard
from toolgauge.model.records import SpanRef
from toolgauge.model.regressions import Regression
from toolgauge.model.trajectory import Trajectory
from toolgauge.otlp.decoder import Container, DecodedTraces, Decoder, Place, ViewedSpan
from toolgauge.otlp.heads import encode_heads, read_each
from toolgauge.otlp.request import Request, read_request
from toolgauge.pipeline.admission import Admission
from toolgauge.pipeline.egress import Egress
from toolgauge.pipeline.hold import Hold, is_to_bear_scores
from toolgauge.pipeline.reader import Reader, given_history
from toolgauge.recognize.feedback_reader import FEEDBACK_MARK, feedback_of_record, feedback_of_span
from toolgauge.recognize.recognizer import Recognizer
from toolgauge.score.earlier_traces import EarlierTraces
from toolgauge.score.scorer import ReadingScope, Scorer
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.state.ledger import Ledger
from toolgauge.watch.watcher import Watcher

# Requests wait in the inbox while trajectories are closed: thousands may be due at the same moment.
_LONGEST_TICK_NS = 100_000_000
_UNREAD = "requests passed unread while it was open, or shortly before"


# Called with the share of trajectories that show signs of a split.
OnSplit: TypeAlias = Callable[[float], None]


class ScorecardSink(Protocol):
    """Where scorecards go: `export`'s emitter, or a list in a replay."""

    def record(self, scorecard: Scorecard) -> None:
        """Count the scorecard in the metrics."""
        ...

    def requests(self, scorecards: Sequence[Scorecard]) -> Iterable[Outgoing]:
        """Encode scorecard spans and events, each request when it is asked for."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """How it behaves. Where more evicted trajectories wait than `max_queue`, or bytes, they leave unscored (`overload`)."""

    redactor: Redactor
    annotate: Literal["both", "hold", "scorecard", "off"] = "both"
    max_queue: int = 1000
    max_queue_bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What may change while a pipeline runs, without losing anything that is in it.

    `reading` is `None` when what has to be read stays the same. Open trajectories keep the times they were opened with.
    `streams` names the criteria, with their revisions, whose scores are watched from here on.
    """

    scorer: Scorer
    streams: frozenset[tuple[str, str]]
    reading: tuple[Decoder, Recognizer] | None
    assemble: AssembleSettings
    hold_timeout_ns: int
    hold_max_bytes: int
    settings: PipelineSettings


def ignore_regressions(regressions: Sequence[Regression]) -> None:
    """Do nothing with them."""
    del regressions


def ignore_split(share: float) -> None:
    """Do nothing, where no operator reads a warning."""
    del share


class Pipeline:
    """One processing pipeline. Belongs to one thread, but for `admission` and `pass_unread`.

    `clock` is a monotonic clock in nanoseconds that only measures how long scoring takes. `has_memory` tells whether
    there is memory for a request of so many bytes. `on_regressions` gets what `watcher` finds; without one nothing is
    watched. `ledger` keeps the books of the journal, where there is one. `on_split` is called when traces seem to be split
    over several toolgauges, with the share of trajectories that show signs of it.
    """

    def __init__(
        self,
        *,
        reader: Reader,
        assembler: Assembler,
        scorer: Scorer,
        earlier_traces: EarlierTraces,
        judging: Judging,
        sink: ScorecardSink,
        hold: Hold[Container],
        outbox: Outbox,
        metrics: SelfMetrics,
        settings: PipelineSettings,
        clock: Callable[[], int],
        has_memory: Callable[[int], bool] = lambda _size_bytes: True,
        watcher: Watcher | None = None,
        on_regressions: Callable[[Sequence[Regression]], None] = ignore_regressions,
        ledger: Ledger | None = None,
        on_split: OnSplit = ignore_split,
        feedback: FeedbackSink,
    ) -> None:
        self._ledger = ledger
        self.admission = Admission(outbox, metrics, has_memory)
        self._reader = reader
        self._assembler = assembler
        self._scorer = scorer
        self._earlier_traces = earlier_traces
        self._judging = judging
        self._sink = sink
        self._hold = hold
        self._metrics = metrics
        self._settings = settings
        self._clock = clock
        self._watcher = watcher
        self._feedback = feedback
        self._on_regressions = on_regressions
        self._annotations = Annotations(settings.redactor)
        self._egress = Egress(self.admission, sink.requests, metrics, ledger)
        self._answers: deque[Answers] = deque()
        self._now_ns = 0
        self._loop_detector = LoopDetector()
        self._split_detector = SplitDetector()
        self._on_split = on_split
        self._closes_all = False
        self._is_closing = False
        self._is_interrupted = False
        self._is_paused = False
        # Whether what is read was delivered by an earlier process.
        self._is_reading_again = False
        # Trajectories that left unscored because of `interrupt`.
        self.interrupted = 0
        self._unread_until_ns: int | None = None
        self._broken_before = 0.0
        metrics.traces_open_bytes.observe = lambda: {(): assembler.open_bytes}
        metrics.traces_open.observe = lambda: {(): assembler.open_count}
        metrics.criteria_unmatched.observe = lambda: self._scorer.unmatched.states
        metrics.split_suspected.observe = lambda: {(): float(self._split_detector.split_suspected)}
        metrics.scoring_queue.observe = lambda: {(): assembler.evicted_count}

    @property
    def spans_held(self) -> int:
        """Senders' spans that were taken and are neither queued for a destination nor gone."""
        return self.admission.spans_held

    @property
    def other_requests_held(self) -> int:
        """Senders' requests of log records and of metrics for which no queue has had room."""
        return self._egress.other_requests

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is in here that could leave."""
        return not self.spans_held and not self._assembler.open_count and not self._assembler.evicted_count

    @property
    def next_due_ns(self) -> int | None:
        """When a trajectory may become due to close, a conversation be complete, or feedback be compared; `None` when nothing is open."""
        complete_ns = None if self._watcher is None else self._watcher.next_due_ns
        dues = (self._assembler.next_due_ns(), complete_ns, self._feedback.next_due_ns)
        return min((due for due in dues if due is not None), default=None)

    @property
    def trajectories_open(self) -> int:
        """Trajectories that are being assembled or wait to be joined."""
        return self._assembler.open_count + self._assembler.evicted_count

    @property
    def is_pressing(self) -> bool:
        """Return whether the data that is ready for export should be sent at once."""
        return self._egress.is_pressing

    # -- requests ---------------------------------------------------------------------------------------------------

    def consume(self, signal: Signal, body: bytes, now_ns: int, sender: str | None = None) -> Answer:
        """Take one export request, or answer why not."""
        try:
            request = read_request(signal, body, now_ns, sender)
        except DecodeError as error:
            return Invalid(f"cannot decode the request: {error}", error.reason)
        answer = self.admission.admit(request)
        if isinstance(answer, Accepted):
            self.process(request)
            self.forward()
        return answer

    def process(self, request: Request) -> None:
        """Read an admitted request; its spans that are not held are passed on with the next `forward`."""
        if request.assignment is not None and request.assignment.is_lost:
            self.admission.read(request)
            self.admission.give_back(request.spans)
            return
        try:
            match request.signal:
                case "traces":
                    self._process_spans(request)
                case "logs":
                    self._process_records(request)
                case "metrics":
                    self._pass_on(request, request.body, 0)
        finally:
            self._end_reading(request)

    def forward(self) -> None:
        """Hand on what was processed: requests of one connection leave together."""
        self._egress.forward()

    def process_unread(self, request: Request) -> None:
        """Have an admitted request leave without reading it, as soon as there is room; open trajectories may lack its spans."""
        if request.assignment is not None:
            self.process(request)
            return
        self._unread_until_ns = request.received_ns
        self._pass_on(request, request.body, request.spans)
        self._end_reading(request)

    def pass_unread(self, request: Request, now_ns: int) -> bool:
        """Hand on an admitted request without reading it, from any thread; False when there is no room for it.

        What is open meanwhile, or opens soon after, may lack spans: only its calls that were seen whole are scored.
        """
        if request.count:
            outgoing = self._outgoing(request, request.body, request.spans)
            if not self.admission.hand_over(outgoing):
                self._settle(outgoing.entries)
                return False
        self.admission.read(request)
        if self._ledger is not None:
            self._ledger.read(request.entry)
        self._unread_until_ns = now_ns
        self._metrics.spans_unread.add(request.spans)
        self._metrics.requests_unread.add(1, (request.signal,))
        return True

    def recover(self, entry: JournalEntry, now_ns: int) -> None:
        """Take up an entry of an earlier process: read it, and send it on unless it was delivered for certain.

        Raise `DecodeError` when it is no request any more.
        """
        if self._ledger is None:
            return
        self._ledger.restore(entry)
        if entry.own:
            outgoing = Outgoing(signal=entry.signal, body=entry.body, spans=0, own=True, entries=(entry.id,))
            self._egress.send_again(outgoing)
            self._ledger.close(outgoing.entries, (), ())
            return
        try:
            request = read_request(entry.signal, entry.body, now_ns, entry=entry.id)
        except DecodeError:
            self._ledger.read(entry.id)
            raise
        self._is_reading_again = entry.delivered
        try:
            self.admission.take_up(request, is_delivered=entry.delivered)
            self.process(request)
        finally:
            self._is_reading_again = False

    def end_recovery(self, now_ns: int) -> None:
        """Go on as if nothing had happened: all that was left has been taken up."""
        self._now_ns = max(self._now_ns, now_ns)
        self._assembler.end_recovery(now_ns)
        self._egress.close(self._assembler.take_released())
        self._egress.flush(self._now_ns)

    def receive_since(self, live_since_ns: int) -> None:
        """Reset the time when this process began to receive, where it is live."""
        self._assembler.receive_since(live_since_ns)
        self._earlier_traces.receive_since(live_since_ns)

    def forget(self) -> int:
        """Drop open trajectories of partitions that are lost, without a result, with the spans held for them; return how many."""
        forgotten = 0
        entries: list[int] = []
        for trace_id, of_trace in self._assembler.forget():
            forgotten += 1
            entries += [entry for entry in of_trace if entry > 0]
            self.admission.give_back(len(self._hold.take(trace_id)))
        if entries and self._ledger is not None:
            self._ledger.close(entries, (), ())
        return forgotten

    def remember(self, closed: Iterable[ClosedId], begun: Iterable[str], now_ns: int) -> None:
        """Remember which traces other processes have closed, and which are `begun`: what comes of those is not all of them."""
        self._assembler.remember(closed, begun, now_ns)

    def open_traces_of(self, entries: Collection[int]) -> Sequence[tuple[str, Assignment]]:
        """Return the ids of open traces that need one of these entries, with their partitions."""
        return self._assembler.open_traces_of(entries)

    def stall(self, now_ns: int) -> None:
        """Close nothing that comes from a message broker, until `resume`: it only seems to be quiet, as that cannot be read."""
        self._assembler.stall(now_ns)

    def resume(self, now_ns: int) -> None:
        """Go on to close what comes from the message broker, as much later as it could not be read."""
        self._assembler.resume(now_ns)

    def restore(self, closed: Iterable[ClosedId], now_ns: int) -> None:
        """Remember what an earlier process closed, in the order of time; its entries come next."""
        self._assembler.restore(closed, now_ns)

    def restore_shown(self, shown: Iterable[ShownValues]) -> None:
        """Remember what conversations have shown to an earlier process, in the order of time."""
        self._earlier_traces.restore(shown)

    def _settle(self, entries: Iterable[int]) -> None:
        if self._ledger is not None:
            self._ledger.settle(entries)

    def _process_spans(self, request: Request) -> None:
        held: list[Place] = []
        decoded: DecodedTraces | None = None
        try:
            decoded = self._reader.decoder.traces(request.body, request.sender, request.envelope)
            if decoded.undecodable:
                self._metrics.undecodable.add(decoded.undecodable)
            self._read_spans(decoded, held, request)
        finally:
            if held and self._ledger is not None:
                self._ledger.claim_deliveries((request.entry,), len(held))
            rest = request.body if decoded is None else decoded.body(held)
            if rest is not None:
                self._pass_on(request, rest, request.count - len(held))

    def _read_spans(self, decoded: DecodedTraces, held: list[Place], request: Request) -> None:
        now_ns, entry, assignment = request.received_ns, request.entry, request.assignment
        holds = self._settings.annotate in ("both", "hold") and not self._is_reading_again
        recognizer, defers = self._reader.recognizer, self._assembler.defers
        unread = [*decoded.heads]
        self._take_feedback(decoded, now_ns)
        for viewed in decoded.viewed:
            waiting = _waiting(viewed, recognizer) if defers else None
            if waiting is not None and self._assembler.may_wait(waiting):
                reading = waiting
            else:
                reading = recognizer.read(viewed.span)
            if reading is None:
                unread.extend(read_each((viewed.raw,)))
                continue
            self._loop_detector.add(reading.ref, now_ns)
            given = given_history(viewed, reading) if type(reading) is Reading else None
            if given is not None and not self._assembler.may_wait(given):
                given = None
            in_time = self._assembler.add(reading, now_ns, entry, given=given, assignment=assignment)
            waits = holds and in_time and is_to_bear_scores(reading)
            if waits and self._hold.add(reading.ref, viewed.container, viewed.raw, now_ns, entry):
                held.append(viewed.place)
        self._assembler.add_heads(unread, now_ns, entry)

    def _take_feedback(self, decoded: DecodedTraces, now_ns: int) -> None:
        # One look at a whole request: hardly any has a verdict in it.
        if FEEDBACK_MARK in decoded.request:
            for viewed in decoded.viewed:
                if FEEDBACK_MARK in viewed.raw:
                    for feedback in feedback_of_span(viewed.span):
                        self._feedback.add(feedback, now_ns)

    def _process_records(self, request: Request) -> None:
        try:
            decoded = self._reader.decoder.logs(request.body, request.envelope)
            for record in decoded.viewed:
                feedback = feedback_of_record(record)
                if feedback is not None:
                    self._feedback.add(feedback, request.received_ns)
                reading = self._reader.recognizer.read(record)
                if reading is not None:
                    self._assembler.add(reading, request.received_ns, request.entry, assignment=request.assignment)
            if decoded.undecodable:
                self._metrics.undecodable.add(decoded.undecodable)
        finally:
            self._pass_on(request, request.body, 0)

    def _pass_on(self, request: Request, body: bytes, spans: int) -> None:
        if request.count and not self._is_reading_again:
            self._egress.pass_on(self._outgoing(request, body, spans), request.sender)

    def _outgoing(self, request: Request, body: bytes, spans: int) -> Outgoing:
        if self._ledger is None:
            return Outgoing(signal=request.signal, body=body, spans=spans, own=False)
        entries = (request.entry,)
        self._ledger.claim_deliveries(entries)
        return Outgoing(signal=request.signal, body=body, spans=spans, own=False, entries=entries)

    def _end_reading(self, request: Request) -> None:
        self.admission.read(request)
        if self._ledger is None:
            return
        self._ledger.claim_trajectories(request.entry, self._assembler.take_claims())
        self._ledger.read(request.entry)
        for trace, heads in self._assembler.take_recalled():
            trace.is_new_entry(self._ledger.keep("traces", encode_heads(heads), request.received_ns))

    # -- time -------------------------------------------------------------------------------------------------------

    def tick(self, now_ns: int) -> bool:
        """Release spans held for the timeout, close and score trajectories that are due; True while more are due."""
        if self._is_paused:
            return False
        self._now_ns = max(self._now_ns, now_ns)
        self._egress.release(self._hold.expired(self._now_ns))
        self._loop_detector.turn_over_if_due(self._now_ns)
        self._metrics.loop_suspected.set(float(self._loop_detector.loop_suspected))
        self._scorer.unmatched.end_period_if_due(self._now_ns)
        self._count_broken_values()
        try:
            return self._close_due()
        finally:
            # A fault in here must not keep trajectories from being closed.
            self._feedback.tick(self._now_ns)
            if self._watcher is not None:
                self._report(self._watcher.tick(self._now_ns))

    def _close_due(self) -> bool:
        until = self._clock() + _LONGEST_TICK_NS
        # What a fault has left.
        self._egress.close(self._assembler.take_released())
        for trajectory, due_ns in self._closing():
            self._finish(trajectory, due_ns)
            if self._clock() >= until:
                return True
        self._closes_all = False
        if self._is_closing:
            self._feedback.close()
        self._egress.close(self._assembler.take_released())
        self._count_broken_values()
        return False

    def close_open(self, now_ns: int) -> None:
        """Have the ticks that follow close everything that is open; what still comes is taken as before."""
        self._now_ns = max(self._now_ns, now_ns)
        self._closes_all = True

    def close(self, now_ns: int) -> None:
        """Refuse what still comes, and have the ticks that follow close everything that is open."""
        self.admission.close()
        self._is_closing = True
        self.close_open(now_ns)

    def pause(self) -> None:
        """Close no trajectory from here on: the next process goes on with them."""
        self._is_paused = True

    def interrupt(self) -> None:
        """Score no more: what the ticks that follow close is `incomplete`. From any thread."""
        self._is_interrupted = True

    def release(self) -> None:
        """Release all spans that are still held."""
        self._egress.release(self._hold.take_all())

    def shed(self) -> None:
        """Release all held spans and evict open trajectories, oldest first: memory is short."""
        self.release()
        self._assembler.shed(self._now_ns)

    def flush(self) -> None:
        """Hand all that is ready to the outbox: senders' data, then scorecards and events."""
        self._take_answers()
        self._egress.flush(self._now_ns)

    def _count_broken_values(self) -> None:
        broken = (
            self._broken_before + self._reader.decoder.undecodable_values - self._metrics.undecodable_values.value()
        )
        if broken:
            self._metrics.undecodable_values.add(broken)

    # -- change -----------------------------------------------------------------------------------------------------

    @property
    def wanted(self) -> frozenset[str]:
        """Attributes that the criteria ask for."""
        return self._scorer.wanted

    @property
    def reading_scope(self) -> ReadingScope:
        """What the criteria have it read."""
        return self._scorer.reading_scope

    @property
    def registered_tools(self) -> Mapping[str, ToolDefinition]:
        """The tools that the configuration registers."""
        return self._scorer.registered_tools

    def adopt(self, rules: Rules) -> None:
        """Go on by other rules: what closes from here on is scored by them."""
        self._scorer = rules.scorer
        self._settings = rules.settings
        self._annotations = Annotations(rules.settings.redactor)
        if rules.reading is not None:
            self._broken_before += self._reader.decoder.undecodable_values
            self._reader.decoder, self._reader.recognizer = rules.reading
        scorer = rules.scorer
        self._assembler.adopt(
            rules.assemble, conversations=scorer.reading_scope.conversations, content=scorer.reading_scope.content
        )
        self._hold.limit(rules.hold_timeout_ns, rules.hold_max_bytes)
        if self._watcher is not None:
            self._watcher.keep(rules.streams)

    # -- scoring ----------------------------------------------------------------------------------------------------

    def _closing(self) -> Iterator[tuple[Trajectory, int]]:
        """Close the trajectories that are due, one at a time; yield each with the time at which it fell due."""
        close = self._assembler.close_all if self._closes_all else self._assembler.closed
        due_ns = self._assembler.next_due_ns() or self._now_ns
        for trajectory in close(self._now_ns):
            yield trajectory, due_ns
            due_ns = self._assembler.next_due_ns() or self._now_ns

    def _finish(self, trajectory: Trajectory, due_ns: int) -> None:
        started = self._clock()
        lacking: Reason = "incomplete"
        if self._lacks_unread(trajectory):
            trajectory, lacking = replace(trajectory, incomplete=_UNREAD), "overload"
        self._look_for_split(trajectory)
        wants_earlier = self._scorer.wants_earlier_values
        completed = self._earlier_traces.with_earlier(trajectory) if wants_earlier else trajectory
        results = self._results(completed, lacking)
        if trajectory.earlier_turns is not None:
            # Nothing but evaluators looks at it, and it may be long.
            trajectory = replace(trajectory, earlier_turns=None)
        ended = self._clock()
        self._metrics.scoring_duration.record((ended - started) / 1e9)
        self._metrics.scoring_delay.record((max(0, self._now_ns - due_ns) + ended - started) / 1e9)
        scorecard = Scorecard(trajectory=trajectory, results=results, scored_at_ns=self._now_ns)
        try:
            self._sink.record(scorecard)
            self._egress.announce(scorecard)
            self._remember_values(completed)
            # Not before: what is stuck in an evaluator is not closed.
            self._egress.close(self._assembler.take_released())
            if trajectory.scope == "trace":
                self._annotate(scorecard)
            self._watch(scorecard)
        finally:
            # Judges answer late; nothing waits for them.
            inquiries = self._scorer.inquiries(trajectory, lacking=lacking)
            if inquiries:
                self._judging.put(trajectory, inquiries)

    def _remember_values(self, trajectory: Trajectory) -> None:
        """Remember what a trace showed, for later traces of its conversation."""
        if trajectory.earlier is None:
            return
        if self._is_overloaded(trajectory):
            self._earlier_traces.forget(trajectory)
        else:
            self._earlier_traces.remember(trajectory)
        if self._ledger is not None:
            self._egress.remember(self._earlier_traces.take_changes())

    def _look_for_split(self, trajectory: Trajectory) -> None:
        sign = trajectory.split_sign
        # What lacks spans for another reason shows the same signs.
        if trajectory.scope != "trace" or trajectory.incomplete != sign or not (sign or trajectory.calls):
            return
        if self._split_detector.add(self._now_ns, has_sign=sign is not None):
            self._on_split(self._split_detector.share)

    def _is_overloaded(self, trajectory: Trajectory) -> bool:
        waiting, settings = self._assembler, self._settings
        is_backed_up = waiting.evicted_count > settings.max_queue or waiting.evicted_bytes > settings.max_queue_bytes
        # Given up for want of memory: what is there is a part, and scoring takes memory too.
        return trajectory.closed_because == "memory" or is_backed_up

    def _results(self, trajectory: Trajectory, lacking: Reason) -> tuple[Result, ...]:
        if self._is_overloaded(trajectory):
            return self._scorer.overloaded(trajectory)
        results = () if self._is_interrupted else self._scorer.score(trajectory, self._now_ns, lacking=lacking)
        # Asked again: what was cut off in the middle is not scored either.
        if self._is_interrupted:
            self.interrupted += 1
            return self._scorer.interrupted(trajectory)
        return results

    def _lacks_unread(self, trajectory: Trajectory) -> bool:
        """Return whether spans of the trajectory may have passed unread."""
        until_ns = self._unread_until_ns
        return until_ns is not None and trajectory.opened_ns <= until_ns + self._assembler.run_end_grace_ns

    def _take_answers(self) -> None:
        self._answers.extend(self._judging.take())
        while self._answers:
            # Taken out first: one that fails stops nothing that comes after it.
            answers = self._answers.popleft()
            scorecard = Scorecard(
                trajectory=answers.trajectory,
                results=self._scorer.judged(answers),
                scored_at_ns=self._now_ns,
                by_judges=True,
            )
            self._egress.announce(scorecard)
            self._sink.record(scorecard)
            if answers.trajectory.scope == "trace":
                self._count_annotations(scorecard, ())
            self._watch(scorecard)

    def _watch(self, scorecard: Scorecard) -> None:
        self._feedback.observe(scorecard)
        if self._watcher is not None:
            self._report(self._watcher.observe(scorecard))

    def _report(self, regressions: Sequence[Regression]) -> None:
        if regressions:
            self._on_regressions(regressions)

    def _annotate(self, scorecard: Scorecard) -> None:
        attributes = self._annotations.collect(scorecard)
        held = self._hold.take(scorecard.trajectory.trace_id)
        self._count_annotations(scorecard, self._egress.release_annotated(held, attributes))

    def _count_annotations(self, scorecard: Scorecard, annotated: Sequence[SpanRef]) -> None:
        # Scorecard spans are counted where they are written; a judged span that neither form reaches is missed.
        if annotated:
            self._metrics.annotations.add(len(annotated), ("attribute",))
        if self._settings.annotate == "hold":
            judged = {result.target for result in scorecard.results if result.target and result.enforce == "live"}
            self._metrics.annotations.add(len(judged.difference(annotated)), ("missed",))


def _waiting(viewed: ViewedSpan, recognizer: Recognizer) -> UnreadSpan | None:
    """Return the span as one that is read when its trace is closed; `None` when it is to be read at once."""
    parsed = viewed.parsed
    # What has no parent may be a trace of its own, of which answers are remembered for other traces.
    if parsed.parent_span_id is None:
        return None
    shown = recognizer.operation(parsed.attributes, parsed.name, viewed.scope.name)
    if shown is None:
        return None
    operation, dialect = shown
    return UnreadSpan(
        ref=parsed.ref,
        parent_span_id=parsed.parent_span_id,
        parent_is_remote=parsed.parent_is_remote,
        operation=operation,
        dialect=dialect,
        raw=viewed.raw,
        resource=viewed.resource,
        scope=viewed.scope,
    )
