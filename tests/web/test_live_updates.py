"""Events about changes: what comes when, and what a client that does not read can cost."""

import asyncio
import socket
import time

import aiohttp
import pytest

from tests.web.support import serving
from toolgauge.web.endpoint import HEADERS
from toolgauge.web.live_updates import LiveUpdates, Source

DEADLINE_S = 60


class Changing:
    """Something that changes when a test says so."""

    def __init__(self) -> None:
        self.stamp = 0

    def source(self, every_s: float = 0.5) -> Source:
        return Source(name="trajectories", stamp=lambda: self.stamp, every_s=every_s)


async def lines_until(answer: aiohttp.ClientResponse, wanted: str, count: int = 1) -> list[str]:
    """Read lines that are not empty until one came so often."""
    lines: list[str] = []
    async with asyncio.timeout(DEADLINE_S):
        while lines.count(wanted) < count:
            line = (await answer.content.readline()).decode().strip()
            if line:
                lines.append(line)
    return lines


async def listening(live: LiveUpdates, number: int) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while live.clients != number:
            await asyncio.sleep(0.01)


async def test_a_change_is_an_event_and_many_are_one():
    changing = Changing()
    live = LiveUpdates([changing.source()], HEADERS)
    async with (
        serving({}, live=live) as url,
        aiohttp.ClientSession() as session,
        session.get(f"{url}/events") as answer,
    ):
        assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS
        assert await lines_until(answer, "retry: 2000") == ["retry: 2000"]
        began = time.monotonic()
        for _ in range(3):
            changing.stamp += 100
            assert await lines_until(answer, "data:") == ["event: trajectories", "data:"]
        # The first comes with the next look; half a second lies between two.
        assert time.monotonic() - began > 0.9


async def test_figures_come_less_often():
    changing = Changing()
    live = LiveUpdates([changing.source(every_s=1.5)], HEADERS)
    async with (
        serving({}, live=live) as url,
        aiohttp.ClientSession() as session,
        session.get(f"{url}/events") as answer,
    ):
        began = time.monotonic()
        for _ in range(2):
            changing.stamp += 1
            await lines_until(answer, "data:")
        assert time.monotonic() - began > 1.2


async def test_without_a_change_the_connection_is_kept_alive():
    live = LiveUpdates([], HEADERS, heartbeat_s=0.05)
    async with (
        serving({}, live=live) as url,
        aiohttp.ClientSession() as session,
        session.get(f"{url}/events") as answer,
    ):
        lines = await lines_until(answer, ": nothing has changed", 2)
    assert lines == ["retry: 2000", ": nothing has changed", ": nothing has changed"]


async def test_clients_are_few_and_those_that_went_away_make_room():
    live = LiveUpdates([], HEADERS, max_clients=1)
    async with serving({}, live=live) as url, aiohttp.ClientSession() as session:
        async with session.get(f"{url}/events") as answer:
            await lines_until(answer, "retry: 2000")
            async with session.get(f"{url}/events") as refused:
                assert refused.status == 503
                assert "too many pages" in await refused.text()
            answer.close()
        await listening(live, 0)
        async with session.get(f"{url}/events") as answer:
            assert answer.status == 200
            answer.close()


async def test_a_client_that_reads_nothing_holds_up_nobody():
    changing = Changing()
    live = LiveUpdates([changing.source()], HEADERS)
    async with serving({"/": lambda _: "page"}, live=live) as url, aiohttp.ClientSession() as session:
        with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as silent:
            silent.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await listening(live, 1)
            async with session.get(f"{url}/events") as answer:
                changing.stamp += 1
                await lines_until(answer, "data:")
                async with session.get(url) as page:
                    assert await page.text() == "page"
                answer.close()


async def test_streams_end_with_the_service():
    live = LiveUpdates([], HEADERS)
    async with aiohttp.ClientSession() as session:
        async with serving({}, live=live) as url:
            answer = await session.get(f"{url}/events")
            await lines_until(answer, "retry: 2000")
            began = time.monotonic()
        assert time.monotonic() - began < 10
        assert (await answer.read()).strip() == b""
        with pytest.raises(aiohttp.ClientError):
            await session.get(f"{url}/events")
