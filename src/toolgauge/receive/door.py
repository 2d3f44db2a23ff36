"""The way in that both transports share: hand the body to the consumer, count what became of it.

Nothing raised behind the door may leave it: an exception in a gRPC handler would tell the sender UNKNOWN,
which means "do not retry", and the data would be lost.
"""

import logging
from collections.abc import Callable

from toolgauge.model.delivery import Accepted, Consumer, Signal
from toolgauge.receive.refusal import Outcome, Refusal, failed, refusal
from toolgauge.selfmetrics import SelfMetrics

_log = logging.getLogger("toolgauge.receive")

HOP_HEADER = "x-toolgauge-hop"


class Door:
    """Takes whole, uncompressed requests of one transport."""

    def __init__(
        self, consumer: Consumer, *, transport: str, clock: Callable[[], int], metrics: SelfMetrics, hop_id: str
    ) -> None:
        self.hop_id = hop_id
        self._consumer = consumer
        self._transport = transport
        self._clock = clock
        self._requests = metrics.requests
        self._faults: set[str] = set()

    def take(self, signal: Signal, body: bytes) -> Refusal | None:
        """Hand the request on; `None` means that it was accepted."""
        if not body:
            self.count(signal, "accepted")
            return None
        try:
            answer = self._consumer.consume(signal, body, self._clock())
        except Exception as error:  # noqa: BLE001 - the receiver handler answers for whatever fails behind it
            return self.fail(signal, error)
        if isinstance(answer, Accepted):
            self.count(signal, "accepted")
            return None
        return self.refuse(signal, refusal(answer))

    def refuse(self, signal: Signal, told: Refusal) -> Refusal:
        """Count a refusal and hand it back."""
        self.count(signal, told.outcome)
        return told

    def fail(self, signal: Signal, error: Exception) -> Refusal:
        """Count a fault of ours; the log names each kind once and shows no content of the request."""
        kind = type(error).__name__
        if kind not in self._faults:
            self._faults.add(kind)
            _log.error("a %s request over %s failed inside: %s", signal, self._transport, kind)
        return self.refuse(signal, failed(error))

    def count(self, signal: Signal, outcome: Outcome) -> None:
        """Count one request."""
        self._requests.add(1, (self._transport, signal, outcome))
