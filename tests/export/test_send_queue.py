import asyncio

from tests.export.fakes import request
from toolgauge.export.send_queue import SendQueue


def queue(max_bytes: int = 100, own_reserve_bytes: int = 50) -> SendQueue:
    return SendQueue(max_bytes=max_bytes, own_reserve_bytes=own_reserve_bytes)


async def test_requests_leave_in_order_of_arrival():
    waiting = queue()
    assert waiting.put(request(b"a"))
    assert waiting.put(request(b"b"))
    assert [await waiting.take(), await waiting.take()] == [request(b"a"), request(b"b")]


async def test_bytes_count_until_they_are_released_not_until_they_are_taken():
    waiting = queue()
    first = request(b"x" * 60)
    assert waiting.put(first)
    await waiting.take()
    assert not waiting.has_room(60, own=False)
    assert not waiting.put(request(b"y" * 60))
    assert (waiting.size_bytes, waiting.spans) == (60, 1)
    waiting.release(first)
    assert (waiting.size_bytes, waiting.spans) == (0, 0)
    assert waiting.put(request(b"y" * 60))


async def test_reserve_is_for_our_own_only():
    waiting = queue()
    assert waiting.put(request(b"x" * 100))
    assert not waiting.put(request(b"y"))
    assert waiting.put(request(b"z" * 50, own=True))
    assert not waiting.put(request(b"z", own=True))


async def test_request_that_is_larger_than_the_queue_goes_alone():
    waiting = queue()
    assert waiting.put(request(b"x" * 1000))
    assert not waiting.has_room(1, own=False)


async def test_flood_of_tiny_requests_is_bounded_by_number():
    waiting = queue(max_bytes=512 * 1024, own_reserve_bytes=0)
    assert sum(waiting.put(request(b"x")) for _ in range(5000)) == 2048


async def test_closed_queue_takes_nothing_in_and_still_gives_out():
    waiting = queue()
    assert waiting.put(request(b"a"))
    waiting.close()
    assert not waiting.put(request(b"b"))
    assert await waiting.take() == request(b"a")
    assert await waiting.take() is None


async def test_request_is_not_forgotten_when_its_taker_is_cancelled():
    waiting = queue()
    gone, stays = asyncio.create_task(waiting.take()), asyncio.create_task(waiting.take())
    await asyncio.sleep(0)
    waiting.put(request(b"a"))
    gone.cancel()
    assert await asyncio.wait_for(stays, 60) == request(b"a")
