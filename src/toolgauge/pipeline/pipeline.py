"""The order of the stages: receive -> read -> recognize -> assemble -> score (and judge) -> watch -> export.

`process` reads a request that `admission` has accepted, `tick` closes and scores due trajectories, `flush` hands data to
the outbox. In a service `service/worker.py` admits requests, and the worker thread calls these three; `consume` does both for replays
and in process. One thread owns all of it, each call runs to its end, and nothing here does I/O. A fault in the middle never costs a
sender its spans: they are handed on even when reading them failed.
"""

from msgspec.structs import replace

from toolgauge.assemble.cross_trace import LoopDetector
from toolgauge.model.delivery import Accepted, Answer, BrokerMessage, Invalid, Outgoing, Signal
from toolgauge.model.errors import DecodeError
from toolgauge.model.journal import JournalEntry
from toolgauge.model.records import PackedHead, SpanRef
from toolgauge.otlp.decoder import DecodedLogs, DecodedTraces, Place
from toolgauge.otlp.envelope import encode_heads, read_each
from toolgauge.otlp.marks import has_feedback_mark
from toolgauge.otlp.request import Request, read_request
from toolgauge.pipeline.egress import Admission, Egress, is_to_bear_scores
from toolgauge.pipeline.stages import Parts, PipelineSettings, Rules, model_input
from toolgauge.pipeline.trajectory_scoring import Scoring
from toolgauge.recognize.feedback_reader import feedback_of_record, feedback_of_span
from toolgauge.score.scorer import Scorer

# Requests wait in the inbox while trajectories are closed: thousands may be due at the same moment.
_LONGEST_TICK_NS = 100_000_000


class Pipeline:
    """One processing pipeline. Belongs to one thread, but for `admission` and `pass_unread`."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.assembler = parts.assembler
        self.earlier_traces = parts.earlier_traces
        self._metrics = parts.metrics
        self._reader = parts.reader
        self._hold = parts.hold
        self._ledger = parts.ledger
        self._use(parts.settings)
        self.admission = Admission(parts.outbox, parts.metrics, parts.has_memory)
        self.keepers = parts.keepers
        self.egress = Egress(self.admission, parts.sink.requests, parts.metrics, parts.ledger, parts.keepers)
        self.scoring = Scoring(parts, self.egress)
        self._loop_detector = LoopDetector()
        self._now_ns = 0
        self._closes_all = False
        self._is_closing = False
        self._is_paused = False
        # Values that the decoder could not read, as far as they are counted.
        self._broken_counted = 0
        assembler = parts.assembler
        parts.metrics.traces_open_bytes.observe = lambda: {(): assembler.eviction.open_bytes}
        parts.metrics.traces_open.observe = lambda: {(): assembler.open_count}
        parts.metrics.traces_waiting.observe = lambda: {(): assembler.waiting_count}
        parts.metrics.scoring_queue.observe = lambda: {(): len(assembler.eviction)}

    def _use(self, settings: PipelineSettings) -> None:
        self._settings = settings
        self._open_runs = settings.open_runs or None

    @property
    def scorer(self) -> Scorer:
        """The scorer of the current criteria."""
        return self.scoring.scorer

    @property
    def is_empty(self) -> bool:
        """Return whether no span is held and no trajectory is open."""
        return not self.admission.spans_held and not self.trajectories_open

    @property
    def next_due_ns(self) -> int | None:
        """When a trajectory may close, a conversation be complete, or feedback be compared; `None` when nothing is open."""
        dues = [self.assembler.next_due_ns(), self._parts.feedback.next_due_ns]
        if self._parts.watcher is not None:
            dues.append(self._parts.watcher.next_due_ns)
        return min([due for due in dues if due is not None], default=None)

    @property
    def trajectories_open(self) -> int:
        """Trajectories that are being assembled, or were evicted and are not scored yet."""
        return self.assembler.open_count + len(self.assembler.eviction)

    def consume(self, signal: Signal, body: bytes, now_ns: int, sender: str | None = None) -> Answer:
        """Take one export request, or answer why not."""
        try:
            request = read_request(signal, body, now_ns, sender)
        except DecodeError as error:
            return Invalid(f"cannot decode the request: {error}", error.reason)
        answer = self.admission.admit(request)
        if isinstance(answer, Accepted):
            self.process(request)
            self.egress.forward()
        return answer

    def process(self, request: Request, *, is_delivered: bool = False) -> None:
        """Read an admitted request; its spans that are not held leave with the next `forward`, unless `is_delivered`."""
        if request.assignment is not None and request.assignment.is_lost:
            self.admission.end_reading(request)
            self.admission.give_back(request.spans)
            return
        try:
            if request.signal == "traces":
                self._process_spans(request, is_delivered=is_delivered)
            elif request.signal == "logs":
                decoded = self._reader.decoder.logs(request.body, request.envelope)
                for record in decoded.viewed:
                    feedback = feedback_of_record(record)
                    if feedback is not None:
                        self._parts.feedback.add(feedback, request.received_ns)
                    reading = self._reader.recognizer.read(record)
                    if reading is not None:
                        self.assembler.add(reading, request.received_ns, request.entry)
                self._count_undecodable(decoded)
        finally:
            if not is_delivered and request.signal != "traces":
                self._pass_on(request, request.body, 0)
            self._end_reading(request)
            self._release_overloaded()

    def process_unread(self, request: Request) -> None:
        """Pass on an admitted request without reading it, as soon as there is room; messages of a broker wait, and are read.

        Open trajectories may lack its spans.
        """
        if isinstance(request.entry, BrokerMessage):
            self.process(request)
            return
        self._note_unread(request, request.received_ns)
        self._pass_on(request, request.body, request.spans, is_read=False)
        self._end_reading(request)

    def pass_unread(self, request: Request, now_ns: int) -> bool:
        """Pass an admitted request on unread, from any thread; False without room. Open trajectories may then lack spans."""
        if request.count:
            outgoing = self._outgoing(request, request.body, request.spans, is_read=False)
            if not self.admission.hand_over(outgoing):
                self._ledger.settle(outgoing.entries)
                return False
        self.admission.end_reading(request)
        self._ledger.end_reading(request.entry)
        self._note_unread(request, now_ns)
        return True

    def _note_unread(self, request: Request, now_ns: int) -> None:
        self.scoring.unread_until_ns = now_ns
        self._metrics.spans_unread.add(request.spans)
        self._metrics.requests_unread.add(1, (request.signal,))

    def recover(self, entry: JournalEntry, now_ns: int, *, is_read: bool = True) -> None:
        """Take up an entry of an earlier process, and send it unless it was delivered; raise `DecodeError` when it is corrupt."""
        self._ledger.restore(entry)
        if entry.own:
            # Log records may be events of regressions, which belong to no trace.
            is_of_traces = entry.signal == "traces"
            outgoing = Outgoing(
                signal=entry.signal, body=entry.body, spans=0, own=True, entries=(entry.id,), of_traces=is_of_traces
            )
            self.egress.pass_on(outgoing, None)
            self._ledger.close(outgoing.entries, (), ())
            return
        try:
            request = read_request(entry.signal, entry.body, now_ns, entry=entry.id)
        except DecodeError:
            self._ledger.end_reading(entry.id)
            raise
        self.admission.take_up(request, is_delivered=entry.delivered)
        if is_read:
            self.process(request, is_delivered=entry.delivered)
        elif entry.delivered:
            self._end_reading(request)
        else:
            self.process_unread(request)

    def end_recovery(self, now_ns: int) -> None:
        """Close what the earlier process had closed: all its entries have been read."""
        self._now_ns = max(self._now_ns, now_ns)
        self.assembler.end_recovery(now_ns)
        self.egress.closed_entries += self.assembler.take_released()
        self.egress.flush(self._now_ns)

    def forget(self) -> int:
        """Drop open trajectories of lost partitions, without a result, with the spans held for them; return how many."""
        forgotten = 0
        for trace_id, entries in self.assembler.recovery.forget():
            forgotten += 1
            self.admission.give_back(len(self._hold.take(trace_id)))
            # Messages are for their next owner; heads of spans that were kept are not.
            self._ledger.close([one for one in entries if not isinstance(one, BrokerMessage)], (), ())
        return forgotten

    def _process_spans(self, request: Request, *, is_delivered: bool) -> None:
        held: list[Place] = []
        decoded: DecodedTraces | None = None
        try:
            decoded = self._reader.decoder.traces(request.body, request.sender, request.envelope)
            self._read_spans(decoded, request, held, holds=not is_delivered)
        finally:
            if decoded is not None:
                self._count_undecodable(decoded)
            if held:
                self._ledger.claim_deliveries((request.entry,), len(held))
            rest = request.body if decoded is None else decoded.body(held)
            if rest is not None and not is_delivered:
                self._pass_on(request, rest, request.count - len(held))

    def _read_spans(self, decoded: DecodedTraces, request: Request, held: list[Place], *, holds: bool) -> None:
        """Give each span to the assembler; note the spans `held` until their trajectory is scored."""
        now_ns, entry = request.received_ns, request.entry
        assembler, recognizer = self.assembler, self._reader.recognizer
        holds = holds and self._settings.annotate in ("both", "hold")
        has_feedback: bool | None = None
        other_heads: list[PackedHead] = []
        refs: list[SpanRef] = []
        for viewed in decoded.viewed:
            if has_feedback is None:
                # Only requests with viewed spans are searched: for requests of no agent the search would be 8 % of the CPU.
                has_feedback = has_feedback_mark(decoded.request)
            if has_feedback and has_feedback_mark(viewed.raw):
                for feedback in feedback_of_span(viewed.span, viewed.linked_trace):
                    self._parts.feedback.add(feedback, now_ns)
            reading = recognizer.read(viewed.span)
            if viewed.is_sample and (key := recognizer.found_by(viewed.span)) is not None:
                self._reader.decoder.look_for(key)
            if reading is None:
                if viewed.span.end_ns >= viewed.span.start_ns:
                    other_heads.extend(read_each((viewed.raw,)))
                continue
            in_time = assembler.add(reading, now_ns, entry, given=model_input(viewed, reading))
            if reading.is_open:
                continue
            refs.append(reading.ref)
            if self._open_runs is not None and in_time:
                mask = self._settings.redactor.mask
                found = self._open_runs.add(reading, now_ns)
                self._parts.on_notices([replace(one, explanation=mask(one.explanation)) for one in found])
            waits = holds and in_time and is_to_bear_scores(reading)
            if waits and self._hold.add(reading.ref, viewed.container, viewed.raw, now_ns, entry):
                held.append(viewed.place)
        self._loop_detector.add(refs, now_ns)
        assembler.add_heads([*decoded.heads, *other_heads], now_ns, entry)

    def _pass_on(self, request: Request, body: bytes, spans: int, *, is_read: bool = True) -> None:
        if request.count:
            self.egress.pass_on(self._outgoing(request, body, spans, is_read=is_read), request.sender)

    def _outgoing(self, request: Request, body: bytes, spans: int, *, is_read: bool) -> Outgoing:
        entries = (request.entry,)
        self._ledger.claim_deliveries(entries)
        return Outgoing(signal=request.signal, body=body, spans=spans, own=False, is_read=is_read, entries=entries)

    def _end_reading(self, request: Request) -> None:
        self.admission.end_reading(request)
        claims, recalled = self.assembler.take_opened()
        self._ledger.claim_trajectories(request.entry, claims)
        self._ledger.end_reading(request.entry)
        for trace, heads in recalled:
            trace.is_new_entry(self._ledger.keep("traces", encode_heads(heads), request.received_ns))

    def _release_overloaded(self) -> None:
        for trace_id in self.assembler.take_overloaded():
            self.egress.release(self._hold.take(trace_id))

    def tick(self, now_ns: int) -> bool:
        """Release spans held for the timeout, close and score trajectories that are due; True while more are due."""
        if self._is_paused:
            return False
        self._now_ns = now_ns = max(self._now_ns, now_ns)
        self.egress.release(self._hold.expired(now_ns))
        self._loop_detector.turn_over_if_due(now_ns)
        self._metrics.loop_suspected.set(float(self._loop_detector.loop_suspected))
        self.scorer.unmatched.end_period_if_due(now_ns)
        try:
            return self._close_due(now_ns)
        finally:
            # A fault below must not keep trajectories from being closed.
            self.keepers.tick(now_ns, self.assembler.settings.idle_timeout, self.assembler.knows)
            self._count_broken_values()
            self._parts.feedback.tick(now_ns)
            if self._parts.watcher is not None:
                regressions = self._parts.watcher.tick(now_ns)
                if regressions:
                    self._parts.on_regressions(regressions)

    def _close_due(self, now_ns: int) -> bool:
        until = self._parts.clock() + _LONGEST_TICK_NS
        self._release_overloaded()
        # Left by a fault.
        self.egress.closed_entries += self.assembler.take_released()
        close = self.assembler.close_all if self._closes_all else self.assembler.closed
        for trajectory in close(now_ns):
            self.scoring.finish(trajectory, now_ns, self.assembler.due_ns)
            if self._open_runs is not None:
                self._open_runs.forget(trajectory.trace_id)
            if self._parts.clock() >= until:
                return True
        self._closes_all = False
        if self._is_closing:
            self._parts.feedback.close()
        self.egress.closed_entries += self.assembler.take_released()
        return False

    def close_open(self, now_ns: int) -> None:
        """Close everything that is open with the next ticks; requests are taken as before."""
        self._now_ns = max(self._now_ns, now_ns)
        self._closes_all = True

    def close(self, now_ns: int) -> None:
        """Refuse requests, and close everything that is open with the next ticks."""
        self.admission.close()
        self._is_closing = True
        self.close_open(now_ns)

    def pause(self) -> None:
        """Close no trajectory from here on: the next process continues with them."""
        self._is_paused = True

    def release(self) -> None:
        """Release all spans that are still held."""
        self.egress.release(self._hold.take_all())

    def relieve(self) -> None:
        """Give back half of what the watch and the memory of earlier traces take: memory will soon be short."""
        if self._parts.watcher is not None:
            self._parts.watcher.shed()
        self._parts.earlier_traces.shed()

    def shed(self) -> None:
        """Release all held spans and evict open trajectories, oldest first: memory is short."""
        self.release()
        self.keepers.release("memory")
        self.assembler.eviction.shed(self._now_ns)

    def flush(self) -> None:
        """Hand all that is ready to the outbox: senders' data, then scorecards and events."""
        self.scoring.take_answers(self._now_ns)
        self.egress.flush(self._now_ns)

    def _count_undecodable(self, decoded: DecodedTraces | DecodedLogs) -> None:
        for reason, count in decoded.undecodable.items():
            self._metrics.undecodable.add(count, (reason,))

    def _count_broken_values(self) -> None:
        broken = self._reader.decoder.values.undecodable - self._broken_counted
        if broken:
            self._metrics.undecodable_values.add(broken)
            self._broken_counted += broken

    def adopt(self, rules: Rules) -> None:
        """Use other rules: trajectories that close from here on are scored by them."""
        self._use(rules.settings)
        self.scoring.adopt(rules.scorer, rules.settings)
        if rules.reading is not None:
            self._count_broken_values()
            self._broken_counted = 0
            self._reader.decoder, self._reader.recognizer = rules.reading
        self.assembler.adopt(rules.assemble, conversations=rules.scorer.gathers_conversations)
        self._hold.timeout_ns, self._hold.max_bytes = rules.hold_timeout_ns, rules.hold_max_bytes
        if self._parts.watcher is not None:
            self._parts.watcher.keep(rules.streams)
