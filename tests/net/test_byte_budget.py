"""Bytes in use have a bound, and requests that wait for room keep their order."""

import asyncio

from toolgauge.net.byte_budget import ByteBudget


async def test_a_small_request_does_not_overtake_one_that_waits():
    budget = ByteBudget(100)
    assert budget.take(60)
    large = asyncio.create_task(budget.take_in_time(90, timeout_s=60))
    await asyncio.sleep(0)
    assert not budget.take(10)
    budget.give_back(60)
    assert await large
