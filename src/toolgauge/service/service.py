"""One running toolgauge: receivers, pipeline, destination and metrics endpoint on one event loop.

At the end the order is: say that we are stopping, stop receiving, score what is open, hear the judges out, send what
is queued, stop being observable, health last.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from toolgauge.export.emit_settings import EmitSettings
from toolgauge.export.emitter import Emitter
from toolgauge.export.redact import Redactor
from toolgauge.export.scrape import MetricsEndpoint
from toolgauge.pipeline.pipeline import Pipeline, Rules
from toolgauge.receive.grpc import GrpcReceiver
from toolgauge.receive.http import HttpReceiver
from toolgauge.receive.turns import Turns
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.admin import AdminEndpoint
from toolgauge.service.bench import Bench
from toolgauge.service.clock import SteadyClock
from toolgauge.service.faults import Faults
from toolgauge.service.garbage import GarbageRounds
from toolgauge.service.health import Health
from toolgauge.service.lag import LoopLag
from toolgauge.service.leaving import Leaving
from toolgauge.service.memory import MemoryGuard
from toolgauge.service.outlet import Outlet

_LOG = logging.getLogger("toolgauge")
_TICK_S = 0.1
# For scoring and for saying what came of it, in turn with reading. What waits may have to wait for two rounds of both.
_SLICE_NS = 2_000_000
_LEAST_SLICE_NS = 1_000_000
# A message takes several rounds of the loop on its way to us, and is late by one slice alone if they come in a row.
_ROUNDS_BETWEEN_SLICES = 4
# While senders wait for a request to be read, scoring waits for them; what has been due for longer has its turns too.
_MAY_WAIT_NS = 250_000_000
# Orchestrators kill after 30 s. Beside these, judges take 2 s to be cancelled and the endpoints 3 s to close.
_RECEIVER_GRACE_S = 2.0
_SCORING_DEADLINE_S = 5.0
# For saying of what is then still open that it was not scored.
_TELLING_DEADLINE_S = 2.0
_JUDGING_DEADLINE_S = 7.0
_DRAIN_TIMEOUT_S = 8.0
# Between two looks whether the queues have room for what was held.
_ROOM_WAIT_S = 0.02


class Service:
    """Runs until told to stop; `start` and `stop` may each be called once, `stop` also without a start."""

    def __init__(
        self,
        *,
        pipeline: Pipeline,
        receivers: tuple[GrpcReceiver | HttpReceiver, ...],
        judges: Bench,
        outbox: Outlet,
        health: Health,
        admin: AdminEndpoint | None,
        emitter: Emitter,
        metrics: SelfMetrics,
        memory: MemoryGuard,
        endpoint: MetricsEndpoint | None,
        push_interval_s: float,
        clock: SteadyClock,
        turns: Turns,
        hop_id: str,
    ) -> None:
        self.pipeline = pipeline
        self.receivers = receivers
        self.judges = judges
        self.outbox = outbox
        self.health = health
        self.admin = admin
        self.endpoint = endpoint
        self.emitter = emitter
        self.metrics = metrics
        self.memory = memory
        self._faults = Faults(metrics)
        self._garbage = GarbageRounds()
        self._push_interval_s = push_interval_s
        self.clock = clock
        self.turns = turns
        self.hop_id = hop_id
        self._lag = LoopLag(metrics.loop_lag)
        self._timers: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Open the ports. Raise `StartError` when one cannot be had; nothing stays open then."""
        started: list[Callable[[], Awaitable[None]]] = []
        try:
            # Before anyone can wait for it: judges load what they need.
            started.append(self.judges.close)
            await self.judges.start()
            if self.admin is not None:
                await self.admin.start()
                started.append(self.admin.stop)
            if self.endpoint is not None:
                await self.endpoint.start()
                started.append(self.endpoint.stop)
            await self.outbox.start()
            started.append(self.outbox.close)
            for receiver in self.receivers:
                await receiver.start()
                started.append(lambda receiver=receiver: receiver.stop(0))
        except BaseException:
            for stop in reversed(started):
                await stop()
            raise
        self._lag.start()
        self._timers = asyncio.create_task(self._run_timers())
        self.health.enter("running")

    async def stop(self) -> int:
        """Stop in order, within 30 s; return how many spans and requests of our own could not be delivered."""
        self.health.enter("stopping")
        await asyncio.gather(*(receiver.stop(_RECEIVER_GRACE_S) for receiver in self.receivers))
        await self._lag.stop()
        if self._timers is not None:
            self._timers.cancel()
            await asyncio.gather(self._timers, return_exceptions=True)
        lost = await self._score_what_is_open()
        await self._hear_judges_out()
        self.outbox.put(self.emitter.metrics(self.clock()))
        lost += await self._send_what_is_left()
        await self.outbox.close()
        if self.endpoint is not None:
            await self.endpoint.stop()
        self.health.enter("stopped")
        if self.admin is not None:
            await self.admin.stop()
        return lost

    def adopt(self, rules: Rules, settings: EmitSettings, redactor: Redactor, push_interval_s: float) -> None:
        """Go on by other rules, and say what comes of them by other settings."""
        self.pipeline.adopt(rules)
        self.emitter.adopt(settings, redactor)
        self._push_interval_s = push_interval_s

    async def _score_what_is_open(self) -> int:
        """Score what is open, then let go of it; return how many trajectories there was no time to say anything of."""
        with self._faults.survived():
            self.pipeline.close(self.clock())
        if not await self._score_for(_SCORING_DEADLINE_S):
            with self._faults.survived():
                self.pipeline.interrupt()
            await self._score_for(_TELLING_DEADLINE_S)
        unscored, untold = self.pipeline.interrupted, self.pipeline.trajectories_open
        if unscored or untold:
            _LOG.error(
                "no time to score all that was open: %d trajectories are `not_evaluated` (`incomplete`), and of %d "
                "nothing is said",
                unscored,
                untold,
                extra={"incomplete": unscored, "lost": untold},
            )
        with self._faults.survived():
            self.pipeline.release()
            self.pipeline.flush()
        return untold

    async def _score_for(self, seconds: float) -> bool:
        """Score for so long at most; True when all is done."""
        now = self.clock()
        deadline = now + int(seconds * 1e9)
        # A request for each slice would be more than a destination that is far away answers in time.
        leaving = Leaving(now)
        busy = True
        while busy and now < deadline:
            with self._faults.survived():
                busy = self.pipeline.score(_SLICE_NS)
            now = self.clock()
            leaving.begin_if_due(now, is_pressing=self.pipeline.is_pressing)
            if leaving.is_under_way:
                leaving.is_under_way = False
                with self._faults.survived():
                    self.pipeline.flush()
            await asyncio.sleep(0)
        return not busy

    async def _hear_judges_out(self) -> None:
        with self._faults.survived():
            await self.judges.drain(_JUDGING_DEADLINE_S)
        with self._faults.survived():
            await self.judges.close()
        with self._faults.survived():
            self.pipeline.flush()

    async def _send_what_is_left(self) -> int:
        """Send what is queued, and what finds room in the queues meanwhile; return how much of both is lost."""
        until = self.clock() + int(_DRAIN_TIMEOUT_S * 1e9)
        self.outbox.hurry()
        while self._held and self.clock() < until:
            with self._faults.survived():
                self.pipeline.flush()
            await asyncio.sleep(_ROOM_WAIT_S)
        return await self.outbox.drain(max(0, until - self.clock()) / 1e9) + self._held

    @property
    def _held(self) -> int:
        return self.pipeline.spans_held + self.pipeline.other_requests_held

    async def _run_timers(self) -> None:
        next_tick = next_push = self.clock()
        leaving = Leaving(next_tick)
        while True:
            now = self.clock()
            slice_ns = self._slice_ns(now)
            is_time = now >= next_tick
            if is_time:
                next_tick = now + int(_TICK_S * 1e9)
                self._take_note(now)
                leaving.begin_if_due(now, is_pressing=self.pipeline.is_pressing)
            if leaving.has_turn(now, do_senders_wait=not slice_ns):
                # What fails is not begun again before it is time.
                leaving.is_under_way = False
                with self._faults.survived():
                    leaving.is_under_way = self.pipeline.flush_some(slice_ns // 2 or _LEAST_SLICE_NS)
            if now >= next_push:
                next_push = now + int(self._push_interval_s * 1e9)
                with self._faults.survived():
                    await self._push(now)
            busy = not slice_ns
            if slice_ns:
                with self._faults.survived():
                    busy = self.pipeline.score(slice_ns // 2 if leaving.is_under_way else slice_ns)
            busy = busy or leaving.is_under_way
            if is_time:
                self._garbage.look(now, is_quiet=not busy)
            if busy:
                await _let_others_work()
            else:
                await asyncio.sleep(_TICK_S)

    def _take_note(self, now_ns: int) -> None:
        with self._faults.survived():
            self.pipeline.tick(now_ns)
        with self._faults.survived():
            self._watch_memory(now_ns)

    def _slice_ns(self, now_ns: int) -> int:
        """Say for how long to score, and for how long to speak, before others have their turn; 0: not now."""
        may_wait = self.turns.are_waited_for and self.pipeline.behind_ns(now_ns) <= _MAY_WAIT_NS
        return 0 if may_wait else _SLICE_NS

    def _watch_memory(self, now_ns: int) -> None:
        is_empty = self.pipeline.is_empty and not self.outbox.bytes_queued
        if self.memory.look(now_ns, is_empty=is_empty):
            self.pipeline.shed()

    async def _push(self, now_ns: int) -> None:
        # Encoding thousands of cells takes tens of milliseconds, which no request should wait for.
        outgoing = await asyncio.to_thread(self.emitter.metrics_request, self.emitter.snapshot(), now_ns)
        if not self.outbox.put(outgoing):
            self.metrics.own_dropped.add(1, ("", outgoing.signal, "queue_full"))


async def _let_others_work() -> None:
    for _ in range(_ROUNDS_BETWEEN_SLICES):
        await asyncio.sleep(0)
