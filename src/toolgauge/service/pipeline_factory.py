"""Config -> one pipeline. The same stages for live traffic, for replays and for inspection."""

import dataclasses
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from importlib.metadata import version
from typing import TypeAlias

from toolgauge import plugins
from toolgauge.assemble.assembler import Assembler
from toolgauge.assemble.trace import LONG_WAIT_NS
from toolgauge.config.model import Config, backends
from toolgauge.config.tool_definitions import load_tool_definitions
from toolgauge.export.redact import Redactor
from toolgauge.export.results import EmitSettings
from toolgauge.export.tail_sampling import Keepers
from toolgauge.judge.inquiry import DisabledJudges
from toolgauge.model.delivery import Outbox, Outgoing, Signal
from toolgauge.model.feedback import Feedback, FeedbackSink
from toolgauge.model.judging import Judging
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.notices import Notice
from toolgauge.model.ports import Dialect
from toolgauge.model.records import SpanRef
from toolgauge.model.regressions import Regression
from toolgauge.net.throttle import Throttle, repetitions
from toolgauge.otlp.decoder import Decoder
from toolgauge.pipeline.egress import Hold
from toolgauge.pipeline.pipeline import Pipeline
from toolgauge.pipeline.stages import (
    OnSplit,
    Parts,
    PipelineSettings,
    Reader,
    Rules,
    ScorecardSink,
    ignore,
)
from toolgauge.recognize.mapped_dialect import MappedDialect
from toolgauge.recognize.recognizer import Recognizer
from toolgauge.score.contracts import ToolKinds
from toolgauge.score.criterion import Criterion
from toolgauge.score.earlier_traces import EarlierTraces
from toolgauge.score.open_runs import OpenRuns
from toolgauge.score.scorer import Around, Scorer
from toolgauge.score.unmatched import OnUnmatched, Unmatched
from toolgauge.selfmetrics import FeedbackMetrics, SelfMetrics
from toolgauge.service.plug_in_evaluators import on_spare_thread
from toolgauge.settings import MINUTE
from toolgauge.state.ledger import NO_LEDGER, Ledger
from toolgauge.watch.feedback_agreement import FeedbackAgreement
from toolgauge.watch.open_conversations import is_watched
from toolgauge.watch.watcher import OnToolChanges, Watcher

VERSION = version("toolgauge")
# So many spans of each scope that no dialect knows are looked at whole.
_SAMPLES = 32
_LOG = logging.getLogger("toolgauge")

# Makes a recognizer; a replay may count the readings of its own.
MakeRecognizer: TypeAlias = Callable[[Sequence[Dialect], SelfMetrics, Collection[str]], Recognizer]


def _log_unmatched(unmatched: Unmatched) -> None:
    _LOG.warning(
        "criterion %s %s for an hour: look at %s",
        unmatched.criterion.name,
        unmatched.description,
        unmatched.keys,
        extra={"criterion": unmatched.criterion.name},
    )


def _log_split(share: float) -> None:
    _LOG.warning(
        "%.0f %% of the last trajectories lack some spans: their traces seem to be split over several toolgauge instances. "
        "Criteria that judge a whole trajectory do not evaluate them (incomplete). Route by trace id: in a Collector with "
        "`routing_key: traceID` of the exporter `loadbalancing`",
        100 * share,
    )


def make_pipeline(
    config: Config,
    criteria: Sequence[Criterion],
    *,
    sink: ScorecardSink,
    outbox: Outbox,
    metrics: SelfMetrics,
    judging: Judging | None = None,
    has_memory: Callable[[int], bool] = lambda _size_bytes: True,
    make_recognizer: MakeRecognizer = Recognizer,
    clock: Callable[[], int] = time.monotonic_ns,
    around: Around | None = None,
    on_unmatched: OnUnmatched | None = _log_unmatched,
    watcher: Watcher | None = None,
    on_regressions: Callable[[Sequence[Regression]], None] = ignore,
    attributes: Collection[str] = (),
    ledger: Ledger = NO_LEDGER,
    live_since_ns: int | None = None,
    on_split: OnSplit = _log_split,
    feedback: FeedbackSink | None = None,
    is_divided: bool = False,
    keepers: Keepers | None = None,
    on_notices: Callable[[Sequence[Notice]], None] = ignore,
    on_feedback: Callable[[Feedback], None] = ignore,
) -> Pipeline:
    """Put the stages together; without `judging`, criteria that ask a judge are answered with `judge_budget`.
    Spans are read for `attributes` as well. Runs that began before
    `live_since_ns`, and conversations where it `is_divided`, may have been received in part by another process.
    """
    late, scorer = config.assemble.late_memory, _scorer(config, criteria, metrics, around, on_unmatched)
    recognizer = make_recognizer(_dialects(config), metrics, scorer.wanted.union(attributes))
    reader = Reader(_decoder(recognizer, config.metrics.resource_attributes), recognizer)
    parts = Parts(
        reader=reader,
        assembler=_assembler(config, metrics, reader, scorer, live_since_ns),
        scorer=scorer,
        earlier_traces=EarlierTraces(
            late.traces,
            live_since_ns=live_since_ns,
            ongoing_ns=config.assemble.conversation_idle_timeout,
            is_divided=is_divided,
            has_journal=ledger.has_journal,
        ),
        judging=judging or DisabledJudges("judges are asked by `toolgauge serve` only"),
        sink=sink,
        hold=Hold(config.hold.timeout, config.hold.max_bytes),
        outbox=outbox,
        metrics=metrics,
        settings=_pipeline_settings(config, criteria),
        clock=clock,
        has_memory=has_memory,
        watcher=watcher,
        on_regressions=on_regressions,
        ledger=ledger,
        on_split=on_split,
        keepers=keepers or Keepers(),
        on_notices=on_notices,
        feedback=feedback or FeedbackAgreement(late.traces, late.for_, FeedbackMetrics(metrics.registry), on_feedback),
    )
    return Pipeline(parts)


def _assembler(
    config: Config, metrics: SelfMetrics, reader: Reader, scorer: Scorer, live_since_ns: int | None
) -> Assembler:
    throttle = Throttle()

    def log_missing_parents(service: str | None) -> None:
        _LOG.info(
            "spans of service %s have parents that never arrived (traced elsewhere, or filtered out): its trajectories are "
            "scored without them, `assemble.open_idle_timeout` after their last span",
            service or "unknown",
            extra={"service": service or ""},
        )

    def log_long_wait(service: str | None, span: SpanRef) -> None:
        if (suppressed := throttle.suppressed("")) is not None:
            _LOG.warning(
                "a trace of %s has waited %d m for span %s, which contains others (trace %s)%s: it still runs, or its producer "
                "never ends it. Runs that end below a span that failed are scored, as incomplete",
                service or "unknown service",
                LONG_WAIT_NS // MINUTE,
                span.span_id,
                span.trace_id,
                repetitions(suppressed),
                extra={"service": service or ""},
            )

    return Assembler(
        config.assemble,
        metrics,
        reader.read_history,
        conversations=scorer.gathers_conversations,
        live_since_ns=live_since_ns,
        on_missing_parents=log_missing_parents,
        on_long_wait=log_long_wait,
    )


def make_watcher(config: Config, metrics: SelfMetrics) -> Watcher | None:
    """Make the stage that looks for regressions; `None` where the configuration wants none."""
    return Watcher(config.watch, metrics.watch) if config.watch.enabled else None


def watched_streams(criteria: Sequence[Criterion]) -> Mapping[tuple[str, str], str]:
    """Return the measures of the criteria whose scores are watched, by name and revision."""
    live = [one for one in criteria if one.enforce == "live"]
    watched = [one for one in live if is_watched(one.evaluator_name, one.evaluator.level, one.pass_at > 0)]
    return {(one.name, one.revision): one.measure for one in watched}


def make_rules(
    config: Config,
    criteria: Sequence[Criterion],
    metrics: SelfMetrics,
    *,
    running: Config,
    read: Collection[str],
    labels: Collection[str] = (),
) -> Rules:
    """Make the next rules of a running pipeline, which reads the attributes `read` and goes by `running` until then."""
    scorer = _scorer(config, criteria, metrics, None, _log_unmatched)
    reading = None
    if scorer.wanted != frozenset(read) or config.dialects != running.dialects:
        recognizer = Recognizer(_dialects(config), metrics, scorer.wanted)
        reading = (_decoder(recognizer, labels), recognizer)
    return Rules(
        scorer=scorer,
        streams=watched_streams(criteria),
        reading=reading,
        assemble=config.assemble,
        hold_timeout_ns=config.hold.timeout,
        hold_max_bytes=config.hold.max_bytes,
        settings=_pipeline_settings(config, criteria),
    )


def _decoder(recognizer: Recognizer, labels: Collection[str]) -> Decoder:
    found = (recognizer.marks, recognizer.scopes, recognizer.wanted)
    return Decoder(
        *found,
        labels=labels,
        objects=recognizer.objects,
        scope_words=recognizer.scope_words,
        words=recognizer.words,
        samples=_SAMPLES,
    )


def _dialects(config: Config) -> tuple[Dialect, ...]:
    return (*plugins.dialects(), *(MappedDialect(name, settings) for name, settings in config.dialects.items()))


def _scorer(
    config: Config,
    criteria: Sequence[Criterion],
    metrics: SelfMetrics,
    around: Around | None,
    on_unmatched: OnUnmatched | None,
) -> Scorer:
    def guarded(criterion: Criterion) -> Criterion:
        def switched_off(reason: str) -> None:
            metrics.criteria_switched_off.add(1, (criterion.name,))
            _LOG.error(
                "criterion %s (evaluator %s) is switched off until the configuration is reloaded or the process is started "
                "again: its evaluator %s",
                criterion.name,
                criterion.evaluator_name,
                reason,
                extra={"criterion": criterion.name},
            )

        return dataclasses.replace(criterion, evaluator=on_spare_thread(criterion.evaluator, switched_off))

    return Scorer(
        tuple(map(guarded, criteria)),
        tool_kinds(config),
        around=around,
        on_unmatched=on_unmatched,
        registered_tools=load_tool_definitions(config),
    )


def tool_kinds(config: Config) -> ToolKinds:
    """Read the section `tools`."""
    return ToolKinds(config.tools)


class NoOutbox:
    """Implements `Outbox` where nothing leaves. Not the fan-out without destinations: that one loads every sender."""

    def forwards(self, signal: Signal) -> bool:  # noqa: ARG002 (as `Outbox` has it)
        """Nothing is sent on."""
        return False

    def has_room(self, signal: Signal, size_bytes: int) -> bool:  # noqa: ARG002 (as above)
        """There is room: nothing is kept."""
        return True

    def put(self, outgoing: Outgoing) -> bool:  # noqa: ARG002 (as above)
        """Take the request."""
        return True


def offline_pipeline(
    config: Config,
    criteria: Sequence[Criterion],
    make_recognizer: MakeRecognizer = Recognizer,
    on_regressions: Callable[[Sequence[Regression]], None] | None = None,
    on_tool_changes: OnToolChanges | None = None,
    attributes: Collection[str] = (),
    judging: Judging | None = None,
    around: Around | None = None,
    feedback: FeedbackSink | None = None,
) -> Callable[[ScorecardSink], Pipeline]:
    """Return a function that makes pipelines for recorded traffic; `judging` and `feedback` serve one pipeline only."""
    offline = config.model_copy(update={"annotate": "off"})

    def make(sink: ScorecardSink) -> Pipeline:
        metrics = SelfMetrics(MetricRegistry())
        watcher = None if on_regressions is None and on_tool_changes is None else make_watcher(offline, metrics)
        if watcher is not None and on_tool_changes is not None:
            watcher.on_tool_changes = on_tool_changes
        return make_pipeline(
            offline,
            criteria,
            sink=sink,
            outbox=NoOutbox(),
            metrics=metrics,
            make_recognizer=make_recognizer,
            on_unmatched=None,
            on_split=ignore,
            watcher=watcher,
            on_regressions=on_regressions or ignore,
            attributes=attributes,
            judging=judging,
            around=around,
            feedback=feedback,
        )

    return make


def _pipeline_settings(config: Config, criteria: Sequence[Criterion]) -> PipelineSettings:
    names = [glob for webhook in config.exporters.webhook for glob in webhook.notify or ()]
    notify = {
        one.name: one.notify for one in criteria if one.notify or any(fnmatchcase(one.name, glob) for glob in names)
    }
    return PipelineSettings(
        redactor=redactor(config),
        annotate=config.annotate,
        openinference="openinference" in config.annotate_form,
        notify=notify,
        open_runs=OpenRuns([one for one in criteria if one.name in notify], tool_kinds(config)),
    )


def emit_settings(config: Config) -> EmitSettings:
    """Read the sections about emission."""
    return EmitSettings(
        events=config.events,
        annotate=config.annotate,
        annotate_form=config.annotate_form,
        trace_url=config.trace_url,
        scores=tuple(backend.scores for backend in backends(config.exporters).values()),
        queues=config.queues,
        metrics=config.metrics,
        costs=config.costs,
    )


def redactor(config: Config, *, show_values: bool | None = None) -> Redactor:
    """Read the section `redact`; `show_values` replaces its `values`."""
    shows = config.redact.values == "show" if show_values is None else show_values
    return Redactor(show_values=shows, patterns=config.redact.patterns)
