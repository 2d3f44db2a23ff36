"""Suspects a loop: a pipeline that sends our output back to us makes every agent span come twice.

Senders repeat a request when its answer was lost, so some repetition is normal; a high share of it within one
minute is not. Two windows of time are remembered, each bounded; of a span only a hash, since a chance match in a
million does not matter here.
"""

from toolgauge.model.records import SpanRef

_WINDOW_NS = 60_000_000_000
_MAX_REMEMBERED = 20_000
_SUSPICIOUS_SHARE = 0.5
_LEAST_SPANS = 100


class LoopDetector:
    """Counts spans that come again within a minute or two."""

    def __init__(self) -> None:
        self._began_ns = 0
        self._newer: set[int] = set()
        self._older: set[int] = set()
        self._repeated = 0
        self.loop_suspected = False

    def add(self, ref: SpanRef, now_ns: int) -> None:
        """Take note of one span."""
        if now_ns - self._began_ns >= _WINDOW_NS:
            self._turn_over(now_ns)
        known, newer = hash(ref), self._newer
        if known in newer or known in self._older:
            self._repeated += 1
        elif len(newer) < _MAX_REMEMBERED:
            newer.add(known)

    def turn_over_if_due(self, now_ns: int) -> None:
        """Let a suspicion end when nothing comes any more."""
        if now_ns - self._began_ns >= _WINDOW_NS:
            self._turn_over(now_ns)

    def _turn_over(self, now_ns: int) -> None:
        # What is not remembered could not be found again: it says nothing about the share.
        seen = len(self._newer) + self._repeated
        self.loop_suspected = seen >= _LEAST_SPANS and self._repeated >= _SUSPICIOUS_SHARE * seen
        self._older, self._newer = self._newer, set()
        self._repeated = 0
        self._began_ns = now_ns
