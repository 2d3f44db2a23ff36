"""Shares of runs, each with the interval that holds the true share with 95 % confidence."""

from dataclasses import dataclass
from math import sqrt

from toolgauge.model.json import JsonObject

_Z = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Share:
    """`count` of `of`."""

    count: int
    of: int

    @property
    def value(self) -> float | None:
        """The share; `None` of nothing."""
        return self.count / self.of if self.of else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's interval: it stays within 0 and 1, and is honest where nothing, or everything, was counted."""
        if not self.of:
            return None
        share, square = self.count / self.of, _Z * _Z
        middle = share + square / (2 * self.of)
        reach = _Z * sqrt(share * (1 - share) / self.of + square / (4 * self.of * self.of))
        whole = 1 + square / self.of
        # Rounding must not turn the ends of what is exactly 0 or 1 into something else.
        low = 0.0 if self.count == 0 else (middle - reach) / whole
        high = 1.0 if self.count == self.of else (middle + reach) / whole
        return low, high

    def as_object(self) -> JsonObject:
        """Describe it for `--json`."""
        interval = self.interval
        return {
            "count": self.count,
            "of": self.of,
            "share": None if self.value is None else round(self.value, 6),
            "interval": None if interval is None else [round(end, 6) for end in interval],
        }

    def __str__(self) -> str:
        if self.value is None or self.interval is None:
            return "-"
        low, high = self.interval
        return f"{self.value:.2f} [{low:.2f}, {high:.2f}]"
