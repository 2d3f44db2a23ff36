"""A bounded memory of spans that alone open no trace: their ids complete chains of parents later.

Most spans of a pipeline are nobody's business; they come here at some hundred nanoseconds each. Two
generations bound the memory: when the young one is full, the old one is forgotten at once. The ids of a span are
kept as one run of bytes: a hundred thousand objects of their own would take twice the memory, and the time of
every garbage collection.
"""

from toolgauge.model.observations import Reading
from toolgauge.model.records import SpanHead


class _Generation:
    """Spans that came in the same while, by trace; most traces leave one."""

    __slots__ = ("heads", "readings")

    def __init__(self) -> None:
        self.heads: dict[bytes, bytes | list[bytes]] = {}
        self.readings: dict[str, list[Reading]] = {}

    def take_heads(self, trace_id: bytes) -> list[bytes]:
        packed = self.heads.pop(trace_id, None)
        if packed is None:
            return []
        return [packed] if isinstance(packed, bytes) else packed


class RecentSpans:
    """Remembers at least the newest `capacity` spans, by trace; at most twice as many."""

    def __init__(self, capacity: int) -> None:
        self._capacity = max(1, capacity)
        self._young = _Generation()
        self._old = _Generation()
        self._young_count = 0

    def add(self, reading: Reading) -> None:
        """Remember what was read from a span."""
        self._young.readings.setdefault(reading.ref.trace_id, []).append(reading)
        self._young_count += 1
        if self._young_count >= self._capacity:
            self._turn_over()

    def add_head(self, trace_id: bytes, rest: bytes) -> None:
        """Remember the ids of a span that nobody reads."""
        heads = self._young.heads
        together = heads.get(trace_id)
        if together is None:
            heads[trace_id] = rest
        elif isinstance(together, list):
            together.append(rest)
        else:
            heads[trace_id] = [together, rest]
        self._young_count += 1
        if self._young_count >= self._capacity:
            self._turn_over()

    def take(self, trace_id: str) -> list[Reading]:
        """Give away what was read of a trace."""
        young = self._young.readings.pop(trace_id, [])
        self._young_count -= len(young)
        return self._old.readings.pop(trace_id, []) + young

    def take_heads(self, trace_id: bytes) -> list[SpanHead]:
        """Give away the ids of a trace."""
        young = self._young.take_heads(trace_id)
        self._young_count -= len(young)
        return [SpanHead(trace_id, rest) for rest in self._old.take_heads(trace_id) + young]

    def _turn_over(self) -> None:
        self._old, self._young, self._young_count = self._young, _Generation(), 0
