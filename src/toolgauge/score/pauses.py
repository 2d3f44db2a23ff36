"""When a generator of the middle pauses: the event loop has other work, and the middle reads no clock.

Work is counted in units of about a microsecond on a slow core; a pause is due every thousand of them,
well under the promised 5 ms.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

UNITS_BETWEEN_PAUSES = 1000

_T = TypeVar("_T")


@dataclass(slots=True)
class Spent:
    """The time that scoring one trajectory has taken by now, kept by whoever takes the steps; offline nobody does."""

    ns: int = 0


class Pacer:
    """Counts work. One is shared by all generators that run inside each other, so their shares add up."""

    __slots__ = ("_left", "spent")

    def __init__(self) -> None:
        self._left = UNITS_BETWEEN_PAUSES
        # All units so far, for those who have only so many.
        self.spent = 0

    def due(self, units: int = 1) -> bool:
        """Count work done and tell whether to yield a pause."""
        self._left -= units
        self.spent += units
        if self._left > 0:
            return False
        self._left = UNITS_BETWEEN_PAUSES
        return True


def finished(work: Generator[None, None, _T]) -> _T:
    """Run to the end without pausing, where nothing else waits: offline."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value
