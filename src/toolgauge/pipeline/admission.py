"""Which requests are taken, and how many of senders' spans are inside.

A request is refused with a retryable status while its destination has no room, memory is short, or the process stops.
Spans count as held from the moment at which their sender is answered until the outbox has them: whoever adds to one
side of the books and takes from the other does both under one lock, so that the books balance at every look.
"""

from collections.abc import Callable

from toolgauge.model.delivery import Accepted, Answer, Outbox, Outgoing, Refused, Signal, Unsupported
from toolgauge.otlp.request import Request
from toolgauge.selfmetrics import SelfMetrics

_RECEIVED = ("received", "", "")
_ACCEPTED = Accepted()


class Admission:
    """Takes or refuses requests, and hands what leaves to the outbox. May be used from several threads.

    `has_memory` tells whether there is memory for a request of so many bytes.
    """

    def __init__(self, outbox: Outbox, metrics: SelfMetrics, has_memory: Callable[[int], bool]) -> None:
        self._outbox = outbox
        self._metrics = metrics
        self._has_memory = has_memory
        self._lock = metrics.lock
        self._spans_held = 0
        # Bytes of requests that were taken and are still to be read.
        self._bytes_unread = 0
        self._is_closed = False
        # Signals of which requests wait inside because the outbox had no room for them.
        self.backed_up: frozenset[Signal] = frozenset()
        metrics.spans_held.observe = lambda: {(): self._spans_held}

    @property
    def spans_held(self) -> int:
        """Senders' spans that were taken and are neither queued for a destination nor gone."""
        return self._spans_held

    def close(self) -> None:
        """Refuse everything from here on."""
        self._is_closed = True

    def admit(self, request: Request) -> Answer:
        """Accept the request or answer with the refusal; an accepted one must be read or passed on."""
        answer, reason = self._answer(request)
        with self._lock:
            if not isinstance(answer, Unsupported):
                self._metrics.spans.add(request.spans, _RECEIVED)
            if isinstance(answer, Refused):
                self._metrics.spans.add(request.spans, ("refused", reason, ""))
            elif isinstance(answer, Accepted):
                self._spans_held += request.spans
                self._bytes_unread += len(request.body)
        return answer

    def refuse(self, request: Request, message: str, reason: str) -> Refused:
        """Refuse a request for a reason that is known elsewhere."""
        with self._lock:
            self._metrics.spans.add(request.spans, _RECEIVED)
            self._metrics.spans.add(request.spans, ("refused", reason, ""))
        return Refused(message)

    def take_up(self, request: Request, *, is_delivered: bool) -> None:
        """Take a request that an earlier process accepted; it must be read. Spans that were `is_delivered` are no concern."""
        with self._lock:
            self._bytes_unread += len(request.body)
            if not is_delivered:
                self._metrics.spans.add(request.spans, _RECEIVED)
                self._metrics.spans_recovered.add(request.spans)
                self._spans_held += request.spans

    def withdraw(self, request: Request) -> None:
        """Refuse a request after all that was taken and found no room."""
        with self._lock:
            self._metrics.spans.add(request.spans, ("refused", "queue_full", ""))
            self._spans_held -= request.spans
            self._bytes_unread -= len(request.body)

    def give_back(self, spans: int) -> None:
        """Refuse spans after all whose partition was lost: its next owner reads them again."""
        with self._lock:
            self._metrics.spans.add(spans, ("refused", "partition_lost", ""))
            self._spans_held -= spans

    def read(self, request: Request) -> None:
        """Take note that the request has been read, or passed on unread."""
        with self._lock:
            self._bytes_unread -= len(request.body)

    def hand_over(self, outgoing: Outgoing) -> bool:
        """Put a request into the outbox; False when there is no room, and nothing has changed then."""
        with self._lock:
            if not self._outbox.put(outgoing):
                return False
            self._spans_held -= outgoing.spans
            return True

    def has_room(self, signal: Signal, size_bytes: int) -> bool:
        """Return whether the outbox has room for a senders' request."""
        return self._outbox.has_room(signal, size_bytes)

    def _answer(self, request: Request) -> tuple[Answer, str]:
        signal = request.signal
        if signal == "metrics" and not self._outbox.forwards("metrics"):
            message = (
                "metrics are not accepted here, as nothing is sent on: set `OTEL_METRICS_EXPORTER=none` in the sender, or send "
                "them to your backend"
            )
            return Unsupported(message), ""
        if self._is_closed:
            return Refused("shutting down"), "shutdown"
        # Small requests may still fit where what waits inside does not: taken in, they would pile up behind it.
        if signal in self.backed_up or not self._outbox.has_room(signal, len(request.body) + self._bytes_unread):
            return Refused("the queue to the destination is full"), "queue_full"
        if not self._has_memory(len(request.body)):
            return Refused("memory is short"), "memory"
        return _ACCEPTED, ""
