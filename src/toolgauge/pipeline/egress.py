"""Data that is ready for export: requests that were read, spans that were held, scorecards and events.

Senders' data stays here while the outbox is full, and further requests are refused meanwhile; what toolgauge adds itself
is dropped and counted then.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from toolgauge.model.delivery import Outgoing, Signal
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.records import SpanRef
from toolgauge.otlp.decoder import Container
from toolgauge.otlp.encode import annotate
from toolgauge.otlp.envelope import encode_spans
from toolgauge.pipeline.admission import Admission
from toolgauge.pipeline.hold import HeldSpan
from toolgauge.selfmetrics import SelfMetrics

# What is added to spans makes them larger, and most destinations take no request of more than 4 MiB.
_REQUEST_BYTES = 2 * 1024 * 1024
# So many spans and scorecards wait for no others.
_MANY = 500

# Writes scorecards as requests, each when it is asked for.
Encode: TypeAlias = Callable[[Sequence[Scorecard]], Iterable[Outgoing]]


class _Joined:
    """Requests that leave as one: written one after the other, protobuf messages are merged."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._bodies: list[bytes] = []
        self._spans = 0

    def add(self, outgoing: Outgoing) -> None:
        self.size_bytes += len(outgoing.body)
        self._bodies.append(outgoing.body)
        self._spans += outgoing.spans

    def request(self, signal: Signal) -> Outgoing:
        body = self._bodies[0] if len(self._bodies) == 1 else b"".join(self._bodies)
        return Outgoing(signal=signal, body=body, spans=self._spans, own=False)


class Egress:
    """Hands over to the outbox what there is room for."""

    def __init__(self, admission: Admission, encode: Encode, metrics: SelfMetrics) -> None:
        self._admission = admission
        self._encode = encode
        self._metrics = metrics
        # By sender, as requests of different ones are never merged: what came in one request, or on one connection within
        # the same moment, leaves in one request, or a few.
        self._released: dict[object, list[tuple[Container, bytes]]] = {}
        self._released_count = 0
        self._waiting: list[Outgoing] = []
        # By signal and sender, until `forward`.
        self._passing: dict[tuple[Signal, str], _Joined] = {}
        self._scorecards: list[Scorecard] = []

    @property
    def other_requests(self) -> int:
        """Senders' requests without spans that have not left."""
        return sum(not outgoing.spans for outgoing in tuple(self._waiting))

    @property
    def is_pressing(self) -> bool:
        """Return whether something had better leave at once: senders are refused for it, or it is much."""
        return bool(self._waiting) or self._released_count + len(self._scorecards) > _MANY

    def pass_on(self, outgoing: Outgoing, sender: str | None) -> None:
        """Have a senders' request leave with the next `forward`, together with others of the same connection."""
        if sender is None:
            self._hand_over(outgoing)
            return
        key = (outgoing.signal, sender)
        joined = self._passing.get(key)
        if joined is not None and joined.size_bytes + len(outgoing.body) > _REQUEST_BYTES:
            self._hand_over(joined.request(outgoing.signal))
            joined = None
        if joined is None:
            joined = self._passing[key] = _Joined()
        joined.add(outgoing)

    def forward(self) -> None:
        """Hand over the requests that were passed on; without room they wait for the next `flush`."""
        passing, self._passing = self._passing, {}
        for (signal, _), joined in passing.items():
            self._hand_over(joined.request(signal))

    def release(self, spans: Iterable[tuple[Container, bytes]]) -> None:
        """Have spans leave with the next `flush`."""
        for span in spans:
            self._released.setdefault(span[0].origin, []).append(span)
            self._released_count += 1

    def release_annotated(
        self, held: Sequence[HeldSpan[Container]], attributes: Mapping[str, Mapping[str, bytes]]
    ) -> list[SpanRef]:
        """Have spans of one trace leave with their encoded attributes, by span id; return those that have any."""
        annotated: list[SpanRef] = []
        ready: list[tuple[Container, bytes]] = []
        try:
            for span in held:
                added = b"".join(attributes.get(span.ref.span_id, {}).values())
                ready.append((span.container, annotate(span.raw, added) if added else span.raw))
                if added:
                    annotated.append(span.ref)
        finally:
            # A fault costs spans their scores, never the spans.
            ready.extend((span.container, span.raw) for span in held[len(ready) :])
            self.release(ready)
        return annotated

    def announce(self, scorecard: Scorecard) -> None:
        """Have the scorecard leave with the next `flush`."""
        self._scorecards.append(scorecard)

    def flush(self) -> None:
        """Hand over what there is room for: senders' requests, released spans, then scorecards and events."""
        self._flush_requests()
        full = self._flush_released()
        backed_up: set[Signal] = {outgoing.signal for outgoing in self._waiting}
        if full:
            backed_up.add("traces")
        self._admission.backed_up = frozenset(backed_up)
        self._flush_scorecards()

    def _hand_over(self, outgoing: Outgoing) -> None:
        if not self._admission.hand_over(outgoing):
            self._waiting.append(outgoing)
            self._admission.backed_up = self._admission.backed_up.union((outgoing.signal,))

    def _flush_requests(self) -> None:
        self.forward()
        waiting, self._waiting = self._waiting, []
        self._waiting = [outgoing for outgoing in waiting if not self._admission.hand_over(outgoing)]

    def _flush_released(self) -> bool:
        """Hand over released spans; True when some found no room."""
        is_full = False
        for origin in list(self._released):
            while spans := self._released.get(origin):
                if not self._is_handed_over(origin, spans):
                    is_full = True
                    break
        return is_full

    def _is_handed_over(self, origin: object, spans: list[tuple[Container, bytes]]) -> bool:
        """Hand over as many of these as one request takes; False when there is no room for them."""
        count, size_bytes = _first_request(spans)
        if not self._admission.has_room("traces", size_bytes):
            return False
        body = encode_spans(spans[:count])
        if not self._admission.hand_over(Outgoing(signal="traces", body=body, spans=count, own=False)):
            return False
        self._released_count -= count
        self._released[origin] = spans[count:]
        if not self._released[origin]:
            del self._released[origin]
        return True

    def _flush_scorecards(self) -> None:
        # Taken out first: what fails here is not tried again, so that it stops nothing that comes after it.
        scorecards, self._scorecards = self._scorecards, []
        if not scorecards:
            return
        for outgoing in self._encode(scorecards):
            if not self._admission.hand_over(outgoing):
                self._metrics.own_dropped.add(1, ("", outgoing.signal, "queue_full"))


def _first_request(spans: Sequence[tuple[Container, bytes]]) -> tuple[int, int]:
    """Return how many of these spans leave in one request, one at least, and their bytes."""
    size_bytes = 0
    for count, (_, raw) in enumerate(spans):
        if count and size_bytes + len(raw) > _REQUEST_BYTES:
            return count, size_bytes
        size_bytes += len(raw)
    return len(spans), size_bytes
