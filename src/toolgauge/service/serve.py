"""Config -> one service, ready to start, and its receivers.

Receivers are replaced without giving up a port before another one is bound. Where the address stays the same that cannot
be: the receiver that listens there stops first, and starts again when the new one cannot. Senders find the port closed for
that moment, and retry.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from toolgauge import plugins
from toolgauge.config.model import Config, extensions
from toolgauge.export.emitter import Emitter, resource_from_environment
from toolgauge.export.prometheus import MetricsEndpoint
from toolgauge.export.webhooks import Webhooks
from toolgauge.judge.judges import Judges
from toolgauge.model.delivery import Consumer
from toolgauge.model.errors import StartError
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.ports import Receiver
from toolgauge.otlp.otlp_json import request_from_json
from toolgauge.pipeline.stages import ScorecardSink, ignore_regressions
from toolgauge.receive.grpc import GrpcReceiver
from toolgauge.receive.http import HttpReceiver
from toolgauge.receive.refusal_log import RefusalLog
from toolgauge.score.criterion import Criterion
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.admin import AdminEndpoint, Learning
from toolgauge.service.destinations import make_outbox, make_recording
from toolgauge.service.evaluation_limit import EvaluationLimit
from toolgauge.service.health import make_health
from toolgauge.service.inbox import Inbox, Intake, recorded_to
from toolgauge.service.judge_pool import JudgePool, asks_judge, make_judges, open_client
from toolgauge.service.memory import MemoryGuard, resident_bytes
from toolgauge.service.messages import check_messages, make_message_receiver
from toolgauge.service.persistence import Persistence
from toolgauge.service.pipeline_factory import (
    VERSION,
    emit_settings,
    make_pipeline,
    make_watcher,
    redactor,
    watched_streams,
)
from toolgauge.service.process import Faults, SteadyClock, measure_process
from toolgauge.service.service import Service, WorkerLink
from toolgauge.service.watching import Announcer, Watching
from toolgauge.service.worker import Worker
from toolgauge.settings import split_address
from toolgauge.state.ledger import Ledger
from toolgauge.state.offsets import OffsetJournal
from toolgauge.state.store import StateStore
from toolgauge.watch.watcher import Watcher

OtlpReceiver: TypeAlias = GrpcReceiver | HttpReceiver


def make_service(
    config: Config,
    criteria: Sequence[Criterion],
    *,
    observing: Callable[[ScorecardSink], ScorecardSink] | None = None,
    learning: Learning | None = None,
    is_live: bool = False,
    worker: WorkerLink | None = None,
) -> Service:
    """Put a service together; `observing` may wrap the sink of scorecards to look at them in passing.

    `learning` answers on the admin endpoint to who wants to learn criteria.
    `is_live` where senders were running before: another process may have received what they sent then. With a `worker` it is one
    of several processes, and receives from the front alone.
    Raise `ConfigError` when a criterion asks a judge and there is no such model.
    """
    check_messages(config, criteria)
    clock = SteadyClock()
    start_ns = clock()
    hop_id = uuid.uuid4().hex if worker is None else worker.hop_id
    registry = MetricRegistry(clock)
    metrics = SelfMetrics(registry)
    emitter = make_emitter(config, registry, metrics, hop_id, start_ns)
    measure_process(registry)
    persistence = Persistence.of(config.state, config.assemble.late_memory, metrics.state, clock)
    ledger = None if persistence is None else persistence.ledger
    journal = None if persistence is None else persistence.journal
    offsets = None if config.receivers.kafka is None else OffsetJournal(journal)
    if offsets is not None:
        ledger = Ledger(offsets)
        if persistence is not None:
            persistence.ledger = ledger
    outbox = make_outbox(config, metrics, hop_id=hop_id, user_agent=f"toolgauge/{VERSION}", ledger=ledger)
    sink = emitter if observing is None else observing(emitter)
    judges = JudgePool(_judges(config, criteria, metrics), metrics.judge)
    memory = MemoryGuard(config.memory.limit, metrics, resident=resident_bytes if worker is None else worker.resident)
    evaluation_limit = EvaluationLimit()
    watcher = make_watcher(config, metrics)
    webhooks = make_webhooks(config, metrics, clock)
    announcer = Announcer(emitter, outbox, metrics, webhooks)
    if persistence is not None and ledger is not None:
        announcer = Announcer(emitter, outbox, metrics, webhooks, lambda event: ledger.journaled(event, clock()))
    store = None if persistence is None else persistence.store
    watching = None if watcher is None else make_watching(watcher, store, criteria, metrics, clock, announcer)
    pipeline = make_pipeline(
        config,
        criteria,
        sink=sink,
        outbox=outbox,
        metrics=metrics,
        judging=judges,
        has_memory=memory.admits,
        deadline=lambda _criterion: evaluation_limit,
        watcher=watcher,
        live_since_ns=start_ns if is_live else None,
        on_regressions=ignore_regressions if watching is None else watching.regressed,
        ledger=ledger,
        # Spans of a trace go to one worker or consumer of a group, those of its conversation perhaps to another.
        is_divided=worker is not None or config.receivers.kafka is not None,
    )
    # What waits to be read counts against the room of the queues: with half of it, a full inbox never makes them full.
    queues = [destination.queue_capacity_bytes // 2 for destination in outbox.destinations]
    inbox = Inbox(min(config.inbox.max_bytes, *queues) if queues else config.inbox.max_bytes)
    metrics.inbox_bytes.observe = lambda: {(): inbox.size_bytes}
    recording = make_recording(config, metrics)
    intake = Intake(pipeline, inbox, clock, journal, ledger, recorded_to(recording))
    thread = Worker(pipeline, inbox, clock=clock, faults=Faults(metrics), evaluation_limit=evaluation_limit)
    messages = make_message_receiver(
        config,
        intake,
        offsets=offsets,
        ledger=ledger,
        pipeline=pipeline,
        worker=thread,
        metrics=metrics,
        hop_id=hop_id,
        clock=clock,
    )
    health = make_health(config, outbox, memory, thread, judges, clock=clock, journal=journal, messages=messages)
    receivers: tuple[OtlpReceiver, ...] = ()
    additional_receivers: tuple[Receiver, ...] = ()
    if worker is None:
        receivers = make_receivers(config, intake, metrics=metrics, hop_id=hop_id, has_memory=memory.admits)
        additional_receivers = make_additional_receivers(config, intake)
    return Service(
        pipeline=pipeline,
        inbox=inbox,
        intake=intake,
        evaluation_limit=evaluation_limit,
        worker=thread,
        receivers=receivers,
        additional_receivers=additional_receivers,
        messages=messages,
        ledger=ledger,
        health=health,
        admin=None if config.admin is None else AdminEndpoint(health, config.admin, watching, learning),
        judges=judges,
        watching=watching,
        webhooks=webhooks,
        outbox=outbox,
        emitter=emitter,
        metrics=metrics,
        memory=memory,
        endpoint=make_metrics_endpoint(config, registry, emitter.resource, start_ns),
        push_interval_s=config.metrics.interval / 1e9,
        clock=clock,
        hop_id=hop_id,
        persistence=persistence,
        recording=recording,
        link=worker,
    )


def make_emitter(config: Config, registry: MetricRegistry, metrics: SelfMetrics, hop_id: str, start_ns: int) -> Emitter:
    """Make what encodes scores, events and metrics of this process."""
    return Emitter(
        emit_settings(config),
        registry,
        metrics,
        redactor(config),
        instance_id=hop_id,
        version=VERSION,
        resource_attributes=resource_from_environment(),
        start_ns=start_ns,
    )


def make_webhooks(config: Config, metrics: SelfMetrics, clock: Callable[[], int]) -> Webhooks:
    """Make the webhooks."""
    settings, user_agent = config.exporters.webhook, f"toolgauge/{VERSION}"
    return Webhooks(settings, config.trace_url, metrics.webhook, clock=clock, user_agent=user_agent)


def make_watching(
    watcher: Watcher,
    store: StateStore | None,
    criteria: Sequence[Criterion],
    metrics: SelfMetrics,
    clock: Callable[[], int],
    announcer: Announcer,
) -> Watching:
    """Put the watcher and its store together."""
    return Watching(
        watcher,
        metrics.watch,
        store=store,
        streams=watched_streams(criteria),
        announce=announcer.announce,
        clock=clock,
        faults=Faults(metrics),
    )


def _judges(config: Config, criteria: Sequence[Criterion], metrics: SelfMetrics) -> Judges | None:
    if config.judge is None or not asks_judge(criteria):
        return None
    return make_judges(config.judge, open_client(config.judge), metrics.judge, redactor(config).content)


def make_metrics_endpoint(
    config: Config, registry: MetricRegistry, resource: Mapping[str, str], start_ns: int
) -> MetricsEndpoint | None:
    """Make the endpoint that Prometheus scrapes; `None` where none is wanted."""
    settings = config.exporters.prometheus
    return None if settings is None else MetricsEndpoint(settings, registry, resource, start_ns=start_ns)


# What is being handled may end.
_GRACE_S = 2.0
# The system lets go of a port a moment after it was closed.
_ATTEMPTS = 10
_WAIT_S = 0.1


async def exchanged(
    old: Sequence[OtlpReceiver], new: Sequence[OtlpReceiver], *, endpoints: Sequence[str], same: Sequence[bool]
) -> tuple[OtlpReceiver, ...]:
    """Start the new receivers but for those that are the `same`, and stop the old ones; return those that run now.

    Raises `StartError` when one cannot start; the old ones run then.
    """
    going = [receiver for receiver, is_same in zip(old, same, strict=True) if not is_same]
    coming = [receiver for receiver, is_same in zip(new, same, strict=True) if not is_same]
    wanted = {split_address(endpoint)[1] for endpoint, is_same in zip(endpoints, same, strict=True) if not is_same}
    if wanted.isdisjoint(receiver.port for receiver in going):
        await _start(coming)
        await _stop(going, _GRACE_S)
    else:
        await _stop(going, _GRACE_S)
        try:
            await _again(lambda: _start(coming))
        except StartError:
            await _again(lambda: _start(going))
            raise
    return tuple(before if is_same else after for before, after, is_same in zip(old, new, same, strict=True))


async def _start(receivers: Sequence[OtlpReceiver]) -> None:
    try:
        for receiver in receivers:
            await receiver.start()
    except BaseException:
        await _stop(receivers, 0)
        raise


async def _stop(receivers: Sequence[OtlpReceiver], grace_s: float) -> None:
    await asyncio.gather(*(receiver.stop(grace_s) for receiver in receivers))


async def _again(start: Callable[[], Awaitable[None]]) -> None:
    for _ in range(_ATTEMPTS - 1):
        try:
            await start()
        except StartError:
            await asyncio.sleep(_WAIT_S)
        else:
            return
    await start()


def make_receivers(
    config: Config,
    consumer: Consumer,
    *,
    metrics: SelfMetrics,
    hop_id: str,
    has_memory: Callable[[int], bool],
) -> tuple[GrpcReceiver | HttpReceiver, ...]:
    """Make the OTLP receivers; raise `StartError` when a file that they need cannot be used."""
    protocols = config.receivers.otlp.protocols
    refusal_log = RefusalLog()
    return (
        GrpcReceiver(
            consumer,
            protocols.grpc,
            metrics=metrics,
            hop_id=hop_id,
            has_memory=has_memory,
            refusal_log=refusal_log,
        ),
        HttpReceiver(
            consumer,
            protocols.http,
            from_json=request_from_json,
            metrics=metrics,
            hop_id=hop_id,
            has_memory=has_memory,
            refusal_log=refusal_log,
        ),
    )


def make_additional_receivers(config: Config, consumer: Consumer) -> tuple[Receiver, ...]:
    """Make the receivers that other packages bring."""
    return tuple(plugins.receiver(name)(settings, consumer) for name, settings in extensions(config.receivers))
