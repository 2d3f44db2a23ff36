"""The demo: recorded traffic of several frameworks through a real pipeline, from socket to socket.

Senders, pipeline and destination talk OTLP over loopback ports that the system picks. Only the time-outs of
assembling are shortened, so that it ends by itself in well under half a minute.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import as_file, files

import aiohttp

from toolgauge.build.clock import SteadyClock
from toolgauge.build.criteria import load_for_replay
from toolgauge.build.serve import make_service
from toolgauge.build.service import Service
from toolgauge.decode.envelope import count_items
from toolgauge.demo.arrivals import Arrivals
from toolgauge.demo.recorded import Recording, origins, recordings
from toolgauge.demo.send import send_all
from toolgauge.demo.show import arrival_lines, heading, metric_lines, scorecard_lines, summary_lines
from toolgauge.model.delivery import Outgoing
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.outcomes import Scorecard
from toolgauge.pipeline import ScorecardSink
from toolgauge.receive.grpc import GrpcReceiver
from toolgauge.selfmetrics import SelfMetrics

_MAX_MESSAGE_BYTES = 16 << 20
_LONGEST_S = 20.0


class Watched:
    """A sink of scorecards that shows them in passing; `origins` tells which framework made a trace."""

    def __init__(self, sink: ScorecardSink, say: Callable[[str], None], origins: Mapping[str, str]) -> None:
        self._sink = sink
        self._say = say
        self._origins = origins
        self.seen: list[Scorecard] = []

    def record(self, scorecard: Scorecard) -> None:
        """Show the scorecard and hand it on."""
        self._sink.record(scorecard)
        for line in scorecard_lines(scorecard, self._origins.get(scorecard.trajectory.trace_id, "unknown")):
            self._say(line)
        self.seen.append(scorecard)

    def requests(self, scorecards: Sequence[Scorecard]) -> list[Outgoing]:
        """Hand on."""
        return self._sink.requests(scorecards)


async def run(say: Callable[[str], None]) -> None:
    """Send, score and show; `say` prints one line."""
    sent = recordings()
    arrivals = Arrivals()
    destination = GrpcReceiver(
        arrivals,
        endpoint="127.0.0.1:0",
        max_recv_msg_size=_MAX_MESSAGE_BYTES,
        clock=SteadyClock(),
        metrics=SelfMetrics(MetricRegistry()),
        hop_id="demo-destination",
    )
    watched: list[Watched] = []
    await destination.start()
    try:
        service = _service(destination.port, say, watched, origins(sent))
        exposition = await _send_through(service, sent, watched, say)
    finally:
        await destination.stop(1)
    for lines in (
        heading("What was found"),
        summary_lines(watched[0].seen),
        heading("What arrived at the destination"),
        arrival_lines(arrivals, _spans(sent)),
        heading("From the metrics endpoint (OpenMetrics, with exemplars; the same goes out as OTLP)"),
        metric_lines(exposition),
    ):
        for line in lines:
            say(line)


async def _send_through(
    service: Service, sent: Sequence[Recording], watched: Sequence[Watched], say: Callable[[str], None]
) -> str:
    """Send all recordings, wait for their scores, and return the metrics as they were scraped then."""
    await service.start()
    grpc_receiver, http_receiver = service.receivers
    frameworks = len({one.framework for one in sent})
    say(f"{len(sent)} recorded runs of {frameworks} agent frameworks, sent as OTLP (gRPC and HTTP) into a running")
    say("pipeline. Each is shown when its trajectory closes: the calls, then what the criteria say.")
    say("")
    say(
        "Scored by: default.tool_success (did the call work?) and default.known_tool (was the tool on offer?), which need"
    )
    say("no reference; and refund-arguments, weather-lookups and mail-arguments, which compare with expected calls.")
    say("")
    try:
        await send_all(sent, grpc_receiver.port, http_receiver.port)
        if not await _until(lambda: len(watched[0].seen) >= len(sent) and _is_idle(service)):
            say(f"only {len(watched[0].seen)} of {len(sent)} runs were scored within {_LONGEST_S:.0f} s")
        return await _scrape(service)
    finally:
        await service.stop()


def _is_idle(service: Service) -> bool:
    return not service.pipeline.spans_held + service.outbox.spans_queued


def _service(
    destination_port: int, say: Callable[[str], None], watched: list[Watched], origin_of: Mapping[str, str]
) -> Service:
    overrides = (
        "receivers.otlp.protocols.grpc.endpoint=127.0.0.1:0",
        "receivers.otlp.protocols.http.endpoint=127.0.0.1:0",
        "exporters.prometheus.endpoint=127.0.0.1:0",
        f"exporters.otlp.endpoint=127.0.0.1:{destination_port}",
        "assemble.run_end_grace=1s",
        "assemble.idle_timeout=3s",
        "assemble.open_idle_timeout=3s",
        "metrics.interval=2s",
    )
    with as_file(files("toolgauge.demo") / "criteria.yaml") as criteria_file:
        config, criteria = load_for_replay((), overrides, (str(criteria_file),), {})

    def watch(sink: ScorecardSink) -> ScorecardSink:
        watched.append(Watched(sink, say, origin_of))
        return watched[0]

    return make_service(config, criteria, watching=watch)


async def _until(done: Callable[[], bool]) -> bool:
    try:
        async with asyncio.timeout(_LONGEST_S):
            while not done():
                await asyncio.sleep(0.1)
    except TimeoutError:
        return False
    return True


async def _scrape(service: Service) -> str:
    if service.endpoint is None:
        return ""
    url = f"http://127.0.0.1:{service.endpoint.port}/metrics"
    headers = {"Accept": "application/openmetrics-text; version=1.0.0"}
    async with aiohttp.ClientSession(headers=headers) as http, http.get(url) as answer:
        return await answer.text()


def _spans(sent: Sequence[Recording]) -> int:
    return sum(count_items(body) for recording in sent for body in recording.requests)
