"""The shared half of a single process and of the front of several: one wiring, one start, one stop, one set of timers.

The start goes from the views over scoring to the receivers; the stop goes the other way round, health last.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import compress
from typing import TypeAlias

from toolgauge import plugins
from toolgauge.config.model import Config, ErrorPolicy, Protocols, extensions
from toolgauge.export.destination import Undelivered
from toolgauge.export.emitter import Emitter, resource_from_environment
from toolgauge.export.prometheus import MetricsEndpoint
from toolgauge.export.recording_file import RecordingFile
from toolgauge.export.webhooks import Webhooks
from toolgauge.model.delivery import Consumer, Outgoing
from toolgauge.model.errors import StartError
from toolgauge.model.feedback import Feedback
from toolgauge.model.metrics import Gauge, MetricRegistry
from toolgauge.model.ports import Receiver
from toolgauge.otlp.otlp_json import request_from_json
from toolgauge.pipeline.stages import ignore
from toolgauge.receive.grpc import GrpcReceiver
from toolgauge.receive.http import HttpReceiver
from toolgauge.receive.refusal import RefusalLog
from toolgauge.score.criterion import Criterion
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.destinations import USER_AGENT
from toolgauge.service.health import AdminEndpoint, Components, Health
from toolgauge.service.pipeline_factory import VERSION, emit_settings, redactor, watched_streams
from toolgauge.service.process import (
    Faults,
    GarbageRounds,
    MemoryGuard,
    Relief,
    SteadyClock,
    cancelled,
    measure_loop_lag,
    measure_process,
    trim,
)
from toolgauge.service.pulled_verdicts import VerdictPuller
from toolgauge.service.watching import Notifier, OnWorker, Watching, send_own
from toolgauge.settings import split_address
from toolgauge.state.store import StateStore
from toolgauge.watch.watcher import Watcher

_TIMER_S = 0.1
_RECEIVER_GRACE_S = 2.0  # For requests that a receiver is handling when it stops
# The system frees a port a moment after it was closed.
_ATTEMPTS, _PORT_IS_FREE_AFTER_S = 10, 0.1
OtlpReceiver: TypeAlias = GrpcReceiver | HttpReceiver
_WEBHOOKS_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """The cost of a stop. `incomplete` trajectories are `not_evaluated`; `kept` and `open` ones wait in the journal: neither is lost, and `earlier` losses were logged."""

    undelivered: tuple[tuple[str, Undelivered], ...] = ()
    held: Undelivered = field(default_factory=Undelivered)
    dropped: int = 0
    incomplete: int = 0
    kept: tuple[tuple[str, Undelivered], ...] = ()
    open: int = 0
    died: int = 0
    earlier: dict[str, int] = field(default_factory=dict[str, int])

    @classmethod
    def total(cls, each: Sequence["Losses"]) -> "Losses":
        """Add up the costs of the ends of workers."""

        def by_name(pairs: Iterator[tuple[str, Undelivered]]) -> dict[str, Undelivered]:
            sums: dict[str, Undelivered] = {}
            for name, one in pairs:
                known = sums.get(name, Undelivered())
                sums[name] = Undelivered(
                    spans=known.spans + one.spans, requests=known.requests + one.requests, own=known.own + one.own
                )
            return sums

        return cls(
            undelivered=tuple(by_name(pair for losses in each for pair in losses.undelivered).items()),
            held=by_name(("", losses.held) for losses in each).get("", Undelivered()),
            kept=tuple(by_name(pair for losses in each for pair in losses.kept).items()),
            **{name: sum(getattr(one, name) for one in each) for name in ("dropped", "incomplete", "open")},
            earlier=dict(sum((Counter(losses.earlier) for losses in each), Counter[str]())),
        )

    def __bool__(self) -> bool:
        return bool(self.undelivered or self.held or self.dropped or self.died)

    def __str__(self) -> str:
        parts = [f"{undelivered} could not be delivered to {name}" for name, undelivered in self.undelivered]
        if self.held:
            parts.append(f"{self.held} found no room in a queue")
        counts = {
            "spans were lost with a worker that died": self.died,
            "trajectories were dropped unscored": self.dropped,
            "trajectories are `not_evaluated` (`incomplete`)": self.incomplete,
        }
        parts += [f"{count} {what}" for what, count in (counts | self.earlier).items() if count]
        parts += [f"{kept} wait in the journal for {name}" for name, kept in self.kept]
        if self.open:
            parts.append(f"{self.open} open trajectories wait in the journal")
        return "; ".join(parts)

    @property
    def spans(self) -> int:
        """Spans that were not delivered, over all destinations."""
        return self.died + self.held.spans + sum(undelivered.spans for _, undelivered in self.undelivered)


class Runtime(ABC):
    """Runs until `stop`; `start` and `stop` may each be called once, `stop` also without a start."""

    run: OnWorker  # Does something on the thread that owns the watcher, between two pieces of its own work
    store: StateStore | None
    watching: Watching | None
    memory: MemoryGuard
    recording: RecordingFile | None
    recording_deadline_s: float = 2.0  # For writing the requests that wait, unless the disk is stuck
    has_front: bool = False  # The front of workers pushes their metrics, and logs reloads
    give_back: Sequence[Callable[[], object]] = ()  # Each gives back memory of a view when it runs short
    looks: Sequence[Callable[[], object]] = ()  # The work of each tenth of a second, on the event loop

    def __init__(self, config: Config, registry: MetricRegistry, clock: SteadyClock, hop_id: str) -> None:
        self.clock = clock
        self.hop_id = hop_id
        self.metrics = SelfMetrics(registry)
        self.faults = Faults(self.metrics)
        self.start_ns = clock()
        self.emitter = Emitter(
            emit_settings(config),
            registry,
            self.metrics,
            redactor(config),
            instance_id=hop_id,
            version=VERSION,
            resource_attributes=resource_from_environment(),
            start_ns=self.start_ns,
        )
        measure_process(registry)
        self.webhooks = Webhooks(
            config.exporters.webhook, config.trace_url, self.metrics.webhook, user_agent=USER_AGENT
        )
        self.notifier = Notifier(self.webhooks, clock)
        scraped = config.exporters.prometheus
        self.endpoint = (
            None
            if scraped is None
            else MetricsEndpoint(scraped, registry, self.emitter.resource, start_ns=self.start_ns)
        )
        # To be set before the start; belongs to the worker, or to the thread that observes several.
        self.on_feedback: Callable[[Feedback], None] = ignore
        self.push_interval_s = config.metrics.interval / 1e9
        self._garbage = GarbageRounds()
        self._timers: tuple[asyncio.Task[None], ...] = ()

    def _watch(
        self,
        watcher: Watcher | None,
        criteria: Sequence[Criterion],
        put: Callable[[Outgoing], bool],
    ) -> Watching | None:
        """Put the watcher and its store together; `None` without a watcher."""
        if watcher is None:
            return None
        return Watching(
            watcher,
            self.metrics,
            store=self.store,
            streams=watched_streams(criteria),
            emitter=self.emitter,
            webhooks=self.webhooks,
            put=put,
            faults=self.faults,
        )

    def _listen(self, config: Config, intake: Consumer, components: Components, *, is_worker: bool = False) -> None:
        """Make health, and the receivers unless this is a worker, whose front receives."""
        self.intake = intake
        self.receivers: tuple[OtlpReceiver, ...] = ()
        self.additional_receivers: tuple[Receiver, ...] = ()
        policy = config.admin.component_health if config.admin else ErrorPolicy()
        self.health = Health(self.clock, components, policy)
        self.admin = None if config.admin is None else AdminEndpoint(self.health, config.admin, self.watching)
        if not is_worker:
            others = [plugins.receiver(name)(settings, intake) for name, settings in extensions(config.receivers)]
            puller = [VerdictPuller(config, intake, self.clock)] if config.feedback.pull else []
            self.additional_receivers = (*others, *puller)
            self.receivers = self._make_receivers(config)

    def _make_receivers(self, config: Config) -> tuple[OtlpReceiver, ...]:
        protocols, log = config.receivers.otlp.protocols, RefusalLog()
        grpc = GrpcReceiver(
            self.intake,
            protocols.grpc,
            metrics=self.metrics,
            hop_id=self.hop_id,
            budget=self.memory.reading,
            refusal_log=log,
        )
        http = HttpReceiver(
            self.intake,
            protocols.http,
            from_json=request_from_json,
            metrics=self.metrics,
            hop_id=self.hop_id,
            budget=self.memory.reading,
            refusal_log=log,
        )
        return grpc, http

    async def exchange_receivers(self, before: Protocols, config: Config) -> None:
        """Exchange the OTLP receivers whose settings differ from `before`. A new port is bound before the old one is given up;
        on the same port the old receiver stops first. Raises `StartError` when one cannot start; the old ones run then.
        """
        after, made = config.receivers.otlp.protocols, self._make_receivers(config)
        is_other = (before.grpc != after.grpc, before.http != after.http)
        going, coming = list(compress(self.receivers, is_other)), list(compress(made, is_other))
        endpoints = compress((after.grpc.endpoint, after.http.endpoint), is_other)
        is_elsewhere = {split_address(one)[1] for one in endpoints}.isdisjoint(receiver.port for receiver in going)
        if not is_elsewhere:
            await _stop(going, _RECEIVER_GRACE_S)
        try:
            await _start(coming, attempts=1 if is_elsewhere else _ATTEMPTS)
        except StartError:
            if not is_elsewhere:
                await _start(going, attempts=_ATTEMPTS)
            raise
        if is_elsewhere:
            await _stop(going, _RECEIVER_GRACE_S)
        self.receivers = tuple(
            new if other else old for old, new, other in zip(self.receivers, made, is_other, strict=True)
        )

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether nothing is in here that could leave."""

    @property
    def trajectories_open(self) -> int:
        """Return how many trajectories are being assembled, in workers by their last snapshots."""
        gauges = [metric for metric in self.metrics.registry if metric.name == self.metrics.traces_open.name]
        return int(sum(gauge.current().get((), 0) for gauge in gauges if isinstance(gauge, Gauge)))

    @abstractmethod
    async def _start_scoring(self, undo: AsyncExitStack) -> None:
        """Start everything behind the receivers."""

    @abstractmethod
    async def _stop_scoring(self, began_ns: int) -> Losses:
        """Score, send and end everything behind the receivers, within 28 s of `began_ns`; `_stop_watching` on the way."""

    @abstractmethod
    def relieve(self, relief: Relief) -> None:
        """Give back memory soon."""

    def hear(self, feedback: Feedback) -> None:
        """Take note of a verdict that arrived."""
        self.on_feedback(feedback)

    @abstractmethod
    def put(self, outgoing: Outgoing) -> bool:
        """Have a request of our own sent, such as metrics; False without room."""

    def put_own(self, outgoing: Outgoing) -> None:
        """Have a request of our own sent that belongs to no trajectory; count it without room."""
        send_own((outgoing,), self.put, self.metrics)

    def close_store(self) -> None:
        """Let another process have the state directory. Works twice."""
        if self.store is not None:
            self.store.close()

    @property
    def _is_quiet(self) -> bool:
        """Whether the process has time to look for garbage."""
        return self.is_empty

    def hurry(self) -> None:  # noqa: B027 (a front reads no journal)
        """Leave the rest of a journal that is being read to the next start."""

    def kill(self) -> None:  # noqa: B027 (a single process has no others)
        """End other processes at once."""

    async def refresh(self) -> None:  # noqa: B027 (as above)
        """Bring the metrics of other processes up to date."""

    def tidy(self) -> None:
        """Return memory that is free."""
        self._garbage.look(self.clock(), is_quiet=True)
        trim()

    async def start(self) -> None:
        """Open the ports. Raise `StartError` when one is taken, or memory is too small; nothing stays open then."""
        async with AsyncExitStack() as undo:
            undo.callback(self.close_store)
            for endpoint in (self.admin, self.endpoint):
                if endpoint is not None:
                    await endpoint.start()
                    undo.push_async_callback(endpoint.stop)
            await self.webhooks.start()
            undo.push_async_callback(self.webhooks.close, 0)
            if self.watching is not None:
                undo.push_async_callback(self.watching.stop)
                self.webhooks.set_active(self.watching.restore())
            await self._start_scoring(undo)
            for receiver in (*self.receivers, *self.additional_receivers):
                await receiver.start()
                undo.push_async_callback(receiver.stop, 0)
            if self.recording is not None:
                # Last: a file that is to be replaced goes only when everything else works.
                self.recording.start()
                undo.push_async_callback(self._end_recording)
            undo.pop_all()
        if self.watching is not None:
            self.watching.start(self.run)
        timers = [measure_loop_lag(self.metrics.loop_lag), self._look_regularly()]
        if not self.has_front:
            timers.append(self._push_regularly())
        self._timers = tuple(map(asyncio.create_task, timers))
        self.health.enter("running")

    async def stop(self, began_ns: int | None = None) -> Losses:
        """Stop in order, within 28 s of `began_ns`; return the losses."""
        began_ns = self.clock() if began_ns is None else began_ns
        self.health.enter("stopping")
        await _stop((*self.receivers, *self.additional_receivers), _RECEIVER_GRACE_S)
        await cancelled(*self._timers)
        await self._end_recording()
        losses = await self._stop_scoring(began_ns)
        if self.endpoint is not None:
            await self.endpoint.stop()
        self.health.enter("stopped")
        if self.admin is not None:
            await self.admin.stop()
        await asyncio.to_thread(self.close_store)
        return losses

    async def _stop_watching(self) -> None:
        if self.watching is not None:
            await self.watching.stop()
        await self.webhooks.close(_WEBHOOKS_TIMEOUT_S)

    async def _end_recording(self) -> None:
        if self.recording is not None:
            await asyncio.to_thread(self.recording.close, self.recording_deadline_s)

    async def _look_regularly(self) -> None:
        while True:
            for look in self.looks:
                with self.faults.survived():
                    look()
            with self.faults.survived():
                now_ns = self.clock()
                relief = self.memory.look(now_ns, is_empty=self.is_empty)
                if relief:
                    for give_back in self.give_back:
                        give_back()
                    self.relieve(relief)
                self._garbage.look(now_ns, is_quiet=self._is_quiet)
            await asyncio.sleep(_TIMER_S)

    async def _push_regularly(self) -> None:
        while True:
            with self.faults.survived():
                await self.refresh()
                # Encoding thousands of cells takes tens of milliseconds, which no request should wait for.
                outgoing = await asyncio.to_thread(self.emitter.metrics_request, self.emitter.snapshot(), self.clock())
                send_own((outgoing,), self.put, self.metrics)
            await asyncio.sleep(self.push_interval_s)


async def _start(receivers: Sequence[Receiver], *, attempts: int) -> None:
    for left in reversed(range(attempts)):
        try:
            for receiver in receivers:
                await receiver.start()
        except BaseException as error:
            await _stop(receivers, 0)
            if not left or not isinstance(error, StartError):
                raise
            await asyncio.sleep(_PORT_IS_FREE_AFTER_S)
        else:
            return


async def _stop(receivers: Sequence[Receiver], grace_s: float) -> None:
    await asyncio.gather(*(receiver.stop(grace_s) for receiver in receivers))
