"""What arrived at the demo's destination, and what the demo prints.

Each trajectory is shown with its scores as it closes, then what arrived at the destination. What went wrong and what could
not be evaluated stand on lines of their own, each with its reason; what passed is counted.
"""

# pyright: reportUnknownMemberType=false

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from toolgauge.export.regression_events import EVENT_NAME as REGRESSION
from toolgauge.model.delivery import Accepted, Answer, Signal
from toolgauge.model.outcomes import Errored, NotEvaluated, Reason, Result, Scorecard, Scored, outcome_word
from toolgauge.offline.replay.descriptions import trajectory_lines
from toolgauge.offline.terminal import printable

_OURS = "toolgauge."
_OWN_SCOPE = "toolgauge"


class DemoDestination:
    """A `model.delivery.Consumer` at the far end of the pipeline."""

    def __init__(self) -> None:
        self.spans = 0
        self.annotated: list[Span] = []
        self.scorecards: list[Span] = []
        self.events: Counter[str] = Counter()
        self.regressions: list[LogRecord] = []
        self.metrics: set[str] = set()

    async def consume(self, signal: Signal, body: bytes, sender: str | None) -> Answer:
        """Take one request."""
        del sender
        match signal:
            case "traces":
                self._take_spans(ExportTraceServiceRequest.FromString(body))
            case "logs":
                self._take_events(ExportLogsServiceRequest.FromString(body))
            case "metrics":
                self._take_metrics(ExportMetricsServiceRequest.FromString(body))
        return Accepted()

    def _take_spans(self, request: ExportTraceServiceRequest) -> None:
        for group in request.resource_spans:
            for scope in group.scope_spans:
                if scope.scope.name == _OWN_SCOPE:
                    self.scorecards.extend(scope.spans)
                    continue
                self.spans += len(scope.spans)
                self.annotated.extend(span for span in scope.spans if _is_annotated(span))

    def _take_events(self, request: ExportLogsServiceRequest) -> None:
        for group in request.resource_logs:
            for scope in group.scope_logs:
                self.events.update(record.event_name for record in scope.log_records)
                self.regressions.extend(each for each in scope.log_records if each.event_name == REGRESSION)

    def _take_metrics(self, request: ExportMetricsServiceRequest) -> None:
        for group in request.resource_metrics:
            for scope in group.scope_metrics:
                self.metrics.update(metric.name for metric in scope.metrics)


def _is_annotated(span: Span) -> bool:
    return any(attribute.key.startswith(_OURS) for attribute in span.attributes)


_WORDS = {"pass": "pass", "fail": "FAIL", "not_evaluated": "not evaluated", "error": "ERROR"}
# A dashboard would show all of it; on a terminal the samples that say something new are enough.
_TOTALS = ("toolgauge_spans_total", "toolgauge_trajectories_total")
_FAILED = ('toolgauge_outcome="fail"', 'toolgauge_outcome="not_evaluated"', 'toolgauge_outcome="error"')


def introduction(runs: int, frameworks: int) -> Iterator[str]:
    """Introduce the demo."""
    yield f"{runs} recorded runs of {frameworks} agent frameworks, sent as OTLP (gRPC and HTTP) into a running"
    yield "pipeline. Each is shown when its trajectory closes: the calls, then what the criteria say."
    yield ""
    yield "The criteria named default.* need no reference: did the call work, was the tool on offer, do the arguments keep"
    yield "to its schema, had the agent seen their values, does it go in circles, what became of failures, did it call a tool"
    yield "at all, how much was recorded? refund-arguments, weather-lookups and mail-arguments compare with expected calls."
    yield ""


def heading(text: str) -> Iterator[str]:
    """Begin a part of the output."""
    yield ""
    yield text
    yield "=" * len(text)


def scorecard_lines(scorecard: Scorecard, origin: str) -> Iterator[str]:
    """Show a trajectory and its scores; `origin` names the framework that made it."""
    yield f"{printable(origin)}"
    for line in trajectory_lines(scorecard.trajectory):
        yield f"  {line}"
    yield "    scores:"
    for criterion, results in _by_criterion(scorecard.results):
        yield from (f"      {line}" for line in _criterion_lines(criterion, results))
    yield ""


def _by_criterion(results: Iterable[Result]) -> Iterable[tuple[str, list[Result]]]:
    found: dict[str, list[Result]] = {}
    for result in results:
        found.setdefault(result.criterion, []).append(result)
    return found.items()


def _criterion_lines(criterion: str, results: Sequence[Result]) -> Iterator[str]:
    passed = [result for result in results if outcome_word(result.outcome) == "pass"]
    if passed and results[0].level == "call":
        yield f"{_WORDS['pass']:<13}  {criterion}: {len(passed)} of {len(results)} calls"
    elif passed:
        yield f"{_WORDS['pass']:<13}  {criterion}: {_because(passed[0])}"
    unseen: Counter[Reason] = Counter()
    for result in results:
        word, outcome = outcome_word(result.outcome), result.outcome
        if isinstance(outcome, NotEvaluated):
            unseen[outcome.reason] += 1
            # Of several calls of which the same was not seen, the first stands for all.
            if unseen[outcome.reason] > 1:
                continue
        if word != "pass":
            yield f"{_WORDS[word]:<13}  {criterion}: {_because(result)}"


def _because(result: Result) -> str:
    match result.outcome:
        case Scored(value=value, explanation=explanation):
            where = f" in turn {result.call.turn}" if result.call is not None else ""
            return f"{value:.2f}{where}: {printable(explanation)}"
        case NotEvaluated(reason=reason, explanation=explanation):
            return f"{reason}: {printable(explanation)}" if explanation else reason
        case Errored(error_type=error_type, message=message):
            return f"{error_type}: {printable(message)}"


def summary_lines(scorecards: Sequence[Scorecard]) -> Iterator[str]:
    """Count what was found."""
    words = Counter(outcome_word(result.outcome) for card in scorecards for result in card.results)
    calls = sum(len(card.trajectory.calls) for card in scorecards)
    counted = ", ".join(f"{words[word]} {shown}" for word, shown in _WORDS.items() if words[word])
    yield f"{len(scorecards)} trajectories with {calls} tool calls; results: {counted}."
    yield "A result that could not be looked at is not evaluated, with its reason: it is never a 0."


def arrival_lines(arrivals: DemoDestination, sent_spans: int) -> Iterator[str]:
    """Show what the destination has: the books, a span with scores, a scorecard span."""
    yield f"{sent_spans} spans were sent and {arrivals.spans} arrived, {len(arrivals.annotated)} of them with scores as"
    yield f"attributes; besides them {len(arrivals.scorecards)} scorecard spans, {sum(arrivals.events.values())} evaluation"
    yield f"events (log records), and {len(arrivals.metrics)} metrics by OTLP push."
    worst = _worst(arrivals.scorecards)
    annotated = _annotated_by(arrivals.annotated, worst) if worst is not None else None
    if annotated is not None:
        yield from heading("A tool span with its scores, as it arrived (the added attributes)")
        yield f"{printable(annotated.name)}  trace {annotated.trace_id.hex()}  span {annotated.span_id.hex()}"
        yield from _attribute_lines(annotated, _OURS)
    if worst is not None:
        yield from heading("The scorecard span of the same trace, as it arrived")
        yield from _scorecard_span_lines(worst)


def _worst(scorecards: Sequence[Span]) -> Span | None:
    """Choose the scorecard with the largest share of failures among its judged calls."""
    return max(scorecards, key=lambda span: sum(map(_is_failure, span.events)) / (len(span.events) or 1), default=None)


def _annotated_by(spans: Sequence[Span], scorecard: Span) -> Span | None:
    linked = {link.span_id for link in scorecard.links}
    return next((span for span in spans if span.trace_id == scorecard.trace_id and span.span_id in linked), None)


def _is_failure(event: Span.Event) -> bool:
    return _text(event, "toolgauge.outcome") == "fail"


def _scorecard_span_lines(span: Span) -> Iterator[str]:
    yield f"{span.name}  parent {span.parent_span_id.hex()}  links to {len(span.links)} judged spans"
    yield from _attribute_lines(span, "")
    for event in span.events:
        names = (_text(event, "gen_ai.evaluation.name"), _text(event, "gen_ai.tool.name"))
        outcome = f"{_text(event, 'toolgauge.outcome')} {_text(event, 'gen_ai.evaluation.score.value')}"
        yield f"  event {event.name}: {' '.join(names)}: {outcome}"


def _attribute_lines(span: Span, prefix: str) -> Iterator[str]:
    for attribute in span.attributes:
        if attribute.key.startswith(prefix):
            yield f"  {attribute.key} = {_value(attribute.value)}"


def _text(event: Span.Event, key: str) -> str:
    return next((_value(attribute.value) for attribute in event.attributes if attribute.key == key), "")


def _value(value: AnyValue) -> str:
    kind = value.WhichOneof("value")
    return printable(str(getattr(value, kind))) if kind else ""


def metric_lines(exposition: str) -> Iterator[str]:
    """Pick samples: the books, what did not pass, and where an exemplar leads from a score to its span."""
    samples = [line for line in exposition.splitlines() if not line.startswith("#")]
    for line in samples:
        is_failure = line.startswith("toolgauge_evaluations_total") and any(label in line for label in _FAILED)
        has_counted = not line.partition(" # ")[0].endswith(" 0.0")
        if has_counted and (is_failure or line.startswith(_TOTALS)):
            yield printable(line)
    with_exemplar = next((line for line in samples if "_bucket" in line and " # {" in line), None)
    if with_exemplar is not None:
        yield printable(with_exemplar)
    yield f"... {len(samples)} samples in all"
