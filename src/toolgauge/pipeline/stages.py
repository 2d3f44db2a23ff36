"""What a pipeline is made of, and what may change while it runs."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from toolgauge.assemble.assembler import Assembler
from toolgauge.assemble.settings import AssembleSettings
from toolgauge.export.redact import Redactor
from toolgauge.model.delivery import Outbox, Outgoing
from toolgauge.model.feedback import FeedbackSink
from toolgauge.model.judging import Judging
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.regressions import Regression
from toolgauge.otlp.decoder import Decoder
from toolgauge.otlp.envelope import Container
from toolgauge.pipeline.hold import Hold
from toolgauge.pipeline.reader import Reader
from toolgauge.recognize.recognizer import Recognizer
from toolgauge.score.earlier_traces import EarlierTraces
from toolgauge.score.scorer import Scorer
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.state.ledger import Ledger
from toolgauge.watch.watcher import Watcher

# Called with the share of trajectories that show signs of a split.
OnSplit: TypeAlias = Callable[[float], None]
OnRegressions: TypeAlias = Callable[[Sequence[Regression]], None]


def ignore_regressions(regressions: Sequence[Regression]) -> None:
    """Ignore regressions."""
    del regressions


def ignore_split(share: float) -> None:
    """Ignore split traces, where no operator reads a warning."""
    del share


class ScorecardSink(Protocol):
    """Where scorecards go: `export`'s emitter, or a list in a replay."""

    def record(self, scorecard: Scorecard) -> None:
        """Count the scorecard in the metrics."""
        ...

    def requests(self, scorecards: Sequence[Scorecard]) -> Iterable[Outgoing]:
        """Encode scorecard spans and events, each request when it is asked for."""
        ...


class ObservedSink:
    """A sink of scorecards that shows each to `observe`, too."""

    def __init__(self, sink: ScorecardSink, observe: Callable[[Scorecard], None]) -> None:
        self._sink = sink
        self._observe = observe

    def record(self, scorecard: Scorecard) -> None:
        """Pass the scorecard on, and show it."""
        self._sink.record(scorecard)
        self._observe(scorecard)

    def requests(self, scorecards: Sequence[Scorecard]) -> Iterable[Outgoing]:
        """Pass the requests on."""
        return self._sink.requests(scorecards)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineSettings:
    """Where more evicted trajectories wait than `max_queue`, or bytes, they leave unscored (`overload`)."""

    redactor: Redactor
    annotate: Literal["both", "hold", "scorecard", "off"] = "both"
    max_queue: int = 1000
    max_queue_bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The stages of one pipeline, and its surroundings.

    `clock` is a monotonic clock in nanoseconds that only measures how long scoring takes. `has_memory` tells whether there is
    memory for a request of so many bytes. Regressions that `watcher` finds go to `on_regressions`. `ledger` counts claims on
    journal entries, where there is a journal. `on_split` is called when traces seem to be split over several processes.
    """

    reader: Reader
    assembler: Assembler
    scorer: Scorer
    earlier_traces: EarlierTraces
    judging: Judging
    sink: ScorecardSink
    hold: Hold[Container]
    outbox: Outbox
    metrics: SelfMetrics
    settings: PipelineSettings
    feedback: FeedbackSink
    clock: Callable[[], int]
    has_memory: Callable[[int], bool] = lambda _size_bytes: True
    watcher: Watcher | None = None
    on_regressions: OnRegressions = ignore_regressions
    ledger: Ledger | None = None
    on_split: OnSplit = ignore_split


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What may change while a pipeline runs, without losing anything that is in it.

    `reading` is `None` where the spans that are read stay the same. Open trajectories keep the times they were opened with.
    `streams` names the criteria, with their revisions, whose scores are watched from here on.
    """

    scorer: Scorer
    streams: frozenset[tuple[str, str]]
    reading: tuple[Decoder, Recognizer] | None
    assemble: AssembleSettings
    hold_timeout_ns: int
    hold_max_bytes: int
    settings: PipelineSettings
