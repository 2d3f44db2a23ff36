"""Quantiles of a stream of numbers in bounded memory, whatever the order in which they come.

Numbers are counted by their first three digits, so that a quantile is off by half a percent at most, and no single number
can be read back; whole numbers below 1000 are exact.
"""

import math
from collections import Counter

_DIGITS = 3
# Smaller figures count as 0, larger ones as this: the counts stay bounded.
_SMALLEST, _LARGEST = 1e-9, 1e18


class Quantiles:
    """Counts numbers."""

    def __init__(self) -> None:
        self._counts: Counter[float] = Counter()

    @property
    def count(self) -> int:
        """How many numbers there were."""
        return self._counts.total()

    def add(self, number: float) -> None:
        """Count a number, unless it is infinite or no number."""
        if math.isfinite(number):
            self._counts[_rounded(number)] += 1

    def quantile(self, share: float) -> float | None:
        """Return the smallest number that at least this share of all does not exceed; `None` without numbers."""
        wanted = math.ceil(share * self.count)
        for number in sorted(self._counts):
            wanted -= self._counts[number]
            if wanted <= 0:
                return number
        return None

    def spread(self) -> tuple[float, float] | None:
        """Return bounds around all numbers, rounded outwards to two digits; `None` without numbers."""
        if not self._counts:
            return None
        return outwards(min(self._counts), up=False), outwards(max(self._counts), up=True)


def outwards(number: float, *, up: bool) -> float:
    """Round a number away from what it bounds, to two digits; whole numbers up to 10 stay as they are."""
    if number == 0 or (abs(number) <= 10 and number % 1 == 0):
        return number
    step = 10.0 ** (math.floor(math.log10(abs(number))) - 1)
    steps = math.ceil(number / step - 1e-9) if up else math.floor(number / step + 1e-9)
    return float(f"{steps * step:.2g}")


def _rounded(number: float) -> float:
    if abs(number) < _SMALLEST:
        return 0.0
    return float(f"{max(-_LARGEST, min(_LARGEST, number)):.{_DIGITS}g}")
