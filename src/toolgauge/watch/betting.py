"""Bets against a mean of scores in [0, 1]: the statistics under the detector, without memory of past observations.

A bet with the odds multiplier r multiplies its stake by (1 + loss (r - 1)) / (1 + mean loss (r - 1)). For scores 0 and 1 that is
the likelihood ratio of failure odds r times as high; for any score in [0, 1] its expectation is at most 1 while the mean loss
is no higher than stated. The sum over all possible starts of such products (Shiryaev and Roberts) reaches A on average no
sooner than after A observations.
"""

import math
import struct
from itertools import chain
from typing import Self, TypeAlias

# Odds multipliers r, less one: 12 of them, geometric from 1.3 to 6.
ODDS = tuple(1.3 * (6 / 1.3) ** (k / 11) - 1 for k in range(12))
# A drop is suspected from this likelihood ratio on.
SUSPICION = 20.0
_PACKED = struct.Struct(f"<{2 * len(ODDS) + 3 * (len(ODDS) + 1)}d")

# How many observations there were, the sum of their scores, and that of the baselines of their strata.
Sums: TypeAlias = tuple[float, float, float]


class Bets:
    """Evidence that the mean loss is higher than stated.

    `evidence` is E, the mean over the odds of the sums over all starts. `ratio` is the likelihood ratio of the best start and odds,
    1 where no start is any good; `since_onset` sums up what came after that start. `guard` is up unless the newest observations
    are in order even for the smallest odds.
    """

    __slots__ = ("evidence", "paths", "ratio", "stakes", "starts", "totals")

    size = _PACKED.size

    def __init__(self) -> None:
        self.evidence = 0.0
        self.ratio = 1.0
        self.stakes = [0.0] * len(ODDS)
        self.paths = [1.0] * len(ODDS)
        self.totals: Sums = (0.0, 0.0, 0.0)
        self.starts = [self.totals] * len(ODDS)

    def bet(self, loss: float, mean_loss: float, score: float, expected: float) -> None:
        """Bet that the loss is above its stated mean; score and baseline are what `since_onset` sums up."""
        count, scores, baselines = self.totals
        self.totals = totals = (count + 1, scores + score, baselines + expected)
        stakes, paths = self.stakes, self.paths
        for k, odds in enumerate(ODDS):
            factor = (1 + loss * odds) / (1 + mean_loss * odds)
            stakes[k] = (1 + stakes[k]) * factor
            paths[k] *= factor
            if paths[k] <= 1:
                paths[k] = 1.0
                self.starts[k] = totals
        self._sum_up()

    @property
    def guard(self) -> bool:
        """Whether observations should wait before anything is learned from them."""
        return self.paths[0] > 1

    def since_onset(self) -> Sums:
        """The observations since the likeliest onset, which is where the best path was at 1."""
        before = self.starts[self.paths.index(self.ratio)]
        return self.totals[0] - before[0], self.totals[1] - before[1], self.totals[2] - before[2]

    def pack(self) -> bytes:
        """The state as `size` bytes."""
        return _PACKED.pack(*self.stakes, *self.paths, *chain(self.totals, *self.starts))

    @classmethod
    def unpack(cls, data: bytes) -> Self:
        """Make one from what `pack` returned."""
        bets = cls()
        numbers = _PACKED.unpack(data)
        bets.stakes, bets.paths = list(numbers[: len(ODDS)]), list(numbers[len(ODDS) : 2 * len(ODDS)])
        sums = numbers[2 * len(ODDS) :]
        bets.totals, *bets.starts = zip(sums[::3], sums[1::3], sums[2::3], strict=True)
        bets._sum_up()
        return bets

    def _sum_up(self) -> None:
        self.evidence = sum(self.stakes) / len(ODDS)
        self.ratio = max(self.paths)


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
