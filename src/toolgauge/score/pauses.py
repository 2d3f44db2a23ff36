"""When a generator of the middle pauses: the event loop has other work, and the middle reads no clock.

Work is counted in units of about a microsecond on a slow core; a pause is due every thousand of them,
well under the promised 5 ms.
"""

UNITS_BETWEEN_PAUSES = 1000


class Pacer:
    """Counts work. One is shared by all generators that run inside each other, so their shares add up."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = UNITS_BETWEEN_PAUSES

    def due(self, units: int = 1) -> bool:
        """Count work done and tell whether to yield a pause."""
        self._left -= units
        if self._left > 0:
            return False
        self._left = UNITS_BETWEEN_PAUSES
        return True
