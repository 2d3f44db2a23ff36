"""What arrived at the demo's destination, and what the demo prints.

Each trajectory is shown with its scores as it closes, then what arrived at the destination. What went wrong and what could
not be evaluated stand on lines of their own, each with its reason; what passed is counted.
"""

# pyright: reportUnknownMemberType=false

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from toolgauge.export.explanations import ShownDifference, VerdictWriter, comparison
from toolgauge.export.redact import Redactor
from toolgauge.export.regression_events import EVENT_NAME as REGRESSION
from toolgauge.model.delivery import Accepted, Answer, Signal
from toolgauge.model.outcomes import (
    Errored,
    NotEvaluated,
    OutcomeWord,
    Reason,
    Result,
    Scorecard,
    Scored,
    outcome_word,
)
from toolgauge.offline.replay.descriptions import trajectory_lines
from toolgauge.offline.replay.result_lines import ResultLines, outcome_styled
from toolgauge.offline.replay.shown_values import ValueWriter
from toolgauge.offline.terminal import PLAIN, Style, printable, shortened

_OURS = "toolgauge."
_OWN_SCOPE = "toolgauge"
_SCREEN_WIDTH = 80
_MAX_FAILURES = 4
_ALARM = "ALARM"
_MAX_REGRESSIONS = 2


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
    yield "pipeline. Each is shown when its trajectory is closed: the calls, then what the criteria find."
    yield ""
    yield "The criteria named default.* need no reference: did the call work, was the tool on offer, do the arguments keep"
    yield "to its schema, had the agent seen their values, does it go in circles, what became of failures, did it call a tool"
    yield "at all, how much was recorded? refund-arguments, weather-lookups and mail-arguments compare with expected calls."
    yield "What could not be looked at is not evaluated, with its reason: it is never a 0."
    yield ""


def heading(text: str, style: Style = PLAIN) -> Iterator[str]:
    """Begin a part of the output."""
    yield ""
    yield style.head(text)
    yield style.aside("=" * len(text))


class ScorecardLines:
    """Shows trajectories and their scores."""

    def __init__(self, redactor: Redactor, style: Style = PLAIN) -> None:
        self._values = ValueWriter(redactor)
        # What differs has lines of its own.
        self._results = ResultLines(Redactor(show_values=False), {})
        self._verdicts = VerdictWriter(redactor, {})
        self._style = style

    def lines(self, scorecard: Scorecard, origin: str) -> Iterator[str]:
        """Show one; `origin` names the framework that made it."""
        yield self._style.head(printable(origin))
        for line in trajectory_lines(scorecard.trajectory, self._values, self._style):
            yield f"  {line}"
        yield "    scores:"
        for criterion, results in _by_criterion(scorecard.results):
            yield from (f"      {line}" for line in self._criterion_lines(criterion, results))
        yield ""

    def failure_lines(self, scorecards: Iterable[Scorecard]) -> Iterator[str]:
        """Show the first of what failed."""
        results = (result for scorecard in scorecards for result in scorecard.results)
        failed = (result for result in results if outcome_word(result.outcome) in ("fail", "error"))
        for result in islice(failed, _MAX_FAILURES):
            word = _WORDS[outcome_word(result.outcome)]
            compared = [difference for difference in self._differences(result) if difference.expected is not None]
            why = printable(comparison(compared[0])) if compared else self._results.why(result)
            yield from _marked(self._style.bad(word), word, f"{result.criterion}: {why}")

    def _criterion_lines(self, criterion: str, results: Sequence[Result]) -> Iterator[str]:
        passed = [result for result in results if outcome_word(result.outcome) == "pass"]
        if passed and results[0].level == "call":
            yield f"{self._word('pass')}  {criterion}: {len(passed)} of {len(results)} calls"
        elif passed:
            yield f"{self._word('pass')}  {criterion}: {self._because(passed[0])}"
        unseen: Counter[Reason] = Counter()
        for result in results:
            word, outcome = outcome_word(result.outcome), result.outcome
            if isinstance(outcome, NotEvaluated):
                unseen[outcome.reason] += 1
                # Of several calls of which the same was not seen, the first stands for all.
                if unseen[outcome.reason] > 1:
                    continue
            if word != "pass":
                yield f"{self._word(word)}  {criterion}: {self._because(result)}"
                for difference in self._differences(result):
                    yield f"{'':<15}{self._style.head(printable(comparison(difference)))}"

    def _differences(self, result: Result) -> Sequence[ShownDifference]:
        return self._verdicts.verdict(result).differences

    def _word(self, word: OutcomeWord) -> str:
        return outcome_styled(self._style, word, f"{_WORDS[word]:<13}")

    def _because(self, result: Result) -> str:
        why = self._results.why(result)
        match result.outcome:
            case Scored(value=value):
                where = f" in turn {result.call.turn}" if result.call is not None else ""
                return f"{value:.2f}{where}: {why}"
            case NotEvaluated(reason=reason):
                return f"{reason}: {why}" if why else reason
            case Errored(error_type=error_type):
                return f"{printable(error_type)}: {why}"


def _marked(mark: str, unstyled: str, text: str) -> Iterator[str]:
    """Write a text on two lines of a screen at most, behind a mark."""
    indent = " " * (len(unstyled) + 4)
    lines = textwrap.wrap(shortened(text, 200), _SCREEN_WIDTH - len(indent), max_lines=2, placeholder=" …")
    for number, line in enumerate(lines):
        yield f"{indent}{line}" if number else f"  {mark}  {line}"


def _by_criterion(results: Iterable[Result]) -> Iterable[tuple[str, list[Result]]]:
    found: dict[str, list[Result]] = {}
    for result in results:
        found.setdefault(result.criterion, []).append(result)
    return found.items()


def summary_lines(
    scorecards: Sequence[Scorecard],
    failures: Iterable[str],
    arrived: Iterable[str],
    regressions: Sequence[LogRecord],
    style: Style = PLAIN,
) -> Iterator[str]:
    """Sum up the demo: on one screen of 24 lines of 80 letters, together with what to do next."""
    words = Counter(outcome_word(result.outcome) for card in scorecards for result in card.results)
    calls = sum(len(card.trajectory.calls) for card in scorecards)
    counted = ", ".join(f"{words[word]} {shown}" for word, shown in _WORDS.items() if words[word])
    yield f"{len(scorecards)} runs with {calls} tool calls; results: {counted}"
    yield from failures
    yield from arrived
    for record in regressions[:_MAX_REGRESSIONS]:
        yield from _marked(style.bad(_ALARM), _ALARM, record.body.string_value)


def next_lines(*, stays: bool) -> Iterator[str]:
    """Name what people do after the demo."""
    yield ""
    yield "What to do next:"
    if not stays:
        yield "  toolgauge demo --stay      and look at all of this in a browser"
    yield from (
        "  toolgauge serve            receive OTLP on localhost:4317 (gRPC) and 4318;",
        "                             set your agents' OTEL_EXPORTER_OTLP_ENDPOINT to it",
        "  toolgauge serve --set exporters.otlp.endpoint=HOST:PORT",
        "                             and send everything on, scores included",
        "  toolgauge replay FILE...   the scores of recorded traffic",
    )


def web_view_lines(url: str, style: Style = PLAIN) -> Iterator[str]:
    """Name the address of the web view."""
    yield f"In the web view: {style.head(url)} (Ctrl-C ends it)"
    yield ""


def books_lines(arrivals: DemoDestination, sent_spans: int) -> Iterator[str]:
    """Count what the destination has."""
    yield f"{sent_spans} spans were sent and {arrivals.spans} arrived, {len(arrivals.annotated)} of them with scores as attributes;"
    events = sum(arrivals.events.values())
    yield f"besides them {len(arrivals.scorecards)} scorecard spans, {events} evaluation events, {len(arrivals.metrics)} metrics by OTLP push."


def example_lines(arrivals: DemoDestination, style: Style = PLAIN) -> Iterator[str]:
    """Show of what arrived a span with scores and a scorecard span."""
    worst = _worst(arrivals.scorecards)
    annotated = _annotated_by(arrivals.annotated, worst) if worst is not None else None
    if annotated is not None:
        yield from heading("A tool span with its scores, as it arrived (the added attributes)", style)
        yield f"{printable(annotated.name)}  trace {annotated.trace_id.hex()}  span {annotated.span_id.hex()}"
        yield from _attribute_lines(annotated, _OURS)
    if worst is not None:
        yield from heading("The scorecard span of the same trace, as it arrived", style)
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
