"""The bounded queue of a destination, between the worker thread and the event loop."""

import asyncio
import threading
from collections import deque

from msgspec.structs import replace

from toolgauge.model.delivery import Outgoing

# A request costs memory beside its body; a flood of tiny ones is bounded by their number.
_SMALLEST_BYTES = 256
_FEW_REQUESTS = 1024


class SendQueue:
    """Feeds any number of waiting tasks. A request counts until its `release`: retries would hold uncounted memory."""

    def __init__(self, *, max_bytes: int, own_reserve_bytes: int) -> None:
        # Limits: bytes waiting or in flight, and number of waiting requests.
        most_bytes = max_bytes + own_reserve_bytes
        self._senders = max_bytes, max(_FEW_REQUESTS, max_bytes // _SMALLEST_BYTES)
        self._own = most_bytes, max(_FEW_REQUESTS, most_bytes // _SMALLEST_BYTES)
        self._waiting: deque[Outgoing] = deque()
        # Set when a request comes, and at the end.
        self._changed = asyncio.Event()
        # Totals of waiting and in-flight requests; `spans` counts senders' spans only.
        self.size_bytes = 0
        self.spans = 0
        self._closed = False
        # The worker thread puts, the event loop takes and releases.
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def has_room(self, size_bytes: int, *, own: bool) -> bool:
        """Return whether a request of this size fits. An empty queue takes any size."""
        if self._closed:
            return False
        most_bytes, most_requests = self._own if own else self._senders
        fits = self.size_bytes + size_bytes <= most_bytes and len(self._waiting) < most_requests
        return fits or self.size_bytes == 0

    def put(self, outgoing: Outgoing) -> bool:
        """Queue a request; False when it does not fit."""
        with self._lock:
            if not self.has_room(len(outgoing.body), own=outgoing.own):
                return False
            self.append(outgoing)
            return True

    def append(self, outgoing: Outgoing) -> None:
        """Queue a request also where it does not fit."""
        with self._lock:
            self.size_bytes += len(outgoing.body)
            self.spans += outgoing.spans
            self._waiting.append(outgoing)
        if self._loop is not None and not self._changed.is_set():
            self._loop.call_soon_threadsafe(self._changed.set)

    async def take(self) -> Outgoing | None:
        """Wait for the next request; `None` when the queue is closed and empty. The caller must `release` it."""
        self._loop = asyncio.get_running_loop()
        while not self._waiting:
            if self._closed:
                return None
            self._changed.clear()
            # A thread may have put a request before the event was cleared.
            if not self._waiting:
                await self._changed.wait()
        return self._waiting.popleft()

    def take_more(self, most_bytes: int) -> list[Outgoing]:
        """Take what waits behind the last request, so many bytes at most; the caller must `release` each."""
        taken: list[Outgoing] = []
        while self._waiting and (most_bytes := most_bytes - len(self._waiting[0].body)) >= 0:
            taken.append(self._waiting.popleft())
        return taken

    def release(self, outgoing: Outgoing) -> None:
        """Give back the room of a request that is acknowledged or dropped."""
        with self._lock:
            self.size_bytes -= len(outgoing.body)
            self.spans -= outgoing.spans

    def shrink(self, outgoing: Outgoing, body: bytes) -> Outgoing:
        """Give back the room of a part of a request; return the rest, which has this body."""
        with self._lock:
            self.size_bytes -= len(outgoing.body) - len(body)
        return replace(outgoing, body=body)

    def close(self) -> None:
        """Accept no more; waiting requests can still be taken out."""
        self._closed = True
        self._changed.set()

    def leftovers(self) -> list[Outgoing]:
        """Take out all waiting requests; the caller must `release` each."""
        left = list(self._waiting)
        self._waiting.clear()
        return left
