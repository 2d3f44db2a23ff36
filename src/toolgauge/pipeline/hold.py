"""Spans that wait for the scores of their trajectory.

A span comes in with its container (where its request's resource and scope are kept) and leaves by `take`
when its trajectory is scored, by `expired` when that takes too long, or by `take_all` at the end.
Without both bounds, memory would grow without limit on the first trace that never closes.
"""

from collections import OrderedDict
from typing import Annotated, Generic, TypeVar

from msgspec import Struct
from pydantic import Field

from toolgauge.model.delivery import NO_ENTRY, Source
from toolgauge.model.observations import AgentRun, CallExecuted, CodeExecuted, Reading
from toolgauge.model.records import SpanRef
from toolgauge.settings import MIB, SECOND, Duration, Section, Size


class InboxSettings(Section):
    """Requests that are acknowledged and not yet read."""

    max_bytes: Annotated[Size, Field(gt=0)] = 64 * MIB


class HoldSettings(Section):
    """How long spans may wait for their scores, and their bytes at most."""

    timeout: Duration = 30 * SECOND
    max_bytes: Size = 64 * MIB


C = TypeVar("C")

# What an entry costs beside the span's bytes: the entry, its place in two indexes, ids, bytes header.
ENTRY_BYTES = 512
_JUDGED = frozenset((CallExecuted, CodeExecuted, AgentRun))


def is_to_bear_scores(reading: Reading) -> bool:
    """Return whether scores may be written on this span: it is a tool call or an agent run, or a root span."""
    observations = reading.observations
    if reading.parent_span_id is None:
        return bool(observations)
    return not _JUDGED.isdisjoint(map(type, observations))


class HeldSpan(Struct, Generic[C]):
    """One waiting span: `raw` are its own bytes, never a view into a request."""

    ref: SpanRef
    container: C
    raw: bytes
    added_ns: int
    entry: Source


class Hold(Generic[C]):
    """Waiting spans, by trace and in order of time; bounded by `timeout_ns` and `max_bytes`."""

    def __init__(self, timeout_ns: int, max_bytes: int) -> None:
        self.timeout_ns = timeout_ns
        self.max_bytes = max_bytes
        # Memory of the waiting spans, bookkeeping included.
        self.bytes = 0
        # An OrderedDict and not a dict: taking from the front of a dict walks over all that was taken before.
        self._in_order: OrderedDict[SpanRef, HeldSpan[C]] = OrderedDict()
        self._by_trace: dict[str, dict[SpanRef, None]] = {}

    @property
    def spans(self) -> int:
        """Number of waiting spans."""
        return len(self._in_order)

    def add(self, ref: SpanRef, container: C, raw: bytes, now_ns: int, entry: Source = NO_ENTRY) -> bool:
        """Hold the span; False without room, or when it is already held: it then leaves at once."""
        size = len(raw) + ENTRY_BYTES
        if self.bytes + size > self.max_bytes or ref in self._in_order:
            return False
        self._in_order[ref] = HeldSpan(ref, container, raw, now_ns, entry)
        self._by_trace.setdefault(ref.trace_id, {})[ref] = None
        self.bytes += size
        return True

    def take(self, trace_id: str) -> list[HeldSpan[C]]:
        """Take the waiting spans of a trace, oldest first."""
        taken = [self._in_order.pop(ref) for ref in self._by_trace.pop(trace_id, ())]
        self.bytes -= sum([len(held.raw) + ENTRY_BYTES for held in taken])
        return taken

    def expired(self, now_ns: int) -> list[HeldSpan[C]]:
        """Take the spans that have waited for the timeout, oldest first."""
        taken: list[HeldSpan[C]] = []
        while self._in_order:
            ref, held = next(iter(self._in_order.items()))
            # The distance, not the difference: after a clock was set back, nothing may wait until it has caught up.
            if abs(now_ns - held.added_ns) < self.timeout_ns:
                break
            taken.append(self._in_order.pop(ref))
            self.bytes -= len(held.raw) + ENTRY_BYTES
            of_trace = self._by_trace[ref.trace_id]
            del of_trace[ref]
            if not of_trace:
                del self._by_trace[ref.trace_id]
        return taken

    def take_all(self) -> list[HeldSpan[C]]:
        """Take every waiting span, oldest first."""
        taken = list(self._in_order.values())
        self._in_order.clear()
        self._by_trace.clear()
        self.bytes = 0
        return taken
