"""Config -> the front of several workers, ready to start."""

import os
import uuid
from collections.abc import Sequence

from toolgauge.config.model import Config
from toolgauge.model.delivery import Signal
from toolgauge.otlp.parts import Divider
from toolgauge.pipeline.pipeline import ignore_regressions
from toolgauge.recognize.conventions import CONVERSATION, SESSION
from toolgauge.score.criterion import Criterion
from toolgauge.score.scorer import reading_scope
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.admin import AdminEndpoint, Learning
from toolgauge.service.destinations import make_recording
from toolgauge.service.health import make_front_health
from toolgauge.service.memory import MemoryGuard
from toolgauge.service.pipeline_factory import make_watcher
from toolgauge.service.process import SteadyClock, measure_process
from toolgauge.service.serve import (
    make_additional_receivers,
    make_emitter,
    make_metrics_endpoint,
    make_receivers,
    make_watching,
    make_webhooks,
)
from toolgauge.service.watching import Announcer
from toolgauge.service.workers.divided import DividedIntake
from toolgauge.service.workers.front import Front, Workers, resident_of_all
from toolgauge.service.workers.merged_metrics import MergedRegistry
from toolgauge.service.workers.observed import Observations, Viewers
from toolgauge.service.workers.worker_process import WorkerProcess, spawn_command
from toolgauge.state.store import StateStore

# Beyond what a worker's inbox holds, this is what may wait to be put there.
_IN_FLIGHT_PART = 2


def number_of_workers(config: Config) -> int:
    """Return how many workers are wanted: with `auto` one for each processor that this process may use."""
    if config.workers != "auto":
        return config.workers
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def conversation_keys(criteria: Sequence[Criterion]) -> tuple[str, ...]:
    """Return the attributes by which traces are divided where a criterion looks at conversations; none where none does."""
    return (CONVERSATION, SESSION) if any(each.scope == "conversation" for each in criteria) else ()


def make_front(
    config: Config,
    criteria: Sequence[Criterion],
    config_options: Sequence[str],
    *,
    viewers: Viewers,
    learning: Learning | None = None,
) -> Front:
    """Put the front together; `config_options` are what its workers read the same configuration from.

    `viewers` are given scorecards of all workers, `learning` answers on the admin endpoint.
    """
    clock = SteadyClock()
    start_ns = clock()
    hop_id = uuid.uuid4().hex
    count = number_of_workers(config)
    registry = MergedRegistry(clock)
    metrics = SelfMetrics(registry)
    emitter = make_emitter(config, registry, metrics, hop_id, start_ns)
    measure_process(registry)
    workers = Workers(registry, metrics, has_journal=config.state.directory is not None)
    command = spawn_command(config_options, count, hop_id)
    max_bytes = max(1, config.inbox.max_bytes // count // _IN_FLIGHT_PART)
    workers.processes = tuple(
        WorkerProcess(number, command, max_bytes=max_bytes, on_workers=workers, clock=clock) for number in range(count)
    )
    memory = MemoryGuard(config.memory.limit, metrics, resident=resident_of_all(workers))
    webhooks = make_webhooks(config, metrics, clock)
    watcher = make_watcher(config, metrics)
    store = StateStore.of(config.state)
    announcer = Announcer(emitter, workers, metrics, webhooks)
    watching = None if watcher is None else make_watching(watcher, store, criteria, metrics, clock, announcer)
    recording = make_recording(config, metrics)

    def record(signal: Signal, body: bytes) -> None:
        if recording is not None:
            recording.put(signal, body)

    intake = DividedIntake(
        Divider(count, conversation_keys(criteria)),
        workers.processes,
        has_memory=memory.admits,
        refused=workers.refused,
        on_accepted=record,
    )
    health = make_front_health(config, memory, workers.components, clock=clock)
    observing = Observations(
        watcher=watcher,
        on_regressions=ignore_regressions if watching is None else watching.regressed,
        viewers=viewers,
        metrics=metrics,
        clock=clock,
        send_to_all=workers.send_to_all,
        send_to=workers.send_to,
    )
    workers.observing = observing
    return Front(
        config=config,
        workers=workers,
        intake=intake,
        receivers=make_receivers(config, intake, metrics=metrics, hop_id=hop_id, has_memory=memory.admits),
        additional_receivers=make_additional_receivers(config, intake),
        watching=watching,
        observing=observing,
        webhooks=webhooks,
        health=health,
        admin=None if config.admin is None else AdminEndpoint(health, config.admin, watching, learning),
        emitter=emitter,
        metrics=metrics,
        memory=memory,
        endpoint=make_metrics_endpoint(config, registry, emitter.resource, start_ns),
        clock=clock,
        hop_id=hop_id,
        store=store,
        recording=recording,
        reading_scope=reading_scope(criteria),
    )
