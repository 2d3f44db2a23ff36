"""Admits requests, holds spans, and hands outgoing data to the outbox.

A request is refused with a retryable status while its destination has no room, memory is short, or the process stops. Spans
count as held until the outbox has them; both sides of these books change under one lock. While the outbox is full, senders'
data waits here, and our own is dropped and counted.

A span waits in `Hold` for the scores of its trajectory, with its container (where its request's resource and scope are kept). It leaves by
`take` when its trajectory is scored, by `expired` when that takes too long, or by `take_all` at the end.

The ways out: `pass_on` queues a request for `forward`, which joins the requests of one connection; `release` queues held spans, and
`scorecards` the scores, for `flush`; both end in `Admission.hand_over`.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.export.tail_sampling import Keepers
from toolgauge.model.delivery import (
    NO_ENTRY,
    REQUEST_BYTES,
    Accepted,
    Answer,
    BrokerMessage,
    Outbox,
    Outgoing,
    Refused,
    Signal,
    Source,
    Unsupported,
    merged,
)
from toolgauge.model.journal import ClosedId, JournalEntry, SamplingDecision, ShownValues
from toolgauge.model.observations import AgentRun, CallExecuted, CodeExecuted, Reading
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.records import SpanRef
from toolgauge.otlp.envelope import Container, encode_spans
from toolgauge.otlp.request import Request
from toolgauge.selfmetrics import SelfMetrics
from toolgauge.state.ledger import NO_LEDGER, Ledger

# What an entry costs beside the span's bytes: the entry, its place in two indexes, ids, bytes header.
ENTRY_BYTES = 512
_JUDGED = frozenset((CallExecuted, CodeExecuted, AgentRun))


def is_to_bear_scores(reading: Reading) -> bool:
    """Return whether scores may be written on this span: it is a tool call or an agent run, or a root span."""
    observations = reading.observations
    if reading.parent_span_id is None:
        return bool(observations)
    return not _JUDGED.isdisjoint(map(type, observations))


class HeldSpan(Struct):
    """One waiting span: `raw` are its own bytes, never a view into a request."""

    ref: SpanRef
    container: Container
    raw: bytes
    added_ns: int
    entry: Source


class Hold:
    """Waiting spans, by trace and in order of time; bounded by `timeout_ns` and `max_bytes`."""

    def __init__(self, timeout_ns: int, max_bytes: int) -> None:
        self.timeout_ns = timeout_ns
        self.max_bytes = max_bytes
        # Memory of the waiting spans, bookkeeping included.
        self.bytes = 0
        # An OrderedDict and not a dict: taking from the front of a dict walks over all that was taken before.
        self._in_order: OrderedDict[SpanRef, HeldSpan] = OrderedDict()
        self._by_trace: dict[str, dict[SpanRef, None]] = {}

    @property
    def spans(self) -> int:
        """Number of waiting spans."""
        return len(self._in_order)

    def add(self, ref: SpanRef, container: Container, raw: bytes, now_ns: int, entry: Source = NO_ENTRY) -> bool:
        """Hold the span; False without room, or when it is already held: it then leaves at once."""
        size = len(raw) + ENTRY_BYTES
        if self.bytes + size > self.max_bytes or ref in self._in_order:
            return False
        self._in_order[ref] = HeldSpan(ref, container, raw, now_ns, entry)
        self._by_trace.setdefault(ref.trace_id, {})[ref] = None
        self.bytes += size
        return True

    def take(self, trace_id: str) -> list[HeldSpan]:
        """Take the waiting spans of a trace, oldest first."""
        taken = [self._in_order.pop(ref) for ref in self._by_trace.pop(trace_id, ())]
        self.bytes -= sum([len(held.raw) + ENTRY_BYTES for held in taken])
        return taken

    def expired(self, now_ns: int) -> list[HeldSpan]:
        """Take the spans that have waited for the timeout, oldest first."""
        taken: list[HeldSpan] = []
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

    def take_all(self) -> list[HeldSpan]:
        """Take every waiting span, oldest first."""
        taken = list(self._in_order.values())
        self._in_order.clear()
        self._by_trace.clear()
        self.bytes = 0
        return taken


_RECEIVED = ("received", "", "")
_ACCEPTED = Accepted()


class Admission:
    """Takes or refuses requests, in any thread, and hands leaving ones to the outbox. `has_memory` takes a size in bytes."""

    def __init__(self, outbox: Outbox, metrics: SelfMetrics, has_memory: Callable[[int], bool]) -> None:
        self.outbox = outbox
        self._metrics = metrics
        self._has_memory = has_memory
        self._lock = metrics.lock
        # Senders' spans that were taken and are neither queued for a destination nor gone.
        self.spans_held = 0
        # Bytes of requests that were taken and are still to be read.
        self._bytes_queued = 0
        self._is_closed = False
        # Signals of which requests wait inside because the outbox had no room for them.
        self.backed_up: frozenset[Signal] = frozenset()
        metrics.spans_held.observe = lambda: {(): self.spans_held}

    def close(self) -> None:
        """Refuse everything from here on."""
        self._is_closed = True

    def admit(self, request: Request) -> Answer:
        """Accept the request or answer with the refusal; an accepted one must be read or passed on."""
        signal = request.signal
        if signal == "metrics" and not self.outbox.forwards("metrics"):
            message = (
                "metrics are not accepted here, as nothing is sent on: set `OTEL_METRICS_EXPORTER=none` in the sender, or send "
                "them to your backend"
            )
            return Unsupported(message)
        if self._is_closed:
            return self.refuse(request, "shutting down", "shutdown")
        # Small requests may still fit where larger ones wait inside for room: taken in, they would pile up behind these.
        if signal in self.backed_up or not self.outbox.has_room(signal, len(request.body) + self._bytes_queued):
            return self.refuse(request, "the queue to the destination is full", "queue_full")
        if not self._has_memory(len(request.body)):
            return self.refuse(request, "memory is short", "memory")
        with self._lock:
            self._metrics.spans.add(request.spans, _RECEIVED)
            self.spans_held += request.spans
            self._bytes_queued += len(request.body)
        return _ACCEPTED

    def refuse(self, request: Request, message: str, reason: str) -> Refused:
        """Refuse a request for a reason that is known elsewhere."""
        with self._lock:
            self._metrics.spans.add(request.spans, _RECEIVED)
            self._metrics.spans.add(request.spans, ("refused", reason, ""))
        return Refused(message)

    def take_up(self, request: Request, *, is_delivered: bool) -> None:
        """Take a request that an earlier process accepted; it must be read. Delivered spans are not counted."""
        with self._lock:
            self._bytes_queued += len(request.body)
            if not is_delivered:
                self._metrics.spans.add(request.spans, _RECEIVED)
                self._metrics.spans_recovered.add(request.spans)
                self.spans_held += request.spans

    def withdraw(self, request: Request, reason: str = "queue_full") -> None:
        """Refuse a request after all that was taken, such as one that found no room."""
        with self._lock:
            self._metrics.spans.add(request.spans, ("refused", reason, ""))
            self.spans_held -= request.spans
            self._bytes_queued -= len(request.body)

    def give_back(self, spans: int) -> None:
        """Refuse spans after all whose partition was lost: its next owner reads them again."""
        with self._lock:
            self._metrics.spans.add(spans, ("refused", "partition_lost", ""))
            self.spans_held -= spans

    def end_reading(self, request: Request) -> None:
        """Note that the request has been read, or passed on unread."""
        with self._lock:
            self._bytes_queued -= len(request.body)

    def hand_over(self, outgoing: Outgoing) -> bool:
        """Put a request into the outbox; False without room, and nothing has changed then."""
        with self._lock:
            if not self.outbox.put(outgoing):
                return False
            self.spans_held -= outgoing.spans
            return True


# So many spans and scorecards wait for no others.
_MANY = 500

# Writes scorecards as requests, each when it is asked for.
Encode: TypeAlias = Callable[[Sequence[Scorecard]], Iterable[Outgoing]]


class _Joined(Struct):
    """Requests that leave as one."""

    requests: list[Outgoing] = []
    size_bytes: int = 0


class Egress:
    """Hands over to the outbox what there is room for."""

    def __init__(
        self,
        admission: Admission,
        encode: Encode,
        metrics: SelfMetrics,
        ledger: Ledger = NO_LEDGER,
        keepers: Keepers | None = None,
    ) -> None:
        self._admission = admission
        self._ledger = ledger
        self._encode = encode
        self._metrics = metrics
        self._keepers = keepers or Keepers()
        # By sender: requests of different ones are never merged.
        self._released: dict[object, list[HeldSpan]] = {}
        self._released_count = 0
        self._waiting: list[Outgoing] = []
        # By signal and sender, until `forward`.
        self._passing: dict[tuple[Signal, str], _Joined] = {}
        # For the next `flush`: scorecards, sources of closed trajectories, and values that conversations have shown.
        self.scorecards: list[Scorecard] = []
        self.closed_entries: list[Source] = []
        self.shown: list[ShownValues] = []

    @property
    def other_requests(self) -> int:
        """Senders' requests without spans that have not left."""
        return sum(not outgoing.spans for outgoing in tuple(self._waiting))

    @property
    def is_pressing(self) -> bool:
        """Return whether to flush at once: senders are refused until then, or much data is ready."""
        return bool(self._waiting) or self._released_count + len(self.scorecards) > _MANY

    @property
    def is_passing(self) -> bool:
        """Return whether senders' requests wait for the next `forward`."""
        return bool(self._passing)

    def pass_on(self, outgoing: Outgoing, sender: str | None) -> None:
        """Queue a senders' request for the next `forward`, which merges the requests of one connection."""
        if sender is None:
            self._hand_over(outgoing)
            return
        key = (outgoing.signal, sender)
        joined = self._passing.setdefault(key, _Joined())
        if joined.requests and joined.size_bytes + len(outgoing.body) > REQUEST_BYTES:
            self._hand_over(merged(joined.requests))
            joined = self._passing[key] = _Joined()
        joined.requests.append(outgoing)
        joined.size_bytes += len(outgoing.body)

    def forward(self) -> None:
        """Hand over queued requests; without room they wait for the next `flush`."""
        passing, self._passing = self._passing, {}
        for joined in passing.values():
            self._hand_over(merged(joined.requests))

    def release(self, spans: Iterable[HeldSpan]) -> None:
        """Queue spans for the next `flush`."""
        for span in spans:
            self._released.setdefault(span.container.origin, []).append(span)
            self._released_count += 1

    def _hand_over(self, outgoing: Outgoing) -> None:
        if not self._admission.hand_over(outgoing):
            self._waiting.append(outgoing)
            self._admission.backed_up = self._admission.backed_up.union((outgoing.signal,))

    def flush(self, now_ns: int = 0) -> None:
        """Hand over as much as there is room for: senders' requests, released spans, then scorecards and events."""
        self.forward()
        self._waiting = [outgoing for outgoing in self._waiting if not self._admission.hand_over(outgoing)]
        backed_up: set[Signal] = {outgoing.signal for outgoing in self._waiting}
        for origin in list(self._released):
            if not self._flush_spans(origin):
                backed_up.add("traces")
        self._admission.backed_up = frozenset(backed_up)
        self._flush_scorecards(now_ns)

    def _flush_spans(self, origin: object) -> bool:
        """Hand over the released spans of one origin, as many requests as it takes; False without room."""
        spans = self._released[origin]
        while spans:
            count, size_bytes = _first_request(spans)
            if not self._admission.outbox.has_room("traces", size_bytes):
                return False
            if not self._admission.hand_over(_released_request(spans[:count])):
                return False
            self._released_count -= count
            spans = self._released[origin] = spans[count:]
        del self._released[origin]
        return True

    def _flush_scorecards(self, now_ns: int) -> None:
        if not self.scorecards and not self.closed_entries:
            return
        # Taken out first: a batch that fails here is not tried again, so that it stops nothing behind it.
        scorecards, closed_entries = self.scorecards[:], self.closed_entries[:]
        self.scorecards.clear()
        self.closed_entries.clear()
        # Written to the journal together with the ids of their trajectories, which are closed then.
        own: list[JournalEntry] = []
        outgoings: list[Outgoing] = []
        # Messages of a broker are read again until the scores of their trajectories are delivered, too.
        messages = tuple(dict.fromkeys(one for one in closed_entries if isinstance(one, BrokerMessage)))
        try:
            for outgoing in self._encode(scorecards) if scorecards else ():
                entry = self._ledger.new_entry(outgoing.signal, outgoing.body, now_ns, own=True)
                own.append(entry)
                self._ledger.claim_deliveries(messages)
                outgoings.append(replace(outgoing, entries=(entry.id, *messages)))
        finally:
            # Also after a fault: a request that fails after each restart is worse than a missing one.
            closed: list[ClosedId] = []
            for scorecard in scorecards if self._ledger.has_journal else ():
                of, partition = scorecard.trajectory, None if scorecard.by_judges else scorecard.trajectory.partition
                is_trace = of.scope == "trace"
                sampled: Mapping[str, SamplingDecision] = self._keepers.noted(of.trace_id) if is_trace else {}
                # Judges may have changed the decision that was written when the trace closed.
                if sampled or not scorecard.by_judges:
                    one = ClosedId(
                        id=of.closed_id,
                        scope=of.scope,
                        closed_ns=scorecard.scored_at_ns,
                        partition=partition,
                        sampled=sampled,
                    )
                    closed.append(one)
            shown, self.shown = self.shown, []
            self._ledger.close([*closed_entries, *[entry.id for entry in own]], closed, own, shown)
        for outgoing in outgoings:
            if not self._admission.hand_over(outgoing):
                self._metrics.own_dropped.add(1, ("", outgoing.signal, "queue_full"))
                self._ledger.settle(outgoing.entries)


def _first_request(spans: Sequence[HeldSpan]) -> tuple[int, int]:
    """Return how many of these spans leave in one request, one at least, and their bytes."""
    size_bytes, counted, last = 0, set[int](), None
    for count, span in enumerate(spans):
        added_bytes, container = len(span.raw), span.container
        # A resource and a scope count once for all containers that share them.
        if container is not last:
            last = container
            for around in (container.resource, container.scope):
                if id(around) not in counted:
                    counted.add(id(around))
                    added_bytes += sum(map(len, around))
        if count and size_bytes + added_bytes > REQUEST_BYTES:
            return count, size_bytes
        size_bytes += added_bytes
    return len(spans), size_bytes


def _released_request(spans: Sequence[HeldSpan]) -> Outgoing:
    """Write one request of released spans; its parts are the requests in which they came."""
    by_request: dict[object, list[HeldSpan]] = {}
    for span in spans:
        by_request.setdefault(span.container.request, []).append(span)
    requests: list[Outgoing] = []
    for of_request in by_request.values():
        body = encode_spans([(span.container, span.raw) for span in of_request])
        entries = tuple([span.entry for span in of_request])
        requests.append(Outgoing(signal="traces", body=body, spans=len(of_request), own=False, entries=entries))
    return merged(requests)
