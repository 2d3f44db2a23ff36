"""The demo: recorded traffic of several frameworks through a real pipeline, from socket to socket.

Senders, pipeline and destination talk OTLP over loopback ports that the system picks. Only the time-outs of
assembling are shortened, so that it ends by itself in well under half a minute.
"""

import asyncio
from collections.abc import Callable, Sequence
from importlib.resources import as_file, files

import aiohttp

from toolgauge.build.clock import SteadyClock
from toolgauge.build.criteria import load_for_replay
from toolgauge.build.serve import make_service
from toolgauge.build.service import Service
from toolgauge.decode.envelope import count_items
from toolgauge.demo.arrivals import Arrivals
from toolgauge.demo.recorded import Recording, recordings
from toolgauge.demo.send import send_all
from toolgauge.demo.show import arrival_lines, metric_lines, scorecard_lines
from toolgauge.model.delivery import Outgoing
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.outcomes import Scorecard
from toolgauge.pipeline import ScorecardSink
from toolgauge.receive.grpc import GrpcReceiver
from toolgauge.selfmetrics import SelfMetrics

_MAX_MESSAGE_BYTES = 16 << 20
_LONGEST_S = 20.0


class Watched:
    """A sink of scorecards that shows them in passing."""

    def __init__(self, sink: ScorecardSink, say: Callable[[str], None]) -> None:
        self._sink = sink
        self._say = say
        self.seen = 0

    def record(self, scorecard: Scorecard) -> None:
        """Show the scorecard and hand it on."""
        self._sink.record(scorecard)
        for line in scorecard_lines(scorecard):
            self._say(line)
        self.seen += 1

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
        service = _service(destination.port, say, watched)
        exposition = await _send_through(service, sent, watched, say)
    finally:
        await destination.stop(1)
    for line in arrival_lines(arrivals, _spans(sent)):
        say(line)
    say("")
    say("From the metrics endpoint:")
    for line in metric_lines(exposition):
        say(line)


async def _send_through(
    service: Service, sent: Sequence[Recording], watched: Sequence[Watched], say: Callable[[str], None]
) -> str:
    """Send all recordings, wait for their scores, and return the metrics as they were scraped then."""
    await service.start()
    grpc_receiver, http_receiver = service.receivers
    say(f"Recorded runs of {len({one.framework for one in sent})} frameworks, sent to a running pipeline:")
    say("")
    try:
        await send_all(sent, grpc_receiver.port, http_receiver.port)
        await _until(lambda: watched[0].seen >= len(sent))
        return await _scrape(service)
    finally:
        await service.stop()


def _service(destination_port: int, say: Callable[[str], None], watched: list[Watched]) -> Service:
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
        watched.append(Watched(sink, say))
        return watched[0]

    return make_service(config, criteria, watching=watch)


async def _until(done: Callable[[], bool]) -> None:
    try:
        async with asyncio.timeout(_LONGEST_S):
            while not done():
                await asyncio.sleep(0.1)
    except TimeoutError:
        return


async def _scrape(service: Service) -> str:
    if service.endpoint is None:
        return ""
    async with aiohttp.ClientSession() as http, http.get(f"http://127.0.0.1:{service.endpoint.port}/metrics") as answer:
        return await answer.text()


def _spans(sent: Sequence[Recording]) -> int:
    return sum(count_items(body) for recording in sent for body in recording.requests)
