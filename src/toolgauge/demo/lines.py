"""The demo's destination, and the lines that the demo prints.

Each phase and the summary fit a screen of 24 lines of 80 columns: one line a run, and one for each failure.
"""

# pyright: reportUnknownMemberType=false

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

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
from toolgauge.model.trajectory import Trajectory
from toolgauge.report.explanations import VerdictWriter, comparison
from toolgauge.report.terminal import PLAIN, Style, counted, outcome_styled, printable, shortened
from toolgauge.report.text import TextWriter

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
_BAD = ("fail", "error")
# A dashboard would show all of it; on a terminal the totals are enough.
_TOTALS = ("toolgauge_spans_total", "toolgauge_trajectories_total")


def heading(text: str, style: Style = PLAIN) -> Iterator[str]:
    """Begin a part of the output."""
    yield from ("", style.head(text), style.aside("=" * len(text)))


class ScorecardLines:
    """Shows runs by their results. `page_url` is the address of a run's page, empty without a web view."""

    def __init__(
        self, redactor: Redactor, style: Style = PLAIN, page_url: Callable[[Trajectory], str] = lambda _trajectory: ""
    ) -> None:
        # What differs is compared where there is an expected value.
        self._results = TextWriter(Redactor(show_values=False))
        self._verdicts = VerdictWriter(redactor, {})
        self._style = style
        self._page_url = page_url

    def lines(self, scorecard: Scorecard, origin: str) -> Iterator[str]:
        """Show one; `origin` names the framework that made it. On a terminal it is a link to the run's page."""
        url = self._page_url(scorecard.trajectory)
        name = self._style.head(shortened(origin, _MAX_ORIGIN))
        calls = counted(len(scorecard.trajectory.calls), "call")
        yield f"{self._style.link(name, url) if self._style.colour else name}: {calls}; {self.counts([scorecard])}"
        failures = list(self.failure_lines([scorecard]))
        yield from failures
        if failures and url and not self._style.colour:
            yield f"  {printable(url)}"

    def counts(self, scorecards: Iterable[Scorecard]) -> str:
        """Count results by outcome."""
        words = Counter(outcome_word(result.outcome) for card in scorecards for result in card.results)
        return ", ".join(
            outcome_styled(self._style, word, f"{words[word]} {shown}") for word, shown in _WORDS.items() if words[word]
        )

    def failure_lines(self, scorecards: Iterable[Scorecard]) -> Iterator[str]:
        """Show failures, each on a line of the screen."""
        for result in (result for scorecard in scorecards for result in scorecard.results):
            word = outcome_word(result.outcome)
            if word in _BAD:
                differences = self._verdicts.verdict(result).differences
                compared = [difference for difference in differences if difference.expected is not None]
                why = comparison(compared[0]) if compared else self._results.why(result)
                yield _marked(self._style, _WORDS[word], f"{result.criterion}: {why}")

    def unseen_lines(self, scorecards: Iterable[Scorecard]) -> Iterator[str]:
        """Count the results that are not evaluated by reason, most frequent first, each with an example."""
        unseen: dict[Reason, list[Result]] = {}
        for result in (result for scorecard in scorecards for result in scorecard.results):
            if isinstance(result.outcome, NotEvaluated):
                unseen.setdefault(result.outcome.reason, []).append(result)
        if unseen:
            yield "not evaluated, by reason:"
        for reason, results in sorted(unseen.items(), key=lambda found: -len(found[1])):
            example = f"{results[0].criterion}: {self._results.why(results[0])}"
            yield shortened(f"  {len(results):>2} {reason}, as {example}", SCREEN_WIDTH)


def _marked(style: Style, mark: str, text: str) -> str:
    """Write a text on a line of the screen, behind a mark."""
    return f"  {style.bad(mark)}  {shortened(text, SCREEN_WIDTH - len(mark) - 4)}"


def summary_lines(
    scorecards: Sequence[Scorecard], shown: ScorecardLines, regressions: Sequence[LogRecord], style: Style = PLAIN
) -> Iterator[str]:
    """Sum up the demo: each count is followed by its items."""
    calls = counted(sum(len(card.trajectory.calls) for card in scorecards), "tool call")
    yield f"{counted(len(scorecards), 'run')} with {calls}; results: {shown.counts(scorecards)}"
    yield from shown.failure_lines(scorecards)
    yield from shown.unseen_lines(scorecards)
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


def metric_lines(exposition: str) -> Iterator[str]:
    """Pick samples: the books, and how many trajectories were closed."""
    samples = [line for line in exposition.splitlines() if not line.startswith("#")]
    yield ""
    yield f"From the metrics endpoint (OpenMetrics), of {len(samples):,} samples:"
    for line in samples:
        if line.startswith(_TOTALS) and not line.endswith(" 0.0") and len(line) < SCREEN_WIDTH - 1:
            yield f"  {printable(line)}"
