"""What senders are told, in the words of both transports and both encodings (OTLP specification, "Failures")."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import asyncio
import json
from typing import get_args

import grpc
import grpc.aio
import pytest
from google.rpc.status_pb2 import Status
from grpc import StatusCode as Code

from tests.receive.fakes import OWN_HOP, TRACES, FakeConsumer, call, call_once, post, receiving
from toolgauge.model.delivery import Accepted, Answer, Invalid, Refused, Unsupported
from toolgauge.model.metrics import MetricRegistry
from toolgauge.receive.grpc import GrpcReceiver
from toolgauge.receive.settings import GrpcSettings, Keepalive, ServerParameters
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.settings import SECOND

BODY = b"\n\0"
LONG = "the reason \U0001f6d1 " * 100_000
JSON = "application/json"


async def test_a_request_is_taken_whole_or_not_at_all():
    # `partial_success` (rejected or a mere warning) is never set: there is no answer between these.
    assert get_args(Answer) == (Accepted, Refused, Invalid, Unsupported)
    async with receiving() as receivers:
        protobuf = await post(receivers.http.port, BODY)
        text = await post(receivers.http.port, b'{"resourceSpans":[{}]}', Content_Type=JSON)
        told = await call_once(receivers.grpc.port, BODY)
    assert (protobuf.status, protobuf.body) == (200, b"")
    assert (text.status, text.body) == (200, b"{}")
    assert (told.code, told.response) == (Code.OK, b"")


@pytest.mark.parametrize("answer", [Invalid(LONG), Refused(LONG), Unsupported(LONG)])
async def test_long_reason_is_cut_in_every_form(answer: Answer):
    async with receiving() as receivers:
        receivers.consumer.answer = answer
        protobuf = await post(receivers.http.port, BODY)
        text = await post(receivers.http.port, b'{"resourceSpans":[{}]}', Content_Type=JSON)
        told = await call_once(receivers.grpc.port, BODY)
    assert Status.FromString(protobuf.body).message.startswith("the reason")
    assert json.loads(text.body)["message"].startswith("the reason")
    assert told.message.startswith("the reason")
    assert told.code in (Code.INVALID_ARGUMENT, Code.UNAVAILABLE, Code.UNIMPLEMENTED)
    assert max(len(protobuf.body), len(text.body), len(told.message), len(told.details or b"")) < 8 * 1024


def _receiver(consumer: FakeConsumer, **settings: object) -> GrpcReceiver:
    chosen = GrpcSettings(endpoint="127.0.0.1:0", max_recv_msg_size=1 << 20, **settings)  # pyright: ignore[reportArgumentType]
    metrics = SelfMetrics(MetricRegistry())
    return GrpcReceiver(consumer, chosen, metrics=metrics, hop_id=OWN_HOP)


async def test_old_connections_are_closed_without_losing_a_request():
    consumer = FakeConsumer()
    ends = ServerParameters(max_connection_age=SECOND // 5, max_connection_age_grace=5 * SECOND)
    receiver = _receiver(consumer, keepalive=Keepalive(server_parameters=ends))
    await receiver.start()
    states: list[grpc.ChannelConnectivity] = []
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{receiver.port}") as channel:

            async def watch() -> None:
                state = channel.get_state(try_to_connect=True)
                while True:
                    states.append(state)
                    await channel.wait_for_state_change(state)
                    state = channel.get_state()

            watching = asyncio.create_task(watch())
            sent = 0
            async with asyncio.timeout(60):
                while states.count(grpc.ChannelConnectivity.READY) < 3:
                    assert (await call(channel, BODY, method=TRACES)).code is Code.OK
                    sent += 1
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
    finally:
        await receiver.stop(0.5)
    assert len(consumer.taken) == sent


async def test_idle_connections_are_closed():
    receiver = _receiver(
        FakeConsumer(), keepalive=Keepalive(server_parameters=ServerParameters(max_connection_idle=SECOND // 5))
    )
    await receiver.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{receiver.port}") as channel:
            assert (await call(channel, BODY)).code is Code.OK
            async with asyncio.timeout(60):
                await channel.wait_for_state_change(grpc.ChannelConnectivity.READY)
    finally:
        await receiver.stop(0.5)


async def test_streams_of_one_connection_are_bounded_and_the_rest_wait_or_are_told_to_come_back():
    consumer = FakeConsumer()
    receiver = _receiver(consumer, max_concurrent_streams=2)
    await receiver.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{receiver.port}") as channel:
            answers = await asyncio.gather(*(call(channel, BODY) for _ in range(20)))
    finally:
        await receiver.stop(0.5)
    codes = [told.code for told in answers]
    # gRPC refuses a stream too many with REFUSED_STREAM, which clients see as UNAVAILABLE: nothing was read of it.
    assert set(codes) <= {Code.OK, Code.UNAVAILABLE}
    assert len(consumer.taken) == codes.count(Code.OK) >= 2
