"""One running toolgauge: receivers, worker, destinations and the metrics endpoint.

Sockets and timers are tasks of one event loop; everything between receiving and sending happens on the worker's thread.
At the end the order is: announce that we are stopping, stop receiving, score what is open, hear the judges out, send what
is queued, stop being observable, health last.
"""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from toolgauge.export.destination import Undelivered
from toolgauge.export.emitter import Emitter
from toolgauge.export.fan_out import FanOut
from toolgauge.export.prometheus import MetricsEndpoint
from toolgauge.export.recording_file import RecordingFile
from toolgauge.export.redact import Redactor
from toolgauge.export.results import EmitSettings
from toolgauge.export.webhooks import Webhooks
from toolgauge.model.delivery import Outgoing
from toolgauge.model.ports import MessageReceiver, Receiver
from toolgauge.pipeline.pipeline import Pipeline
from toolgauge.pipeline.stages import Rules
from toolgauge.receive.grpc import GrpcReceiver
from toolgauge.receive.http import HttpReceiver
from toolgauge.score.scorer import ReadingScope
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.admin import AdminEndpoint
from toolgauge.service.evaluation_limit import EvaluationLimit
from toolgauge.service.health import Health
from toolgauge.service.inbox import Inbox, Intake
from toolgauge.service.judge_pool import JudgePool
from toolgauge.service.losses import Losses
from toolgauge.service.memory import MemoryGuard
from toolgauge.service.persistence import Persistence
from toolgauge.service.process import Faults, GarbageRounds, LoopLag, SteadyClock
from toolgauge.service.watching import Watching
from toolgauge.service.worker import Worker
from toolgauge.state.ledger import Ledger

_LOG = logging.getLogger("toolgauge")
_T = TypeVar("_T")
_TIMER_S = 0.1
# Orchestrators kill after 30 s. Sending ends in time for the worker (1 s), the endpoints (3 s) and the interpreter to end. It goes
# on all the while, and has to itself what receivers, scoring (8 s with an evaluator that is stuck), judges (9 s) and webhooks leave.
_SENDING_UNTIL_S = 24.0
# What the journal keeps is sent by the next process.
_SENDING_WITH_JOURNAL_UNTIL_S = 10.0
_RECEIVER_GRACE_S = 2.0
# For reading what is in the inbox, and scoring what is open.
_READING_DEADLINE_S = 2.5
_SCORING_DEADLINE_S = 5.0
# For closing, unscored, what is then still open.
_CLOSING_DEADLINE_S = 2.0
_JUDGING_DEADLINE_S = 7.0
_WEBHOOKS_TIMEOUT_S = 1.0
# For writing what waits to be recorded, unless the disk is stuck.
_RECORDING_DEADLINE_S = 2.0
# For committing what has been sent.
_LEAVING_DEADLINE_S = 2.0
# Between two looks whether the queues have room for what was held.
_ROOM_WAIT_S = 0.02
_WORKER_GRACE_S = 1.0


class WorkerLink(Protocol):
    """What a worker has of the front: it takes no requests from the network, and pushes no metrics itself."""

    hop_id: str

    def resident(self) -> int | None:
        """Return how much memory all processes have in use; `None` where that is not known."""

    async def last_metrics(self) -> Outgoing | None:
        """Hand the front the last metrics; return those of all processes where this worker is to send them."""


class Service:
    """Runs until `stop`; `start` and `stop` may each be called once, `stop` also without a start."""

    def __init__(
        self,
        *,
        pipeline: Pipeline,
        inbox: Inbox,
        intake: Intake,
        receivers: tuple[GrpcReceiver | HttpReceiver, ...],
        additional_receivers: tuple[Receiver, ...],
        judges: JudgePool,
        watching: Watching | None,
        webhooks: Webhooks,
        outbox: FanOut,
        health: Health,
        admin: AdminEndpoint | None,
        emitter: Emitter,
        metrics: SelfMetrics,
        memory: MemoryGuard,
        endpoint: MetricsEndpoint | None,
        evaluation_limit: EvaluationLimit,
        worker: Worker,
        push_interval_s: float,
        clock: SteadyClock,
        hop_id: str,
        persistence: Persistence | None = None,
        recording: RecordingFile | None = None,
        messages: MessageReceiver | None = None,
        ledger: Ledger | None = None,
        link: WorkerLink | None = None,
    ) -> None:
        self._link = link
        self._recording = recording
        self._messages = messages
        # That of the journal, and of messages that are committed when they are done with.
        self.ledger = ledger
        self.persistence = persistence
        self.pipeline = pipeline
        self.intake = intake
        self.receivers = receivers
        self._additional_receivers = additional_receivers
        self.judges = judges
        self.watching = watching
        self._webhooks = webhooks
        self.outbox = outbox
        self.health = health
        self.admin = admin
        self.endpoint = endpoint
        self.emitter = emitter
        self.metrics = metrics
        self.memory = memory
        self.clock = clock
        self.hop_id = hop_id
        self.worker = worker
        self._inbox = inbox
        self.evaluation_limit = evaluation_limit
        self._faults = Faults(metrics)
        self._garbage = GarbageRounds()
        self._push_interval_s = push_interval_s
        self._lag = LoopLag(metrics.loop_lag)
        self._timers: tuple[asyncio.Task[None], ...] = ()
        self._is_interrupted = False

    async def start(self) -> None:
        """Open the ports. Raise `StartError` when one cannot be had, or memory is too small; nothing stays open then."""
        started: list[Callable[[], Awaitable[None]]] = []
        try:
            # Before anyone can wait for it: judges load what they need.
            started.append(self.judges.close)
            await self.judges.start()
            self.memory.check()
            if self.admin is not None:
                await self.admin.start()
                started.append(self.admin.stop)
            if self.endpoint is not None:
                await self.endpoint.start()
                started.append(self.endpoint.stop)
            await self.outbox.start()
            started.append(self.outbox.close)
            await self._webhooks.start()
            started.append(lambda: self._webhooks.close(0))
            if self.watching is not None:
                started.append(self.watching.stop)
                self._webhooks.set_active(self.watching.restore())
            self.worker.start()
            started.append(self._end_worker)
            if self.persistence is not None:
                await self.worker.run(functools.partial(self.persistence.recover, self.pipeline, self._faults))
            # What a sender could not send before was perhaps not sent again.
            journal = None if self.persistence is None else self.persistence.journal
            since_ns = self.clock() if journal is None else journal.received_since_ns
            self.pipeline.assembler.completeness.receive_since(since_ns)
            self.pipeline.earlier_traces.receive_since(since_ns)
            started.append(self._end_recording)
            self._begin_recording()
            await self._start_receivers(started)
        except BaseException:
            for stop in reversed(started):
                await stop()
            if self.persistence is not None:
                self.persistence.close()
            raise
        if self.watching is not None:
            self.watching.start(self.worker.run)
        self._lag.start()
        self._timers = (asyncio.create_task(self._watch()), asyncio.create_task(self._push()))
        self.health.enter("running")

    async def _start_receivers(self, started: list[Callable[[], Awaitable[None]]]) -> None:
        for receiver in (*self.receivers, *self._additional_receivers):
            await receiver.start()
            started.append(lambda receiver=receiver: receiver.stop(0))
        if self._messages is not None:
            started.append(lambda: self._leave_messages(0))
            await self._messages.start()

    async def stop(self, began_ns: int | None = None) -> Losses:
        """Stop in order, within 28 s of `began_ns`; return the losses. Queued requests are sent all the while."""
        until_s = _SENDING_WITH_JOURNAL_UNTIL_S if self._keeps_open else _SENDING_UNTIL_S
        until_ns = (self.clock() if began_ns is None else began_ns) + int(until_s * 1e9)
        self.health.enter("stopping")
        self.outbox.hurry()
        messages = () if self._messages is None else (self._messages,)
        await asyncio.gather(
            *(
                receiver.stop(_RECEIVER_GRACE_S)
                for receiver in (*self.receivers, *self._additional_receivers, *messages)
            )
        )
        await self._lag.stop()
        for timer in self._timers:
            timer.cancel()
        await asyncio.gather(*self._timers, return_exceptions=True)
        await self._end_recording()
        incomplete, dropped = await self._end_reading()
        await self._hear_judges_out()
        if self.watching is not None:
            await self.watching.stop()
        await self._webhooks.close(_WEBHOOKS_TIMEOUT_S)
        last = self.emitter.metrics(self.clock()) if self._link is None else await self._link.last_metrics()
        if last is not None:
            self.put_own(last)
        undelivered, held = await self._send_remaining(until_ns)
        self.worker.end(_WORKER_GRACE_S)
        await self.outbox.close()
        await self._leave_messages(_LEAVING_DEADLINE_S)
        if self.endpoint is not None:
            await self.endpoint.stop()
        self.health.enter("stopped")
        if self.admin is not None:
            await self.admin.stop()
        kept, is_kept = self.outbox.kept, self._keeps_open
        if self.persistence is not None:
            await asyncio.to_thread(self.persistence.close)
        return Losses(
            undelivered=undelivered,
            held=Undelivered() if is_kept else held,
            dropped=dropped,
            incomplete=incomplete,
            kept=(*kept, ("a queue", held)) if is_kept and held else kept,
            open=self.pipeline.trajectories_open if is_kept else 0,
        )

    def put_own(self, outgoing: Outgoing) -> None:
        """Have a request of our own sent that belongs to no trajectory."""
        journaled = outgoing
        if self.persistence is not None:
            journaled = self.persistence.ledger.journaled(outgoing, self.clock())
        if not self.outbox.put(journaled):
            self.metrics.own_dropped.add(1, ("", outgoing.signal, "queue_full"))

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is in here that could leave."""
        return self.pipeline.is_empty and not self.outbox.bytes_queued

    @property
    def _keeps_open(self) -> bool:
        """Whether the next start goes on with open trajectories and undelivered requests.

        Not while any of them came when the journal could not be written.
        """
        persistence = self.persistence
        return persistence is not None and persistence.journal.failure is None and not persistence.journal.unwritten

    @property
    def trajectories_open(self) -> int:
        """Trajectories that are being assembled or wait to be joined."""
        return self.pipeline.trajectories_open

    @property
    def reading_scope(self) -> ReadingScope:
        """What the criteria have it read, by now."""
        return self.pipeline.scorer.reading_scope

    async def run(self, work: Callable[[], _T]) -> _T:
        """Have the worker do this between two pieces of its own work."""
        return await self.worker.run(work)

    async def _leave_messages(self, timeout_s: float) -> None:
        if self._messages is not None:
            await self._messages.stop(0)
            await self._messages.leave(timeout_s)

    async def _end_worker(self) -> None:
        self.worker.end(_WORKER_GRACE_S)

    async def adopt(self, rules: Rules, settings: EmitSettings, redactor: Redactor, push_interval_s: float) -> None:
        """Go on by other rules as soon as the worker is done with what it does."""

        def adopt() -> None:
            self.pipeline.adopt(rules)
            self.emitter.adopt(settings, redactor)

        self._push_interval_s = push_interval_s
        self.worker.post(adopt)

    async def _end_reading(self) -> tuple[int, int]:
        """Read the inbox, and score open trajectories or leave them to the journal; return as `_score_open_trajectories`."""
        if not self._keeps_open:
            return await self._score_open_trajectories()
        self.pipeline.admission.close()
        await self.worker.begin_to_finish(self.pipeline.pause, _READING_DEADLINE_S)
        try:
            await self.worker.finished(_SCORING_DEADLINE_S)
        except TimeoutError:
            # Stuck in an evaluator: its trajectory is scored by the next process.
            self.pipeline.pause()
            self.evaluation_limit.give_up()
            self.worker.give_up()
        await self._flush(self.pipeline.release)
        return 0, 0

    async def _score_open_trajectories(self) -> tuple[int, int]:
        """Score the open trajectories and release their spans; return how many are incomplete, and how many were dropped."""
        self.pipeline.admission.close()
        until = self.clock() + int(_SCORING_DEADLINE_S * 1e9)
        await self.worker.begin_to_finish(self._score_open, _READING_DEADLINE_S)
        try:
            await self.worker.finished((until - self.clock()) / 1e9)
        except TimeoutError:
            await self._interrupt()
        incomplete, dropped = self.pipeline.scoring.interrupted, self.pipeline.trajectories_open
        if incomplete or dropped:
            _LOG.error("there was not enough time to score all open trajectories")
        await self._flush(self.pipeline.release)
        return incomplete, dropped

    def _score_open(self) -> None:
        """Close and score everything; what there is no time for leaves unscored."""
        for request in self._inbox.drain():
            self.pipeline.process_unread(request)
        self.pipeline.close(self.clock())
        last_ns: int | None = None
        has_more = True
        while has_more:
            with self._faults.survived():
                has_more = self.pipeline.tick(self.clock())
            if self.pipeline.egress.is_pressing:
                with self._faults.survived():
                    self.pipeline.flush()
            if self._is_interrupted:
                last_ns = last_ns or self.clock() + int(_CLOSING_DEADLINE_S * 1e9)
                has_more = has_more and self.clock() < last_ns

    async def _interrupt(self) -> None:
        """Have the worker score no more; take over from one that is stuck."""
        self._is_interrupted = True
        self.pipeline.scoring.interrupt()
        self.evaluation_limit.cut_off()
        try:
            await self.worker.finished(_CLOSING_DEADLINE_S + _WORKER_GRACE_S)
        except TimeoutError:
            self.evaluation_limit.give_up()
            self.worker.give_up()
            for request in self._inbox.drain():
                self.pipeline.process_unread(request)

    def _begin_recording(self) -> None:
        if self._recording is not None:
            self._recording.start()

    async def _end_recording(self) -> None:
        if self._recording is not None:
            await asyncio.to_thread(self._recording.close, _RECORDING_DEADLINE_S)

    async def _flush(self, first: Callable[[], None] = lambda: None) -> None:
        def flush() -> None:
            with self._faults.survived():
                first()
                self.pipeline.flush()

        await self.worker.run(flush)

    async def _hear_judges_out(self) -> None:
        with self._faults.survived():
            await self.judges.drain(_JUDGING_DEADLINE_S)
        with self._faults.survived():
            await self.judges.close()
        await self._flush()

    async def _send_remaining(self, until_ns: int) -> tuple[tuple[tuple[str, Undelivered], ...], Undelivered]:
        """Send queued requests, and held ones as queues get room; return the losses of both."""
        while self._held and self.clock() < until_ns:
            await self._flush()
            await asyncio.sleep(_ROOM_WAIT_S)
        undelivered = await self.outbox.drain(max(0, until_ns - self.clock()) / 1e9)
        return undelivered, self._held

    @property
    def _held(self) -> Undelivered:
        return Undelivered(spans=self.pipeline.admission.spans_held, requests=self.pipeline.egress.other_requests)

    # -- timers -----------------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            now = self.clock()
            with self._faults.survived():
                self.evaluation_limit.watch()
            with self._faults.survived():
                self.judges.collect()
            with self._faults.survived():
                self._watch_memory(now)
            with self._faults.survived():
                self._garbage.look(now, is_quiet=self.worker.is_idle)
            await asyncio.sleep(_TIMER_S)

    def _watch_memory(self, now_ns: int) -> None:
        if self.memory.look(now_ns, is_empty=self.is_empty):
            self.worker.post(self.pipeline.shed)

    async def _push(self) -> None:
        while True:
            with self._faults.survived():
                await self._push_metrics()
            await asyncio.sleep(self._push_interval_s)

    async def _push_metrics(self) -> None:
        if self._link is not None:
            return
        # Encoding thousands of cells takes tens of milliseconds, which no request should wait for.
        outgoing = await asyncio.to_thread(self.emitter.metrics_request, self.emitter.snapshot(), self.clock())
        if not self.outbox.put(outgoing):
            self.metrics.own_dropped.add(1, ("", outgoing.signal, "queue_full"))
