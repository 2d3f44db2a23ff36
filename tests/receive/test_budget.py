"""All receivers share one budget for what is unpacked and read; real sockets, small bodies."""
# pyright: reportUnknownVariableType=false

import asyncio
import gzip
import sys
import zlib

import grpc
import grpc.aio
import pytest

from tests.receive.fakes import (
    LOGS,
    TRACES,
    FakeConsumer,
    FakeMemory,
    Receivers,
    Reply,
    call,
    call_once,
    post,
    receiving,
)
from tests.receive.test_http import RECORDED, status_of
from toolgauge.model.delivery import Answer, Signal
from toolgauge.net.byte_budget import ByteBudget, Memory
from toolgauge.receive import otlp_handler
from toolgauge.receive.otlp_handler import zstd

MIB = 1 << 20
BOMB = bytes(MIB)
# A request takes four times its bytes, and one in JSON seven times.
ONE = 4 * MIB
Code = grpc.StatusCode


class WatchedBudget(ByteBudget):
    """Notes the most that was in use, and shows whether somebody waits."""

    def __init__(self, max_bytes: int, memory: Memory | None = None) -> None:
        super().__init__(max_bytes, memory)
        self.peak = 0

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def grow(self, size_bytes: int, own_bytes: int = 0) -> bool:
        is_taken = super().grow(size_bytes, own_bytes)
        self.peak = max(self.peak, self.size_bytes)
        return is_taken


class HoldingConsumer(FakeConsumer):
    """Takes a request when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.held = 0
        self.may_go_on = asyncio.Event()

    async def consume(self, signal: Signal, body: bytes, sender: str | None) -> Answer:
        self.held += 1
        await self.may_go_on.wait()
        return await super().consume(signal, body, sender)

    async def has_begun(self, count: int) -> None:
        async with asyncio.timeout(60):
            while self.held < count:
                await asyncio.sleep(0.005)


async def compressed(receivers: Receivers, body: bytes, encoding: str = "gzip") -> Reply:
    return await post(receivers.http.port, body, Content_Encoding=encoding)


async def test_many_bombs_at_once_over_both_transports_stay_within_the_budget():
    budget = WatchedBudget(2 * ONE)
    packed = gzip.compress(BOMB)
    async with receiving(limit=2 * MIB, budget=budget) as receivers:
        replies, told = await asyncio.gather(
            asyncio.gather(*(compressed(receivers, packed) for _ in range(12))),
            asyncio.gather(*(call_once(receivers.grpc.port, packed, method=LOGS) for _ in range(12))),
        )
    assert {reply.status for reply in replies} == {200}
    assert {answer.code for answer in told} == {Code.OK}
    assert ONE <= budget.peak <= 2 * ONE
    assert budget.size_bytes == 0


@pytest.mark.parametrize(
    ("packed", "encoding"),
    [
        (gzip.compress(BOMB[1:]) + gzip.compress(b"") + gzip.compress(b"\0"), "gzip"),
        (zlib.compress(BOMB), "deflate"),
        (zstd.ZstdCompressor().compress(BOMB, mode=zstd.ZstdCompressor.FLUSH_FRAME), "zstd"),
    ],
    ids=["members", "deflate", "zstd"],
)
async def test_what_is_larger_than_declared_is_reserved_as_it_grows(packed: bytes, encoding: str):
    budget = WatchedBudget(10 * MIB)
    async with receiving(limit=2 * MIB, budget=budget) as receivers:
        reply = await compressed(receivers, packed, encoding)
    assert (reply.status, budget.peak, budget.size_bytes) == (200, ONE, 0)
    assert receivers.consumer.taken == [("traces", BOMB)]


async def test_what_grows_beyond_the_budget_beside_others_is_told_to_come_back():
    budget = WatchedBudget(ONE + MIB)
    async with receiving(limit=2 * MIB, budget=budget, consumer=HoldingConsumer()) as receivers:
        holding = receivers.consumer
        assert isinstance(holding, HoldingConsumer)
        first = asyncio.create_task(post(receivers.http.port, BOMB))
        await holding.has_begun(1)
        reply = await compressed(receivers, zlib.compress(BOMB), "deflate")
        holding.may_go_on.set()
        assert (await first).status == 200
    assert (reply.status, status_of(reply).message, reply.headers["retry-after"]) == (503, "memory is short", "1")
    assert receivers.outcomes() == {("http", "traces", "accepted"): 1, ("http", "traces", "refused"): 1}
    assert budget.size_bytes == 0


async def test_a_sender_waits_for_room_and_is_told_to_come_back_when_there_is_none_in_time(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(otlp_handler, "_PATIENCE_S", 0.1)
    budget = WatchedBudget(ONE)
    async with (
        receiving(limit=2 * MIB, budget=budget, consumer=HoldingConsumer()) as receivers,
        grpc.aio.insecure_channel(f"127.0.0.1:{receivers.grpc.port}") as channel,
    ):
        holding = receivers.consumer
        assert isinstance(holding, HoldingConsumer)
        first = asyncio.create_task(compressed(receivers, gzip.compress(BOMB)))
        await holding.has_begun(1)
        late = await call(channel, gzip.compress(BOMB))
        monkeypatch.setattr(otlp_handler, "_PATIENCE_S", 60)
        waiting = asyncio.create_task(call(channel, gzip.compress(BOMB)))
        while not budget.has_waiting:
            await asyncio.sleep(0.005)
        holding.may_go_on.set()
        assert (await first).status == 200
        assert (await waiting).code is Code.OK
    assert (late.code, late.message, late.details is None) == (Code.UNAVAILABLE, "memory is short", False)
    assert holding.held == 2
    assert budget.size_bytes == 0


async def test_what_could_never_fit_is_refused_for_good():
    budget = WatchedBudget(ONE, FakeMemory(lambda _size: True, limit_bytes=ONE - 1))
    async with receiving(limit=2 * MIB, budget=budget) as receivers:
        reply = await compressed(receivers, gzip.compress(BOMB))
        told = await call_once(receivers.grpc.port, gzip.compress(BOMB))
        small = await post(receivers.http.port, RECORDED)
    assert (reply.status, "retry-after" in reply.headers) == (413, False)
    assert "`memory.limit`" in status_of(reply).message
    assert told.code is Code.RESOURCE_EXHAUSTED
    assert small.status == 200
    assert budget.size_bytes == 0


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (gzip.compress(BOMB)[:-20], {"Content_Encoding": "gzip"}),
        (gzip.compress(bytes(3 * MIB)), {"Content_Encoding": "gzip"}),
        (b"[" * 1000, {"Content_Type": "application/json"}),
        (b'{"resourceSpans": 1}', {"Content_Type": "application/json"}),
    ],
    ids=["broken", "too large", "no JSON", "no OTLP"],
)
async def test_the_budget_is_whole_again_after_a_request_that_is_refused(body: bytes, headers: dict[str, str]):
    budget = WatchedBudget(100 * MIB)
    async with receiving(limit=2 * MIB, budget=budget) as receivers:
        assert (await post(receivers.http.port, body, **headers)).status in (400, 413)
        receivers.consumer.fault = RuntimeError("a fault of ours")
        assert (await post(receivers.http.port, RECORDED)).status == 500
    assert budget.peak > 0
    assert budget.size_bytes == 0


async def test_the_budget_is_whole_again_after_senders_that_go_away():
    budget = WatchedBudget(3 * ONE)
    async with (
        receiving(limit=2 * MIB, budget=budget, consumer=HoldingConsumer()) as receivers,
        grpc.aio.insecure_channel(f"127.0.0.1:{receivers.grpc.port}") as channel,
    ):
        holding = receivers.consumer
        assert isinstance(holding, HoldingConsumer)
        calls = [channel.unary_unary(TRACES)(gzip.compress(BOMB)) for _ in range(5)]
        await holding.has_begun(3)
        assert budget.size_bytes == 3 * ONE
        for one in calls:
            one.cancel()
        async with asyncio.timeout(60):
            while budget.size_bytes or budget.has_waiting:
                await asyncio.sleep(0.005)


async def test_memory_that_comes_free_elsewhere_is_found_by_the_first_in_line():
    fits = {"now": False}

    class Elsewhere(FakeMemory):
        def fits(self, size_bytes: int) -> bool:
            return fits["now"] and size_bytes <= sys.maxsize

    budget = WatchedBudget(ONE, Elsewhere(lambda _size: True))
    waiting = asyncio.create_task(budget.take_in_time(1, 60))
    while not budget.has_waiting:
        await asyncio.sleep(0)
    fits["now"] = True
    assert await waiting
