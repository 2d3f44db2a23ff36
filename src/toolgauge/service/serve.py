"""Config -> one service, ready to start."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from toolgauge.backends.score_sender import ScoreDestination
from toolgauge.config.model import Config
from toolgauge.export.emitter import Emitter, resource_from_environment
from toolgauge.export.fan_out import FanOut
from toolgauge.export.prometheus import MetricsEndpoint
from toolgauge.export.recording_file import RecordingFile
from toolgauge.export.webhooks import Webhooks
from toolgauge.model.delivery import Outgoing
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.notices import Notice
from toolgauge.model.regressions import Regression
from toolgauge.otlp.request import Request
from toolgauge.pipeline.pipeline import Pipeline
from toolgauge.pipeline.stages import ScorecardSink, ignore_regressions
from toolgauge.score.criterion import Criterion
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.destinations import USER_AGENT, make_outbox, make_recording
from toolgauge.service.health import AdminEndpoint, make_health
from toolgauge.service.inbox import Inbox, Intake, OnAccepted
from toolgauge.service.judge_pool import JudgePool, asks_judge, make_judges, open_client
from toolgauge.service.pipeline_factory import (
    VERSION,
    emit_settings,
    make_pipeline,
    make_watcher,
    redactor,
    watched_streams,
)
from toolgauge.service.process import Faults, MemoryGuard, SteadyClock, measure_process, resident_bytes
from toolgauge.service.receiver_factory import (
    check_messages,
    make_additional_receivers,
    make_message_receiver,
    make_receivers,
)
from toolgauge.service.service import Persistence, Service, WorkerLink
from toolgauge.service.watching import Notifier, Watching, send_own
from toolgauge.service.worker import Worker
from toolgauge.state.ledger import NO_LEDGER, Ledger, OffsetJournal
from toolgauge.state.store import StateStore
from toolgauge.watch.watcher import Watcher


@dataclass(frozen=True, slots=True)
class Telemetry:
    """The metrics of a process, and what encodes and announces them."""

    config: Config
    registry: MetricRegistry
    metrics: SelfMetrics
    emitter: Emitter
    webhooks: Webhooks
    clock: SteadyClock
    start_ns: int
    hop_id: str

    @classmethod
    def of(cls, config: Config, registry: MetricRegistry, clock: SteadyClock, hop_id: str) -> "Telemetry":
        """Begin to measure this process."""
        metrics, start_ns = SelfMetrics(registry), clock()
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
        webhooks = Webhooks(config.exporters.webhook, config.trace_url, metrics.webhook, user_agent=USER_AGENT)
        return cls(config, registry, metrics, emitter, webhooks, clock, start_ns, hop_id)

    def watching(
        self,
        watcher: Watcher | None,
        store: StateStore | None,
        criteria: Sequence[Criterion],
        put: Callable[[Outgoing], bool],
    ) -> Watching | None:
        """Put the watcher and its store together; `None` without a watcher."""
        if watcher is None:
            return None

        def announce(regressions: Sequence[Regression]) -> None:
            send_own(self.emitter.regressions(regressions), put, self.metrics)
            self.webhooks.put(regressions)

        return Watching(
            watcher,
            self.metrics.watch,
            store=store,
            streams=watched_streams(criteria),
            announce=announce,
            announce_tool_changes=lambda changes: send_own(self.emitter.tool_changes(changes), put, self.metrics),
            count_tool_changes=self.emitter.count_tool_changes,
            clock=self.clock,
            faults=Faults(self.metrics),
        )

    def endpoint(self) -> MetricsEndpoint | None:
        """Make the endpoint that Prometheus scrapes; `None` where none is wanted."""
        settings = self.config.exporters.prometheus
        if settings is None:
            return None
        return MetricsEndpoint(settings, self.registry, self.emitter.resource, start_ns=self.start_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scoring:
    """The parts of a service between its receivers and its destinations."""

    persistence: Persistence | None
    offsets: OffsetJournal | None
    ledger: Ledger
    outbox: FanOut
    judges: JudgePool
    memory: MemoryGuard
    watching: Watching | None
    pipeline: Pipeline
    inbox: Inbox
    worker: Worker


def make_service(
    config: Config,
    criteria: Sequence[Criterion],
    *,
    observing: Callable[[ScorecardSink], ScorecardSink] | None = None,
    on_notices: Callable[[Sequence[Notice]], None] | None = None,
    is_live: bool = False,
    worker: WorkerLink | None = None,
    recording: RecordingFile | None = None,
    on_accepted: OnAccepted = lambda _request: None,
    put_together: Callable[..., Pipeline] = make_pipeline,
) -> Service:
    """Put a service together; raise `ConfigError` when a criterion asks a judge and there is no such model.
    `is_live` where senders were running before. With a `worker` link only the front sends; `recording` replaces `exporters.file`.
    """
    check_messages(config, criteria)
    clock = SteadyClock()
    hop_id = uuid.uuid4().hex if worker is None else worker.hop_id
    telemetry = Telemetry.of(config, MetricRegistry(clock), clock, hop_id)
    recorded = recording or make_recording(config, telemetry.metrics)

    def accepted(request: Request) -> None:
        if recorded is not None:
            recorded.put(request.signal, request.body)
        on_accepted(request)

    # The front announces those of its workers.
    putting = partial(put_together, on_notices=on_notices or Notifier(telemetry.webhooks, clock).add)
    scoring = _make_scoring(config, criteria, telemetry, worker, observing, putting, is_live=is_live)
    journal = None if scoring.persistence is None else scoring.persistence.journal
    intake = Intake(scoring.pipeline, scoring.inbox, clock, scoring.ledger, journal, accepted)
    return _service(config, telemetry, scoring, intake, recorded, worker, is_recorder=recording is not None)


def _make_scoring(
    config: Config,
    criteria: Sequence[Criterion],
    telemetry: Telemetry,
    link: WorkerLink | None,
    observing: Callable[[ScorecardSink], ScorecardSink] | None,
    put_together: Callable[..., Pipeline],
    *,
    is_live: bool,
) -> _Scoring:
    metrics, clock = telemetry.metrics, telemetry.clock
    persistence, offsets, ledger = _durable(config, metrics, clock)
    outbox = make_outbox(config, metrics, hop_id=telemetry.hop_id, ledger=ledger)
    judges = _make_judge_pool(config, criteria, metrics)
    # That of all workers together is the front's to guard.
    memory = MemoryGuard(config.memory.limit, metrics, resident=resident_bytes if link is None else lambda: 0)
    watcher = make_watcher(config, metrics)
    store = None if persistence is None else persistence.store

    def put(event: Outgoing) -> bool:
        return outbox.put(ledger.journaled(event, clock()))

    watching = telemetry.watching(watcher, store, criteria, put)
    pipeline = put_together(
        config,
        criteria,
        sink=telemetry.emitter if observing is None else observing(telemetry.emitter),
        outbox=outbox,
        metrics=metrics,
        judging=judges,
        has_memory=memory.admits,
        watcher=watcher,
        live_since_ns=telemetry.start_ns if is_live else None,
        on_regressions=ignore_regressions if watching is None else watching.regressed,
        ledger=ledger,
        keepers=outbox.keepers,
        # Spans of a trace go to one worker or consumer of a group, those of its conversation perhaps to another.
        is_divided=link is not None or config.receivers.kafka is not None,
    )
    inbox = _make_inbox(config, outbox, metrics)
    worker = Worker(pipeline, inbox, clock=clock, faults=Faults(metrics))
    return _Scoring(
        persistence=persistence,
        offsets=offsets,
        ledger=ledger,
        outbox=outbox,
        judges=judges,
        memory=memory,
        watching=watching,
        pipeline=pipeline,
        inbox=inbox,
        worker=worker,
    )


def _durable(
    config: Config, metrics: SelfMetrics, clock: SteadyClock
) -> tuple[Persistence | None, OffsetJournal | None, Ledger]:
    """Open the state directory, and the books of a broker's messages where one is received from."""
    persistence = Persistence.of(config.state, config.assemble.late_memory, metrics.state, clock)
    journal = None if persistence is None else persistence.journal
    offsets = None if config.receivers.kafka is None else OffsetJournal(journal)
    writer = journal if offsets is None else offsets
    return persistence, offsets, NO_LEDGER if writer is None else Ledger(writer)


def _make_inbox(config: Config, outbox: FanOut, metrics: SelfMetrics) -> Inbox:
    # Requests in the inbox count against the room of the queues: with half of it, a full inbox never fills them.
    takers = [each for each in outbox.destinations if not isinstance(each, ScoreDestination)]
    queues = [destination.settings.queue.max_bytes // 2 for destination in takers]
    inbox = Inbox(min(config.inbox.max_bytes, *queues) if queues else config.inbox.max_bytes)
    metrics.inbox_bytes.observe = lambda: {(): inbox.budget.size_bytes}
    return inbox


def _make_judge_pool(config: Config, criteria: Sequence[Criterion], metrics: SelfMetrics) -> JudgePool:
    if config.judge is None or not asks_judge(criteria):
        return JudgePool(None, metrics.judge)
    client = open_client(config.judge)
    return JudgePool(make_judges(config.judge, client, metrics.judge, redactor(config).content), metrics.judge)


def _service(
    config: Config,
    telemetry: Telemetry,
    scoring: _Scoring,
    intake: Intake,
    recorded: RecordingFile | None,
    link: WorkerLink | None,
    *,
    is_recorder: bool,
) -> Service:
    """Put receivers, health and timers around the scoring."""
    metrics, clock, hop_id = telemetry.metrics, telemetry.clock, telemetry.hop_id
    outbox, memory, judges, persistence = scoring.outbox, scoring.memory, scoring.judges, scoring.persistence
    journal = None if persistence is None else persistence.journal
    broker = partial(make_message_receiver, config, intake, offsets=scoring.offsets, ledger=scoring.ledger)
    messages = broker(pipeline=scoring.pipeline, worker=scoring.worker, metrics=metrics, hop_id=hop_id, clock=clock)
    health = make_health(
        config, outbox, memory, scoring.worker, judges, clock=clock, journal=journal, messages=messages
    )
    additional = make_additional_receivers(config, intake, clock) if link is None else ()
    receive = partial(make_receivers, config, intake, metrics=metrics, hop_id=hop_id, budget=memory.reading)
    return Service(
        intake=intake,
        receivers=receive() if link is None else (),
        # A broker's receiver starts last: its messages wait.
        additional_receivers=additional if messages is None else (*additional, messages),
        watching=scoring.watching,
        webhooks=telemetry.webhooks,
        health=health,
        admin=None if config.admin is None else AdminEndpoint(health, config.admin, scoring.watching),
        emitter=telemetry.emitter,
        metrics=metrics,
        memory=memory,
        endpoint=telemetry.endpoint(),
        recording=recorded,
        # Longer where the recording is the purpose.
        recording_deadline_s=15.0 if is_recorder else 2.0,
        push_interval_s=config.metrics.interval / 1e9,
        clock=clock,
        hop_id=hop_id,
        close_store=(lambda: None) if persistence is None else persistence.close,
        is_pushing=link is None,
        looks=(judges.collect,),
        pipeline=scoring.pipeline,
        inbox=scoring.inbox,
        judges=judges,
        outbox=outbox,
        worker=scoring.worker,
        persistence=persistence,
        messages=messages,
        ledger=scoring.ledger,
        link=link,
    )
