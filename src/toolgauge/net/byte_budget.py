"""Bytes that may be in use at a time: a request that needs more than is left waits in line, for a while."""

import asyncio
import contextlib
import sys
from collections import deque

# Memory that is freed elsewhere wakes nobody: the first in line looks for it.
_LOOK_S = 0.05


class Memory:
    """The memory of a process; here one without a limit."""

    def admits(self, size_bytes: int) -> bool:  # noqa: ARG002 - there is no limit
        """Return whether memory is not short; so many bytes come in."""
        return True

    def fits(self, size_bytes: int) -> bool:  # noqa: ARG002
        """Return whether there is memory for so many bytes beside all that is in use."""
        return True

    def could_fit(self, size_bytes: int) -> bool:  # noqa: ARG002
        """Return whether there would be memory for so many bytes if the process held nothing else."""
        return True


class ByteBudget:
    """At most `max_bytes` at a time, but for a request that is alone, and no more than there is `memory` for.
    Belongs to the event loop, but for `give_back`, which one other thread may call instead. The bytes of a request are held
    `elsewhere` as many times, by the process that it is handed to.
    """

    def __init__(self, max_bytes: int = sys.maxsize, memory: Memory | None = None, *, elsewhere: int = 0) -> None:
        self.memory = memory or Memory()
        self.elsewhere = elsewhere
        self._max_bytes = max_bytes
        # Each is written by one thread, so that neither waits for a lock.
        self._taken = 0
        self._given_back = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: deque[asyncio.Event] = deque()

    @property
    def size_bytes(self) -> int:
        """Bytes that are in use."""
        return self._taken - self._given_back

    def take(self, size_bytes: int) -> bool:
        """Take so many bytes; False without room, or while others wait."""
        return not self._waiting and self.grow(size_bytes)

    def grow(self, size_bytes: int, own_bytes: int = 0) -> bool:
        """Take more at once, beside `own_bytes`. It never waits: two that hold bytes would wait for each other."""
        in_use = self.size_bytes
        is_alone = in_use == own_bytes
        if not (is_alone or in_use + size_bytes <= self._max_bytes) or not self.memory.fits(in_use + size_bytes):
            return False
        self._taken += size_bytes
        return True

    async def take_in_time(self, size_bytes: int, timeout_s: float) -> bool:
        """Take so many bytes as soon as there is room, in their turn; False when that takes too long."""
        loop = self._loop = asyncio.get_running_loop()
        until_s = loop.time() + timeout_s
        turn = asyncio.Event()
        self._waiting.append(turn)
        try:
            while self._waiting[0] is not turn or not self.grow(size_bytes):
                left_s = until_s - loop.time()
                if left_s <= 0:
                    return False
                turn.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(left_s, _LOOK_S) if self._waiting[0] is turn else left_s):
                        await turn.wait()
            return True
        finally:
            self._waiting.remove(turn)
            self._wake()

    def give_back(self, size_bytes: int) -> None:
        """Give back so many bytes."""
        self._given_back += size_bytes
        if self._waiting and self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if self._waiting:
            self._waiting[0].set()


class OverBudgetError(Exception):
    """No room is left for a request that needs `size_bytes` in all."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__(size_bytes)
        self.size_bytes = size_bytes


class Reservation:
    """The share of one request in a budget, until the end of a `with` block."""

    __slots__ = ("_budget", "size_bytes")

    def __init__(self, budget: ByteBudget) -> None:
        self._budget = budget
        self.size_bytes = 0

    def __enter__(self) -> "Reservation":
        return self

    def __exit__(self, *_error: object) -> None:
        self._budget.give_back(self.size_bytes)

    async def take(self, size_bytes: int, timeout_s: float) -> None:
        """Take so many bytes, waiting for them; raise `OverBudgetError` when that takes too long."""
        budget = self._budget
        if not budget.take(size_bytes):
            waits = budget.memory.could_fit(size_bytes)
            if not waits or not await budget.take_in_time(size_bytes, timeout_s):
                raise OverBudgetError(size_bytes)
        self.size_bytes = size_bytes

    def grow_to(self, size_bytes: int) -> None:
        """Have as many bytes, without waiting; raise `OverBudgetError` without room."""
        missing = size_bytes - self.size_bytes
        if missing > 0:
            if not self._budget.grow(missing, self.size_bytes):
                raise OverBudgetError(size_bytes)
            self.size_bytes = size_bytes
