"""When joining pauses: a trace of a hundred thousand spans takes seconds, and the event loop has other work."""

# A unit is about the work on one span or call, some ten microseconds.
_UNITS_BETWEEN_PAUSES = 300


class Pace:
    """Counts work. One is shared by all that runs for one trajectory."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _UNITS_BETWEEN_PAUSES

    def due(self, units: int = 1) -> bool:
        """Count work done and tell whether to pause."""
        self._left -= units
        if self._left > 0:
            return False
        self._left = _UNITS_BETWEEN_PAUSES
        return True
