import asyncio
import gzip
import logging
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from tests.export.fakes import (
    MS,
    OK,
    OWN_HOP,
    Said,
    always,
    at_port,
    counted,
    exchanging,
    first,
    nowhere,
    request,
    sending,
    sink,
    until,
)
from tests.rows import each_row
from toolgauge.export.destination import Undelivered, otlp_destination
from toolgauge.export.settings import Compression, DestinationSettings, QueueSettings, RetrySettings, Transport
from toolgauge.model.delivery import Signal
from toolgauge.model.errors import ConfigError
from toolgauge.model.metrics import MetricRegistry
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.settings import SECOND

RECORDED = sorted(Path("tests/corpus/openai-agents").glob("**/*.otlp.pb"))[0].read_bytes()
Code = grpc.StatusCode
both = pytest.mark.parametrize("protocol", ["grpc", "http"])
SLOW = RetrySettings(initial_interval=600 * SECOND, max_interval=600 * SECOND, max_elapsed_time=0)


@both
@pytest.mark.parametrize("compression", ["none", "gzip"])
async def test_recorded_request_arrives_byte_for_byte(protocol: Transport, compression: Compression):
    async with exchanging(protocol, always(OK), compression=compression, headers={"X-Tenant": "blue"}) as (seen, out):
        assert out.destination.put(request(RECORDED, spans=9))
        await until(lambda: out.destination.queue.spans == 0)
    body = seen.bodies[0]
    assert (gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body) == RECORDED
    assert out.spans() == {("forwarded", "", "otlp"): 9}
    headers = seen.headers[0]
    assert (headers["x-toolgauge-hop"], headers["x-tenant"]) == (OWN_HOP, "blue")
    assert headers["user-agent"].startswith("toolgauge/0.1.0 ")
    assert ("grpc-python-asyncio/" if protocol == "grpc" else "aiohttp/") in headers["user-agent"]


@both
async def test_each_signal_goes_to_its_own_place(protocol: Transport):
    signals: tuple[Signal, ...] = ("traces", "metrics", "logs")
    async with exchanging(protocol, always(OK)) as (seen, out):
        for signal in signals:
            out.destination.put(request(b"\n\0", signal=signal, spans=0))
            await until(lambda signal=signal: len(seen.arrived) == signals.index(signal) + 1)
    services = ["trace.v1.Trace", "metrics.v1.Metrics", "logs.v1.Logs"]
    expected = {
        "grpc": [f"/opentelemetry.proto.collector.{service}Service/Export" for service in services],
        "http": ["/v1/traces", "/v1/metrics", "/v1/logs"],
    }
    assert [what for what, _ in seen.arrived] == expected[protocol]


@pytest.mark.parametrize(
    ("protocol", "said", "reason"),
    [
        ("grpc", Said(code=Code.CANCELLED), "cancelled"),
        ("grpc", Said(code=Code.DEADLINE_EXCEEDED), "deadline_exceeded"),
        ("grpc", Said(code=Code.ABORTED), "aborted"),
        ("grpc", Said(code=Code.OUT_OF_RANGE), "out_of_range"),
        ("grpc", Said(code=Code.DATA_LOSS), "data_loss"),
        # Longer than what gRPC takes of a message by default.
        ("grpc", Said(code=Code.UNAVAILABLE, message="no route to host; " * 5000), "unavailable"),
        ("http", Said(http_status=429), "http_429"),
        ("http", Said(http_status=502), "http_502"),
        ("http", Said(http_status=503), "http_503"),
        ("http", Said(http_status=504), "http_504"),
        ("http", Said(cut=True), "connection"),
    ],
)
async def test_transient_answer_is_tried_again(protocol: Transport, said: Said, reason: str):
    async with exchanging(protocol, first(2, said)) as (seen, out):
        out.destination.put(request(RECORDED, spans=4))
        await until(lambda: out.destination.queue.spans == 0)
    assert seen.bodies == [RECORDED] * 3
    assert out.spans() == {("forwarded", "", "otlp"): 4}
    assert out.failures() == {("otlp", "traces", reason): 2}


PERMANENT_CODES = (
    *(Code.RESOURCE_EXHAUSTED, Code.INVALID_ARGUMENT, Code.UNAUTHENTICATED, Code.PERMISSION_DENIED, Code.UNKNOWN),
    *(Code.UNIMPLEMENTED, Code.INTERNAL, Code.NOT_FOUND, Code.ALREADY_EXISTS, Code.FAILED_PRECONDITION),
)


@pytest.mark.parametrize(
    ("protocol", "said", "reason"),
    [
        *(("grpc", Said(code=code), code.name.lower()) for code in PERMANENT_CODES),
        *(("http", Said(http_status=status), f"http_{status}") for status in (301, 400, 401, 404, 408, 413, 500, 501)),
    ],
)
async def test_permanent_answer_is_dropped_and_counted(protocol: Transport, said: Said, reason: str):
    async with exchanging(protocol, always(said)) as (seen, out):
        out.destination.put(request(RECORDED, spans=4))
        await until(lambda: out.destination.queue.spans == 0)
    assert len(seen.arrived) == 1
    assert out.spans() == {("dropped", reason, "otlp"): 4}


async def test_exhausted_with_retry_info_is_tried_again():
    said = Said(code=Code.RESOURCE_EXHAUSTED, retry_s=0.01)
    async with exchanging("grpc", first(1, said)) as (seen, out):
        out.destination.put(request(RECORDED))
        await until(lambda: out.destination.queue.spans == 0)
    assert (len(seen.arrived), out.spans()) == (2, {("forwarded", "", "otlp"): 1})


@pytest.mark.parametrize(
    ("protocol", "said", "wait_s"),
    [
        ("grpc", Said(code=Code.UNAVAILABLE, retry_s=0.4), 0.4),
        ("http", Said(http_status=503, retry_after="1"), 0.99),
    ],
)
async def test_the_wait_that_a_destination_asks_for_is_kept(protocol: Transport, said: Said, wait_s: float):
    async with exchanging(protocol, first(1, said)) as (seen, out):
        out.destination.put(request(RECORDED))
        await until(lambda: len(seen.arrived) == 2)
    assert seen.times_s[1] - seen.times_s[0] >= wait_s


async def test_a_date_to_come_back_at_is_meant_by_the_clock_of_the_destination():
    later = Said(http_status=503, date="Wed, 21 Oct 2065 07:28:00 GMT", retry_after="Wed, 21 Oct 2065 07:28:00 GMT")
    async with exchanging("http", first(1, later)) as (_, out):
        out.destination.put(request(RECORDED, spans=4))
        await until(lambda: out.destination.queue.spans == 0)
    assert out.spans() == {("forwarded", "", "otlp"): 4}


@both
async def test_hanging_request_does_not_hold_up_twenty_others(protocol: Transport):
    async with exchanging(protocol, first(1, Said(hang=True)), timeout=600 * SECOND) as (_, out):
        for _ in range(21):
            out.destination.put(request(RECORDED))
        await until(lambda: out.spans() == {("forwarded", "", "otlp"): 20})
        assert out.destination.queue.spans == 1
    assert out.spans() == {("forwarded", "", "otlp"): 20, ("dropped", "shutdown", "otlp"): 1}


@both
@pytest.mark.parametrize(("rejected", "books"), [(3, (7, 3)), (1 << 40, (0, 10))])
async def test_partial_success_is_counted_and_never_retried(protocol: Transport, rejected: int, books: tuple[int, int]):
    partial = ExportTracePartialSuccess(rejected_spans=rejected)
    said = Said(response=ExportTraceServiceResponse(partial_success=partial).SerializeToString())
    async with exchanging(protocol, always(said)) as (seen, out):
        out.destination.put(request(RECORDED, spans=10))
        await until(lambda: out.destination.queue.spans == 0)
    assert len(seen.arrived) == 1
    spans = out.spans()
    assert (spans.get(("forwarded", "", "otlp"), 0), spans["dropped", "partial_success", "otlp"]) == books
    assert counted(out.metrics.send_rejected) == {("otlp", "traces"): rejected}


@both
async def test_a_destination_that_wants_another_token_is_plainly_claimed_apart_until_it_takes_something(
    protocol: Transport,
):
    refused = Said(code=Code.UNAUTHENTICATED, http_status=401)

    async with exchanging(protocol, first(2, refused)) as (seen, out):
        for number in range(2):
            out.destination.put(request(RECORDED, spans=2))
            await until(lambda number=number: len(seen.arrived) == number + 1 and not out.destination.queue.spans)
        (told,) = out.destination.health.refusing()
        assert (told.signal, told.reason) == ("traces", "unauthenticated" if protocol == "grpc" else "http_401")
        assert out.destination.health.now() is None
        out.destination.put(request(RECORDED, spans=2))
        await until(lambda: not out.destination.queue.spans)
        assert out.destination.health.refusing() == ()


@both
async def test_a_request_that_is_broken_says_nothing_about_the_destination(protocol: Transport):
    broken = always(Said(code=Code.INVALID_ARGUMENT, http_status=400))
    async with exchanging(protocol, broken) as (_, out):
        out.destination.put(request(RECORDED, spans=2))
        await until(lambda: not out.destination.queue.spans)
        assert out.destination.health.refusing() == ()


@pytest.mark.parametrize(
    "noise", [b"220 mail ESMTP\r\n", b"\x15\x03\x01\0\2\2\x46", b"HTTP/1.1 200 OK\r\nX: " + b"a" * 99_999]
)
async def test_answer_that_is_no_http_is_tried_again(noise: bytes):
    answers = [noise, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answers.pop(0))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with sending(endpoint, protocol="http") as out:
        out.destination.put(request(b"\n\0", spans=2))
        await until(lambda: out.destination.queue.spans == 0)
    server.close()
    assert out.spans() == {("forwarded", "", "otlp"): 2}
    assert out.failures() == {("otlp", "traces", "not_http"): 1}


@both
async def test_enormous_answer_is_a_permanent_error(protocol: Transport):
    async with exchanging(protocol, always(Said(response=b"\0" * (5 << 20)))) as (seen, out):
        out.destination.put(request(RECORDED, spans=2))
        await until(lambda: out.destination.queue.spans == 0)
    assert len(seen.arrived) == 1
    assert out.spans() == {("dropped", "resource_exhausted" if protocol == "grpc" else "response_too_large", "otlp"): 2}


@both
async def test_dead_destination_fills_the_queue_and_no_more(protocol: Transport):
    async with sending(nowhere(protocol), protocol=protocol, retry=SLOW, queue=QueueSettings(max_bytes=10_000)) as out:
        taken = 0
        for _ in range(100):
            taken += out.destination.put(request(b"x" * 1000, spans=5))
            await asyncio.sleep(0)
        assert taken == 10
        assert not out.destination.has_room(1000)
        assert out.destination.queue.spans == 50
        assert out.destination.put(request(b"x" * 1000, spans=0, own=True))
    assert out.spans() == {("dropped", "shutdown", "otlp"): 50}
    assert out.own_dropped() == {("otlp", "traces", "shutdown"): 1}


@both
async def test_the_time_for_retries_begins_with_the_first_attempt(protocol: Transport):
    retry = RetrySettings(initial_interval=10 * MS, max_interval=10 * MS, max_elapsed_time=200 * MS)
    async with exchanging(protocol, always(Said(hang=True)), retry=retry, timeout=300 * MS) as (_, out):
        out.destination.put(request(RECORDED, spans=5))
        await until(lambda: out.destination.queue.spans == 0)
    assert out.spans() == {("dropped", "retries_exhausted", "otlp"): 5}
    assert counted(out.metrics.retries) == {}


async def test_the_time_in_the_queue_is_no_time_for_retries():
    retry = RetrySettings(initial_interval=10 * MS, max_interval=10 * MS, max_elapsed_time=1 * SECOND)
    one_at_a_time = QueueSettings(num_consumers=1)
    answers = iter((Said(hang=True), Said(code=Code.UNAVAILABLE)))
    async with exchanging(
        "grpc", lambda _count, _what, _body: next(answers, OK), retry=retry, timeout=1200 * MS, queue=one_at_a_time
    ) as (_, out):
        out.destination.put(request(RECORDED, spans=1))
        out.destination.put(request(RECORDED, spans=2))
        await until(lambda: out.destination.queue.spans == 0)
    assert out.spans() == {("dropped", "retries_exhausted", "otlp"): 1, ("forwarded", "", "otlp"): 2}


@pytest.mark.parametrize("own", [True, False])
async def test_lost_requests_of_our_own_and_of_senders_are_counted_apart(*, own: bool):
    async with exchanging("grpc", always(Said(code=Code.INVALID_ARGUMENT))) as (_, out):
        out.destination.put(request(b"\n\0", spans=0, own=own, signal="logs"))
        await until(lambda: not out.destination.queue.size_bytes)
    assert out.spans() == {}
    lost = {("otlp", "logs", "invalid_argument"): 1}
    assert (out.own_dropped(), counted(out.metrics.requests_dropped)) == ((lost, {}) if own else ({}, lost))


@both
async def test_drain_ends_the_waits_and_tries_again_at_once(protocol: Transport):
    refused = Said(code=Code.UNAVAILABLE, http_status=503)
    async with exchanging(protocol, first(3, refused), retry=SLOW) as (seen, out):
        for _ in range(3):
            out.destination.put(request(RECORDED, spans=2))
        await until(lambda: len(seen.arrived) == 3)
        assert await out.destination.drain(60) == Undelivered()
    assert out.spans() == {("forwarded", "", "otlp"): 6}


@both
async def test_drain_of_a_dead_destination_says_what_was_lost(protocol: Transport):
    async with sending(nowhere(protocol), protocol=protocol, retry=SLOW) as out:
        for _ in range(30):
            out.destination.put(request(RECORDED, spans=2))
        out.destination.put(request(RECORDED, spans=0, own=True))
        assert await out.destination.drain(0.2) == Undelivered(spans=60, own=1)
    assert out.spans() == {("dropped", "shutdown", "otlp"): 60}
    assert out.own_dropped() == {("otlp", "traces", "shutdown"): 1}


@both
async def test_close_works_without_a_start(protocol: Transport):
    metrics = SelfMetrics(MetricRegistry())
    settings = DestinationSettings(endpoint=nowhere(protocol), protocol=protocol)
    destination = otlp_destination(settings, metrics, OWN_HOP, "toolgauge/0.1.0")
    destination.put(request(RECORDED, spans=2))
    await destination.close()
    await destination.close()
    assert counted(metrics.spans) == {("dropped", "shutdown", "otlp"): 2}


@each_row(
    ("name", "value"),
    [("x tenant", "blue"), ("", "blue"), ("grpc-timeout", "1S"), ("x-key-bin", "a"), ("x-key", "sécret")],
)
def test_header_that_cannot_be_sent_is_a_configuration_error(name: str, value: str):
    settings = DestinationSettings(endpoint="127.0.0.1:1", headers={name: value})
    with pytest.raises(ConfigError, match=f"header `{name}`") as caught:
        otlp_destination(settings, SelfMetrics(MetricRegistry()), OWN_HOP, "toolgauge/0.1.0")
    assert f"`{value}`" not in caught.value.message


@both
async def test_drain_of_a_hanging_destination_ends_in_time(protocol: Transport):
    async with exchanging(protocol, always(Said(hang=True))) as (_, out):
        for _ in range(30):
            out.destination.put(request(RECORDED, spans=2))
        began_s = asyncio.get_running_loop().time()
        assert await out.destination.drain(0.3) == Undelivered(spans=60)
        assert asyncio.get_running_loop().time() - began_s < 8
    assert out.spans() == {("dropped", "shutdown", "otlp"): 60}


class CuttingProxy:
    """Passes bytes on; cuts the first connections after some of the request went through."""

    def __init__(self, target: str, cuts: int) -> None:
        self._host, _, self._port = target.removeprefix("http://").rpartition(":")
        self.cuts = cuts
        self.connections = 0

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        to_reader, to_writer = await asyncio.open_connection(self._host, int(self._port))
        back = asyncio.create_task(self._pump(to_reader, writer, None))
        await self._pump(reader, to_writer, 2000 if self.connections <= self.cuts else None)
        for transport in (writer.transport, to_writer.transport):
            transport.abort()
        await back

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limit: int | None) -> None:
        passed = 0
        try:
            while (limit is None or passed < limit) and (data := await reader.read(1000)):
                passed += len(data)
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            return


@both
async def test_connections_cut_in_the_middle_of_requests_lose_nothing(protocol: Transport):
    bodies = [bytes([10, 0]) * (1000 + number) for number in range(12)]
    before = asyncio.all_tasks()
    async with sink(protocol, always(OK)) as seen:
        proxy = CuttingProxy(seen.endpoint, cuts=5)
        listener = await asyncio.start_server(proxy, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        async with sending(at_port(protocol, port), protocol=protocol) as out:
            for body in bodies:
                out.destination.put(request(body))
            await until(lambda: out.destination.queue.spans == 0)
        listener.close()
    await until(lambda: asyncio.all_tasks() <= before)
    assert set(seen.bodies) == set(bodies)
    assert out.spans() == {("forwarded", "", "otlp"): 12}
    assert proxy.connections > 5


async def test_outage_is_logged_once_and_shows_no_content(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, "toolgauge")
    async with exchanging("grpc", first(40, Said(code=Code.UNAVAILABLE))) as (_, out):
        for _ in range(20):
            out.destination.put(request(b"\x0a\x06secret"))
        await until(lambda: out.destination.queue.spans == 0)
    messages = [record.getMessage() for record in caplog.records if record.name == "toolgauge.export"]
    assert len([message for message in messages if "does not accept requests (unavailable)" in message]) == 1
    assert "secret" not in caplog.text
