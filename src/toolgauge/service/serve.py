"""Config -> one service, ready to start."""

import uuid
from collections.abc import Callable, Mapping, Sequence

from toolgauge.config.model import Config
from toolgauge.export.emitter import Emitter, resource_from_environment
from toolgauge.export.prometheus import MetricsEndpoint
from toolgauge.judge.judges import Judges
from toolgauge.model.metrics import MetricRegistry
from toolgauge.pipeline.pipeline import ScorecardSink
from toolgauge.score.criterion import Criterion
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.admin import AdminEndpoint
from toolgauge.service.evaluation_limit import EvaluationLimit
from toolgauge.service.exporters import Exporters, make_outbox
from toolgauge.service.faults import Faults
from toolgauge.service.health import make_health
from toolgauge.service.inbox import Inbox, Intake
from toolgauge.service.judges import JudgePool, asks_judge, make_judges, open_client
from toolgauge.service.memory import MemoryGuard
from toolgauge.service.pipeline_factory import VERSION, emit_settings, make_pipeline, redactor
from toolgauge.service.process import SteadyClock, measure_process
from toolgauge.service.receivers import make_additional_receivers, make_receivers
from toolgauge.service.service import Service
from toolgauge.service.worker import Worker


def make_service(
    config: Config, criteria: Sequence[Criterion], *, watching: Callable[[ScorecardSink], ScorecardSink] | None = None
) -> Service:
    """Put a service together; `watching` may wrap the sink of scorecards to look at them in passing.

    Raise `ConfigError` when a criterion asks a judge and there is no such model.
    """
    clock = SteadyClock()
    start_ns = clock()
    hop_id = uuid.uuid4().hex
    registry = MetricRegistry()
    metrics = SelfMetrics(registry)
    emitter = Emitter(
        emit_settings(config),
        registry,
        metrics,
        redactor(config),
        instance_id=hop_id,
        version=VERSION,
        resource_attributes=resource_from_environment(),
        start_ns=start_ns,
    )
    measure_process(registry)
    outbox = Exporters(make_outbox(config, metrics, hop_id=hop_id, user_agent=f"toolgauge/{VERSION}"), metrics)
    sink = emitter if watching is None else watching(emitter)
    judges = JudgePool(_judges(config, criteria, metrics), metrics.judge)
    memory = MemoryGuard(config.memory.limit, metrics)
    evaluation_limit = EvaluationLimit()
    pipeline = make_pipeline(
        config,
        criteria,
        sink=sink,
        outbox=outbox,
        metrics=metrics,
        judging=judges,
        has_memory=memory.admits,
        deadline=lambda _criterion: evaluation_limit,
    )
    # What waits to be read counts against the room of the queues: with half of it, a full inbox never makes them full.
    queues = [destination.queue_capacity_bytes // 2 for destination in outbox.destinations]
    inbox = Inbox(min(config.inbox.max_bytes, *queues) if queues else config.inbox.max_bytes)
    metrics.inbox_bytes.observe = lambda: {(): inbox.size_bytes}
    intake = Intake(pipeline, inbox, clock)
    worker = Worker(pipeline, inbox, clock=clock, faults=Faults(metrics), evaluation_limit=evaluation_limit)
    health = make_health(config, outbox, memory, worker, clock=clock)
    return Service(
        pipeline=pipeline,
        inbox=inbox,
        intake=intake,
        evaluation_limit=evaluation_limit,
        worker=worker,
        receivers=make_receivers(config, intake, metrics=metrics, hop_id=hop_id, has_memory=memory.admits),
        additional_receivers=make_additional_receivers(config, intake),
        health=health,
        admin=None if config.admin is None else AdminEndpoint(health, config.admin),
        judges=judges,
        outbox=outbox,
        emitter=emitter,
        metrics=metrics,
        memory=memory,
        endpoint=_metrics_endpoint(config, registry, emitter.resource, start_ns),
        push_interval_s=config.metrics.interval / 1e9,
        clock=clock,
        hop_id=hop_id,
    )


def _judges(config: Config, criteria: Sequence[Criterion], metrics: SelfMetrics) -> Judges | None:
    if config.judge is None or not asks_judge(criteria):
        return None
    return make_judges(config.judge, open_client(config.judge), metrics.judge, redactor(config).content)


def _metrics_endpoint(
    config: Config, registry: MetricRegistry, resource: Mapping[str, str], start_ns: int
) -> MetricsEndpoint | None:
    settings = config.exporters.prometheus
    return None if settings is None else MetricsEndpoint(settings, registry, resource, start_ns=start_ns)
