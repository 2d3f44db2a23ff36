"""Streams, counts and scorecards of comparisons."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from toolgauge.model.outcomes import Errored, Level, NotEvaluated, Outcome, Result, Scorecard, Scored
from toolgauge.model.regressions import Stream
from toolgauge.model.trajectory import ToolCall
from toolgauge.recordings.comparison import Judged, Pairing, Question, judge_streams
from toolgauge.recordings.conversation_means import Sample, StreamCounts
from toolgauge.testing.samples import sample_call, sample_trajectory

ONE_LOOK = Question(margin=0.05, confidence=0.95, looks_often=False)
OFTEN = Question(margin=0.05, confidence=0.95, looks_often=True)
NO_CONTENT = NotEvaluated(reason="no_content")
BROKEN = Errored(error_type="ValueError", message="no")


def score(value: float) -> Scored:
    return Scored(value, "because", passed=value >= 1)


def stream(tool: str | None = None, *, criterion: str = "default.tool_success", level: Level = "call") -> Stream:
    return Stream(
        service="shop",
        environment=None,
        agent="support",
        tool=tool,
        criterion=criterion,
        revision="0123456789ab",
        level=level,
    )


def counts(conversations: int, passed: float) -> StreamCounts:
    """Scores that are 0 or 1."""
    return StreamCounts(Sample(conversations, passed, passed))


def pairing(
    base: StreamCounts, new: StreamCounts, tool: str | None = None, *, criterion: str = "default.tool_success"
) -> Pairing:
    return Pairing(
        stream=stream(tool, criterion=criterion),
        base_version="1.0",
        new_version="1.1",
        base=base,
        new=new,
        decides=tool is None and base.sample.count > 0,
    )


def judged(base: StreamCounts, new: StreamCounts, question: Question = ONE_LOOK) -> Judged:
    (one,) = judge_streams([pairing(base, new)], question)
    return one


def scorecard(
    outcomes: Iterable[tuple[str | None, Outcome]],
    *,
    trace_id: str = "0" * 32,
    conversation_id: str | None = None,
    service: str | None = "shop",
    environment: str | None = None,
    start_ns: int = 0,
    level: Level = "call",
) -> Scorecard:
    """A scorecard with one result for each outcome, of a call of the tool that is named beside it."""
    calls: Sequence[ToolCall | None] = [
        None if tool is None else sample_call(order, tool) for order, (tool, _) in enumerate(outcomes)
    ]
    trajectory = replace(
        sample_trajectory(*(call for call in calls if call is not None)),
        trace_id=trace_id,
        conversation_id=conversation_id,
        service=service,
        start_ns=start_ns,
        resource={} if environment is None else {"deployment.environment.name": environment},
    )
    results = tuple(
        Result(
            "default.tool_success",
            "0123456789ab",
            "tool_success",
            "1",
            level,
            "live",
            outcome,
            target=None if call is None else call.span,
            call=call,
        )
        for call, (_, outcome) in zip(calls, outcomes, strict=True)
    )
    return Scorecard(trajectory=trajectory, results=results, scored_at_ns=start_ns)
