"""The demo: recorded traffic of several frameworks through a real pipeline, from socket to socket.

Senders, pipeline and destination talk OTLP over loopback ports that the system picks. Only the time-outs of
assembling are shortened, so that it ends by itself in well under half a minute.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import as_file, files

import aiohttp

from toolgauge.demo.arrivals import Arrivals
from toolgauge.demo.recorded import Recording, origins, recordings
from toolgauge.demo.send import send_all
from toolgauge.demo.show import arrival_lines, heading, introduction, metric_lines, scorecard_lines, summary_lines
from toolgauge.model.delivery import Outgoing
from toolgauge.model.metrics import MetricRegistry
from toolgauge.model.outcomes import Scorecard
from toolgauge.otlp.envelope import count_items
from toolgauge.pipeline.pipeline import ScorecardSink
from toolgauge.receive.grpc import GrpcReceiver
from toolgauge.receive.settings import GrpcSettings
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.service.criteria import load_for_replay
from toolgauge.service.serve import make_service
from toolgauge.service.service import Service

_MAX_MESSAGE_BYTES = 16 << 20
_LONGEST_S = 20.0


class Watched:
    """A sink of scorecards that notes them in passing."""

    def __init__(self, sink: ScorecardSink, seen: list[Scorecard]) -> None:
        self._sink = sink
        self._seen = seen

    def record(self, scorecard: Scorecard) -> None:
        """Note the scorecard and hand it on."""
        self._sink.record(scorecard)
        self._seen.append(scorecard)

    def requests(self, scorecards: Sequence[Scorecard]) -> Iterable[Outgoing]:
        """Hand on."""
        return self._sink.requests(scorecards)


async def run(say: Callable[[str], None]) -> None:
    """Send, score and show; `say` prints one line."""
    sent = recordings()
    arrivals = Arrivals()
    destination = GrpcReceiver(
        arrivals,
        GrpcSettings(endpoint="127.0.0.1:0", max_recv_msg_size=_MAX_MESSAGE_BYTES),
        metrics=SelfMetrics(MetricRegistry()),
        hop_id="demo-destination",
    )
    seen: list[Scorecard] = []
    await destination.start()
    try:
        service = _service(destination.port, seen)
        exposition = await _send_through(service, sent, seen, say)
    finally:
        await destination.stop(1)
    for lines in (
        heading("What was found"),
        summary_lines(seen),
        heading("What arrived at the destination"),
        arrival_lines(arrivals, _spans(sent)),
        heading("From the metrics endpoint (OpenMetrics, with exemplars; the same goes out as OTLP)"),
        metric_lines(exposition),
    ):
        for line in lines:
            say(line)


async def _send_through(
    service: Service, sent: Sequence[Recording], seen: Sequence[Scorecard], say: Callable[[str], None]
) -> str:
    """Send all recordings, show their scores, and return the metrics as they were scraped then."""
    for line in introduction(sent):
        say(line)
    await service.start()
    grpc_receiver, http_receiver = service.receivers
    sending = asyncio.create_task(send_all(sent, grpc_receiver.port, http_receiver.port))
    try:
        await _show_as_they_close(service, sent, seen, say)
        await sending
        return await _scrape(service)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await service.stop()


async def _show_as_they_close(
    service: Service, sent: Sequence[Recording], seen: Sequence[Scorecard], say: Callable[[str], None]
) -> None:
    origin_of = origins(sent)
    until = time.monotonic() + _LONGEST_S
    shown = 0
    while shown < len(sent) or service.pipeline.spans_held + service.outbox.spans_queued:
        for scorecard in seen[shown:]:
            shown += 1
            for line in scorecard_lines(scorecard, origin_of.get(scorecard.trajectory.trace_id, "unknown")):
                say(line)
        if time.monotonic() > until:
            say(f"{shown} of {len(sent)} runs were scored within {_LONGEST_S:.0f} s")
            return
        await asyncio.sleep(0.1)


def _service(destination_port: int, seen: list[Scorecard]) -> Service:
    overrides = (
        "receivers.otlp.protocols.grpc.endpoint=127.0.0.1:0",
        "receivers.otlp.protocols.http.endpoint=127.0.0.1:0",
        "exporters.prometheus.endpoint=127.0.0.1:0",
        "admin.endpoint=127.0.0.1:0",
        f"exporters.otlp.endpoint=127.0.0.1:{destination_port}",
        "assemble.run_end_grace=1s",
        "assemble.idle_timeout=3s",
        "assemble.open_idle_timeout=3s",
        "metrics.interval=2s",
    )
    with as_file(files("toolgauge.demo") / "criteria.yaml") as criteria_file:
        config, criteria = load_for_replay((), overrides, (str(criteria_file),), {})
    return make_service(config, criteria, watching=lambda sink: Watched(sink, seen))


async def _scrape(service: Service) -> str:
    if service.endpoint is None:
        return ""
    url = f"http://127.0.0.1:{service.endpoint.port}/metrics"
    headers = {"Accept": "application/openmetrics-text; version=1.0.0"}
    async with aiohttp.ClientSession(headers=headers) as http, http.get(url) as answer:
        return await answer.text()


def _spans(sent: Sequence[Recording]) -> int:
    return sum(count_items(body) for recording in sent for body in recording.requests)
