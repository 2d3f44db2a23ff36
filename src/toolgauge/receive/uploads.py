"""Messages that are on their way in: which to give up when memory runs short, or when one takes for ever.

gRPC gathers a message out of sight until it is whole, in memory that no queue of ours counts, and does not report how
much of it has arrived; over HTTP, a read waits as long as the sender is silent. What can be known of both is how many messages
are being gathered and since when.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from toolgauge.model.delivery import Refused
from toolgauge.receive.refusal import Refusal, invalid, refusal

# Between two looks. Most messages are whole sooner, and cost no look.
_LOOK_S = 0.02
# A line that is slower than this is none.
_SLOWEST_BYTES_PER_S = 64 * 1024

_MEMORY_IS_SHORT = refusal(Refused("memory is short"))
_TOO_SLOW = invalid("the message did not come in time", http_status=408)


class Upload(Protocol):
    """A message that is being gathered."""

    async def give_up(self, refused: Refusal) -> None:
        """Answer the sender, and free the bytes that have arrived."""
        ...


class Uploads:
    """The messages that one server is gathering, none of them larger than `largest`. Belongs to one event loop.

    `has_memory` answers whether so many more bytes may be gathered. A message has `patience_s`, and the time that the
    largest one needs on a slow line.
    """

    def __init__(self, largest: int, has_memory: Callable[[int], bool], *, patience_s: float = 60.0) -> None:
        self._largest = largest
        self._has_memory = has_memory
        self._longest_s = patience_s + largest / _SLOWEST_BYTES_PER_S
        # In the order in which they began.
        self._begun_s: dict[Upload, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def begin(self, upload: Upload) -> None:
        """Watch a message from here on."""
        loop = asyncio.get_running_loop()
        self._begun_s[upload] = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(_LOOK_S, self._look)

    def end(self, upload: Upload) -> None:
        """Watch it no longer: it is whole, or its sender is gone."""
        self._begun_s.pop(upload, None)

    async def give_up_all(self, refused: Refusal) -> None:
        """Wait for none of them any longer."""
        for upload in tuple(self._begun_s):
            await self._end(upload, refused)

    def _look(self) -> None:
        self._timer = None
        if not self._begun_s:
            return
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        # How much came in since the last look is unknown; it was not more than this.
        if not self._has_memory(len(self._begun_s) * self._largest):
            # Those of this moment may well be whole: their reader answers them.
            self._give_up(now_s - _LOOK_S, _MEMORY_IS_SHORT)
        self._give_up(now_s - self._longest_s, _TOO_SLOW)
        if self._begun_s:
            self._timer = loop.call_later(_LOOK_S, self._look)

    def _give_up(self, begun_before_s: float, refused: Refusal) -> None:
        for upload in [upload for upload, begun_s in self._begun_s.items() if begun_s <= begun_before_s]:
            ending = asyncio.create_task(self._end(upload, refused))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)

    async def _end(self, upload: Upload, refused: Refusal) -> None:
        # It may have become whole meanwhile: a sender that is refused after its request was taken sends it twice.
        if self._begun_s.pop(upload, None) is not None:
            await upload.give_up(refused)
