"""The demo's destination, and the lines that the demo prints.

Each phase and the summary fit a screen of 24 lines of 80 columns: one line a run, and one for each failure.
"""

# pyright: reportUnknownMemberType=false

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from toolgauge.export.redact import Redactor
from toolgauge.export.regression_events import EVENT_NAME as REGRESSION
from toolgauge.model.delivery import Accepted, Answer, Signal
from toolgauge.model.outcomes import NotEvaluated, OutcomeWord, Reason, Result, Scorecard, outcome_word
from toolgauge.report.explanations import brief_reason, failures
from toolgauge.report.terminal import PLAIN, Style, counted, outcome_styled, printable, shortened

_OURS = "toolgauge."
_OWN_SCOPE = "toolgauge"
SCREEN_WIDTH = 80
_MAX_ORIGIN = 36
_MAX_NAME = 40
_ALARM = "ALARM"


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
                for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                    for scope in group.scope_spans:
                        if scope.scope.name == _OWN_SCOPE:
                            self.scorecards.extend(scope.spans)
                            continue
                        self.spans += len(scope.spans)
                        self.annotated.extend(
                            span for span in scope.spans if any(each.key.startswith(_OURS) for each in span.attributes)
                        )
            case "logs":
                for logs in ExportLogsServiceRequest.FromString(body).resource_logs:
                    for records in logs.scope_logs:
                        self.events.update(record.event_name for record in records.log_records)
                        began = (each for each in records.log_records if _text(each, f"{REGRESSION}.phase") == "began")
                        self.regressions.extend(began)
            case "metrics":
                for metrics in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    for scoped in metrics.scope_metrics:
                        self.metrics.update(metric.name for metric in scoped.metrics)
            case "scores":
                """Go to backends alone."""
        return Accepted()


_WORDS: Mapping[OutcomeWord, str] = {"pass": "pass", "fail": "FAIL", "not_evaluated": "not evaluated", "error": "ERROR"}


def heading(text: str, style: Style = PLAIN) -> Iterator[str]:
    """Begin a part of the output."""
    yield from ("", style.head(text), style.aside("=" * len(text)))


def run_lines(
    scorecard: Scorecard, origin: str, redactor: Redactor, style: Style = PLAIN, url: str = ""
) -> Iterator[str]:
    """Show a run by its results. `origin` names the framework that made it; `url` is the address of its page, a link on a terminal."""
    name = style.head(shortened(origin, _MAX_ORIGIN))
    calls = counted(len(scorecard.trajectory.calls), "call")
    yield f"{style.link(name, url) if style.colour else name}: {calls}; {_counts([scorecard], style)}"
    failed = list(_failure_lines([scorecard], redactor, style))
    yield from failed
    if failed and url and not style.colour:
        yield f"  {printable(url)}"


def _counts(scorecards: Iterable[Scorecard], style: Style) -> str:
    """Count results by outcome."""
    words = Counter(outcome_word(result.outcome) for card in scorecards for result in card.results)
    return ", ".join(
        outcome_styled(style, word, f"{words[word]} {shown}") for word, shown in _WORDS.items() if words[word]
    )


def _failure_lines(scorecards: Iterable[Scorecard], redactor: Redactor, style: Style) -> Iterator[str]:
    """Show failures, each on a line of the screen."""
    for result in (result for scorecard in scorecards for result in failures(scorecard.results)):
        reason = f"{result.criterion}: {brief_reason(result.outcome, redactor)}"
        yield _marked(style, _WORDS[outcome_word(result.outcome)], reason)


def _marked(style: Style, mark: str, text: str) -> str:
    """Write a text on a line of the screen, behind a mark."""
    return f"  {style.bad(mark)}  {shortened(text, SCREEN_WIDTH - len(mark) - 4)}"


def summary_lines(
    scorecards: Sequence[Scorecard], redactor: Redactor, regressions: Sequence[LogRecord], style: Style = PLAIN
) -> Iterator[str]:
    """Sum up the demo: each count is followed by its items, those that are not evaluated by reason."""
    calls = counted(sum(len(card.trajectory.calls) for card in scorecards), "tool call")
    yield f"{counted(len(scorecards), 'run')} with {calls}; results: {_counts(scorecards, style)}"
    yield from _failure_lines(scorecards, redactor, style)
    unseen: dict[Reason, list[Result]] = {}
    for result in (result for scorecard in scorecards for result in scorecard.results):
        if isinstance(result.outcome, NotEvaluated):
            unseen.setdefault(result.outcome.reason, []).append(result)
    if unseen:
        yield "not evaluated, by reason:"
    for reason, (first, *others) in sorted(unseen.items(), key=lambda found: -len(found[1])):
        example = f"{first.criterion}: {brief_reason(first.outcome, redactor)}"
        yield shortened(f"  {len(others) + 1:>2} {reason}, as {example}", SCREEN_WIDTH)
    if regressions:
        yield f"{counted(len(regressions), 'alarm')} (in Prometheus the alert ToolgaugeQualityRegression):"
    for record in regressions:
        values = {each.key: each.value for each in record.attributes}
        baseline, current = (
            f"{values[f'toolgauge.regression.{name}'].double_value:.2f}" for name in ("baseline", "current")
        )
        criterion, tool = (_text(record, f"gen_ai.{name}.name") for name in ("evaluation", "tool"))
        yield _marked(style, _ALARM, f"{criterion} of {tool or 'all tools'} fell from {baseline} to {current}")


def books_lines(arrivals: DemoDestination, sent_spans: int) -> Iterator[str]:
    """Count the spans, events and metrics at the destination."""
    yield f"{sent_spans} spans were sent and {arrivals.spans} arrived, {len(arrivals.annotated)} of them with scores as attributes;"
    events = sum(arrivals.events.values())
    yield f"besides them {len(arrivals.scorecards)} scorecard spans, {events} evaluation events, {len(arrivals.metrics)} metrics by OTLP push."


def example_lines(arrivals: DemoDestination) -> Iterator[str]:
    """Show the attributes that one tool span was given, and the size of its scorecard span."""
    # The scorecard with the largest share of failures among its judged calls.
    if not arrivals.scorecards:
        return
    worst = max(
        arrivals.scorecards,
        key=lambda card: (
            sum(_text(event, "toolgauge.outcome") == "fail" for event in card.events) / max(1, len(card.events))
        ),
    )
    linked = {(worst.trace_id, link.span_id) for link in worst.links}
    annotated = next((span for span in arrivals.annotated if (span.trace_id, span.span_id) in linked), None)
    if annotated is None:
        return
    yield ""
    yield f"What the span `{shortened(annotated.name, _MAX_NAME)}` was given:"
    for attribute in annotated.attributes:
        if attribute.key.startswith(_OURS):
            yield shortened(f"  {attribute.key} = {_value(attribute.value)}", SCREEN_WIDTH)
    yield f"The span `{worst.name}` of its trace sums the run up in {len(worst.attributes)} attributes."


def _text(holder: Span.Event | LogRecord, key: str) -> str:
    return next((_value(attribute.value) for attribute in holder.attributes if attribute.key == key), "")


def _value(value: AnyValue) -> str:
    kind = value.WhichOneof("value")
    return printable(str(getattr(value, kind))) if kind else ""
