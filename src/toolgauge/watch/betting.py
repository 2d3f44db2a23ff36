"""Bets against a mean of scores in [0, 1]: the statistics under the detector, without memory of what was observed.

A bet with the odds multiplier r multiplies its stake by (1 + loss (r - 1)) / (1 + mean loss (r - 1)). For scores 0 and 1 that is
the likelihood ratio of failure odds r times as high; for any score in [0, 1] its expectation is at most 1 while the mean loss
is no higher than stated. The sum over all possible starts of such products (Shiryaev and Roberts) reaches A on average no
sooner than after A observations.
"""

import math
from collections.abc import Iterable

# Odds multipliers r, less one: 12 of them, geometric from 1.3 to 8.
ODDS = tuple(1.3 * (8 / 1.3) ** (k / 11) - 1 for k in range(12))
GUARD_ODDS = 1.6 - 1


class Bets:
    """Evidence that the mean loss is higher than stated: `evidence` (E), and a `guard` that is 0 while nothing is suspected."""

    __slots__ = ("evidence", "guard", "stakes")

    def __init__(self, stakes: Iterable[float] = (0.0,) * len(ODDS), guard: float = 0.0) -> None:
        self.stakes = list(stakes)
        self.guard = guard
        self.evidence = sum(self.stakes) / len(ODDS)

    def bet(self, loss: float, mean_loss: float) -> None:
        """Bet that the loss is above its stated mean."""
        self.stakes = [
            (1 + stake) * (1 + loss * odds) / (1 + mean_loss * odds)
            for stake, odds in zip(self.stakes, ODDS, strict=True)
        ]
        self.evidence = sum(self.stakes) / len(ODDS)
        self.guard = max(0.0, self.guard + math.log((1 + loss * GUARD_ODDS) / (1 + mean_loss * GUARD_ODDS)))


def interval(mean: float, count: float) -> tuple[float, float]:
    """The 95 % interval of the mean of `count` observations in [0, 1] (Chernoff's bound: valid for any distribution)."""
    if not count:
        return 0.0, 1.0
    limit = math.log(40) / count
    return _where(mean, 0.0, limit), _where(mean, 1.0, limit)


def _where(mean: float, end: float, limit: float) -> float:
    """The value between the mean and the end from which on the divergence is above the limit."""
    near, far = mean, end
    for _ in range(40):
        middle = (near + far) / 2
        if _divergence(mean, middle) > limit:
            far = middle
        else:
            near = middle
    return far


def _divergence(mean: float, other: float) -> float:
    divergence = 0.0
    if mean > 0:
        divergence += math.inf if other <= 0 else mean * math.log(mean / other)
    if mean < 1:
        divergence += math.inf if other >= 1 else (1 - mean) * math.log((1 - mean) / (1 - other))
    return divergence
