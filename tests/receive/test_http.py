import asyncio
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from google.rpc.status_pb2 import Status

from tests.receive.fakes import OWN_HOP, FakeConsumer, Reply, gzipped, post, raw, read_reply, receiving
from toolgauge.model.delivery import Answer, Invalid, Refused, Unsupported
from toolgauge.model.metrics import MetricRegistry
from toolgauge.otlp.otlp_json import request_from_json
from toolgauge.receive.http import HttpReceiver
from toolgauge.receive.otlp_handler import zstd
from toolgauge.receive.settings import HttpSettings
from toolgauge.selfmetrics import SelfMetrics

RECORDED = sorted(Path("tests/corpus/openai-agents").glob("**/*.otlp.pb"))[0].read_bytes()
HEAD = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"


def status_of(reply: Reply) -> Status:
    """Read the body that every refusal must have."""
    assert reply.headers["content-type"] == "application/x-protobuf"
    status = Status.FromString(reply.body)
    assert status.message
    return status


RAW_DEFLATE = zlib.compressobj(wbits=-zlib.MAX_WBITS)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzipped(RECORDED)),
        ("x-gzip", gzipped(RECORDED)),
        ("zstd", zstd.compress(RECORDED)),
        ("ZSTD", zstd.compress(RECORDED[:100]) + zstd.compress(RECORDED[100:])),
        ("deflate", zlib.compress(RECORDED)),
        ("deflate", RAW_DEFLATE.compress(RECORDED) + RAW_DEFLATE.flush()),
        ("zlib", zlib.compress(RECORDED)),
    ],
    ids=["gzip", "x-gzip", "zstd", "ZSTD", "deflate", "deflate without its header", "zlib"],
)
async def test_bodies_arrive_decompressed_from_all_compressions_that_are_read(encoding: str, body: bytes):
    async with receiving() as receivers:
        reply = await post(receivers.http.port, body, Content_Encoding=encoding)
    assert reply.status == 200
    assert receivers.consumer.taken == [("traces", RECORDED)]


@pytest.mark.parametrize("encoding", ["snappy", "gzip, gzip"])
async def test_compression_that_is_not_read_is_answered_with_what_to_set(encoding: str):
    async with receiving() as receivers:
        reply = await post(receivers.http.port, RECORDED, Content_Encoding=encoding)
    assert reply.status == 415
    assert "set `compression` of the exporter to `gzip`, `zstd`, `deflate` or `none`" in status_of(reply).message
    assert receivers.reasons() == {("http", "traces", "compression"): 1}


async def test_each_path_has_its_signal_and_the_media_type_may_have_parameters():
    media_type = "Application/X-Protobuf; charset=utf-8"
    async with receiving() as receivers:
        for signal in ("traces", "metrics", "logs"):
            await post(receivers.http.port, b"\n\0", path=f"/v1/{signal}", Content_Type=media_type)
    assert [signal for signal, _ in receivers.consumer.taken] == ["traces", "metrics", "logs"]


@pytest.mark.parametrize("encoding", ["", "gzip"])
async def test_empty_request_succeeds_without_the_consumer(encoding: str):
    async with receiving() as receivers:
        reply = await post(receivers.http.port, b"", Content_Encoding=encoding)
    assert (reply.status, reply.body) == (200, b"")
    assert receivers.consumer.taken == []


async def test_expect_100_continue_is_answered():
    async with receiving() as receivers:
        reader, writer = await asyncio.open_connection("127.0.0.1", receivers.http.port)
        writer.write(HEAD + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert (await read_reply(reader)).status == 100
        writer.write(b"\n\0")
        assert (await read_reply(reader)).status == 200
        writer.close()


async def test_connection_is_kept_for_the_next_request():
    async with receiving() as receivers:
        reader, writer = await asyncio.open_connection("127.0.0.1", receivers.http.port)
        for _ in range(3):
            writer.write(HEAD + b"Content-Length: 2\r\n\r\n\n\0")
            assert (await read_reply(reader)).status == 200
        writer.close()
        await post(receivers.http.port, b"\n\0")
    *on_one_connection, other = receivers.consumer.senders
    assert len(set(on_one_connection)) == 1
    assert other not in on_one_connection


@pytest.mark.parametrize(
    ("answer", "status", "code", "retry_after", "outcome"),
    [
        (Refused("the queue is full", 0.4), 503, 14, "1", "refused"),
        (Refused("the queue is full", 2.0), 503, 14, "2", "refused"),
        (Invalid("the request is cut off"), 400, 3, None, "invalid"),
        (Unsupported("metrics are not accepted"), 404, 12, None, "unsupported"),
    ],
)
async def test_consumers_refusal_is_a_status_with_a_body(
    answer: Answer, status: int, code: int, retry_after: str | None, outcome: str
):
    async with receiving() as receivers:
        receivers.consumer.answer = answer
        reply = await post(receivers.http.port, RECORDED)
    assert (reply.status, status_of(reply).code) == (status, code)
    assert reply.headers.get("retry-after") == retry_after
    assert receivers.outcomes() == {("http", "traces", outcome): 1}


async def test_fault_behind_the_handler_is_a_500_with_a_body():
    async with receiving() as receivers:
        receivers.consumer.fault = RuntimeError("secret")
        reply = await post(receivers.http.port, RECORDED)
    assert (reply.status, status_of(reply).code) == (500, 13)
    assert b"secret" not in reply.body
    assert receivers.outcomes() == {("http", "traces", "error"): 1}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"method": "PUT"}, 405),
        ({"path": "/"}, 404),
        ({"path": "/v1/traces/"}, 404),
        ({"Content_Type": "application/x-ndjson"}, 415),
        ({"Content_Type": ""}, 415),
        ({"Content_Encoding": "gzip"}, 400),
    ],
)
async def test_wrong_request_is_refused_with_a_status_body(headers: dict[str, str], status: int):
    async with receiving() as receivers:
        reply = await post(receivers.http.port, RECORDED, **headers)
        assert (await post(receivers.http.port, RECORDED)).status == 200
    assert (reply.status, reply.headers.get("allow")) == (status, "POST" if status == 405 else None)
    status_of(reply)
    assert len(receivers.consumer.taken) == 1


async def test_declared_length_over_the_limit_is_refused_before_the_body_is_sent():
    async with receiving(limit=1000) as receivers:
        reply = await raw(receivers.http.port, HEAD + b"Content-Length: 1001\r\n\r\n")
    assert (reply.status, status_of(reply).code) == (413, 8)
    assert receivers.outcomes() == {("http", "traces", "too_large"): 1}


async def test_chunked_body_is_bounded():
    chunk = b"400\r\n" + b"\0" * 1024 + b"\r\n"
    async with receiving(limit=3000) as receivers:
        reply = await raw(receivers.http.port, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 4)
    assert reply.status == 413
    assert receivers.consumer.taken == []


@pytest.mark.parametrize(("encoding", "compress"), [("gzip", gzipped), ("zstd", zstd.compress)])
async def test_body_that_grows_over_the_limit_is_413(encoding: str, compress: Callable[[bytes], bytes]):
    async with receiving(limit=1000) as receivers:
        reply = await post(receivers.http.port, compress(b"\0" * 1_000_000), Content_Encoding=encoding)
    assert (reply.status, status_of(reply).code) == (413, 8)
    assert receivers.outcomes() == {("http", "traces", "too_large"): 1}


async def test_half_sent_headers_are_closed():
    async with receiving(idle_timeout_s=0.1) as receivers:
        assert (await raw(receivers.http.port, HEAD)).status == 0


async def test_half_sent_body_is_plainly_claimed_408_and_closed():
    async with receiving(body_timeout_s=0.1) as receivers:
        reader, writer = await asyncio.open_connection("127.0.0.1", receivers.http.port)
        writer.write(HEAD + b"Content-Length: 1000\r\n\r\n" + b"\0" * 10)
        reply = await read_reply(reader)
        assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()
    assert reply.status == 408
    status_of(reply)


async def test_long_body_gets_the_time_that_a_slow_line_needs():
    async with receiving(body_timeout_s=1, limit=10 << 20) as receivers:
        reader, writer = await asyncio.open_connection("127.0.0.1", receivers.http.port)
        writer.write(HEAD + b"Content-Length: 1000000\r\n\r\n")
        for _ in range(5):
            await asyncio.sleep(0.24)  # passing time is what is tested
            writer.write(b"\n\0" * 100_000)
        assert (await read_reply(reader)).status == 200
        writer.close()


async def test_long_body_that_breaks_off_is_plainly_claimed_408_as_soon_as_a_short_one():
    async with receiving(body_timeout_s=0.3, limit=10 << 20) as receivers:
        reader, writer = await asyncio.open_connection("127.0.0.1", receivers.http.port)
        writer.write(HEAD + b"Content-Length: 8000001\r\n\r\n" + b"\0" * 8_000_000)
        # By its size alone it would have had two minutes.
        assert (await asyncio.wait_for(read_reply(reader), 60)).status == 408
        writer.close()


async def test_half_a_body_is_plainly_claimed_to_come_back_when_memory_is_short():
    async with receiving(limit=10 << 20, has_memory=lambda _size: False) as receivers:
        reader, writer = await asyncio.open_connection("127.0.0.1", receivers.http.port)
        writer.write(HEAD + b"Content-Length: 8000000\r\n\r\n" + b"\0" * 4_000_000)
        reply = await read_reply(reader)
        whole = await post(receivers.http.port, RECORDED)
        writer.close()
    assert (reply.status, status_of(reply).message, reply.headers["retry-after"]) == (503, "memory is short", "1")
    assert whole.status == 200
    assert receivers.outcomes() == {("http", "traces", "refused"): 1, ("http", "traces", "accepted"): 1}


async def test_half_sent_requests_do_not_hold_up_twenty_others():
    async with receiving() as receivers:
        _, writer = await asyncio.open_connection("127.0.0.1", receivers.http.port)
        writer.write(HEAD + b"Content-Length: 500000\r\n\r\n" + b"\0" * 1000)
        replies = await asyncio.gather(*(post(receivers.http.port, RECORDED) for _ in range(20)))
        writer.close()
    assert [reply.status for reply in replies] == [200] * 20


def receiver(endpoint: str) -> HttpReceiver:
    return HttpReceiver(
        FakeConsumer(),
        HttpSettings(endpoint=endpoint, max_request_body_size=1 << 20),
        from_json=request_from_json,
        metrics=SelfMetrics(MetricRegistry()),
        hop_id=OWN_HOP,
    )


async def test_stop_works_twice_and_without_a_start():
    server = receiver("127.0.0.1:0")
    await server.stop(0)
    await server.start()
    await server.stop(0)
    await server.stop(0)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", server.port)


async def test_stop_closes_idle_connections_and_leaves_no_task():
    before = asyncio.all_tasks()
    server = receiver("127.0.0.1:0")
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    await server.stop(1)
    assert await asyncio.wait_for(reader.read(), 60) == b""
    writer.close()
    assert asyncio.all_tasks() == before


async def half_sent(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(HEAD + b"Expect: 100-continue\r\nContent-Length: 4\r\n\r\n")
    assert (await read_reply(reader)).status == 100
    writer.write(b"\n\0")
    return reader, writer


async def test_stop_waits_for_the_rest_of_a_body_and_closes_the_connection_behind_the_answer():
    async with receiving() as receivers:
        reader, writer = await half_sent(receivers.http.port)
        stopping = asyncio.create_task(receivers.http.stop(60))
        await asyncio.sleep(0)
        writer.write(b"\n\0")
        assert (await read_reply(reader)).status == 200
        assert await asyncio.wait_for(reader.read(), 60) == b""
        async with asyncio.timeout(30):
            await stopping
        writer.close()
    assert receivers.consumer.taken == [("traces", b"\n\0\n\0")]


async def test_stop_tells_the_sender_of_half_a_body_to_come_back():
    async with receiving() as receivers:
        reader, writer = await half_sent(receivers.http.port)
        await receivers.http.stop(0.4)
        reply = await read_reply(reader)
        writer.close()
    assert (reply.status, status_of(reply).message) == (503, "shutting down")
    assert receivers.outcomes() == {("http", "traces", "refused"): 1}
    assert receivers.consumer.taken == []


async def test_connections_are_kept_by_a_receiver_that_was_stopped_under_load_and_started_again():
    server = receiver("127.0.0.1:0")
    await server.start()
    _, writer = await half_sent(server.port)
    await server.stop(0.2)
    writer.close()
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    for _ in range(2):
        writer.write(HEAD + b"Content-Length: 2\r\n\r\n\n\0")
        assert (await read_reply(reader)).status == 200
    writer.close()
    await server.stop(1)
