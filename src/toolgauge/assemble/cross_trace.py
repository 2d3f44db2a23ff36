"""Bounded memories of earlier traces: recent spans, answers to calls, and calls that wait.

A call may be answered in the history of a later trace, or resumed there; spans may complete chains of parents later.
"""

from collections import deque
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from toolgauge.assemble.memory import READING_BYTES, contents_of, cut, memory_of
from toolgauge.assemble.misrouting import UNSEEN
from toolgauge.assemble.node import arguments_key
from toolgauge.model.names import fold_name
from toolgauge.model.observations import CallAnswered, CallRequested, Reading
from toolgauge.model.records import PackedHead, SpanHead, packed_head
from toolgauge.model.trajectory import ToolCall, Trajectory

# Flags of a span (OTLP, `SpanFlags`).
_KNOWN_IS_REMOTE, _IS_REMOTE = 0x100, 0x200


class _Generation:
    """Spans of one period, by trace; most traces leave one."""

    __slots__ = ("_by_trace", "readings", "unsorted")

    def __init__(self) -> None:
        self.readings: dict[str, list[Reading]] = {}
        self.unsorted: deque[Sequence[PackedHead]] = deque()
        self._by_trace: dict[bytes, bytes | list[bytes]] = {}

    def take_heads(self, trace_id: bytes) -> list[bytes]:
        """Sort the heads by trace; take one trace's."""
        by_trace = self._by_trace
        while self.unsorted:
            for seen_id, rest in self.unsorted.popleft():
                together = by_trace.get(seen_id)
                if together is None:
                    by_trace[seen_id] = rest
                elif isinstance(together, list):
                    together.append(rest)
                else:
                    by_trace[seen_id] = [together, rest]
        packed = by_trace.pop(trace_id, None)
        return [] if packed is None else [packed] if isinstance(packed, bytes) else packed


class RecentSpans:
    """Remembers the newest spans by trace: at least `capacity` and at most twice as many. Large ones count as several."""

    def __init__(self, capacity: int) -> None:
        self._capacity = max(1, capacity)
        self._young = _Generation()
        self._old = _Generation()
        self._young_count = 0

    def add(self, reading: Reading) -> None:
        """Remember one reading."""
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
        """Remove and return the readings of a trace."""
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


# A call takes three entries of about a hundred bytes.
_MAX_ENTRIES = 100_000
_MAX_CALLS = 100


class WaitingCalls:
    """Hashes of the ids, and of the names and arguments, of waiting calls with their service and conversation."""

    def __init__(self, max_entries: int = _MAX_ENTRIES) -> None:
        # In the order in which they were last seen to wait.
        self._known: dict[int, None] = {}
        self._max_entries = max_entries

    def explained(self, trajectory: Trajectory) -> Trajectory:
        """Return the trajectory of a trace without a split sign that an earlier waiting call explains; remember its own."""
        if trajectory.conversation_id is None:
            return trajectory
        conversation = hash((trajectory.service, trajectory.conversation_id))
        if trajectory.split_sign == UNSEEN:
            is_resumed = conversation in self._known
        else:
            keys = (key for call in trajectory.calls for key in _keys(conversation, call))
            is_resumed = trajectory.split_sign is not None and any(key in self._known for key in keys)
        waiting = [call for call in trajectory.calls if call.state in ("paused", "requested_only")]
        for call in waiting[:_MAX_CALLS]:
            for key in (conversation, *_keys(conversation, call)):
                self._known.pop(key, None)
                self._known[key] = None
        while len(self._known) > self._max_entries:
            del self._known[next(iter(self._known))]
        return replace(trajectory, split_sign=None) if is_resumed else trajectory


def _keys(conversation: int, call: ToolCall) -> Iterator[int]:
    if call.call_id is not None:
        yield hash((conversation, call.call_id))
    key = arguments_key(call.arguments)
    if key is not None:
        yield hash((conversation, fold_name(call.name), key))


_MAX_ANSWERS = 10_000
# Most answers take one or two thousand; names may be anything.
_MAX_BYTES = 32 * 1024 * 1024
# What an answer takes beside its texts: its place in the table, with its key and the trace's id.
_ENTRY_BYTES = 650
# So many characters of a result are kept of each.
_MAX_TEXT = 1024
# No id is longer: some carry a few thousand characters of a model's thoughts.
_MAX_ID = 8192
_UNANSWERED = (-1, "", CallAnswered(), 0)


class UnmatchedResults:
    """The first answer to each call, by service and call id, from model calls that are traces of their own."""

    def __init__(self, max_answers: int = _MAX_ANSWERS, max_bytes: int = _MAX_BYTES) -> None:
        self._max_answers = max_answers
        self._max_bytes = max_bytes
        # About how much memory they take.
        self.size_bytes = 0
        # Each with the start and the trace of the model call, and its size.
        self._known: dict[tuple[str | None, str], tuple[int, str, CallAnswered, int]] = {}

    def note(self, reading: Reading) -> None:
        """Remember the answers in the history of a model call, which has no parent."""
        for seen in reading.observations if not reading.is_log else ():
            if type(seen) is CallAnswered and seen.call_id is not None:
                if len(seen.call_id) > _MAX_ID or len(seen.name or "") > _MAX_ID:
                    continue
                key, place = (reading.service, seen.call_id), (reading.start_ns, reading.ref.trace_id)
                known = self._known.get(key)
                # Every later history repeats it: the first is remembered, in any order of arrival.
                if known is None or place <= known[:2]:
                    cut_short = cut(seen, _MAX_TEXT)
                    answer = cut_short if isinstance(cut_short, CallAnswered) else seen
                    names = [name.__sizeof__() for name in (reading.service, answer.name) if name is not None]
                    size = _ENTRY_BYTES + memory_of(contents_of(answer)) + sum(names)
                    self._known[key] = (*place, answer, size)
                    self.size_bytes += size - (known[3] if known is not None else 0)
        while len(self._known) > self._max_answers or self.size_bytes > self._max_bytes:
            self.size_bytes -= self._known.pop(next(iter(self._known)))[3]

    def found(self, closing: Sequence[Reading]) -> list[Reading]:
        """Return the answers that other traces hold, as log records of the spans that asked."""
        found: list[Reading] = []
        # Nearly always empty: most traces hold both the model calls and their answers.
        for reading in closing if self._known else ():
            answers: list[CallAnswered] = []
            for seen in reading.observations if reading.parent_span_id is None and not reading.is_log else ():
                if type(seen) is CallRequested and seen.call_id is not None:
                    start_ns, trace_id, answer, _ = self._known.get((reading.service, seen.call_id), _UNANSWERED)
                    # An id that is used again was answered before: that answer is about another call.
                    if trace_id != reading.ref.trace_id and start_ns > reading.start_ns:
                        answers.append(answer)
            if answers:
                found.append(
                    replace(
                        reading,
                        is_log=True,
                        start_ns=reading.end_ns,
                        status="unset",
                        observations=tuple(answers),
                        size_bytes=0,
                        attributes=(),
                    )
                )
        return found
