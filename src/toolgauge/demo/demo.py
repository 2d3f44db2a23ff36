"""The demo: recorded traffic of several frameworks through a real pipeline, over loopback ports that the system picks.

A release with a healthy agent and a worse one follows, until `toolgauge.regression` arrives at the destination. Each phase
and the summary fit a screen of 24 lines of 80 columns: one line a run, and one for each failure.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import asyncio
import itertools
import logging
import shutil
import sys
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path

import aiohttp
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from toolgauge.config.model import Config, Web
from toolgauge.demo.sample_sender import HEALTHY, WORSE, Recording, Release, drawn, moved_to, recordings, spans
from toolgauge.export.redact import Redactor
from toolgauge.export.regression_events import EVENT_NAME as REGRESSION
from toolgauge.model.delivery import Accepted, Answer, Signal
from toolgauge.model.errors import StartError
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.outcomes import NotEvaluated, OutcomeWord, Reason, Result, Scorecard, outcome_word
from toolgauge.net.listen import check_endpoints
from toolgauge.otlp.envelope import count_items
from toolgauge.pipeline.stages import ObservedSink
from toolgauge.receive.grpc import GrpcReceiver
from toolgauge.receive.settings import GrpcSettings
from toolgauge.report.explanations import brief_reason, failures
from toolgauge.report.terminal import PLAIN, Style, counted, outcome_styled, printable, shortened
from toolgauge.score.criterion import Criterion
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.criteria_factory import load_for_replay
from toolgauge.service.process import handle_stop_signals
from toolgauge.service.reload import Reloader
from toolgauge.service.service import Service
from toolgauge.web.view import WebView

# The recordings are samples without anything personal.
_SHOWN = Redactor(show_values=True)
_PROTOBUF = {"Content-Type": "application/x-protobuf"}
_MAX_MESSAGE_BYTES = 16 << 20
_LONGEST_S = 20.0
_BETWEEN_REQUESTS_S = 0.1
_BETWEEN_RECORDINGS_S = 0.25
# The most telling runs come first: a refund of the wrong amount, a tool that does not exist, a payment that failed.
_FIRST = (
    ("openinference-langgraph", "sequence"),
    ("pydantic-ai", "unknown_tool"),
    ("openinference-langgraph", "error"),
)
# Of the release: conversations, their pace, and the agent whose runs are drawn, runs that list orders twice as often.
_SEED = 8
_HEALTHY, _MOST_WORSE, _PER_SECOND = 180, 150, 30
_LONGEST_WAIT_S = 4.0
_DRAWN = (("openinference-langgraph", "sequence", 2), ("openinference-crewai", "retry", 1))
_CRITERIA = """\
Criteria named default.* need no reference; the others compare with expected
calls. What could not be looked at is not evaluated, which is never a 0.
"""
_STAY = ("demo --stay", "look at all of this in a browser")
_NEXT = (
    ("serve", "receive OTLP on localhost:4317 (gRPC) and 4318"),
    ("check FILE...", "score recorded traffic"),
)
_RELEASE = f"""\
A detector needs many conversations: these are drawn with replacement from
recorded runs of `shop_agent`. The failures of version 1.1 are made up:
{WORSE.failures_by_tool["list_orders"]:.0%} of its calls of `list_orders` fail, {HEALTHY.failures:.0%} of all other calls.
Refunds then name orders that no result has shown.
"""
# Each takes three lines of the screen.
_MOST_ALARMS = 3
_OURS, _OWN_SCOPE = "toolgauge.", "toolgauge"
SCREEN_WIDTH = 80
_MAX_ORIGIN, _MAX_NAME = 36, 40
_ALARM = "ALARM"
_WORDS: Mapping[OutcomeWord, str] = {"pass": "pass", "fail": "FAIL", "not_evaluated": "not evaluated", "error": "ERROR"}


@dataclass(slots=True)
class DemoDestination:
    """A `model.delivery.Consumer` at the far end of the pipeline."""

    spans: int = 0
    annotated: list[Span] = field(default_factory=list[Span])
    scorecards: list[Span] = field(default_factory=list[Span])
    events: Counter[str] = field(default_factory=Counter[str])
    regressions: list[LogRecord] = field(default_factory=list[LogRecord])
    metrics: set[str] = field(default_factory=set[str])

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


async def run(print_line: Callable[[str], None], *, regression: bool, stay: bool = False, style: Style = PLAIN) -> None:
    """Send, score and show; with `regression`, a worse release, too; with `stay` in the web view until an interrupt."""
    # What a service logs has no place among the lines of the demo.
    logging.getLogger("toolgauge").addHandler(logging.NullHandler())
    arrivals = DemoDestination()
    destination = GrpcReceiver(
        arrivals,
        GrpcSettings(endpoint="127.0.0.1:0", max_recv_msg_size=_MAX_MESSAGE_BYTES),
        metrics=SelfMetrics(MetricRegistry()),
        hop_id="demo-destination",
    )
    view = None
    if stay:
        web = Web()
        try:
            check_endpoints({"web.endpoint": web.endpoint})
        except StartError:
            web = Web(endpoint="localhost:0")
        view = WebView(web, _SHOWN, None)
    seen: list[Scorecard] = []
    await destination.start()
    try:
        # For verdicts, and for criteria that are adopted.
        with tempfile.TemporaryDirectory(prefix="toolgauge-demo-") as state:
            service, reloader = _service(destination.port, seen, view, state)
            if view is not None:
                await view.start(service, reloader.ask)
            await service.start()
            try:
                async with aiohttp.ClientSession(f"http://127.0.0.1:{service.receivers[1].port}") as http:
                    demo = _Demo(service, http, arrivals, seen, view, print_line, style)
                    await demo.show(regression=regression)
            finally:
                await service.stop()
                if view is not None:
                    await view.stop()
    finally:
        await destination.stop(1)


def _service(
    destination_port: int, seen: list[Scorecard], view: WebView | None, state: str
) -> tuple[Service, Reloader]:
    overrides = (
        f"state.directory={state}",
        "receivers.otlp.protocols.grpc.endpoint=127.0.0.1:0",
        "receivers.otlp.protocols.http.endpoint=127.0.0.1:0",
        "exporters.prometheus.endpoint=127.0.0.1:0",
        "admin.endpoint=127.0.0.1:0",
        f"exporters.otlp.endpoint=127.0.0.1:{destination_port}",
        "assemble.run_end_grace=500ms",
        "assemble.idle_timeout=1500ms",
        "assemble.open_idle_timeout=1500ms",
        "metrics.interval=1s",
        "watch.conversation_idle=2s",
        "watch.baseline_min=60",
        # Hundreds of conversations in seconds are a rate at which one a week would ask for very long run lengths.
        "watch.false_alarms_per_week=4",
        # Habits take longer to learn than anybody watches a demo.
        "watch.behaviour=off",
        "redact.values=show",
    )

    def load() -> tuple[Config, tuple[Criterion, ...]]:
        with as_file(files("toolgauge.demo") / "criteria.yaml") as criteria_file:
            return load_for_replay((), overrides, (str(criteria_file),), {})

    config, criteria = load()
    shows = [seen.append] if view is None else [seen.append, view.show]
    service = Service(config, criteria, observing=lambda sink: ObservedSink(sink, *shows))
    return service, Reloader(service, config, criteria, load=load, adopt_view=lambda _config, _criteria: None)


@dataclass(frozen=True, slots=True)
class _Demo:
    """The running parts. `seen` collects scorecards, `arrivals` is the destination."""

    service: Service
    http: aiohttp.ClientSession
    arrivals: DemoDestination
    seen: Sequence[Scorecard]
    view: WebView | None
    print_line: Callable[[str], None]
    style: Style

    async def show(self, *, regression: bool) -> None:
        recorded, view, style = recordings(), self.view, self.style
        order = {named: place for place, named in enumerate(_FIRST)}
        sent = sorted(recorded, key=lambda one: order.get((one.framework, one.scenario), len(order)))
        frameworks = len({recording.framework for recording in sent})
        self.print_line(
            f"{len(sent)} recorded runs of {frameworks} agent frameworks go as OTLP into a running pipeline, which"
        )
        self.print_line("scores their tool calls, sends them on, and watches the scores for a drop.")
        address = "" if view is None else f"In the web view: {style.head(view.url)} (Ctrl-C ends it)"
        self._print(filter(None, (address,)))
        self._print((*heading("Runs and their scores", style), _CRITERIA))
        await self._send_and_score(sent)
        # The summary is about the recordings, not about the release drawn from them.
        closed = {scorecard.trajectory.trace_id: scorecard for scorecard in self.seen}
        judged = tuple(closed[trace_id] for trace_id in _origins(sent) if trace_id in closed)
        sent_spans = sum(count_items(body) for recording in sent for body in recording.requests)
        self._print(heading("What arrived at the destination", style))
        self._print(arrival_lines(self.arrivals, sent_spans))
        regressions = await self._show_release(recorded) if regression else ()
        self._print((*heading("Summary", style), *summary_lines(judged, _SHOWN, regressions, style)))
        # The command as it was called: an environment need not be on the search path.
        called = Path(sys.argv[0])
        is_found = called.name != "toolgauge" or shutil.which("toolgauge") == str(called.absolute())
        self.print_line("\nWhat to do next:")
        for words, purpose in (*((_STAY,) if view is None else ()), *_NEXT):
            self.print_line(f"  {'toolgauge' if is_found else called} {words:<16}{purpose}")
        if view is not None:
            interrupted = asyncio.Event()
            handle_stop_signals(interrupted.set)
            self.print_line(address)
            await interrupted.wait()

    def _print(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.print_line(line)

    async def _send_and_score(self, sent: Sequence[Recording]) -> None:
        """Send all recordings, and show their scores in that order."""
        sending = asyncio.create_task(self._send_all(sent))
        waiting = _origins(sent)
        until = time.monotonic() + _LONGEST_S
        try:
            spans = self.service.metrics.spans_queued
            while waiting or self.service.pipeline.admission.spans_held + sum(spans.current().values()):
                closed = {scorecard.trajectory.trace_id: scorecard for scorecard in self.seen}
                while waiting and (trace_id := next(iter(waiting))) in closed:
                    url = "" if self.view is None else self.view.page_url(closed[trace_id].trajectory)
                    self._print(run_lines(closed[trace_id], waiting.pop(trace_id), _SHOWN, self.style, url))
                if time.monotonic() > until:
                    scored = len(sent) - len(waiting)
                    self.print_line(f"{scored} of {len(sent)} runs were scored within {_LONGEST_S:.0f} s")
                    break
                await asyncio.sleep(0.1)
            await sending
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _send_all(self, sent: Sequence[Recording]) -> None:
        """Send every recording, each on its own."""
        async with asyncio.TaskGroup() as group:

            async def send(recording: Recording) -> None:
                for body in moved_to(time.time_ns(), recording):
                    await self._post(body)
                    await asyncio.sleep(_BETWEEN_REQUESTS_S)

            for recording in sent:
                group.create_task(send(recording))
                await asyncio.sleep(_BETWEEN_RECORDINGS_S)

    async def _show_release(self, recorded: Sequence[Recording]) -> Sequence[LogRecord]:
        """Send a healthy release and a worse one over HTTP; show the regressions that arrive, and return them."""
        self._print(heading("A release: a healthy agent, then a worse one", self.style))
        self.print_line(_RELEASE)
        chosen = [
            each
            for each in recorded
            for framework, scenario, times in _DRAWN
            for _ in range(times)
            if (each.framework, each.scenario) == (framework, scenario)
        ]
        arrivals = self.arrivals
        await self._send_release(chosen, HEALTHY, _HEALTHY, lambda: False)
        self.print_line(f"version {HEALTHY.version}: {_HEALTHY} conversations, {_count(arrivals.regressions)}")
        sent = await self._send_release(chosen, WORSE, _MOST_WORSE, lambda: bool(arrivals.regressions))
        until = time.monotonic() + _LONGEST_WAIT_S
        while not arrivals.regressions and time.monotonic() < until:
            await asyncio.sleep(0.05)
        regressions = tuple(arrivals.regressions)
        self.print_line(f"version {WORSE.version}: {sent} conversations, {_count(regressions)}")
        self._print(_regression_lines(regressions, self.style, "" if self.view is None else self.view.url))
        return regressions

    async def _send_release(
        self, chosen: Sequence[Recording], release: Release, count: int, is_enough: Callable[[], bool]
    ) -> int:
        """Send so many conversations at a steady pace, or fewer; return how many."""
        due = time.monotonic()
        bodies = drawn(chosen, release, seed=_SEED, clock=time.time_ns)
        for number, body in enumerate(itertools.islice(bodies, count)):
            if is_enough():
                return number
            await self._post(body)
            due += 1 / _PER_SECOND
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        return count

    async def _post(self, body: bytes) -> None:
        async with self.http.post("/v1/traces", data=body, headers=_PROTOBUF, raise_for_status=True):
            pass


def _origins(recorded: Sequence[Recording]) -> dict[str, str]:
    """Map each trace id, in hex, to its framework and scenario."""
    return {
        span.trace_id.hex(): f"{recording.framework}, {recording.scenario}"
        for recording in recorded
        for body in recording.requests
        for span in spans(ExportTraceServiceRequest.FromString(body))
    }


def _count(regressions: Sequence[LogRecord]) -> str:
    return counted(len(regressions), "alarm") if regressions else "no alarm"


def _regression_lines(regressions: Sequence[LogRecord], style: Style, web_url: str) -> Iterator[str]:
    if not regressions:
        return
    yield ""
    yield "As they arrived (events `toolgauge.regression`; a drop looks larger at first):"
    for record in regressions[:_MOST_ALARMS]:
        values = {each.key.removeprefix("toolgauge.regression."): each.value for each in record.attributes}
        sentence = textwrap.wrap(printable(record.body.string_value), SCREEN_WIDTH, max_lines=2, placeholder=" …")
        yield from map(style.bad, sentence)
        causes = values["cause.summary"].array_value.values if "cause.summary" in values else ()
        for cause in causes[:1]:
            yield from textwrap.wrap(printable(cause.string_value), SCREEN_WIDTH, initial_indent="  ", max_lines=3)
        traces = values["traces.after"].array_value.values if "traces.after" in values else ()
        for trace_id in (printable(each.string_value) for each in traces[:1]):
            yield f"  worst: {style.link(trace_id, f'{web_url}/trajectories/{trace_id}' if web_url else '')}"
    if len(regressions) > _MOST_ALARMS:
        yield f"and {len(regressions) - _MOST_ALARMS} more, in the summary"


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
    """Sum up the demo: each count is followed by its items, unevaluated results by reason."""
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


def arrival_lines(arrivals: DemoDestination, sent_spans: int) -> Iterator[str]:
    """Count the spans, events and metrics at the destination; show the attributes that one tool span was given, and its scorecard span."""
    yield f"{sent_spans} spans were sent and {arrivals.spans} arrived, {len(arrivals.annotated)} of them with scores as attributes;"
    events = sum(arrivals.events.values())
    yield f"besides them {len(arrivals.scorecards)} scorecard spans, {events} evaluation events, {len(arrivals.metrics)} metrics by OTLP push."
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
