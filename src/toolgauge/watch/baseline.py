"""The baseline of a stream: the mean score of each of its strata, learned from the stream itself."""

import math


class Stratum:
    """The observations of one kind: accepted ones, those that wait while a drop is suspected, and the open one.

    `share` counts the observations, each by the part of its scores that is of this stratum.
    """

    __slots__ = ("accepted", "accepted_sum", "open_count", "open_sum", "pending", "pending_sum", "share")

    def __init__(self) -> None:
        self.accepted = self.accepted_sum = 0.0
        self.pending = self.pending_sum = 0.0
        self.share = 0.0
        self.open_sum = 0.0
        self.open_count = 0

    @property
    def mean(self) -> float:
        """Of the accepted observations; 0 without any."""
        return self.accepted_sum / self.accepted if self.accepted else 0.0

    def predicted(self, kappa: float) -> float:
        """The mean that bets are made against; `kappa` is the strength of the insurance against a lucky start, 0 for none."""
        mean = (self.accepted_sum + 0.5) / (self.accepted + 1)
        return mean - shading(mean, self.accepted, kappa) if kappa else mean

    def accept(self, score: float) -> None:
        """Add an observation to the baseline."""
        self.accepted += 1
        self.accepted_sum += score

    def hold(self, score: float) -> None:
        """Add an observation to those that wait."""
        self.pending += 1
        self.pending_sum += score

    def accept_pending(self) -> None:
        """Add those that wait to the baseline."""
        self.accepted += self.pending
        self.accepted_sum += self.pending_sum
        self.drop_pending()

    def drop_pending(self) -> None:
        """Forget those that wait."""
        self.pending = self.pending_sum = 0.0


def fraction_kept(count: float, scores: float, expected: float, kappa: float) -> float:
    """The part of the baseline that is left since an onset, shaded upwards, at most half of the way back."""
    before = expected / count
    mean = (scores + 0.5 * before) / (count + 1)
    return min(mean + shading(mean, count, kappa), (mean + before) / 2) / before


def shading(mean: float, count: float, kappa: float) -> float:
    """The insurance against a lucky start: 3 standard errors of a mean at most, and fewer as the count grows."""
    errors = min(3.0, math.sqrt(kappa / count))
    return errors * math.sqrt(mean * (1 - mean) / (count + 1))
