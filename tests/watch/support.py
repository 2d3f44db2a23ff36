"""Scorecards of conversations, as the stage `score` hands them over."""

from collections.abc import Sequence

from msgspec.structs import replace

from tests.export.scorecards import call, trajectory
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.outcomes import Level, Outcome, Result, Scorecard, Scored
from toolgauge.model.records import SpanRef
from toolgauge.model.regressions import Regression
from toolgauge.model.trajectory import Run
from toolgauge.selfmetrics import SelfMetrics, WatchMetrics
from toolgauge.watch.settings import WatchSettings
from toolgauge.watch.watcher import Watcher

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
START = 1_700_000_000 * SECOND


def settings(**fields: object) -> WatchSettings:
    return WatchSettings.model_validate({"baseline_min": 50, "behaviour": "off", **fields})


def watch_metrics() -> WatchMetrics:
    return SelfMetrics(MetricRegistry()).watch


def watcher(metrics: WatchMetrics | None = None, **fields: object) -> Watcher:
    return Watcher(settings(**fields), metrics or watch_metrics())


def result(outcome: Outcome, tool: str | None, criterion: str = "default.tool_success") -> Result:
    level: Level = "trajectory" if tool is None else "call"
    judged = None if tool is None else call(tool)
    return Result(
        criterion=criterion,
        revision="r1",
        evaluator="tool_success",
        version="1",
        level=level,
        enforce="live",
        target=None if judged is None else judged.span,
        call=judged,
        outcome=outcome,
    )


def scored(value: float) -> Scored:
    return Scored(value, "said", passed=value == 1)


def scorecard(
    number: int,
    scores: Sequence[tuple[str | None, float]],
    *,
    at_ns: int,
    conversation: str | None = None,
    version: str | None = "1.0",
    service: str = "support",
) -> Scorecard:
    trace_id = f"{number:032x}"
    judged = replace(
        trajectory(),
        trace_id=trace_id,
        conversation_id=conversation,
        service=service,
        root=SpanRef(trace_id, "b7ad6b7169203331"),
        opened_ns=at_ns,
        resource={} if version is None else {"service.version": version},
    )
    results = tuple(result(scored(value), tool) for tool, value in scores)
    return Scorecard(trajectory=judged, results=results, scored_at_ns=at_ns)


def offered(number: int, *tools: ToolDefinition, version: str = "1.0") -> Scorecard:
    """Return a scorecard whose run was offered these tools."""
    card = scorecard(number, [(None, 1.0)], at_ns=START, version=version)
    run = Run(
        span=SpanRef(f"{number:032x}", "b7ad6b7169203331"),
        above=None,
        agent="orders",
        prompt=None,
        response=None,
        tools_offered=tools,
        start_ns=1,
        end_ns=2,
    )
    return replace(card, trajectory=replace(card.trajectory, runs=(run,)))


class Traffic:
    """Conversations of one trace each, a second apart; every tenth score of a healthy tool is 0."""

    def __init__(self, watching: Watcher) -> None:
        self.watcher = watching
        self.number = 0
        self.regressions: list[Regression] = []

    @property
    def now_ns(self) -> int:
        return START + self.number * SECOND

    def send(self, count: int, *, every: int, version: str = "1.0", tool: str = "find_order", service: str = "support"):
        """Send conversations in which every n-th call fails."""
        for _ in range(count):
            self.number += 1
            value = 0.0 if self.number % every == 0 else 1.0
            card = scorecard(self.number, [(tool, value)], at_ns=self.now_ns, version=version, service=service)
            self.regressions.extend(self.watcher.observe(card))
