"""Several destinations at once."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import grpc

from tests.export.fakes import FAST, OK, OWN_HOP, Said, Seen, always, counted, grpc_sink, request, until
from toolgauge.export.destination import Undelivered, otlp_destination
from toolgauge.export.fan_out import FanOut
from toolgauge.export.settings import DestinationSettings, QueueSettings, RetrySettings
from toolgauge.model.metrics import MetricRegistry
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.settings import SECOND

DEAD = Said(code=grpc.StatusCode.UNAVAILABLE)
BODY = b"\n\x06" + b"\x12\x04\x12\x02\x42\0"
FOR_EVER = RetrySettings(initial_interval=600 * SECOND, max_interval=600 * SECOND, max_elapsed_time=0)


@dataclass
class Fanned:
    out: FanOut
    metrics: SelfMetrics
    seen: dict[str, Seen]

    def spans(self, destination: str) -> dict[tuple[str, str], float]:
        """The books of one destination."""
        cells = self.metrics.spans.cells.items()
        return {(outcome, reason): count for (outcome, reason, name), count in cells if name == destination and count}


@asynccontextmanager
async def fanned(answers: dict[str, Said], **changes: DestinationSettings) -> AsyncGenerator[Fanned, None]:
    """Run a destination a name, each with settings of its own where given."""
    metrics = SelfMetrics(MetricRegistry())
    async with AsyncExitStack() as stack:
        seen = {name: await stack.enter_async_context(grpc_sink(always(said))) for name, said in answers.items()}
        default = DestinationSettings(endpoint="localhost:1", retry=FAST, compression="none")
        destinations = [
            otlp_destination(
                changes.get(name, default).model_copy(update={"name": name, "endpoint": sink.endpoint}),
                metrics,
                OWN_HOP,
                "toolgauge/1",
            )
            for name, sink in seen.items()
        ]
        out = FanOut(destinations, metrics)
        await out.start()
        try:
            yield Fanned(out, metrics, seen)
        finally:
            await out.close()


async def test_every_destination_gets_every_request():
    async with fanned({"a": OK, "b": OK}) as fan:
        assert fan.out.put(request(BODY, spans=3))
        await until(lambda: fan.out.bytes_queued == 0)
    assert fan.seen["a"].bodies == fan.seen["b"].bodies == [BODY]
    assert fan.spans("a") == fan.spans("b") == {("forwarded", ""): 3}


async def test_dead_destination_does_not_stop_the_others_and_its_losses_are_its_own():
    small = DestinationSettings(
        endpoint="localhost:1", retry=FOR_EVER, compression="none", queue=QueueSettings(max_bytes=20)
    )
    async with fanned({"alive": OK, "dead": DEAD}, dead=small) as fan:
        for _ in range(10):
            assert fan.out.has_room("traces", len(BODY))
            assert fan.out.put(request(BODY, spans=1))
            await until(lambda: fan.spans("alive").get(("forwarded", ""), 0) == len(fan.seen["alive"].arrived) > 0)
        await until(lambda: fan.spans("alive") == {("forwarded", ""): 10})
        queued = {each.name: each.queue.spans for each in fan.out.destinations}
        assert queued["alive"] == 0
        assert fan.spans("dead") == {("dropped", "queue_full"): 10 - queued["dead"]}


async def test_senders_are_told_to_come_back_when_no_destination_has_room():
    small = DestinationSettings(
        endpoint="localhost:1", retry=FOR_EVER, compression="none", queue=QueueSettings(max_bytes=20)
    )
    async with fanned({"a": DEAD, "b": DEAD}, a=small, b=small) as fan:
        while fan.out.has_room("traces", len(BODY)):
            assert fan.out.put(request(BODY))
        assert not fan.out.put(request(BODY))
        assert fan.spans("a") == fan.spans("b") == {}


async def test_a_full_destination_refuses_only_the_signals_that_it_takes():
    small = DestinationSettings(
        endpoint="localhost:1", retry=FOR_EVER, compression="none", queue=QueueSettings(max_bytes=20)
    )
    traces, logs = (small.model_copy(update={"signals": (signal,)}) for signal in ("traces", "logs"))
    async with fanned({"traces": OK, "logs": DEAD}, traces=traces, logs=logs) as fan:
        while fan.out.put(request(BODY, spans=0, signal="logs")):
            pass
        assert not fan.out.has_room("logs", len(BODY))
        assert fan.out.has_room("traces", len(BODY))
        # Nobody takes metrics, so that nothing has to wait.
        assert fan.out.has_room("metrics", 1 << 40)


async def test_spans_that_nobody_takes_end_here_and_are_counted():
    settings = DestinationSettings(endpoint="localhost:1", retry=FAST, signals=("metrics",))
    async with fanned({"metrics": OK}, metrics=settings) as fan:
        assert fan.out.put(request(BODY, spans=4))
    assert counted(fan.metrics.spans) == {("consumed", "", ""): 4}
    assert not fan.out.forwards("traces")
    assert fan.out.forwards("metrics")


async def test_drain_counts_what_each_destination_lost():
    async with fanned({"alive": OK, "dead": DEAD}) as fan:
        fan.out.put(request(BODY, spans=5))
        assert await fan.out.drain(0.5) == (("dead", Undelivered(spans=5)),)
    assert fan.spans("alive") == {("forwarded", ""): 5}
    assert fan.spans("dead") == {("dropped", "shutdown"): 5}
