"""The parts of a pipeline, and the rules that may change while it runs."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from toolgauge.assemble.assembler import Assembler
from toolgauge.assemble.settings import AssembleSettings
from toolgauge.export.redact import Redactor
from toolgauge.export.tail_sampling import Keepers
from toolgauge.model.delivery import Outbox, Outgoing
from toolgauge.model.feedback import FeedbackSink
from toolgauge.model.judging import Judging
from toolgauge.model.notices import Notice
from toolgauge.model.observations import CallAnswered, CallRequested, MessageSeen, ModelCall, ModelInput, Reading
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.regressions import Regression
from toolgauge.otlp.decoder import Decoder, ViewedSpan
from toolgauge.pipeline.egress import Hold
from toolgauge.recognize.recognizer import Recognizer
from toolgauge.score.earlier_traces import EarlierTraces
from toolgauge.score.open_runs import OpenRuns
from toolgauge.score.scorer import Scorer
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.state.ledger import NO_LEDGER, Ledger
from toolgauge.watch.watcher import Watcher


class Reader:
    """A decoder and a recognizer, which change together."""

    def __init__(self, decoder: Decoder, recognizer: Recognizer) -> None:
        self.decoder = decoder
        self.recognizer = recognizer

    def read_history(self, given: ModelInput) -> tuple[CallRequested | MessageSeen, ...]:
        """Read the calls in the history that a model was given."""
        span = self.decoder.view(given.raw, given.resource, given.scope)
        return self.recognizer.read_history(given.dialect, span)


# The history of a larger span is not kept.
_LARGEST_INPUT = 64 * 1024


def model_input(viewed: ViewedSpan, reading: Reading) -> ModelInput | None:
    """Return the span as the input of a model, where it may hold a history of calls."""
    raw, kinds = viewed.raw, {*map(type, reading.observations)}
    if ModelCall not in kinds or CallAnswered not in kinds or len(raw) > _LARGEST_INPUT:
        return None
    answered = [seen.call_id for seen in reading.observations if type(seen) is CallAnswered]
    ids = tuple([call_id for call_id in answered if call_id is not None])
    has_ids = len(ids) == len(answered)
    # A history has the calls beside their answers: each id twice.
    if has_ids and all(raw.count(call_id.encode()) == 1 for call_id in ids):
        return None
    return ModelInput(
        span_id=reading.ref.span_id,
        dialect=reading.dialect or "",
        answered=ids if has_ids else (),
        raw=raw,
        resource=viewed.span.resource,
        scope=viewed.span.scope,
    )


# Called with the share of trajectories that show signs of a split.
OnSplit: TypeAlias = Callable[[float], None]
OnRegressions: TypeAlias = Callable[[Sequence[Regression]], None]


def ignore(_found: object) -> None:
    """Ignore regressions, failed runs and split traces."""


class ScorecardSink(Protocol):
    """Where scorecards go: `export`'s emitter, or a list in a replay."""

    def record(self, scorecard: Scorecard) -> None:
        """Count the scorecard in the metrics."""
        ...

    def requests(self, scorecards: Sequence[Scorecard]) -> Iterable[Outgoing]:
        """Encode scorecard spans and events, each request when it is asked for."""
        ...


class ObservedSink:
    """A sink of scorecards that shows each to all of `observe`, too; without a sink behind it, nothing is sent on."""

    def __init__(self, sink: ScorecardSink | None, *observe: Callable[[Scorecard], None]) -> None:
        self._sink = sink
        self._observe = observe

    def record(self, scorecard: Scorecard) -> None:
        """Pass the scorecard on, and show it."""
        if self._sink is not None:
            self._sink.record(scorecard)
        for observe in self._observe:
            observe(scorecard)

    def requests(self, scorecards: Sequence[Scorecard]) -> Iterable[Outgoing]:
        """Pass the requests on."""
        return () if self._sink is None else self._sink.requests(scorecards)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """How scores are redacted, where they are written, and whether in OpenInference's words, too.

    `notify` names the criteria whose failed results are announced, and whether they are marked so themselves.
    """

    redactor: Redactor
    annotate: Literal["both", "hold", "scorecard", "off"] = "both"
    openinference: bool = False
    notify: Mapping[str, bool] = field(default_factory=dict[str, bool])
    open_runs: OpenRuns | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The stages of one pipeline, and its surroundings.

    `clock` is a monotonic clock in nanoseconds that only measures how long scoring takes. `has_memory` tells whether there is
    memory for a request of so many bytes. Regressions that `watcher` finds go to `on_regressions`. `ledger` counts claims on
    journal entries, where there is a journal. `on_split` is called when traces seem to be split over several processes. `keepers` decide which traces destinations get.
    Failed results of criteria that `notify` go to `on_notices`.
    """

    reader: Reader
    assembler: Assembler
    scorer: Scorer
    earlier_traces: EarlierTraces
    judging: Judging
    sink: ScorecardSink
    hold: Hold
    outbox: Outbox
    metrics: SelfMetrics
    settings: PipelineSettings
    feedback: FeedbackSink
    clock: Callable[[], int]
    has_memory: Callable[[int], bool] = lambda _size_bytes: True
    watcher: Watcher | None = None
    on_regressions: OnRegressions = ignore
    ledger: Ledger = NO_LEDGER
    on_split: OnSplit = ignore
    keepers: Keepers = field(default_factory=Keepers)
    on_notices: Callable[[Sequence[Notice]], None] = ignore


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Replacements for a running pipeline, which keeps everything that is in it.

    `reading` is `None` where the spans that are read stay the same. Open trajectories keep the times they were opened with.
    `streams` holds the measures of the criteria whose scores are watched from here on, by name and revision.
    """

    scorer: Scorer
    streams: Mapping[tuple[str, str], str]
    reading: tuple[Decoder, Recognizer] | None
    assemble: AssembleSettings
    hold_timeout_ns: int
    hold_max_bytes: int
    settings: PipelineSettings
