"""The demo: recorded traffic of several frameworks through a real pipeline, from socket to socket.

Senders, pipeline and destination talk OTLP over loopback ports that the system picks. The recordings are sent as their
frameworks did: request by request, some runs side by side, with time stamps moved to the present. Only the time-outs of
assembling are shortened, so that the demo ends by itself in well under half a minute.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import asyncio

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
import itertools
import logging
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.resources import as_file, files

import aiohttp
import grpc.aio
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from toolgauge.config.model import Web
from toolgauge.demo.drawing import EXPORT, HEALTHY, WORSE, Recording, Release, drawn, moved_to, recordings, spans
from toolgauge.demo.lines import (
    SCREEN_WIDTH,
    DemoDestination,
    ScorecardLines,
    books_lines,
    criteria_lines,
    example_lines,
    heading,
    introduction,
    metric_lines,
    next_lines,
    summary_lines,
    web_view_lines,
)
from toolgauge.export.redact import Redactor
from toolgauge.model.errors import StartError
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.outcomes import Scorecard
from toolgauge.net.listen import check_endpoints
from toolgauge.otlp.envelope import count_items
from toolgauge.pipeline.pipeline import ScorecardSink
from toolgauge.receive.grpc import GrpcReceiver
from toolgauge.receive.settings import GrpcSettings
from toolgauge.report.kept import ObservedSink
from toolgauge.report.terminal import PLAIN, Style, counted, printable
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.criteria_factory import load_for_replay
from toolgauge.service.process import handle_stop_signals
from toolgauge.service.serve import make_service
from toolgauge.service.service import Service
from toolgauge.web.view import WebView

_SEED = 8
_HEALTHY = 180
_MOST_WORSE = 150
_PER_SECOND = 30
_LONGEST_WAIT_S = 4.0
_LOOK_S = 0.05
# The agent whose recorded runs are drawn: twice as many that list orders as others.
_DRAWN = (("openinference-langgraph", "sequence", 2), ("openinference-crewai", "retry", 1))
# Each takes three lines of the screen.
_MOST_SHOWN = 3


async def show_release(
    recorded: Sequence[Recording],
    http_port: int,
    arrivals: DemoDestination,
    print_line: Callable[[str], None],
    style: Style = PLAIN,
    web_url: str = "",
) -> Sequence[LogRecord]:
    """Send both releases over HTTP; show the regressions that arrive, and return them. `web_url` is the web view's."""
    for line in (*heading("A release: a healthy agent, then a worse one", style), *_introduction()):
        print_line(line)
    chosen = [
        each
        for each in recorded
        for framework, scenario, times in _DRAWN
        for _ in range(times)
        if (each.framework, each.scenario) == (framework, scenario)
    ]
    async with aiohttp.ClientSession(f"http://127.0.0.1:{http_port}") as http:
        await _send(http, chosen, HEALTHY, _HEALTHY, lambda: False)
        print_line(f"version {HEALTHY.version}: {_HEALTHY} conversations, {_count(arrivals.regressions)}")
        sent = await _send(http, chosen, WORSE, _MOST_WORSE, lambda: bool(arrivals.regressions))
    await _arrival(arrivals)
    regressions = tuple(arrivals.regressions)
    print_line(f"version {WORSE.version}: {sent} conversations, {_count(regressions)}")
    for line in _regression_lines(regressions, style, web_url):
        print_line(line)
    return regressions


def _introduction() -> Iterator[str]:
    yield "A detector needs many conversations: these are drawn with replacement from"
    yield "recorded runs of `shop_agent`. The failures of version 1.1 are made up:"
    yield f"{WORSE.failures_by_tool['list_orders']:.0%} of its calls of `list_orders` fail, {HEALTHY.failures:.0%} of all other calls."
    yield f"One conversation in {WORSE.fault_every} invents a tool, breaks a schema or goes in circles."
    yield "Refunds then name orders that no result has shown."
    yield ""


async def _send(
    http: aiohttp.ClientSession,
    chosen: Sequence[Recording],
    release: Release,
    count: int,
    is_enough: Callable[[], bool],
) -> int:
    """Send so many conversations at a steady pace, or fewer; return how many."""
    due = time.monotonic()
    for number, body in enumerate(itertools.islice(drawn(chosen, release, seed=_SEED, clock=time.time_ns), count)):
        if is_enough():
            return number
        headers = {"Content-Type": "application/x-protobuf"}
        async with http.post("/v1/traces", data=body, headers=headers, raise_for_status=True):
            due += 1 / _PER_SECOND
        await asyncio.sleep(max(0.0, due - time.monotonic()))
    return count


async def _arrival(arrivals: DemoDestination) -> None:
    until = time.monotonic() + _LONGEST_WAIT_S
    while not arrivals.regressions and time.monotonic() < until:
        await asyncio.sleep(_LOOK_S)


def _count(regressions: Sequence[LogRecord]) -> str:
    return counted(len(regressions), "alarm") if regressions else "no alarm"


def _regression_lines(regressions: Sequence[LogRecord], style: Style, web_url: str) -> Iterator[str]:
    if not regressions:
        return
    yield ""
    yield "As they arrived (events `toolgauge.regression`; a drop looks larger at first):"
    for record in regressions[:_MOST_SHOWN]:
        values = {each.key.removeprefix("toolgauge.regression."): each.value for each in record.attributes}
        sentence = textwrap.wrap(printable(record.body.string_value), SCREEN_WIDTH, max_lines=2, placeholder=" …")
        yield from map(style.bad, sentence)
        traces = values["traces.after"].array_value.values if "traces.after" in values else ()
        for trace_id in (printable(each.string_value) for each in traces[:1]):
            yield f"  worst: {style.link(trace_id, f'{web_url}/trajectories/{trace_id}' if web_url else '')}"
    if len(regressions) > _MOST_SHOWN:
        yield f"and {len(regressions) - _MOST_SHOWN} more, in the summary"


def origins(recorded: Sequence[Recording]) -> dict[str, str]:
    """Map each trace id, in hex, to its framework and scenario."""
    return {
        span.trace_id.hex(): f"{recording.framework}, {recording.scenario}"
        for recording in recorded
        for body in recording.requests
        for span in spans(ExportTraceServiceRequest.FromString(body))
    }


# What shows most comes first: a refund of the wrong amount, a tool that does not exist, a payment that failed.
_FIRST = (
    ("openinference-langgraph", "sequence"),
    ("pydantic-ai", "unknown_tool"),
    ("openinference-langgraph", "error"),
)


def _place(recording: Recording) -> int:
    named = (recording.framework, recording.scenario)
    return _FIRST.index(named) if named in _FIRST else len(_FIRST)


_BETWEEN_REQUESTS_S = 0.1
_BETWEEN_RECORDINGS_S = 0.25


async def send_all(recordings: Sequence[Recording], grpc_port: int, http_port: int) -> None:
    """Send every recording, each on its own: the even ones over gRPC, the odd ones over HTTP."""
    async with (
        # A proxy in the environment has no part in this.
        grpc.aio.insecure_channel(f"127.0.0.1:{grpc_port}", options=(("grpc.enable_http_proxy", 0),)) as channel,
        aiohttp.ClientSession(f"http://127.0.0.1:{http_port}") as http,
        asyncio.TaskGroup() as group,
    ):
        for number, recording in enumerate(recordings):
            if number % 2:
                group.create_task(_send_http(recording, http))
            else:
                group.create_task(_send_grpc(recording, channel))
            await asyncio.sleep(_BETWEEN_RECORDINGS_S)


async def _send_grpc(recording: Recording, channel: grpc.aio.Channel) -> None:
    export = channel.unary_unary(EXPORT)
    for body in moved_to(time.time_ns(), recording):
        await export(body)
        await asyncio.sleep(_BETWEEN_REQUESTS_S)


async def _send_http(recording: Recording, http: aiohttp.ClientSession) -> None:
    for body in moved_to(time.time_ns(), recording):
        headers = {"Content-Type": "application/x-protobuf"}
        async with http.post("/v1/traces", data=body, headers=headers, raise_for_status=True):
            await asyncio.sleep(_BETWEEN_REQUESTS_S)


# The recordings are samples without anything personal.
_SHOWN = Redactor(show_values=True)
_MAX_MESSAGE_BYTES = 16 << 20
_LONGEST_S = 20.0


async def run(print_line: Callable[[str], None], *, regression: bool, stay: bool = False, style: Style = PLAIN) -> None:
    """Send, score and show; with `regression`, a worse release as well. `print_line` prints one line.

    With `stay` the web view shows all of it, until the process is interrupted.
    """
    # What a service logs has no place among the lines of the demo.
    logging.getLogger("toolgauge").addHandler(logging.NullHandler())
    arrivals = DemoDestination()
    destination = GrpcReceiver(
        arrivals,
        GrpcSettings(endpoint="127.0.0.1:0", max_recv_msg_size=_MAX_MESSAGE_BYTES),
        metrics=SelfMetrics(MetricRegistry()),
        hop_id="demo-destination",
    )
    seen: list[Scorecard] = []
    view = WebView(Web(endpoint=_web_endpoint()), _SHOWN, None) if stay else None
    await destination.start()
    try:
        service = _service(destination.port, seen, view)
        if view is not None:
            await view.start(service)
        await service.start()
        try:
            await _show(service, arrivals, seen, view, print_line, regression=regression, style=style)
        finally:
            await service.stop()
            if view is not None:
                await view.stop()
    finally:
        await destination.stop(1)


async def _show(
    service: Service,
    arrivals: DemoDestination,
    seen: Sequence[Scorecard],
    view: WebView | None,
    print_line: Callable[[str], None],
    *,
    regression: bool,
    style: Style,
) -> None:
    def print_lines(lines: Iterable[str]) -> None:
        for line in lines:
            print_line(line)

    recorded = recordings()
    sent = sorted(recorded, key=_place)
    shown = ScorecardLines(_SHOWN, style) if view is None else ScorecardLines(_SHOWN, style, view.page_url)
    print_lines(introduction(len(sent), len({recording.framework for recording in sent})))
    if view is not None:
        print_lines(web_view_lines(view.url, style))
    print_lines((*heading("Runs and their scores", style), *criteria_lines()))
    exposition = await _send_through(service, sent, seen, shown, print_line)
    # What a release adds is drawn from the recordings: the summary is about these.
    closed = {scorecard.trajectory.trace_id: scorecard for scorecard in seen}
    judged = tuple(closed[trace_id] for trace_id in origins(sent) if trace_id in closed)
    sent_spans = sum(count_items(body) for recording in sent for body in recording.requests)
    print_lines(heading("What arrived at the destination", style))
    print_lines((*books_lines(arrivals, sent_spans), *example_lines(arrivals), *metric_lines(exposition)))
    regressions: Sequence[LogRecord] = ()
    if regression:
        web_url = "" if view is None else view.url
        port = service.receivers[1].port
        regressions = await show_release(recorded, port, arrivals, print_line, style, web_url)
    print_lines((*heading("Summary", style), *summary_lines(judged, shown, regressions, style)))
    print_lines(next_lines(stays=view is not None))
    if view is not None:
        interrupted = asyncio.Event()
        handle_stop_signals(interrupted.set)
        print_lines(web_view_lines(view.url, style))
        await interrupted.wait()


def _web_endpoint() -> str:
    """Choose where people know the web view to be, or any free port."""
    usual = Web().endpoint
    try:
        check_endpoints({"web.endpoint": usual})
    except StartError:
        return "localhost:0"
    return usual


async def _send_through(
    service: Service,
    sent: Sequence[Recording],
    seen: Sequence[Scorecard],
    shown: ScorecardLines,
    print_line: Callable[[str], None],
) -> str:
    """Send all recordings, show their scores, and return the metrics as they were scraped then."""
    grpc_receiver, http_receiver = service.receivers
    sending = asyncio.create_task(send_all(sent, grpc_receiver.port, http_receiver.port))
    try:
        await _show_in_order(service, sent, seen, shown, print_line)
        await sending
        return await _scrape(service)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def _show_in_order(
    service: Service,
    sent: Sequence[Recording],
    seen: Sequence[Scorecard],
    shown: ScorecardLines,
    print_line: Callable[[str], None],
) -> None:
    """Show the runs in the order in which they are sent, whichever closes first."""
    waiting = origins(sent)
    until = time.monotonic() + _LONGEST_S
    while waiting or service.pipeline.spans_held + service.outbox.spans_queued:
        closed = {scorecard.trajectory.trace_id: scorecard for scorecard in seen}
        while waiting and (trace_id := next(iter(waiting))) in closed:
            for line in shown.lines(closed[trace_id], waiting.pop(trace_id)):
                print_line(line)
        if time.monotonic() > until:
            print_line(f"{len(sent) - len(waiting)} of {len(sent)} runs were scored within {_LONGEST_S:.0f} s")
            return
        await asyncio.sleep(0.1)


def _service(destination_port: int, seen: list[Scorecard], view: WebView | None) -> Service:
    overrides = (
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
        "redact.values=show",
    )
    with as_file(files("toolgauge.demo") / "criteria.yaml") as criteria_file:
        config, criteria = load_for_replay((), overrides, (str(criteria_file),), {})

    def observing(sink: ScorecardSink) -> ScorecardSink:
        return ObservedSink(sink if view is None else view.observe(sink), seen.append)

    return make_service(config, criteria, observing=observing)


async def _scrape(service: Service) -> str:
    if service.endpoint is None:
        return ""
    url = f"http://127.0.0.1:{service.endpoint.port}/metrics"
    headers = {"Accept": "application/openmetrics-text; version=1.0.0"}
    async with aiohttp.ClientSession(headers=headers) as http, http.get(url) as answer:
        return await answer.text()
