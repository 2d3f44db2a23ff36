"""Clients of judge models: one request in, one reply out. `judges` limits their rate and cost."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Protocol, TypeVar

from msgspec import Struct

from toolgauge.model.json import Json
from toolgauge.model.judging import Question


class Reply(Struct, frozen=True, kw_only=True):
    """The answer of a judge; `problem` is why it holds no verdict, `text` is the text that the model wrote, where known.
    Tokens are `None` where not reported; `raw` is the client's own reply, for the next request of the conversation.
    """

    verdict: Json
    problem: str | None = None
    text: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    raw: object = None


class Exchange(Struct, frozen=True, kw_only=True):
    """One reply without a valid verdict, and its problem."""

    reply: Reply
    problem: str


class Request(Struct, frozen=True, kw_only=True):
    """A question, with the exchanges that have led to nothing so far."""

    question: Question
    exchanges: tuple[Exchange, ...] = ()


class Client(Protocol):
    """One way to a judge model; used by one event loop."""

    async def ask(self, request: Request) -> Reply:
        """Send the request once. Raises `JudgeCallError`; anything else it raises is reported by its type alone."""
        ...

    async def close(self) -> None:
        """Close the connections. May be called twice."""


_CLOSE_S = 2.0


_T = TypeVar("_T")


async def _contained(work: Coroutine[object, object, _T]) -> _T:
    """Let a client raise no exception that would end the loop."""
    try:
        return await work
    except (SystemExit, KeyboardInterrupt) as error:
        raise RuntimeError(type(error).__name__) from error


class ClientThread:
    """Implements `Client` on an event loop and a thread of its own, from the first request to `close`.
    Libraries of providers work for tens of milliseconds a call: on the loop that receives spans, every sender would wait.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False

    async def ask(self, request: Request) -> Reply:
        """Have the client send the request; giving up here gives up there."""
        loop = self._loop or self._begin()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_contained(self._client.ask(request)), loop))

    async def close(self) -> None:
        """Close the connections and end the thread. May be called twice."""
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is None or thread is None:
            if not self._is_closed:
                self._is_closed = True
                await self._client.close()
            return
        self._is_closed = True
        closing = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_contained(self._client.close()), loop))
        await asyncio.wait([closing], timeout=_CLOSE_S)
        loop.call_soon_threadsafe(loop.stop)
        await asyncio.to_thread(thread.join, _CLOSE_S)

    def _begin(self) -> asyncio.AbstractEventLoop:
        loop = self._loop = asyncio.new_event_loop()

        async def ended() -> None:
            tasks = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        def run() -> None:
            try:
                loop.run_forever()
            finally:
                loop.run_until_complete(ended())
                loop.run_until_complete(loop.shutdown_asyncgens())
                loop.close()

        # A daemon thread: a hanging library must not keep the process alive.
        self._thread = threading.Thread(target=run, name="toolgauge-judges", daemon=True)
        self._thread.start()
        return loop
