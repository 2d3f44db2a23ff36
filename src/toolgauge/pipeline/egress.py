"""What is ready to leave: senders' spans that were held, requests that found no room, what we say ourselves.

Senders' data stays here while the outbox is full, and senders are told to come back meanwhile; what we say ourselves is
dropped and counted then.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from toolgauge.model.delivery import Outbox, Outgoing, Signal
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.records import SpanRef
from toolgauge.otlp.annotate import annotate
from toolgauge.otlp.decoder import Container
from toolgauge.otlp.envelope import encode_spans
from toolgauge.pipeline.hold import HeldSpan
from toolgauge.selfmetrics import SelfMetrics

# So many spans are annotated without a pause.
_PAUSE_EVERY = 200
# What is said about spans makes them larger, and most destinations take no request of more than 4 MiB.
_REQUEST_BYTES = 2 * 1024 * 1024

# So many spans and scorecards wait for no others.
_MUCH = 500

# Writes scorecards as requests, each when it is asked for; and pauses (`None`).
Encode: TypeAlias = Callable[[Sequence[Scorecard]], Iterable[Outgoing | None]]


class Departures:
    """Hands over to the outbox what there is room for."""

    def __init__(self, outbox: Outbox, encode: Encode, metrics: SelfMetrics) -> None:
        self._outbox = outbox
        self._encode = encode
        self._metrics = metrics
        # By sender, as requests of different ones are never merged: what came in one request, or on one connection within
        # the same moment, leaves in one request, or a few.
        self._released: dict[object, list[tuple[Container, bytes]]] = {}
        self._waiting: list[Outgoing] = []
        self._backed_up: set[Signal] = set()
        self._being_annotated = 0
        self._scorecards: list[Scorecard] = []
        self._encoding: Iterator[Outgoing | None] | None = None

    @property
    def spans(self) -> int:
        """Senders' spans that have not left."""
        released = sum(map(len, self._released.values()))
        return released + self._being_annotated + sum(outgoing.spans for outgoing in self._waiting)

    @property
    def other_requests(self) -> int:
        """Senders' requests without spans that have not left."""
        return sum(not outgoing.spans for outgoing in self._waiting)

    @property
    def is_pressing(self) -> bool:
        """Tell whether something had better leave at once: senders are turned away for it, or it is much."""
        released = sum(map(len, self._released.values()))
        return bool(self._waiting or self._backed_up) or released + len(self._scorecards) > _MUCH

    def has_room(self, signal: Signal, size_bytes: int) -> bool:
        """Tell whether a senders' request of this size could leave now.

        Small ones may still fit where what waits here does not: taken in, they would pile up behind it.
        """
        return signal not in self._backed_up and self._outbox.has_room(signal, size_bytes)

    def release(self, spans: Iterable[tuple[Container, bytes]]) -> None:
        """Have spans leave with the next `flushing`."""
        released = self._released
        for span in spans:
            released.setdefault(span[0].origin, []).append(span)

    def releasing(
        self, held: Sequence[HeldSpan[Container]], said: Mapping[str, Mapping[str, bytes]]
    ) -> Generator[None, None, list[SpanRef]]:
        """Have spans of one trace leave with what is said about them, by span id; return those about which it is."""
        self._being_annotated += len(held)
        annotated: list[SpanRef] = []
        ready: list[tuple[Container, bytes]] = []
        try:
            for count, span in enumerate(held, 1):
                on_span = said.get(span.ref.span_id)
                if on_span and (added := b"".join(on_span.values())):
                    ready.append((span.container, annotate(span.raw, added)))
                    annotated.append(span.ref)
                else:
                    ready.append((span.container, span.raw))
                if count % _PAUSE_EVERY == 0:
                    yield
        finally:
            # A fault costs spans their scores, never the spans.
            ready.extend((span.container, span.raw) for span in held[len(ready) :])
            self.release(ready)
            self._being_annotated -= len(held)
        return annotated

    def pass_on(self, outgoing: Outgoing) -> None:
        """Hand over a senders' request."""
        if not self._outbox.put(outgoing):
            # Others took the room while the request was being read: it leaves when there is room again.
            self._waiting.append(outgoing)
            self._backed_up.add(outgoing.signal)

    def announce(self, scorecard: Scorecard) -> None:
        """Have the scorecard leave with the next `saying`."""
        self._scorecards.append(scorecard)

    def saying(self) -> Iterator[None]:
        """Hand over what we say ourselves; pause after each step. What is left off goes on with the next `saying`."""
        while self._says():
            yield

    def _says(self) -> bool:
        """Take a step towards handing on what we say ourselves; False when there is nothing to say."""
        # Taken out first: what fails here is not tried again, so that it stops nothing that comes after it.
        encoding, self._encoding = self._encoding, None
        if encoding is None:
            if not self._scorecards:
                return False
            scorecards, self._scorecards = self._scorecards, []
            encoding = iter(self._encode(scorecards))
        for outgoing in encoding:
            if outgoing is not None and not self._outbox.put(outgoing):
                self._metrics.own_dropped.add(1, ("", outgoing.signal, "queue_full"))
            self._encoding = encoding
            break
        return True

    def flushing(self) -> Iterator[None]:
        """Hand over all senders' data that there is room for; pause after each request."""
        waiting, self._waiting = self._waiting, []
        self._waiting.extend(outgoing for outgoing in waiting if not self._outbox.put(outgoing))
        # What is released in the meantime leaves the next time, or with what came in the same request.
        is_full = False
        for origin in list(self._released):
            while spans := self._released.get(origin):
                if not self._is_flushed(origin, spans):
                    is_full = True
                    break
                yield
        self._backed_up = {outgoing.signal for outgoing in self._waiting}
        if is_full:
            self._backed_up.add("traces")

    def _is_flushed(self, origin: object, spans: list[tuple[Container, bytes]]) -> bool:
        """Hand over as many of these as one request takes; False when there is no room for them."""
        count, size_bytes = _first_request(spans)
        # Without room they are still held: they leave when the destination has taken something.
        if not self._outbox.has_room("traces", size_bytes):
            return False
        body = encode_spans(spans[:count])
        if not self._outbox.put(Outgoing(signal="traces", body=body, spans=count, own=False)):
            return False
        self._released[origin] = spans[count:]
        if not self._released[origin]:
            del self._released[origin]
        return True


def _first_request(spans: Sequence[tuple[Container, bytes]]) -> tuple[int, int]:
    """Return how many of these spans leave in one request, one at least, and their bytes."""
    size_bytes = 0
    for count, (_, raw) in enumerate(spans):
        if count and size_bytes + len(raw) > _REQUEST_BYTES:
            return count, size_bytes
        size_bytes += len(raw)
    return len(spans), size_bytes
