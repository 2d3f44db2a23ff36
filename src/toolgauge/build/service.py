"""One running toolgauge: receivers, pipeline, destination and metrics endpoint on one event loop.

At the end the order is: say that we are stopping, stop receiving, score what is open, hear the judges out, send what
is queued, stop being observable, health last.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from toolgauge.admin.endpoint import AdminEndpoint
from toolgauge.admin.health import Health
from toolgauge.build.clock import SteadyClock
from toolgauge.build.faults import Faults
from toolgauge.build.memory import MemoryGuard
from toolgauge.emit.emitter import Emitter
from toolgauge.emit.scrape import MetricsEndpoint
from toolgauge.forward.fan_out import FanOut
from toolgauge.forward.leaf import Leaf
from toolgauge.judge.judges import Judges
from toolgauge.pipeline import Pipeline
from toolgauge.receive.grpc import GrpcReceiver
from toolgauge.receive.http import HttpReceiver
from toolgauge.selfmetrics import SelfMetrics

_LOG = logging.getLogger("toolgauge")
_TICK_S = 0.1
_SLICE_NS = 5_000_000
_RECEIVER_GRACE_S = 2.0
# Orchestrators kill after 30 s.
_SCORING_DEADLINE_S = 8.0
_JUDGING_DEADLINE_S = 7.0
_DRAIN_TIMEOUT_S = 10.0


class Service:
    """Runs until told to stop; `start` and `stop` may each be called once, `stop` also without a start."""

    def __init__(
        self,
        *,
        pipeline: Pipeline,
        receivers: tuple[GrpcReceiver | HttpReceiver, ...],
        judges: Judges | None,
        outbox: FanOut | Leaf,
        health: Health,
        admin: AdminEndpoint | None,
        emitter: Emitter,
        metrics: SelfMetrics,
        memory: MemoryGuard,
        endpoint: MetricsEndpoint | None,
        push_interval_s: float,
        clock: SteadyClock,
    ) -> None:
        self.pipeline = pipeline
        self.receivers = receivers
        self._judges = judges
        self.outbox = outbox
        self.health = health
        self.admin = admin
        self.endpoint = endpoint
        self._emitter = emitter
        self.metrics = metrics
        self._memory = memory
        self._faults = Faults(metrics)
        self._push_interval_s = push_interval_s
        self._clock = clock
        self._timers: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Open the ports. Raise `StartError` when one cannot be had; nothing stays open then."""
        started: list[Callable[[], Awaitable[None]]] = []
        try:
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
        if self._judges is not None:
            await self._judges.start()
        self._timers = asyncio.create_task(self._run_timers())
        self.health.enter("running")

    async def stop(self) -> int:
        """Stop in order, within 30 s; return how many spans and requests of our own could not be delivered."""
        self.health.enter("stopping")
        for receiver in self.receivers:
            await receiver.stop(_RECEIVER_GRACE_S)
        if self._timers is not None:
            self._timers.cancel()
            await asyncio.gather(self._timers, return_exceptions=True)
        await self._score_what_is_open()
        await self._hear_judges_out()
        self.outbox.put(self._emitter.metrics(self._clock()))
        lost = await self.outbox.drain(_DRAIN_TIMEOUT_S)
        lost += self.pipeline.spans_held
        await self.outbox.close()
        if self.endpoint is not None:
            await self.endpoint.stop()
        self.health.enter("stopped")
        if self.admin is not None:
            await self.admin.stop()
        return lost

    async def _score_what_is_open(self) -> None:
        with self._faults.survived():
            self.pipeline.close(self._clock())
        deadline = self._clock() + int(_SCORING_DEADLINE_S * 1e9)
        busy = True
        while busy and self._clock() < deadline:
            with self._faults.survived():
                busy = self.pipeline.score(_SLICE_NS)
            await asyncio.sleep(0)
        with self._faults.survived():
            self.pipeline.release()
            self.pipeline.flush()

    async def _hear_judges_out(self) -> None:
        if self._judges is None:
            return
        with self._faults.survived():
            await self._judges.drain(_JUDGING_DEADLINE_S)
        with self._faults.survived():
            await self._judges.close()
        with self._faults.survived():
            self.pipeline.flush()

    async def _run_timers(self) -> None:
        next_tick = next_push = self._clock()
        while True:
            now = self._clock()
            if now >= next_tick:
                next_tick = now + int(_TICK_S * 1e9)
                with self._faults.survived():
                    self.pipeline.tick(now)
                with self._faults.survived():
                    self._watch_memory(now)
                with self._faults.survived():
                    self.pipeline.flush()
            if now >= next_push:
                next_push = now + int(self._push_interval_s * 1e9)
                with self._faults.survived():
                    await self._push(now)
            busy = False
            with self._faults.survived():
                busy = self.pipeline.score(_SLICE_NS)
            await asyncio.sleep(0 if busy else _TICK_S)

    def _watch_memory(self, now_ns: int) -> None:
        is_empty = self.pipeline.is_empty and not self.outbox.bytes_queued
        if self._memory.look(now_ns, is_empty=is_empty):
            self.pipeline.shed()

    async def _push(self, now_ns: int) -> None:
        # Encoding thousands of cells takes tens of milliseconds, which no request should wait for.
        outgoing = await asyncio.to_thread(self._emitter.metrics_request, self._emitter.snapshot(), now_ns)
        if not self.outbox.put(outgoing):
            self.metrics.own_dropped.add(1, ("", outgoing.signal, "queue_full"))
