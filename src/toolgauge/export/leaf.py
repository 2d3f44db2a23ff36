"""The way out when there is none: no destination is configured, and scores are read from metrics alone."""

from toolgauge.model.delivery import Outgoing, Signal
from toolgauge.selfmetrics import SelfMetrics


class Leaf:
    """An outbox without a destination: senders' spans end here as consumed, what we say ourselves is let go."""

    def __init__(self, metrics: SelfMetrics) -> None:
        self._spans = metrics.spans
        metrics.spans_queued.observe = lambda: {("",): 0}

    @property
    def destinations(self) -> tuple[()]:
        """There is none."""
        return ()

    @property
    def bytes_queued(self) -> int:
        """Nothing ever waits."""
        return 0

    @property
    def spans_queued(self) -> int:
        """Nothing ever waits."""
        return 0

    def forwards(self, signal: Signal) -> bool:  # noqa: ARG002 - the outbox interface
        """Nothing is sent on."""
        return False

    def has_room(self, signal: Signal, size_bytes: int) -> bool:  # noqa: ARG002 - the outbox interface
        """There is always room."""
        return True

    def put(self, outgoing: Outgoing) -> bool:
        """Count and let go."""
        if outgoing.spans:
            self._spans.add(outgoing.spans, ("consumed", "", ""))
        return True

    async def start(self) -> None:
        """Nothing to start."""

    def hurry(self) -> None:
        """Nothing waits here."""

    async def drain(self, timeout_s: float) -> int:  # noqa: ARG002 - as a destination
        """Nothing is ever left."""
        return 0

    async def close(self) -> None:
        """Nothing to close."""
