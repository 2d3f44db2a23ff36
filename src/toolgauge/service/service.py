"""One running toolgauge, alone or as one of several workers: it scores what it receives, and sends it on.

Sockets and timers are tasks of one event loop; everything between receiving and sending happens on the worker's thread.
"""

import asyncio
import functools
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from toolgauge.assemble.settings import LateMemory
from toolgauge.export.destination import Undelivered
from toolgauge.export.fan_out import FanOut
from toolgauge.model.delivery import Outgoing
from toolgauge.model.errors import DecodeError, StateError
from toolgauge.model.ports import MessageReceiver
from toolgauge.pipeline.pipeline import Pipeline
from toolgauge.selfmetrics import StateMetrics
from toolgauge.service.inbox import Inbox
from toolgauge.service.judge_pool import JudgePool
from toolgauge.service.plug_in_evaluators import plug_ins
from toolgauge.service.process import Faults, Relief
from toolgauge.service.runtime import Losses, Runtime
from toolgauge.service.worker import Worker
from toolgauge.state.journal import Journal
from toolgauge.state.journal_rows import MAX_CRASHES, SENDERS_WAIT_NS
from toolgauge.state.ledger import Ledger
from toolgauge.state.settings import StateSettings
from toolgauge.state.store import StateStore


class Persistence:
    """The state directory of one service. Raises `StartError` when it cannot be used."""

    def __init__(
        self,
        store: StateStore,
        settings: StateSettings,
        late: LateMemory,
        metrics: StateMetrics,
        clock: Callable[[], int],
    ) -> None:
        self.store = store
        try:
            self.journal = Journal(
                store, settings, metrics, clock=clock, closed_for_ns=late.for_, max_closed=late.traces
            )
        except BaseException:
            store.close()
            raise
        self._clock = clock
        self._is_ending = False

    @classmethod
    def of(
        cls, settings: StateSettings, late: LateMemory, metrics: StateMetrics, clock: Callable[[], int]
    ) -> "Persistence | None":
        """Open the directory of the section `state`; `None` without one."""
        store = StateStore.of(settings)
        return None if store is None else cls(store, settings, late, metrics, clock)

    def recover(self, pipeline: Pipeline, faults: Faults) -> None:
        """Have the pipeline take up the journal of an earlier process, then begin to write.
        Faults are survived: else no process could ever start again. What there is no time for stays for the next start.
        """
        began_ns = self._clock()
        count = spoilt = unscored = 0
        try:
            closed = pipeline.keepers.restored(self.journal.closed_ids())
            pipeline.assembler.recovery.restore(closed, self._clock())
            pipeline.earlier_traces.restore(self.journal.shown_values())
            for entry in self.journal.entries():
                if self._is_ending:
                    break
                if not count:
                    _LOG.info("reading the requests that an earlier process left in the journal")
                count += 1
                # Its evaluation, or its reading, may be what ends each process.
                is_read = not self.journal.begun.crashed_with(entry.id)
                unscored += not (is_read or entry.own)
                self.journal.begin_work(str(entry.id))
                with faults.survived():
                    try:
                        pipeline.recover(entry, self._clock(), is_read=is_read)
                    except DecodeError:
                        spoilt += 1
        except StateError as error:
            _LOG.error("cannot read the journal of an earlier process: %s", error)
        self.journal.start()
        pipeline.end_recovery(self._clock())
        if unscored:
            text = "%d requests of the journal go on unscored: the process ended %d times in a row at the same run"
            _LOG.error(text, unscored, MAX_CRASHES)
        if spoilt:
            _LOG.error("dropped %d corrupt requests from the journal", spoilt)
        if count:
            line = "took up %d requests of an earlier process in %.1f s: %d trajectories are open"
            _LOG.info(line, count, (self._clock() - began_ns) / 1e9, pipeline.trajectories_open)

    def hurry(self) -> None:
        """Leave entries that have not been read yet to the next start."""
        self._is_ending = True

    def close(self) -> None:
        """Write what was submitted, and let another process have the directory. Works twice."""
        self.journal.close()
        self.store.close()


_LOG = logging.getLogger("toolgauge")
_T = TypeVar("_T")
# Orchestrators kill after 30 s. Sending ends in time for the worker (1 s), the endpoints (3 s) and the interpreter to end. It goes
# on all the while, and has to itself what receivers, scoring (8 s with an evaluator that is stuck), judges (9 s) and webhooks leave.
_SENDING_UNTIL_S = 24.0
_SENDING_WITH_JOURNAL_UNTIL_S = 10.0  # What the journal keeps is sent by the next process
# For reading what is in the inbox, and scoring what is open.
_READING_DEADLINE_S = 2.5
_SCORING_DEADLINE_S = 5.0
# For closing, unscored, what is then still open.
_CLOSING_DEADLINE_S = 2.0
_JUDGING_DEADLINE_S = 7.0
_LEAVING_DEADLINE_S = 2.0  # For committing what has been sent
# Between two looks whether the queues have room for what was held.
_ROOM_WAIT_S = 0.02
_WORKER_GRACE_S = 1.0


class WorkerLink(Protocol):
    """What a worker has of the front: it takes no requests from the network, and pushes no metrics itself."""

    hop_id: str
    lost_ns: int  # Until when spans were acknowledged that died with the worker before it; or 0

    async def last_metrics(self) -> Outgoing | None:
        """Hand the front the last metrics; return those of all processes where this worker is to send them."""


@dataclass(kw_only=True, eq=False)
class Service(Runtime):
    """`ledger` is that of the journal, and of messages that are committed when they are done with."""

    pipeline: Pipeline
    inbox: Inbox
    judges: JudgePool
    outbox: FanOut
    worker: Worker
    ledger: Ledger
    persistence: Persistence | None = None
    messages: MessageReceiver | None = None
    link: WorkerLink | None = None
    _is_interrupted: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in here that could leave."""
        return self.pipeline.is_empty and not self.outbox.bytes_waiting

    @property
    def trajectories_open(self) -> int:
        """Trajectories that are being assembled or wait to be joined."""
        return self.pipeline.trajectories_open

    async def run(self, work: Callable[[], _T]) -> _T:
        """Have the worker do this between two pieces of its own work."""
        return await self.worker.run(work)

    def put_own(self, outgoing: Outgoing) -> None:
        """Have a request of our own sent that belongs to no trajectory."""
        if not self.outbox.put(self.ledger.journaled(outgoing, self.clock())):
            self.metrics.own_dropped.add(1, ("", outgoing.signal, "queue_full"))

    @property
    def _keeps_open(self) -> bool:
        """Whether the next start continues with open trajectories: not while the journal could not be written."""
        persistence = self.persistence
        return persistence is not None and persistence.journal.failure is None and not persistence.journal.unwritten

    async def _start_scoring(self, undo: AsyncExitStack) -> None:
        undo.push_async_callback(self.judges.close)
        await self.judges.start()
        # Before the journal is read: what it holds is no reason to refuse to start.
        self.memory.check()
        undo.push_async_callback(self.outbox.close)
        await self.outbox.start()
        self.worker.start()
        undo.callback(self.worker.end, _WORKER_GRACE_S)
        # What a sender could not send before was perhaps not sent again.
        since_ns, lost_ns = self.clock(), 0 if self.link is None else self.link.lost_ns
        if self.persistence is not None:
            await self.worker.run(functools.partial(self.persistence.recover, self.pipeline, self.faults))
            since_ns = max(lost_ns, self.persistence.journal.received_since_ns)
        elif since_ns - lost_ns <= SENDERS_WAIT_NS:
            # Senders still have what they could not send since then.
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
        if self.persistence is not None:
            self.persistence.hurry()

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
        """Close and score everything; what there is no time for leaves unscored."""
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

    def _put(self, outgoing: Outgoing) -> bool:
        return self.outbox.put(outgoing)
