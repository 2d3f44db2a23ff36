"""A bounded memory of spans that alone open no trace: their ids complete chains of parents later.

Most spans of a pipeline are nobody's business; they come here at some hundred nanoseconds each. Two
generations bound the memory: when the young one is full, the old one is forgotten at once.
"""

from typing import TypeAlias

from toolgauge.model.observations import Reading
from toolgauge.model.records import SpanHead

Recent: TypeAlias = SpanHead | Reading


class RecentSpans:
    """Remembers at least the newest `capacity` spans, by trace; at most twice as many."""

    def __init__(self, capacity: int) -> None:
        self._capacity = max(1, capacity)
        self._young: dict[bytes | str, list[Recent]] = {}
        self._old: dict[bytes | str, list[Recent]] = {}
        self._young_count = 0

    def add(self, trace_id: bytes | str, recent: Recent) -> None:
        """Remember a span."""
        together = self._young.get(trace_id)
        if together is None:
            self._young[trace_id] = [recent]
        else:
            together.append(recent)
        self._young_count += 1
        if self._young_count >= self._capacity:
            self._old, self._young, self._young_count = self._young, {}, 0

    def take(self, trace_id: bytes | str) -> list[Recent]:
        """Give away what is remembered of a trace."""
        young = self._young.pop(trace_id, [])
        self._young_count -= len(young)
        return self._old.pop(trace_id, []) + young
