"""Suspects that traces are split over several toolgauges, from the share of newest trajectories that show a sign of it.

A sender that loses a request now and then leaves such signs too; a share of them is a load balancer that does not route
by trace.
"""

from collections import deque

_NEWEST = 100
_LEAST = 5
_SUSPICIOUS_SHARE = 0.1
# A share that goes to and fro is reported so often.
_REPORT_AGAIN_NS = 3_600_000_000_000


class SplitDetector:
    """Counts, of the newest trajectories with calls, those that show that spans of them went elsewhere."""

    def __init__(self) -> None:
        self._newest: deque[bool] = deque(maxlen=_NEWEST)
        self._reported_ns: int | None = None
        self.split_suspected = False

    @property
    def share(self) -> float:
        """The share of trajectories with signs."""
        return sum(self._newest) / len(self._newest) if self._newest else 0.0

    def add(self, now_ns: int, *, has_sign: bool) -> bool:
        """Take note of a trajectory; return whether a suspicion begins that is to be reported."""
        before = self.split_suspected
        self._newest.append(has_sign)
        self.split_suspected = sum(self._newest) >= _LEAST and self.share >= _SUSPICIOUS_SHARE
        if before or not self.split_suspected:
            return False
        if self._reported_ns is not None and now_ns - self._reported_ns < _REPORT_AGAIN_NS:
            return False
        self._reported_ns = now_ns
        return True
