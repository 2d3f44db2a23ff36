# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
import asyncio
import gc
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import grpc.aio
import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from tests.receive.fakes import (
    LOGS,
    METRICS,
    OWN_HOP,
    TRACES,
    FakeConsumer,
    call,
    call_once,
    receiving,
)
from toolgauge.model.delivery import Invalid, Refused, Unsupported
from toolgauge.model.errors import StartError
from toolgauge.model.metrics import MetricRegistry
from toolgauge.receive.grpc import GrpcReceiver
from toolgauge.receive.settings import GrpcSettings
from toolgauge.selfmetrics import SelfMetrics

RECORDED = sorted(Path("tests/corpus/openai-agents").glob("**/*.otlp.pb"))[0].read_bytes()
Code = grpc.StatusCode


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
async def test_compressed_request_arrives_decompressed(compression: grpc.Compression):
    async with receiving() as receivers:
        told = await call_once(receivers.grpc.port, RECORDED, compression=compression)
    assert told.code is Code.OK
    assert receivers.consumer.taken == [("traces", RECORDED)]


async def test_each_service_has_its_signal():
    async with receiving() as receivers:
        for method in (TRACES, METRICS, LOGS):
            await call_once(receivers.grpc.port, b"\n\0", method=method)
    assert [signal for signal, _ in receivers.consumer.taken] == ["traces", "metrics", "logs"]


async def test_the_consumer_can_tell_connections_apart():
    async with receiving() as receivers:
        for calls in (2, 1):
            # Channels share connections to one address unless they are told not to.
            options = [("grpc.use_local_subchannel_pool", 1)]
            async with grpc.aio.insecure_channel(f"127.0.0.1:{receivers.grpc.port}", options) as channel:
                for _ in range(calls):
                    await channel.unary_unary(TRACES)(b"\n\0")
    one, again, other = receivers.consumer.senders
    assert one == again
    assert one != other


async def test_refused_request_is_unavailable_with_the_time_to_come_back():
    async with receiving() as receivers:
        receivers.consumer.answer = Refused("the queue is full", 0.25)
        told = await call_once(receivers.grpc.port, RECORDED)
    assert (told.code, told.message) == (Code.UNAVAILABLE, "the queue is full")
    assert told.details is not None
    status = Status.FromString(told.details)
    info = RetryInfo()
    assert status.code == 14
    assert status.details[0].Unpack(info)
    assert (info.retry_delay.seconds, info.retry_delay.nanos) == (0, 250_000_000)
    assert receivers.outcomes() == {("grpc", "traces", "refused"): 1}


@pytest.mark.parametrize(
    ("answer", "code", "outcome"),
    [
        (Invalid("the request is cut off"), Code.INVALID_ARGUMENT, "invalid"),
        (Unsupported("metrics are not accepted"), Code.UNIMPLEMENTED, "unsupported"),
    ],
)
async def test_refusal_for_good_has_its_code_and_message(answer: Invalid | Unsupported, code: Code, outcome: str):
    async with receiving() as receivers:
        receivers.consumer.answer = answer
        told = await call_once(receivers.grpc.port, b"\n\x05x", method=METRICS)
    assert (told.code, told.message) == (code, answer.message)
    assert receivers.outcomes() == {("grpc", "metrics", outcome): 1}


@pytest.mark.parametrize(("fault", "code"), [(KeyError("k"), Code.INTERNAL), (MemoryError(), Code.UNAVAILABLE)])
async def test_fault_behind_the_handler_is_never_unknown(fault: Exception, code: grpc.StatusCode):
    async with receiving() as receivers:
        receivers.consumer.fault = fault
        told = await call_once(receivers.grpc.port, RECORDED)
    assert told.code is code
    assert receivers.outcomes() == {("grpc", "traces", "error"): 1}


async def test_request_over_the_limit_is_exhausted_for_good():
    async with receiving(limit=1000) as receivers:
        told = await call_once(receivers.grpc.port, b"\n\0" * 600)
    assert (told.code, told.details) == (Code.RESOURCE_EXHAUSTED, None)
    assert receivers.consumer.taken == []
    assert receivers.outcomes() == {("grpc", "traces", "unread"): 1}


async def test_requests_that_come_are_not_counted_as_unread_and_empty_ones_succeed_without_the_consumer():
    async with receiving(limit=1000) as receivers:
        empty = [await call_once(receivers.grpc.port, b"") for _ in range(5)]
        receivers.consumer.answer = Refused("full")
        await call_once(receivers.grpc.port, b"\n\0")
        gc.collect()
    assert {(told.code, told.response) for told in empty} == {(Code.OK, b"")}
    assert len(receivers.consumer.taken) == 1
    assert receivers.outcomes() == {("grpc", "traces", "accepted"): 5, ("grpc", "traces", "refused"): 1}


async def test_request_that_grows_over_the_limit_is_exhausted_for_good_and_counted():
    async with receiving(limit=1000) as receivers:
        told = await call_once(receivers.grpc.port, b"\n\0" * 100_000, compression=grpc.Compression.Gzip)
    assert told.code is Code.RESOURCE_EXHAUSTED
    assert told.details is not None
    assert not Status.FromString(told.details).details
    assert receivers.outcomes() == {("grpc", "traces", "too_large"): 1}


async def test_uncompressed_request_that_begins_like_zlib_is_left_alone():
    unknown_field_15 = b"\x78\x9c\x01" + RECORDED
    async with receiving() as receivers:
        await call_once(receivers.grpc.port, unknown_field_15)
    assert receivers.consumer.taken == [("traces", unknown_field_15)]


async def test_own_hop_is_refused_for_good_and_counted():
    async with receiving() as receivers:
        told = await call_once(receivers.grpc.port, RECORDED, metadata=(("x-toolgauge-hop", OWN_HOP),))
        other = await call_once(receivers.grpc.port, RECORDED, metadata=(("x-toolgauge-hop", "another"),))
    assert (told.code, other.code) == (Code.FAILED_PRECONDITION, Code.OK)
    assert "loop" in told.message
    assert receivers.outcomes() == {("grpc", "traces", "loop"): 1, ("grpc", "traces", "accepted"): 1}


async def test_one_stuck_request_does_not_hold_up_twenty_others_on_its_connection():
    never = asyncio.Event()

    async def half() -> AsyncIterator[bytes]:
        await never.wait()
        yield b""

    async with receiving() as receivers, grpc.aio.insecure_channel(f"127.0.0.1:{receivers.grpc.port}") as channel:
        stuck = channel.stream_unary(TRACES)(half())
        answers = await asyncio.gather(*(call(channel, RECORDED) for _ in range(20)))
        assert not stuck.done()
        stuck.cancel()
    assert [told.code for told in answers] == [Code.OK] * 20
    assert len(receivers.consumer.taken) == 20


async def test_a_message_that_is_half_there_is_plainly_claimed_to_come_back_when_memory_is_short():
    memory, over = {"is short": False}, asyncio.Event()

    async def half() -> AsyncIterator[bytes]:
        await over.wait()
        yield b""

    async with (
        receiving(has_memory=lambda _size: not memory["is short"]) as receivers,
        grpc.aio.insecure_channel(f"127.0.0.1:{receivers.grpc.port}") as channel,
    ):
        stuck = channel.stream_unary(TRACES)(half())
        assert (await call(channel, RECORDED)).code is Code.OK
        assert not stuck.done()
        memory["is short"] = True
        with pytest.raises(grpc.aio.AioRpcError) as told:
            await asyncio.wait_for(stuck, 60)
        over.set()
        # What is whole is for the consumer to refuse, which counts its spans.
        assert (await call(channel, RECORDED)).code is Code.OK
    details = dict(told.value.trailing_metadata() or ())["grpc-status-details-bin"]
    assert isinstance(details, bytes)
    assert (told.value.code(), told.value.details()) == (Code.UNAVAILABLE, "memory is short")
    assert Status.FromString(details).details[0].Unpack(RetryInfo())
    assert receivers.outcomes() == {("grpc", "traces", "accepted"): 2, ("grpc", "traces", "refused"): 1}


async def test_sender_that_goes_away_in_the_middle_of_a_message_is_counted_as_unread():
    async def half() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    async with receiving() as receivers, grpc.aio.insecure_channel(f"127.0.0.1:{receivers.grpc.port}") as channel:
        stuck = channel.stream_unary(TRACES)(half())
        assert (await call(channel, RECORDED)).code is Code.OK
        stuck.cancel()
        async with asyncio.timeout(60):
            while len(receivers.outcomes()) < 2:
                await asyncio.sleep(0.01)
    assert receivers.outcomes() == {("grpc", "traces", "accepted"): 1, ("grpc", "traces", "unread"): 1}


async def test_call_without_a_message_is_an_invalid_argument():
    async def nothing() -> AsyncIterator[bytes]:
        for body in ():
            yield body

    async with receiving() as receivers, grpc.aio.insecure_channel(f"127.0.0.1:{receivers.grpc.port}") as channel:
        with pytest.raises(grpc.aio.AioRpcError) as told:
            await asyncio.wait_for(channel.stream_unary(TRACES)(nothing()), 60)
    assert (told.value.code(), told.value.details()) == (Code.INVALID_ARGUMENT, "the request has no message")
    assert receivers.outcomes() == {("grpc", "traces", "unread"): 1}


def receiver(endpoint: str) -> GrpcReceiver:
    return GrpcReceiver(
        FakeConsumer(),
        GrpcSettings(endpoint=endpoint, max_recv_msg_size=1 << 20),
        metrics=SelfMetrics(MetricRegistry()),
        hop_id=OWN_HOP,
    )


async def test_port_of_another_receiver_is_a_start_error():
    async with receiving() as receivers:
        second = receiver(f"127.0.0.1:{receivers.grpc.port}")
        with pytest.raises(StartError, match=f"`127.0.0.1:{receivers.grpc.port}`: the port is in use"):
            await second.start()
        await second.stop(0)


async def test_localhost_serves_both_families():
    server = receiver("localhost:0")
    await server.start()
    try:
        for host in ("127.0.0.1", "[::1]") if socket.has_ipv6 else ("127.0.0.1",):
            async with grpc.aio.insecure_channel(f"{host}:{server.port}") as channel:
                assert (await call(channel, RECORDED)).code is Code.OK
    finally:
        await server.stop(0)


async def test_stop_works_twice_and_without_a_start():
    server = receiver("127.0.0.1:0")
    await server.stop(0)
    await server.start()
    await server.stop(0)
    await server.stop(0)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", server.port)
