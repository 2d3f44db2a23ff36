"""A client in a thread of its own: what it does there, the loop here does not feel."""

import asyncio
import threading

import pytest

from tests.judge.support import YES, Script, question
from toolgauge.judge.inquiry import Reply, Request
from toolgauge.judge.judges import ClientThread

ASKED = Request(question=question())


class Blocks(Script):
    """Holds its own thread until it is let go."""

    def __init__(self) -> None:
        super().__init__(YES)
        self.goes_on = threading.Event()
        self.thread = ""

    async def ask(self, request: Request) -> Reply:
        self.thread = threading.current_thread().name
        assert self.goes_on.wait(60)
        return await super().ask(request)


async def test_a_client_that_blocks_its_thread_blocks_nobody_here():
    client = Blocks()
    apart = ClientThread(client)
    asking = asyncio.create_task(apart.ask(ASKED))
    for _ in range(100):
        await asyncio.sleep(0)
    assert not asking.done()
    client.goes_on.set()
    assert (await asking).verdict == YES
    assert client.thread == "toolgauge-judges"
    await apart.close()
    await apart.close()
    assert client.is_closed
    assert "toolgauge-judges" not in {thread.name for thread in threading.enumerate()}


async def test_giving_up_here_gives_up_there():
    client = Script("hang")
    apart = ClientThread(client)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await apart.ask(ASKED)
    async with asyncio.timeout(60):
        while client.in_flight:
            await asyncio.sleep(0.01)
    await apart.close()


async def test_closing_while_a_call_hangs_ends_the_call_and_the_thread():
    client = Script("hang")
    apart = ClientThread(client)
    asking = asyncio.create_task(apart.ask(ASKED))
    async with asyncio.timeout(60):
        while not client.in_flight:
            await asyncio.sleep(0.01)
    await apart.close()
    await asyncio.wait([asking], timeout=60)
    assert asking.done()
    assert client.in_flight == 0


async def test_a_client_that_was_never_asked_is_closed_without_a_thread():
    client = Script(YES)
    await ClientThread(client).close()
    assert client.is_closed


async def test_a_client_that_ends_its_process_fails_the_call_and_answers_the_next_one():
    class Ends(Script):
        async def ask(self, request: Request) -> Reply:
            if not self.requests:
                self.requests.append(request)
                raise SystemExit(0)
            return await super().ask(request)

    apart = ClientThread(Ends(YES))
    with pytest.raises(RuntimeError, match="SystemExit"):
        await apart.ask(ASKED)
    assert (await apart.ask(ASKED)).verdict == YES
    await apart.close()
