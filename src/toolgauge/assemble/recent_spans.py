"""A bounded memory of spans that alone open no trace: their ids complete chains of parents later.

Most spans of a pipeline are nobody's business: their ids stay in the heaps they came in until a trace that opens may
want some of them, and are sorted by trace only then. Two generations bound the memory: when the young one is full, the
old one is forgotten at once. The ids of a span are kept as they came, as runs of bytes: a hundred thousand objects of
their own would take the time of every garbage collection.
"""

from collections import deque
from collections.abc import Sequence

from toolgauge.assemble.weight import READING_BYTES
from toolgauge.model.observations import Reading
from toolgauge.model.records import PackedHead, SpanHead, packed_head

# Flags of a span (OTLP, `SpanFlags`).
_KNOWN_IS_REMOTE, _IS_REMOTE = 0x100, 0x200


class _Generation:
    """Spans that came in the same while, by trace; most traces leave one."""

    __slots__ = ("_by_trace", "readings", "unsorted")

    def __init__(self) -> None:
        self.readings: dict[str, list[Reading]] = {}
        self.unsorted: deque[Sequence[PackedHead]] = deque()
        self._by_trace: dict[bytes, bytes | list[bytes]] = {}

    def sort(self) -> None:
        """Sort the heads by trace."""
        by_trace = self._by_trace
        while self.unsorted:
            for trace_id, rest in self.unsorted.popleft():
                together = by_trace.get(trace_id)
                if together is None:
                    by_trace[trace_id] = rest
                elif isinstance(together, list):
                    together.append(rest)
                else:
                    by_trace[trace_id] = [together, rest]

    def take_heads(self, trace_id: bytes) -> list[bytes]:
        self.sort()
        packed = self._by_trace.pop(trace_id, None)
        if packed is None:
            return []
        return [packed] if isinstance(packed, bytes) else packed


class RecentSpans:
    """Remembers at least the newest `capacity` spans, by trace; at most twice as many.

    What takes the memory of several spans counts as several.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = max(1, capacity)
        self._young = _Generation()
        self._old = _Generation()
        self._young_count = 0

    def add(self, reading: Reading) -> None:
        """Remember what was read from a span."""
        self._young.readings.setdefault(reading.ref.trace_id, []).append(reading)
        self._count(_spans_worth(reading))

    def add_heads(self, heads: Sequence[PackedHead]) -> None:
        """Remember the ids of spans that no dialect reads."""
        first = 0
        while first < len(heads):
            some = heads[first : first + self._capacity - self._young_count]
            first += len(some)
            self._young.unsorted.append(some)
            self._count(len(some))

    def take(self, trace_id: str) -> list[Reading]:
        """Give away what was read of a trace."""
        young = self._young.readings.pop(trace_id, [])
        self._young_count -= sum(map(_spans_worth, young))
        return self._old.readings.pop(trace_id, []) + young

    def take_heads(self, trace_id: bytes) -> list[SpanHead]:
        """Give away the ids of a trace."""
        young = self._young.take_heads(trace_id)
        self._young_count -= len(young)
        return [SpanHead(trace_id, rest) for rest in self._old.take_heads(trace_id) + young]

    def _count(self, spans: int) -> None:
        self._young_count += spans
        if self._young_count >= self._capacity:
            self._old, self._young, self._young_count = self._young, _Generation(), 0


def _spans_worth(reading: Reading) -> int:
    # A session's id, which is all that most of them hold, may be anything.
    return 1 + reading.size_bytes // READING_BYTES


def head_of(reading: Reading) -> SpanHead:
    """Return the ids of a span that was read."""
    flags = 0 if reading.parent_is_remote is None else _KNOWN_IS_REMOTE | (reading.parent_is_remote and _IS_REMOTE)
    parent = raw_id(reading.parent_span_id or "")
    return packed_head(raw_id(reading.ref.trace_id), raw_id(reading.ref.span_id), parent, flags=flags)


def raw_id(written: str) -> bytes:
    """Return the id as unread spans carry it. Readings may come from elsewhere, with ids of their own making."""
    try:
        return bytes.fromhex(written)
    except ValueError:
        return written.encode("utf-8", "surrogatepass")
