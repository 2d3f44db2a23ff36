"""Whose request is read next: one after the other in order of arrival, and everything else goes on in between.

Requests that are read side by side all end when the last one does, and each of them keeps the loop for as long again.
A request that takes very long goes to the end of the line now and then: a small one may not wait for all of it.
"""

import asyncio
import time
from collections.abc import Iterator
from typing import TypeVar

_T = TypeVar("_T")

# A step takes at most about this long; small requests share it.
_LONGEST_NS = 2_000_000
# Nearly all requests are read in fewer steps.
_STEPS_IN_A_ROW = 15


class Turns:
    """The line in front of one consumer, for all transports. Belongs to one event loop."""

    def __init__(self) -> None:
        self._reading = asyncio.Lock()
        # By reading, since the rest of the loop had its turn.
        self._spent_ns = 0
        self._in_line = 0

    @property
    def are_waited_for(self) -> bool:
        """Tell whether senders wait for a request to be read, begun or not."""
        return self._in_line > 0

    async def last_of(self, steps: Iterator[_T | None]) -> _T:
        """Take the steps up to the first that is not a pause (`None`), and return it."""
        self._in_line += 1
        try:
            while True:
                async with self._reading:
                    last = await self._some_of(steps)
                if last is not None:
                    return last
        finally:
            self._in_line -= 1

    async def _some_of(self, steps: Iterator[_T | None]) -> _T | None:
        for _ in range(_STEPS_IN_A_ROW):
            if self._spent_ns >= _LONGEST_NS:
                self._spent_ns = 0
                await asyncio.sleep(0)
            began = time.perf_counter_ns()
            step = next(steps)
            if step is not None:
                self._spent_ns += time.perf_counter_ns() - began
                return step
            # Whoever pauses has used up the turn.
            self._spent_ns = _LONGEST_NS
        return None
