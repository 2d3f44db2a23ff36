"""A client on an event loop of its own, in a thread of its own.

Libraries of providers take tens of milliseconds of work for a call, and more for the first: on the loop that receives
spans, every sender would wait for it.
"""

import asyncio
import threading

from toolgauge.judge.client import Client, Preparing, Reply, Request

_CLOSE_S = 2.0


class ClientThread:
    """Implements `judge.client.Client`; the thread begins with the first request, or before it with `prepare`, and ends with `close`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False

    async def prepare(self) -> None:
        """Have the client prepare itself, if it does."""
        if isinstance(self._client, Preparing):
            loop = self._loop or self._begin()
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._client.prepare(), loop))

    async def ask(self, request: Request) -> Reply:
        """Have the client send the request; giving up here gives up there."""
        loop = self._loop or self._begin()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._client.ask(request), loop))

    async def close(self) -> None:
        """Let go of connections and of the thread. May be called twice."""
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is None or thread is None:
            if not self._is_closed:
                self._is_closed = True
                await self._client.close()
            return
        self._is_closed = True
        closing = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._client.close(), loop))
        await asyncio.wait([closing], timeout=_CLOSE_S)
        loop.call_soon_threadsafe(loop.stop)
        await asyncio.to_thread(thread.join, _CLOSE_S)

    def _begin(self) -> asyncio.AbstractEventLoop:
        loop = self._loop = asyncio.new_event_loop()
        # A daemon: what a library never ends may not keep the process alive.
        self._thread = threading.Thread(target=_run, args=(loop,), name="toolgauge-judges", daemon=True)
        self._thread.start()
        return loop


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.run_until_complete(_ended(asyncio.all_tasks(loop)))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _ended(tasks: set[asyncio.Task[object]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
