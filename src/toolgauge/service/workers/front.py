"""The front of several workers: it listens, divides requests and passes the parts on; one address, one set of books.

Everything that people and other systems look at is here: health, metrics, the web view, the watch over scores and its
webhooks. Nothing is read or scored here, and nothing is sent on: workers do that.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from toolgauge.config.model import Config
from toolgauge.export.emitter import Emitter
from toolgauge.export.prometheus import MetricsEndpoint
from toolgauge.export.recording_file import RecordingFile
from toolgauge.export.webhooks import Webhooks
from toolgauge.model.delivery import Outgoing
from toolgauge.model.metrics import Counter, Gauge
from toolgauge.model.ports import Receiver
from toolgauge.receive.grpc import GrpcReceiver
from toolgauge.receive.http import HttpReceiver
from toolgauge.score.scorer import ReadingScope
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.admin import AdminEndpoint
from toolgauge.service.health import ComponentHealth, Health
from toolgauge.service.losses import Losses
from toolgauge.service.memory import MemoryGuard, own_bytes, resident_bytes
from toolgauge.service.process import Faults, GarbageRounds, LoopLag, SteadyClock
from toolgauge.service.watching import Watching
from toolgauge.service.workers.channel import Kind
from toolgauge.service.workers.divided import DividedIntake
from toolgauge.service.workers.merged_metrics import MergedRegistry
from toolgauge.service.workers.messages import Snapshot, added_losses, write_outgoing
from toolgauge.service.workers.observed import Observations
from toolgauge.service.workers.redistribution import redistribute
from toolgauge.service.workers.worker_process import WorkerProcess
from toolgauge.settings import file_path
from toolgauge.state.store import StateStore

_LOG = logging.getLogger("toolgauge")
_T = TypeVar("_T")
_LOOK_S = 0.1
_SNAPSHOT_EVERY_S = 1.0
# A scrape waits so long for workers that are busy; then it has what they sent last.
_SNAPSHOT_WITHIN_S = 1.0
_RECEIVER_GRACE_S = 2.0
# What a worker may take until it has scored and judged what is open.
_LAST_METRICS_WITHIN_S = 17.0
_WEBHOOKS_TIMEOUT_S = 1.0
_ENDED_WITHIN_S = 27.0
_RECORDING_DEADLINE_S = 2.0


class Workers:
    """Implements `OnWorkers`: all workers, what they count, and how they fare."""

    def __init__(self, registry: MergedRegistry, metrics: SelfMetrics, *, has_journal: bool) -> None:
        self.processes: tuple[WorkerProcess, ...] = ()
        self.observing: Observations | None = None
        self.registry = registry
        self._metrics = metrics
        self._has_journal = has_journal
        self._health: dict[int, Mapping[str, ComponentHealth]] = {}
        self._empty: dict[int, bool] = {}
        self.restarts = registry.counter(
            "toolgauge.workers.restarts",
            "{restart}",
            "Workers that died and were started again: look in the log for the reason, and at their memory.",
        )
        registry.gauge(
            "toolgauge.workers.running",
            "{process}",
            "Workers that take requests; fewer than `workers` while one is started again.",
        ).observe = lambda: {(): float(sum(process.is_ready for process in self.processes))}
        metrics.spans.begin(("refused", "worker", ""), ("dropped", "worker_died", ""))

    @property
    def is_empty(self) -> bool:
        """Return whether nothing is in any worker that could leave, by their last snapshots."""
        return all(self._empty.values())

    @property
    def memory(self) -> dict[int, int]:
        """How many bytes of memory each worker has in use, beside the files that the front has loaded, too."""
        return {process.number: own_bytes(process.pid) for process in self.processes if process.pid is not None}

    def snapshot(self, worker: int, snapshot: Snapshot) -> None:
        """Take how a worker fares."""
        self.registry.take(worker, snapshot.read_metrics())
        self._health[worker] = snapshot.health
        self._empty[worker] = snapshot.is_empty

    def observed(self, content: bytes) -> None:
        """Take what a worker has observed."""
        if self.observing is not None:
            self.observing.take(content)

    def ready(self, worker: int) -> None:
        """Take note that a worker runs."""
        if self.observing is not None:
            self.observing.ready(worker)

    def died(self, worker: int, accepted: int, refused: int, reason: str) -> None:
        """Count the spans that a worker had, and those that are lost with it."""
        journal = self._health.pop(worker, {}).get("extension:journal")
        keeps = self._has_journal and (journal is None or journal.status == "StatusOK")
        self._empty.pop(worker, None)
        lost = self.registry.bury(worker, accepted=accepted, refused=refused, keeps=keeps)
        self.restarts.add()
        extra = {"worker": worker, "spans": int(lost)}
        if keeps:
            _LOG.error("worker %d %s and is started again; its journal has what it held", worker, reason, extra=extra)
        else:
            _LOG.error("worker %d %s and is started again; lost: %d spans at most", worker, reason, lost, extra=extra)

    def refused(self, spans: int, reason: str = "worker") -> None:
        """Count spans that no worker was handed, or that one died with before it had answered."""
        with self._metrics.lock:
            self._metrics.spans.add(spans, ("received", "", ""))
            self._metrics.spans.add(spans, ("refused", reason, ""))

    def components(self) -> Mapping[str, ComponentHealth]:
        """Describe the parts of all workers by name, each as the worst of them, and the workers."""
        worst: dict[str, ComponentHealth] = {}
        for parts in tuple(self._health.values()):
            for name, part in parts.items():
                if name not in worst or (worst[name].status == "StatusOK" and part.status != "StatusOK"):
                    worst[name] = part
        for process in self.processes:
            down = process.health
            if down is not None:
                worst[f"processor:worker/{process.number}"] = down
        return worst

    async def look(self, bytes_of_front: int, timeout_s: float) -> None:
        """Ask all workers how they fare; wait so long at most."""
        memory = self.memory
        total = bytes_of_front + sum(memory.values())

        async def ask(process: WorkerProcess) -> None:
            elsewhere = total - memory.get(process.number, 0)
            await process.ask(Kind.ASK, elsewhere.to_bytes(8))

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*(ask(process) for process in self.processes))

    def send_to_all(self, content: bytes) -> None:
        """Send a message about observations to all workers."""
        for process in self.processes:
            process.send(Kind.OBSERVING, content)

    def send_to(self, worker: int, content: bytes) -> bool:
        """Send a message about observations to one worker; False when it does not run."""
        return self.processes[worker].send(Kind.OBSERVING, content)

    def put(self, outgoing: Outgoing) -> bool:
        """Have any worker send a request of our own; False when none runs."""
        return any(process.send(Kind.OUTGOING, write_outgoing(outgoing)) for process in self.processes)


class Front:
    """Runs until `stop`; `start` and `stop` may each be called once, `stop` also without a start."""

    def __init__(
        self,
        *,
        config: Config,
        workers: Workers,
        intake: DividedIntake,
        receivers: tuple[GrpcReceiver | HttpReceiver, ...],
        additional_receivers: tuple[Receiver, ...],
        watching: Watching | None,
        observing: Observations,
        webhooks: Webhooks,
        health: Health,
        admin: AdminEndpoint | None,
        emitter: Emitter,
        metrics: SelfMetrics,
        memory: MemoryGuard,
        endpoint: MetricsEndpoint | None,
        clock: SteadyClock,
        hop_id: str,
        store: StateStore | None,
        recording: RecordingFile | None,
        reading_scope: ReadingScope,
    ) -> None:
        # What the criteria have the workers read, by now.
        self.reading_scope = reading_scope
        self._config = config
        self.workers = workers
        self.intake = intake
        self.receivers = receivers
        self._additional_receivers = additional_receivers
        self.watching = watching
        self.observing = observing
        self._webhooks = webhooks
        self.health = health
        self.admin = admin
        self.emitter = emitter
        self.metrics = metrics
        self.memory = memory
        self.endpoint = endpoint
        if endpoint is not None:
            endpoint.refresh = self.refresh
        self.clock = clock
        self.hop_id = hop_id
        self._store = store
        self._recording = recording
        self.push_interval_s = config.metrics.interval / 1e9
        self._faults = Faults(metrics)
        self._garbage = GarbageRounds()
        self._lag = LoopLag(metrics.loop_lag)
        self._timers: tuple[asyncio.Task[None], ...] = ()

    @property
    def registry(self) -> MergedRegistry:
        """The metrics of all processes."""
        return self.workers.registry

    @property
    def trajectories_open(self) -> int:
        """Trajectories that are being assembled, by the last snapshots."""
        return int(
            sum(
                metric.cells.get((), 0)
                for metric in self.registry
                if metric.name == "toolgauge.traces.open" and isinstance(metric, Gauge)
            )
        )

    async def run(self, work: Callable[[], _T]) -> _T:
        """Do this on the thread that observes, between two pieces of its work."""
        return await self.observing.run(work)

    async def start(self) -> None:
        """Start the workers and open the ports. Raise `StartError` when one cannot be had; nothing stays open then."""
        started: list[Callable[[], Awaitable[None]]] = []
        try:
            if self.admin is not None:
                await self.admin.start()
                started.append(self.admin.stop)
            if self.endpoint is not None:
                await self.endpoint.start()
                started.append(self.endpoint.stop)
            await self._webhooks.start()
            started.append(lambda: self._webhooks.close(0))
            if self.watching is not None:
                started.append(self.watching.stop)
                self._webhooks.set_active(self.watching.restore())
            await self.observing.start()
            started.append(self.observing.stop)
            await self._redistribute()
            started.append(self._end_workers)
            await asyncio.gather(*(process.start() for process in self.workers.processes))
            self.memory.check()
            if self._recording is not None:
                self._recording.start()
                started.append(self._end_recording)
            for receiver in (*self.receivers, *self._additional_receivers):
                await receiver.start()
                started.append(lambda receiver=receiver: receiver.stop(0))
        except BaseException:
            for stop in reversed(started):
                await stop()
            self._close_store()
            raise
        if self.watching is not None:
            self.watching.start(self.run)
        self._lag.start()
        timers = (self._look_regularly(), self._snapshot_regularly(), self._push_regularly())
        self._timers = tuple(asyncio.create_task(timer) for timer in timers)
        self.health.enter("running")

    async def stop(self) -> Losses:
        """Stop in order, within 28 s; return the losses of all."""
        began_ns = self.clock()
        self.health.enter("stopping")
        receivers = (*self.receivers, *self._additional_receivers)
        await asyncio.gather(*(receiver.stop(_RECEIVER_GRACE_S) for receiver in receivers))
        self.intake.close()
        await self._lag.stop()
        for timer in self._timers:
            timer.cancel()
        await asyncio.gather(*self._timers, return_exceptions=True)
        await self._end_recording()
        for process in self.workers.processes:
            process.begin_to_stop(began_ns)
        await self._send_last_metrics(began_ns)
        left_s = _ENDED_WITHIN_S - (self.clock() - began_ns) / 1e9
        await asyncio.gather(*(process.end(max(1.0, left_s)) for process in self.workers.processes))
        if self.endpoint is not None:
            await self.endpoint.stop()
        self.health.enter("stopped")
        if self.admin is not None:
            await self.admin.stop()
        await asyncio.to_thread(self._close_store)
        losses = added_losses([each.losses for each in self.workers.processes if each.losses is not None])
        return replace(losses, died=self._lost_with_workers())

    # -- at the start and the end -------------------------------------------------------------------------------------

    async def _redistribute(self) -> None:
        directory = self._config.state.directory
        if directory is not None and self._store is not None:
            divider = self.intake.divider
            await asyncio.to_thread(
                redistribute,
                file_path(directory),
                self._store,
                divider,
                len(self.workers.processes),
                self._config.state.sync,
            )

    async def _end_workers(self) -> None:
        await asyncio.gather(*(process.end(0) for process in self.workers.processes))

    async def _end_recording(self) -> None:
        if self._recording is not None:
            await asyncio.to_thread(self._recording.close, _RECORDING_DEADLINE_S)

    def _close_store(self) -> None:
        if self._store is not None:
            self._store.close()

    async def _send_last_metrics(self, began_ns: int) -> None:
        """Wait until all workers have scored; then end the watch, and have one worker send the last metrics of all."""
        left_s = _LAST_METRICS_WITHIN_S - (self.clock() - began_ns) / 1e9
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(left_s):
                await asyncio.gather(*(process.has_last_metrics() for process in self.workers.processes))
        with self._faults.survived():
            await self.observing.stop()
        if self.watching is not None:
            await self.watching.stop()
        await self._webhooks.close(_WEBHOOKS_TIMEOUT_S)
        content = write_outgoing(self.emitter.metrics(self.clock()))
        for process in self.workers.processes:
            if process.send(Kind.FINISH, content):
                content = b""

    def _lost_with_workers(self) -> int:
        spans = self.metrics.spans.name
        counted = next((metric for metric in self.registry if metric.name == spans), None)
        if not isinstance(counted, Counter):
            return 0
        return int(sum(value for labels, value in counted.cells.items() if labels[1] == "worker_died"))

    # -- timers -----------------------------------------------------------------------------------------------------

    async def _look_regularly(self) -> None:
        while True:
            now = self.clock()
            with self._faults.survived():
                if self.memory.look(now, is_empty=self.workers.is_empty):
                    for process in self.workers.processes:
                        process.send(Kind.SHED)
            with self._faults.survived():
                self._garbage.look(now, is_quiet=self.workers.is_empty)
            await asyncio.sleep(_LOOK_S)

    async def _snapshot_regularly(self) -> None:
        while True:
            with self._faults.survived():
                await self.refresh(_SNAPSHOT_EVERY_S)
            await asyncio.sleep(_SNAPSHOT_EVERY_S)

    async def refresh(self, timeout_s: float = _SNAPSHOT_WITHIN_S) -> None:
        """Have the metrics of all workers as they are now."""
        await self.workers.look(resident_bytes() or 0, timeout_s)

    async def _push_regularly(self) -> None:
        while True:
            with self._faults.survived():
                await self.refresh()
                outgoing = await asyncio.to_thread(self.emitter.metrics_request, self.emitter.snapshot(), self.clock())
                if not self.workers.put(outgoing):
                    self.metrics.own_dropped.add(1, ("", outgoing.signal, "queue_full"))
            await asyncio.sleep(self.push_interval_s)


def resident_of_all(workers: Workers) -> Callable[[], int | None]:
    """Return what reads how much memory the front and its workers have in use."""

    def resident() -> int | None:
        own = resident_bytes()
        return None if own is None else own + sum(workers.memory.values())

    return resident
