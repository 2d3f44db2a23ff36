"""The order of the stages: receive -> decode -> recognize -> assemble -> score (and judge) -> emit / forward.

Whole export requests arrive through `consume`; time arrives through `tick`; scoring happens in slices (`score`);
what is ready to leave is handed to the outbox by `flush`. Nothing here waits, and a fault in the middle never
costs a sender its spans: they are handed on even when looking at them failed.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from toolgauge.assemble.assembler import Assembler
from toolgauge.assemble.seen_twice import SeenTwice
from toolgauge.assemble.settings import AssembleSettings
from toolgauge.export.annotations import Annotations
from toolgauge.model.delivery import Accepted, Answer, Invalid, Outbox, Outgoing, Refused, Signal, Unsupported
from toolgauge.model.errors import DecodeError
from toolgauge.model.judging import Answers, Judging
from toolgauge.model.outcomes import Result, Scorecard
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import Trajectory
from toolgauge.otlp.decoder import Container, DecodedTraces, Decoder, Place
from toolgauge.otlp.envelope import count_items
from toolgauge.otlp.heads import read_each
from toolgauge.pipeline.egress import Departures
from toolgauge.pipeline.hold import Hold, is_to_bear_scores
from toolgauge.recognize.recognizer import Recognizer
from toolgauge.score.pauses import Spent
from toolgauge.score.scorer import Scorer
from toolgauge.selfmetrics import SelfMetrics

# So many held spans are let go without a pause.
_HELD_AT_ONCE = 500
_RECEIVED = ("received", "", "")


class ScorecardSink(Protocol):
    """Where scorecards go: `emit`'s emitter, or a list in a replay."""

    def record(self, scorecard: Scorecard) -> None:
        """Count the scorecard in the metrics."""
        ...

    def requests(self, scorecards: Sequence[Scorecard]) -> Iterable[Outgoing]:
        """Encode scorecard spans and events, each request when it is asked for."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """How it behaves. Where more evicted trajectories wait than `max_queue`, or bytes, they leave unscored (`overload`)."""

    annotate: Literal["both", "hold", "scorecard", "off"] = "both"
    max_queue: int = 1000
    max_queue_bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What may change while a pipeline runs, without losing anything that is in it.

    `reading` is `None` when what has to be read stays the same. Open trajectories keep the times they were opened with.
    """

    scorer: Scorer
    reading: tuple[Decoder, Recognizer] | None
    assemble: AssembleSettings
    hold_timeout_ns: int
    hold_max_bytes: int
    settings: PipelineSettings


@dataclass(slots=True)
class _Scoring:
    trajectory: Trajectory
    scorer: Scorer
    steps: Iterator[tuple[Result, ...] | None]
    # How long it had been due, and when it was taken up.
    waited_ns: int
    taken_ns: int
    spent: Spent
    # There are results, which take their way into metrics and spans.
    is_scored: bool = False


class Pipeline:
    """One processing pipeline; implements `model.delivery.Consumer`.

    `clock` is a monotonic clock in nanoseconds that only measures how long scoring takes. `has_memory` tells whether
    there is memory for a request of so many bytes.
    """

    def __init__(
        self,
        *,
        decoder: Decoder,
        recognizer: Recognizer,
        assembler: Assembler,
        scorer: Scorer,
        judging: Judging,
        sink: ScorecardSink,
        hold: Hold[Container],
        outbox: Outbox,
        metrics: SelfMetrics,
        settings: PipelineSettings,
        clock: Callable[[], int],
        has_memory: Callable[[int], bool] = lambda _size_bytes: True,
    ) -> None:
        self._has_memory = has_memory
        self._decoder = decoder
        self._recognizer = recognizer
        self._assembler = assembler
        self._scorer = scorer
        self._judging = judging
        self._sink = sink
        self._hold = hold
        self._outbox = outbox
        self._metrics = metrics
        self._settings = settings
        self._clock = clock
        self._scoring: _Scoring | None = None
        self._annotations = Annotations()
        self._departures = Departures(outbox, sink.requests, metrics)
        # Spans of requests that are being read at this moment.
        self._being_read = 0
        self._flushing: Iterator[None] | None = None
        self._answers: deque[Answers] = deque()
        self._now_ns = 0
        self._seen_twice = SeenTwice()
        self._is_closing = False
        self._closes_all = False
        self._is_interrupted = False
        # Trajectories that left unscored because of `interrupt`.
        self.interrupted = 0
        self._due_ns: int | None = None
        self._broken_before = 0.0
        metrics.traces_open_bytes.observe = lambda: {(): assembler.open_bytes}
        metrics.spans_held.observe = lambda: {(): self.spans_held}
        metrics.traces_open.observe = lambda: {(): assembler.open_count}
        metrics.scoring_queue.observe = lambda: {(): assembler.evicted_count}

    @property
    def spans_held(self) -> int:
        """Senders' spans that are neither queued for a destination nor gone."""
        return self._hold.spans + self._departures.spans + self._being_read

    @property
    def other_requests_held(self) -> int:
        """Senders' requests of log records and of metrics for which no queue has had room."""
        return self._departures.other_requests

    @property
    def is_empty(self) -> bool:
        """Tell that nothing is in here that could leave."""
        return not self.spans_held and self._assembler.next_due_ns() is None

    @property
    def next_due_ns(self) -> int | None:
        """When a trajectory may become due to close; `None` when none is open."""
        return self._assembler.next_due_ns()

    @property
    def is_pressing(self) -> bool:
        """Tell whether what is ready to leave had better not wait for more of it."""
        return self._departures.is_pressing

    def behind_ns(self, now_ns: int) -> int:
        """Tell for how long the trajectory that is scored next has been due."""
        due_ns = self._due_ns if self._scoring is not None else self._assembler.next_due_ns()
        return 0 if due_ns is None else max(0, now_ns - due_ns)

    # -- in ---------------------------------------------------------------------------------------------------------

    def consume(self, signal: Signal, body: bytes, now_ns: int) -> Answer:
        """Take one export request without a pause."""
        return next(answer for answer in self.consuming(signal, body, now_ns) if answer is not None)

    def consuming(self, signal: Signal, body: bytes, now_ns: int, sender: str | None = None) -> Iterator[Answer | None]:
        """Take one export request: pass it on and read from it what the dialects understand."""
        try:
            match signal:
                case "traces":
                    yield self._consume_traces(body, now_ns, sender)
                case "logs":
                    yield self._consume_logs(body, now_ns)
                case "metrics":
                    yield self._consume_metrics(body)
        except DecodeError as error:
            yield Invalid(f"cannot decode the request: {error}")

    def _consume_traces(self, body: bytes, now_ns: int, sender: str | None) -> Answer:
        if (refused := self._refusal("traces", body)) is not None:
            spans = count_items(body)
            self._metrics.spans.add(spans, _RECEIVED)
            self._metrics.spans.add(spans, ("refused", refused[1], ""))
            return refused[0]
        decoded = self._decoder.traces(body, sender)
        self._metrics.spans.add(decoded.span_count, _RECEIVED)
        if decoded.undecodable:
            self._metrics.undecodable.add(decoded.undecodable)
        held: list[Place] = []
        rest: bytes | None = None
        self._being_read += decoded.span_count
        try:
            self._read_spans(decoded, held, now_ns)
            rest = decoded.body(held)
        except BaseException:
            # What is not held goes on all the same.
            rest = decoded.body(held)
            raise
        finally:
            spans = decoded.span_count - len(held)
            self._being_read -= spans
            if rest is not None and decoded.span_count:
                self._departures.pass_on(Outgoing(signal="traces", body=rest, spans=spans, own=False))
        return Accepted()

    def _refusal(self, signal: Signal, body: bytes) -> tuple[Refused, str] | None:
        if self._is_closing:
            return Refused("shutting down"), "shutdown"
        if not self._departures.has_room(signal, len(body)):
            return Refused("the queue to the destination is full"), "queue_full"
        if not self._has_memory(len(body)):
            return Refused("memory is short"), "memory"
        return None

    def _read_spans(self, decoded: DecodedTraces, held: list[Place], now_ns: int) -> None:
        holds = self._settings.annotate in ("both", "hold")
        unread = [*decoded.heads]
        for viewed in decoded.viewed:
            reading = self._recognizer.read(viewed.span)
            if reading is None:
                unread.extend(read_each((viewed.raw,)))
                continue
            self._seen_twice.add(reading.ref, now_ns)
            in_time = self._assembler.add(reading, now_ns)
            waits = holds and in_time and is_to_bear_scores(reading)
            if waits and self._hold.add(reading.ref, viewed.container, viewed.raw, now_ns):
                held.append(viewed.place)
                self._being_read -= 1
        self._assembler.add_heads(unread, now_ns)

    def _consume_logs(self, body: bytes, now_ns: int) -> Answer:
        if (refused := self._refusal("logs", body)) is not None:
            return refused[0]
        decoded = self._decoder.logs(body)
        try:
            for record in decoded.viewed:
                reading = self._recognizer.read(record)
                if reading is not None:
                    self._assembler.add(reading, now_ns)
        finally:
            if decoded.undecodable:
                self._metrics.undecodable.add(decoded.undecodable)
            if decoded.record_count:
                self._departures.pass_on(Outgoing(signal="logs", body=body, spans=0, own=False))
        return Accepted()

    def _consume_metrics(self, body: bytes) -> Answer:
        if not self._outbox.forwards("metrics"):
            return Unsupported("metrics are not accepted here, as nothing is sent on: send them to your backend")
        if (refused := self._refusal("metrics", body)) is not None:
            return refused[0]
        if count_items(body):
            self._departures.pass_on(Outgoing(signal="metrics", body=body, spans=0, own=False))
        return Accepted()

    # -- time -------------------------------------------------------------------------------------------------------

    def tick(self, now_ns: int) -> None:
        """Take note of the time and let go of spans that were held long enough."""
        self._now_ns = max(self._now_ns, now_ns)
        self._departures.release((span.container, span.raw) for span in self._hold.expired(self._now_ns))
        self._seen_twice.turn_over_if_due(self._now_ns)
        self._metrics.loop_suspected.set(float(self._seen_twice.loop_suspected))
        broken = self._broken_before + self._decoder.undecodable_values - self._metrics.undecodable_values.value()
        if broken:
            self._metrics.undecodable_values.add(broken)

    def close(self, now_ns: int) -> None:
        """Refuse what still comes; everything that is open is closed by the `score` calls that follow."""
        self.tick(now_ns)
        self._is_closing = True

    def close_open(self, now_ns: int) -> None:
        """Have the `score` calls that follow close everything that is open; what still comes is taken as before."""
        self.tick(now_ns)
        self._closes_all = True

    def release(self) -> None:
        """Let go of all spans that are still held."""
        self._departures.release((span.container, span.raw) for span in self._hold.take_all())

    def shed(self) -> None:
        """Let go of held spans and give up open trajectories, oldest first: memory is short."""
        self.release()
        self._assembler.shed(self._now_ns)

    def interrupt(self) -> None:
        """Score no more: the `score` calls that follow let everything go as `incomplete`."""
        self._is_interrupted = True
        scoring, self._scoring = self._scoring, None
        if scoring is not None and scoring.is_scored:
            deque(scoring.steps, maxlen=0)
        elif scoring is not None:
            self._let_go(scoring.trajectory, scoring.scorer)

    def _let_go(self, trajectory: Trajectory, scorer: Scorer) -> None:
        self.interrupted += 1
        self._finish(trajectory, scorer.interrupted(trajectory), scorer)

    @property
    def trajectories_open(self) -> int:
        """Trajectories that are being assembled or wait to be joined."""
        return self._assembler.open_count + self._assembler.evicted_count

    # -- change -----------------------------------------------------------------------------------------------------

    @property
    def wanted(self) -> frozenset[str]:
        """Attributes that the criteria ask for."""
        return self._scorer.wanted

    def adopt(self, rules: Rules) -> None:
        """Go on by other rules: what closes from here on is scored by them, what is being scored ends as it began."""
        self._scorer = rules.scorer
        self._settings = rules.settings
        if rules.reading is not None:
            self._broken_before += self._decoder.undecodable_values
            self._decoder, self._recognizer = rules.reading
        self._assembler.adopt(rules.assemble, conversations=rules.scorer.wants_conversations)
        self._hold.limit(rules.hold_timeout_ns, rules.hold_max_bytes)

    def ask(self, judging: Judging) -> None:
        """Put what judges are to be asked to `judging` from here on."""
        self._judging = judging

    # -- scoring ----------------------------------------------------------------------------------------------------

    def score(self, budget_ns: int) -> bool:
        """Close what is due and score it, for about `budget_ns`; True while there may be more to do."""
        until = self._clock() + budget_ns
        while self._scoring is not None or self._next_closed():
            # Taken out first: what fails here is not tried again, so that it stops nothing that comes after it.
            scoring, self._scoring = self._scoring, None
            if scoring is not None and not self._is_done(scoring, until):
                self._scoring = scoring
            if self._clock() >= until:
                return True
        return False

    def _next_closed(self) -> bool:
        """Close a trajectory for the next steps to score; False when none is due."""
        close = self._assembler.close_all if self._is_closing or self._closes_all else self._assembler.closed
        self._due_ns = self._assembler.next_due_ns()
        for trajectory in close(self._now_ns):
            self._take(trajectory)
            return True
        self._closes_all = False
        return False

    def _take(self, trajectory: Trajectory) -> None:
        waiting, settings = self._assembler, self._settings
        is_backed_up = waiting.evicted_count > settings.max_queue or waiting.evicted_bytes > settings.max_queue_bytes
        # Given up for want of memory: what is there is a part, and scoring takes memory too.
        if trajectory.closed_because == "memory" or is_backed_up:
            self._finish(trajectory, self._scorer.overloaded(trajectory), self._scorer)
        elif self._is_interrupted:
            self._let_go(trajectory, self._scorer)
        else:
            waited_ns = max(0, self._now_ns - (self._due_ns or self._now_ns))
            spent = Spent()
            self._scoring = _Scoring(
                trajectory,
                self._scorer,
                self._scorer.score(trajectory, spent),
                waited_ns=waited_ns,
                taken_ns=self._clock(),
                spent=spent,
            )

    def _is_done(self, scoring: _Scoring, until: int) -> bool:
        started = self._clock()
        for results in scoring.steps:
            now = self._clock()
            if results is not None:
                self._metrics.scoring_duration.record((scoring.spent.ns + now - started) / 1e9)
                self._metrics.scoring_delay.record((scoring.waited_ns + now - scoring.taken_ns) / 1e9)
                # What is left to do takes its turns too.
                scoring.steps = self._finishing(scoring.trajectory, results, scoring.scorer)
                scoring.is_scored = True
                return self._is_done(scoring, until)
            if now >= until:
                break
        else:
            return True
        scoring.spent.ns += self._clock() - started
        return False

    def _finish(self, trajectory: Trajectory, results: tuple[Result, ...], scorer: Scorer) -> None:
        deque(self._finishing(trajectory, results, scorer), maxlen=0)

    def _finishing(self, trajectory: Trajectory, results: tuple[Result, ...], scorer: Scorer) -> Iterator[None]:
        scorecard = Scorecard(trajectory=trajectory, results=results, scored_at_ns=self._now_ns)
        try:
            self._sink.record(scorecard)
            yield
            self._departures.announce(scorecard)
            if trajectory.scope == "trace":
                yield from self._annotate(scorecard)
        finally:
            # Judges answer late; nothing waits for them.
            inquiries = scorer.inquiries(trajectory)
            if inquiries:
                self._judging.put(trajectory, inquiries)

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
            self._departures.announce(scorecard)
            self._sink.record(scorecard)
            if answers.trajectory.scope == "trace":
                self._count_annotations(scorecard, ())

    def _annotate(self, scorecard: Scorecard) -> Generator[None, None, None]:
        said = self._annotations.collect(scorecard)
        annotated: list[SpanRef] = []
        while held := self._hold.take(scorecard.trajectory.trace_id, _HELD_AT_ONCE):
            annotated += yield from self._departures.releasing(held, said)
            if len(held) < _HELD_AT_ONCE:
                break
            yield
        self._count_annotations(scorecard, annotated)

    def _count_annotations(self, scorecard: Scorecard, annotated: Sequence[SpanRef]) -> None:
        # Scorecard spans are counted where they are written; a judged span that neither form reaches is missed.
        if annotated:
            self._metrics.annotations.add(len(annotated), ("attribute",))
        if self._settings.annotate == "hold":
            judged = {result.target for result in scorecard.results if result.target and result.enforce == "live"}
            self._metrics.annotations.add(len(judged.difference(annotated)), ("missed",))

    # -- out --------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Hand all that is ready to the outbox: spans that were held, then what we say ourselves."""
        deque(self._flush_steps(), maxlen=0)

    def flush_some(self, budget_ns: int) -> bool:
        """Do what `flush` does for about `budget_ns`; True while there is more to do."""
        until = self._clock() + budget_ns
        # Taken out first: what fails here is begun anew. What was begun earlier does not know what is ready since.
        begun, self._flushing = self._flushing or iter(()), None
        for steps in (begun, self._flush_steps()):
            for _ in steps:
                if self._clock() >= until:
                    self._flushing = steps
                    return True
        return False

    def _flush_steps(self) -> Iterator[None]:
        yield from self._departures.flushing()
        self._take_answers()
        yield from self._departures.saying()
