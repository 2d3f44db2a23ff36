"""One running toolgauge, alone or as one of several workers: it scores received requests, and sends them on.

Sockets and timers are tasks of one event loop; everything between receiving and sending happens on the worker's thread.
"""

import asyncio
import functools
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Protocol

from toolgauge import plugins
from toolgauge.backends.score_sender import ScoreDestination
from toolgauge.config.model import Config
from toolgauge.export.destination import Undelivered
from toolgauge.export.recording_file import RecordingFile
from toolgauge.model.delivery import Outgoing
from toolgauge.model.errors import ConfigError, DecodeError, StateError
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.notices import Notice
from toolgauge.model.ports import MessageReceiver
from toolgauge.otlp.request import Request
from toolgauge.pipeline.pipeline import Pipeline
from toolgauge.pipeline.stages import ScorecardSink, ignore
from toolgauge.receive.otlp_handler import BrokerParts
from toolgauge.score.criterion import Criterion
from toolgauge.service.destinations import make_outbox, make_recording
from toolgauge.service.health import ComponentHealth, part, parts_of_process
from toolgauge.service.judge_pool import JudgePool, asks_judge, make_judges, open_client
from toolgauge.service.pipeline_factory import make_pipeline, make_watcher, redactor
from toolgauge.service.plug_in_evaluators import plug_ins
from toolgauge.service.process import Faults, MemoryGuard, Relief, SteadyClock, resident_bytes
from toolgauge.service.runtime import Losses, Runtime
from toolgauge.service.worker import Inbox, Intake, Worker
from toolgauge.state.journal import Journal
from toolgauge.state.journal_rows import MAX_CRASHES, SENDERS_WAIT_NS, closed_rows, shown_rows
from toolgauge.state.ledger import NO_LEDGER, Ledger, OffsetJournal
from toolgauge.state.store import StateStore

_LOG = logging.getLogger("toolgauge")
# Orchestrators kill after 30 s. Sending ends in time for the worker (1 s), the endpoints (3 s) and the interpreter to end. It continues
# all the while, and alone uses the time that receivers, scoring (8 s with a stuck evaluator), judges (9 s) and webhooks leave.
_SENDING_UNTIL_S = 24.0
_SENDING_WITH_JOURNAL_UNTIL_S = 10.0  # The next process sends the requests in the journal
# For reading the inbox, and scoring open trajectories.
_READING_DEADLINE_S = 2.5
_SCORING_DEADLINE_S = 5.0
# For closing the other open trajectories unscored.
_CLOSING_DEADLINE_S = 2.0
_JUDGING_DEADLINE_S = 7.0
_LEAVING_DEADLINE_S = 2.0  # For committing messages that were sent
# Between two looks whether the queues have room for held spans.
_ROOM_WAIT_S = 0.02
_WORKER_GRACE_S = 1.0


def take_up(
    journal: Journal, pipeline: Pipeline, faults: Faults, clock: Callable[[], int], is_ending: Callable[[], bool]
) -> None:
    """Have the pipeline take up the journal of an earlier process, then begin to write.
    Faults are survived: else no process could ever start again. Entries without time stay for the next start.
    """
    began_ns = clock()
    count = spoilt = unscored = 0
    try:
        closed = pipeline.keepers.restored(journal.rows(closed_rows))
        pipeline.assembler.recovery.restore(closed, clock())
        pipeline.earlier_traces.restore(journal.rows(shown_rows))
        for entry in journal.entries():
            if is_ending():
                break
            if not count:
                _LOG.info("reading the requests that an earlier process left in the journal")
            count += 1
            # Its evaluation, or its reading, may end each process.
            is_read = not journal.begun.crashed_with(entry.id)
            unscored += not (is_read or entry.own)
            journal.begin_work(str(entry.id))
            with faults.survived():
                try:
                    pipeline.recover(entry, clock(), is_read=is_read)
                except DecodeError:
                    spoilt += 1
    except StateError as error:
        _LOG.error("cannot read the journal of an earlier process: %s", error)
    journal.start()
    pipeline.end_recovery(clock())
    if unscored:
        text = "%d requests of the journal go on unscored: the process ended %d times in a row at the same run"
        _LOG.error(text, unscored, MAX_CRASHES)
    if spoilt:
        _LOG.error("dropped %d corrupt requests from the journal", spoilt)
    if count:
        line = "took up %d requests of an earlier process in %.1f s: %d trajectories are open"
        _LOG.info(line, count, (clock() - began_ns) / 1e9, pipeline.trajectories_open)


def check_messages(config: Config, criteria: Sequence[Criterion]) -> None:
    """Raise `ConfigError` when a criterion judges conversations while messages, keyed by trace, are read from Kafka."""
    if config.receivers.kafka is None:
        return
    for criterion in criteria:
        if criterion.scope == "conversation":
            raise ConfigError(
                f"criterion `{criterion.name}` has `scope: conversation`, which `receivers.kafka` cannot serve: the traces of a "
                "conversation lie in several partitions",
                hint="judge traces (`scope: trace`), or send conversations over `receivers.otlp`",
            )


class WorkerLink(Protocol):
    """A worker's way to its front: it takes no requests from the network, and pushes no metrics itself."""

    hop_id: str
    lost_ns: int  # Until when spans were acknowledged that died with the worker before it; or 0

    async def last_metrics(self) -> Outgoing | None:
        """Hand the front the last metrics; return the metrics of all processes where this worker is to send them."""


class Service(Runtime):
    """Scores received requests. `is_live` where senders were running before. With a worker's `link` only the front sends;
    `recording` replaces `exporters.file`. Raises `ConfigError` when a criterion asks a judge and its model does not exist.
    """

    def __init__(
        self,
        config: Config,
        criteria: Sequence[Criterion],
        *,
        observing: Callable[[ScorecardSink], ScorecardSink] | None = None,
        on_notices: Callable[[Sequence[Notice]], None] | None = None,
        is_live: bool = False,
        link: WorkerLink | None = None,
        recording: RecordingFile | None = None,
        on_accepted: Callable[[Request], None] = lambda _request: None,
        put_together: Callable[..., Pipeline] = make_pipeline,
    ) -> None:
        check_messages(config, criteria)
        clock = SteadyClock()
        super().__init__(config, MetricRegistry(clock), clock, uuid.uuid4().hex if link is None else link.hop_id)
        self.link = link
        self.has_front = link is not None
        self.recording = recording or make_recording(config, self.metrics)
        if recording is not None:
            self.recording_deadline_s = 15.0  # The recording is the purpose
        offsets = self._open_journal(config)
        self.outbox = make_outbox(config, self.metrics, hop_id=self.hop_id, ledger=self.ledger)
        judges = None
        if config.judge is not None and asks_judge(criteria):
            client = open_client(config.judge)
            judges = make_judges(config.judge, client, self.metrics.judge, redactor(config).content)
        self.judges = JudgePool(judges, self.metrics.judge)
        self.looks = (self.judges.collect,)
        # The front guards the memory of all workers together.
        resident = resident_bytes if link is None else lambda: 0
        self.memory = MemoryGuard(config.memory.limit, self.metrics, resident=resident)
        watcher = make_watcher(config, self.metrics)
        self.watching = self._watch(
            watcher, criteria, lambda event: self.outbox.put(self.ledger.journaled(event, clock()))
        )
        self.pipeline = put_together(
            config,
            criteria,
            sink=self.emitter if observing is None else observing(self.emitter),
            outbox=self.outbox,
            metrics=self.metrics,
            judging=self.judges,
            has_memory=self.memory.admits,
            watcher=watcher,
            live_since_ns=self.start_ns if is_live else None,
            on_regressions=ignore if self.watching is None else self.watching.regressed,
            ledger=self.ledger,
            keepers=self.outbox.keepers,
            # One worker or consumer of a group gets all spans of a trace, another one perhaps other traces of its conversation.
            is_divided=link is not None or config.receivers.kafka is not None,
            # The front announces the failed runs of its workers.
            on_notices=on_notices or self.notifier.add,
            on_feedback=self.hear,
        )
        self._receive(config, offsets, on_accepted)

    def _open_journal(self, config: Config) -> OffsetJournal | None:
        """Open the state directory; return the books of a broker's messages where one is received from."""
        late = config.assemble.late_memory
        self.journal = None
        self.store = StateStore.of(config.state)
        if self.store is not None:
            self.journal = Journal(
                self.store,
                config.state,
                self.metrics.state,
                clock=self.clock,
                closed_for_ns=late.for_,
                max_closed=late.traces,
            )
        offsets = None if config.receivers.kafka is None else OffsetJournal(self.journal)
        writer = self.journal if offsets is None else offsets
        self.ledger = NO_LEDGER if writer is None else Ledger(writer)
        return offsets

    def _receive(self, config: Config, offsets: OffsetJournal | None, on_accepted: Callable[[Request], None]) -> None:
        """Make everything before the pipeline."""
        # Requests in the inbox count against the room of the queues: with half of it, a full inbox never fills them.
        takers = [each for each in self.outbox.destinations if not isinstance(each, ScoreDestination)]
        queues = [destination.settings.queue.max_bytes // 2 for destination in takers]
        self.inbox = inbox = Inbox(min(config.inbox.max_bytes, *queues) if queues else config.inbox.max_bytes)
        self.metrics.inbox_bytes.observe = lambda: {(): inbox.budget.size_bytes}
        self.worker = Worker(self.pipeline, inbox, clock=self.clock, faults=self.faults)
        self.run = self.worker.run

        def accepted(request: Request) -> None:
            if self.recording is not None:
                self.recording.put(request.signal, request.body)
            on_accepted(request)

        intake = Intake(self.pipeline, inbox, self.clock, self.ledger, self.journal, accepted)
        self._listen(config, intake, self._parts, is_worker=self.link is not None)
        self.messages: MessageReceiver | None = None
        if offsets is not None:
            # Loaded by name: the client of the extra `kafka` takes 15 MB.
            messages: MessageReceiver = plugins.load(plugins.RECEIVERS, "kafka")(
                config.receivers.kafka,
                BrokerParts(
                    consumer=intake,
                    offsets=offsets,
                    ledger=self.ledger,
                    traces=self.worker,
                    metrics=self.metrics,
                    hop_id=self.hop_id,
                    clock=self.clock,
                    late_ns=config.assemble.late_memory.for_,
                ),
            )
            # It starts last: its messages wait.
            self.messages = messages
            self.additional_receivers = (*self.additional_receivers, messages)
        self._is_hurried = self._is_interrupted = False

    def _parts(self) -> Mapping[str, ComponentHealth]:
        """Describe the health of each part."""
        now_ns, started_ns = self.clock(), self.start_ns
        parts = parts_of_process(self.memory, started_ns)
        stuck = "the worker is stuck in an evaluator or a trajectory: requests go on unread when the inbox is full"
        parts["processor:scoring"] = part(started_ns, stuck, self.worker.stuck_since_ns)
        for name, evaluator in plug_ins(self.pipeline.scorer.criteria):
            if evaluator.off_since_ns is not None:
                error = "switched off: its evaluator did not end in time; once it is mended, reload the configuration"
                off = ComponentHealth("StatusPermanentError", evaluator.off_since_ns, error)
                parts[f"processor:criterion/{name}"] = off
        if self.judges.has_judges:
            reason, lasted_s = self.judges.trouble or (None, 0.0)
            parts["processor:judge"] = part(started_ns, reason, now_ns - int(lasted_s * 1e9))
        for name, source in (("extension:journal", self.journal), ("receiver:kafka", self.messages)):
            if source is not None:
                parts[name] = part(started_ns, *(source.trouble or (None, None)))
        for destination in self.outbox.destinations:
            refusing, outage = destination.health.refusing(), destination.health.now()
            if refusing:
                since_ns = now_ns - int(max(each.lasted_s for each in refusing) * 1e9)
                error = ", ".join(f"{each.signal}: {each.reason}" for each in refusing)
                found = ComponentHealth("StatusPermanentError", since_ns, error)
            elif outage is not None:
                found = part(started_ns, outage.reason, now_ns - int(outage.lasted_s * 1e9))
            else:
                found = part(started_ns)
            parts[f"exporter:{destination.name}"] = found
        return parts

    def close_store(self) -> None:
        """Write everything that was submitted, and let another process have the state directory. Works twice."""
        if self.journal is not None:
            self.journal.close()
        super().close_store()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in here that could leave."""
        return self.pipeline.is_empty and not self.outbox.bytes_waiting

    def put_own(self, outgoing: Outgoing) -> None:
        """Write it into the journal before."""
        super().put_own(self.ledger.journaled(outgoing, self.clock()))

    @property
    def _keeps_open(self) -> bool:
        """Whether the next start continues with open trajectories: not while the journal could not be written."""
        return self.journal is not None and self.journal.failure is None and not self.journal.unwritten

    async def _start_scoring(self, undo: AsyncExitStack) -> None:
        undo.push_async_callback(self.judges.close)
        await self.judges.start()
        # Before the journal is read: its requests do not prevent a start.
        self.memory.check()
        undo.push_async_callback(self.outbox.close)
        await self.outbox.start()
        self.worker.start()
        undo.callback(self.worker.end, _WORKER_GRACE_S)
        # Senders perhaps did not repeat the requests that failed before.
        since_ns, lost_ns = self.clock(), 0 if self.link is None else self.link.lost_ns
        if self.journal is not None:
            work = functools.partial(take_up, self.journal, self.pipeline, self.faults, self.clock)
            await self.worker.run(functools.partial(work, lambda: self._is_hurried))
            since_ns = max(lost_ns, self.journal.received_since_ns)
        elif since_ns - lost_ns <= SENDERS_WAIT_NS:
            # Senders still have the requests that failed since then.
            since_ns = lost_ns
        self.pipeline.assembler.completeness.receive_since(since_ns)
        self.pipeline.earlier_traces.receive_since(since_ns)
        if self.messages is not None:
            undo.push_async_callback(self._leave_messages, 0)

    async def _stop_scoring(self, began_ns: int) -> Losses:
        """Stop in order: open trajectories, judges, watch, metrics, queues. Queued requests are sent all the while."""
        until_s = _SENDING_WITH_JOURNAL_UNTIL_S if self._keeps_open else _SENDING_UNTIL_S
        until_ns = began_ns + int(until_s * 1e9)
        incomplete, dropped = await self._end_reading()
        with self.faults.survived():
            await self.judges.drain(_JUDGING_DEADLINE_S)
        with self.faults.survived():
            await self.judges.close()
        await self._flush()
        await self._stop_watching()
        last = self.emitter.metrics(self.clock()) if self.link is None else await self.link.last_metrics()
        if last is not None:
            self.put_own(last)
        # Held requests go as queues get room.
        while self._held and self.clock() < until_ns:
            await self._flush()
            await asyncio.sleep(_ROOM_WAIT_S)
        undelivered = await self.outbox.drain(max(0, until_ns - self.clock()) / 1e9)
        held = self._held
        self.worker.end(_WORKER_GRACE_S)
        await self.outbox.close()
        await self._leave_messages(_LEAVING_DEADLINE_S)
        kept = self.outbox.kept
        earlier = self.metrics.dropped(has_journal=self.ledger.has_journal)
        losses = Losses(undelivered=undelivered, dropped=dropped, incomplete=incomplete, earlier=earlier)
        if not self._keeps_open:
            return replace(losses, held=held, kept=kept)
        waiting = (*kept, ("a queue", held)) if held else kept
        return replace(losses, kept=waiting, open=self.pipeline.trajectories_open)

    def hurry(self) -> None:
        """Leave the rest of a journal that is being read to the next start."""
        self._is_hurried = True

    async def stop(self, began_ns: int | None = None) -> Losses:
        """Stop in order, within 28 s of `began_ns`; return the losses."""
        self.outbox.hurry()
        return await super().stop(began_ns)

    async def _leave_messages(self, timeout_s: float) -> None:
        if self.messages is not None:
            await self.messages.stop(0)
            await self.messages.leave(timeout_s)

    async def _end_reading(self) -> tuple[int, int]:
        """Read the inbox, and score open trajectories or leave them to the journal; count the incomplete and the dropped."""
        self.pipeline.admission.close()
        until_ns = self.clock() + int(_SCORING_DEADLINE_S * 1e9)
        keeps = self._keeps_open
        await self.worker.begin_to_finish(self.pipeline.pause if keeps else self._score_open, _READING_DEADLINE_S)
        try:
            await self.worker.finished(_SCORING_DEADLINE_S if keeps else (until_ns - self.clock()) / 1e9)
        except TimeoutError:
            if keeps:
                # Stuck in an evaluator: its trajectory is scored by the next process.
                self.pipeline.pause()
                self.worker.give_up()
            else:
                await self._interrupt()
        incomplete, dropped = (0, 0) if keeps else (self.pipeline.scoring.interrupted, self.pipeline.trajectories_open)
        if incomplete or dropped:
            _LOG.error("there was not enough time to score all open trajectories")
        await self._flush(self.pipeline.release)
        return incomplete, dropped

    def _score_open(self) -> None:
        """Close and score everything; without time, open trajectories leave unscored."""
        for request in self.inbox.drain():
            self.pipeline.process_unread(request)
        self.pipeline.close(self.clock())
        last_ns: int | None = None
        has_more = True
        while has_more:
            with self.faults.survived():
                has_more = self.pipeline.tick(self.clock())
            if self.pipeline.egress.is_pressing:
                with self.faults.survived():
                    self.pipeline.flush()
            if self._is_interrupted:
                last_ns = last_ns or self.clock() + int(_CLOSING_DEADLINE_S * 1e9)
                has_more = has_more and self.clock() < last_ns

    async def _interrupt(self) -> None:
        """Have the worker score no more; take over from one that is stuck."""
        self._is_interrupted = True
        self.pipeline.scoring.interrupt()
        for _, evaluator in plug_ins(self.pipeline.scorer.criteria):
            evaluator.cut_off()
        try:
            await self.worker.finished(_CLOSING_DEADLINE_S + _WORKER_GRACE_S)
        except TimeoutError:
            self.worker.give_up()
            for request in self.inbox.drain():
                self.pipeline.process_unread(request)

    async def _flush(self, first: Callable[[], None] = lambda: None) -> None:
        def flush() -> None:
            with self.faults.survived():
                first()
                self.pipeline.flush()

        await self.worker.run(flush)

    @property
    def _held(self) -> Undelivered:
        return Undelivered(spans=self.pipeline.admission.spans_held, requests=self.pipeline.egress.other_requests)

    @property
    def _is_quiet(self) -> bool:
        return self.worker.is_idle

    def relieve(self, relief: Relief) -> None:
        """Give back memory soon."""
        self.worker.post(self.pipeline.relieve)
        if relief is Relief.OPEN:
            self.worker.post(self.pipeline.shed)

    def put(self, outgoing: Outgoing) -> bool:
        """Have metrics sent; False without room."""
        return self.outbox.put(outgoing)
