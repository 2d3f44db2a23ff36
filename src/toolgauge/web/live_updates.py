"""Events for browsers that have a page open: something has changed, fetch the page again.

An event names what changed and holds no more, so that a page has one form alone. A client has one pending set of names: those
that are slow to read get fewer events, and one that reads nothing is given up.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from aiohttp import web
from msgspec import Struct

EventName: TypeAlias = Literal["trajectories", "streams", "health"]

_MAX_CLIENTS = 32
_LOOK_S = 0.5
# Proxies end a connection on which nothing comes for a minute.
_HEARTBEAT_S = 15.0
_WRITE_TIMEOUT_S = 10.0
_HEADERS = {"Content-Type": "text/event-stream; charset=utf-8", "X-Accel-Buffering": "no"}
_BEGINNING = b"retry: 2000\n\n"
_HEARTBEAT = b": nothing has changed\n\n"


class Source(Struct, frozen=True, kw_only=True):
    """Something that changes: `stamp` differs then. An event is sent every `every_s` seconds at most."""

    name: EventName
    stamp: Callable[[], object]
    every_s: float = _LOOK_S


class LiveUpdates:
    """Answers with a stream of events. Belongs to the event loop."""

    def __init__(
        self,
        sources: Iterable[Source],
        headers: Mapping[str, str],
        *,
        max_clients: int = _MAX_CLIENTS,
        heartbeat_s: float = _HEARTBEAT_S,
    ) -> None:
        self._changes = [_Change(source) for source in sources]
        self._headers = {**headers, **_HEADERS}
        self._max_clients = max_clients
        self._heartbeat_s = heartbeat_s
        self._clients: set[_Client] = set()
        self._looking: asyncio.Task[None] | None = None
        self._is_stopped = False

    @property
    def clients(self) -> int:
        """How many listen."""
        return len(self._clients)

    def start(self) -> None:
        """Begin to look for changes."""
        self._looking = asyncio.create_task(self._look())

    async def stop(self) -> None:
        """End all streams. Works twice and without a start."""
        self._is_stopped = True
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
        for client in self._clients:
            client.wake(())

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Send events until the client goes away, or we end."""
        if self._is_stopped or len(self._clients) >= self._max_clients:
            return web.Response(status=503, text="too many pages are open; reload this one to see changes")
        response = web.StreamResponse(headers=self._headers)
        client = _Client(request)
        self._clients.add(client)
        try:
            await response.prepare(request)
            if request.method != "HEAD":
                await self._send(response, client)
        except (ConnectionError, TimeoutError):
            client.give_up()
        finally:
            self._clients.discard(client)
        return response

    async def _send(self, response: web.StreamResponse, client: "_Client") -> None:
        text = _BEGINNING
        while not self._is_stopped and not client.is_gone:
            async with asyncio.timeout(_WRITE_TIMEOUT_S):
                await response.write(text)
            names = await client.changed(self._heartbeat_s)
            text = b"".join(b"event: %b\ndata: \n\n" % name.encode() for name in names) or _HEARTBEAT

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOK_S)
            names = [change.source.name for change in self._changes if change.is_due(loop.time())]
            for client in self._clients:
                if names or client.is_gone:
                    client.wake(names)


class _Change:
    """What was last seen of a source."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._stamp = source.stamp()
        self._next_s = 0.0

    def is_due(self, now_s: float) -> bool:
        if now_s < self._next_s:
            return False
        stamp, before = self.source.stamp(), self._stamp
        if stamp == before:
            return False
        self._stamp = stamp
        # A little less than that, so that it comes with the look at which it is due.
        self._next_s = now_s + self.source.every_s - _LOOK_S / 2
        return True


class _Client:
    """One stream, and the names of events that wait for it."""

    def __init__(self, request: web.BaseRequest) -> None:
        self._transport = request.transport
        self._names: dict[str, None] = {}
        self._woken = asyncio.Event()

    @property
    def is_gone(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def wake(self, names: Sequence[str]) -> None:
        self._names |= dict.fromkeys(names)
        self._woken.set()

    async def changed(self, timeout_s: float) -> tuple[str, ...]:
        """Wait for names, or for so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._woken.wait()
        self._woken.clear()
        names, self._names = tuple(self._names), {}
        return names

    def give_up(self) -> None:
        if self._transport is not None:
            self._transport.abort()
