"""Requests are read one after the other in order of arrival, and the loop has its turns between steps."""

import asyncio
from collections.abc import Iterator

import pytest

from toolgauge.receive.turns import Turns


class Line:
    """Requests that are read together, and in which order that happened."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.steps: list[str] = []
        self.ended: list[str] = []

    def reading(self, name: str, pauses: int) -> Iterator[str | None]:
        for _ in range(pauses):
            self.steps.append(name)
            yield None
        self.steps.append(name)
        yield name

    async def read(self, name: str, pauses: int) -> None:
        assert await self.turns.last_of(self.reading(name, pauses)) == name
        self.ended.append(name)


async def test_a_request_is_read_to_its_end_before_the_next_is_begun():
    line = Line()
    await asyncio.gather(line.read("a", 3), line.read("b", 2), line.read("c", 0))
    assert line.steps == ["a", "a", "a", "a", "b", "b", "b", "c"]
    assert line.ended == ["a", "b", "c"]


async def test_a_small_request_does_not_wait_for_all_of_a_very_large_one():
    line = Line()
    await asyncio.gather(line.read("large", 1000), line.read("small", 1))
    assert line.ended == ["small", "large"]


async def test_everything_else_goes_on_between_the_steps_of_many_requests():
    line = Line()
    turns = 0

    async def other() -> None:
        nonlocal turns
        while len(line.ended) < 20:
            await asyncio.sleep(0)
            turns += 1

    await asyncio.gather(other(), *(line.read(str(number), 4) for number in range(20)))
    # As often as somebody paused.
    assert turns >= 80


async def test_a_sender_that_goes_away_holds_up_nobody():
    line = Line()
    first = asyncio.create_task(line.read("first", 10_000))
    waiting = asyncio.create_task(line.read("waiting", 0))
    last = asyncio.create_task(line.read("last", 0))
    await asyncio.sleep(0)
    first.cancel()
    waiting.cancel()
    await asyncio.wait([first, waiting, last])
    assert line.ended == ["last"]


async def test_a_line_is_waited_for_until_the_last_request_was_read_also_between_two_of_them():
    line = Line()
    assert not line.turns.are_waited_for
    reading = asyncio.gather(line.read("a", 2), line.read("b", 2), line.read("c", 2))
    await asyncio.sleep(0)
    seen: list[bool] = []
    while not reading.done():
        seen.append(line.turns.are_waited_for)
        await asyncio.sleep(0)
    # The last look may come between the end of reading and the word of it.
    assert len(seen) > 6
    assert all(seen[:-2])
    assert not line.turns.are_waited_for


async def test_a_request_that_fails_while_it_is_read_is_waited_for_no_longer():
    turns = Turns()

    def failing() -> Iterator[str | None]:
        yield None
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await turns.last_of(failing())
    assert not turns.are_waited_for
