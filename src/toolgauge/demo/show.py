"""What the demo prints: trajectories with their scores as they close, then what arrived at the destination."""

# pyright: reportUnknownMemberType=false

from collections.abc import Iterator

from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from toolgauge.demo.arrivals import Arrivals
from toolgauge.model.outcomes import Errored, NotEvaluated, Result, Scorecard, Scored
from toolgauge.replay.describe import printable, trajectory_lines

_METRICS = ("toolgauge_evaluations_total", "toolgauge_spans_total", "toolgauge_trajectories_total")


def scorecard_lines(scorecard: Scorecard) -> Iterator[str]:
    """Show a trajectory, then what is wrong in it and what could not be looked at."""
    yield from trajectory_lines(scorecard.trajectory)
    passed = [result for result in scorecard.results if _passed(result)]
    if passed:
        yield f"  pass  {', '.join(sorted({result.criterion for result in passed}))} ({len(passed)} results)"
    for result in scorecard.results:
        if not _passed(result):
            yield f"  {_verdict(result)}"
    yield ""


def _passed(result: Result) -> bool:
    return isinstance(result.outcome, Scored) and bool(result.outcome.passed)


def _verdict(result: Result) -> str:
    match result.outcome:
        case Scored(value=value, explanation=explanation):
            return f"FAIL  {result.criterion} {value:.2f}: {printable(explanation)}"
        case NotEvaluated(reason=reason, explanation=explanation):
            tail = f": {printable(explanation)}" if explanation else ""
            return f"----  {result.criterion} not evaluated ({reason}){tail}"
        case Errored(error_type=error_type, message=message):
            return f"ERR   {result.criterion} {error_type}: {printable(message)}"


def arrival_lines(arrivals: Arrivals, sent_spans: int) -> Iterator[str]:
    """Show what the destination has: the books, an annotated span, a scorecard span."""
    yield f"{sent_spans} spans were sent, {arrivals.spans} arrived at the destination, and besides them"
    yield f"  {len(arrivals.annotated)} of these spans with scores as attributes"
    yield f"  {len(arrivals.scorecards)} scorecard spans, {sum(arrivals.events.values())} evaluation events"
    yield f"  {len(arrivals.metrics)} metrics"
    worst = _worst(arrivals.scorecards)
    if worst is not None:
        yield ""
        yield "A scorecard span as it arrived:"
        yield from _span_lines(worst)


def metric_lines(exposition: str) -> Iterator[str]:
    """Pick the samples of the metrics that a dashboard starts with."""
    for line in exposition.splitlines():
        if line.startswith(_METRICS):
            yield f"  {line}"


def _worst(scorecards: list[Span]) -> Span | None:
    failing = [span for span in scorecards if any(_is_failure(span, index) for index in range(len(span.events)))]
    return max(failing or scorecards, key=lambda span: len(span.events), default=None)


def _is_failure(span: Span, index: int) -> bool:
    return any(
        attribute.key == "toolgauge.outcome" and attribute.value.string_value == "fail"
        for attribute in span.events[index].attributes
    )


def _span_lines(span: Span) -> Iterator[str]:
    yield f"  {span.name}  trace {span.trace_id.hex()}  parent {span.parent_span_id.hex()}  {len(span.links)} links"
    for attribute in span.attributes:
        yield f"    {attribute.key} = {_value(attribute.value)}"
    for event in span.events:
        yield f"    event {event.name}"
        for attribute in event.attributes:
            yield f"      {attribute.key} = {_value(attribute.value)}"


def _value(value: AnyValue) -> str:
    kind = value.WhichOneof("value")
    return printable(str(getattr(value, kind))) if kind else ""
