"""The calls of both sides as `align` sees them, and what their pairs are worth."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeAlias

from msgspec import Struct

# The value of pairing an expected with an actual call (by index); `None` if the two may not be paired.
Weigh: TypeAlias = Callable[[int, int], float | None]

# Values are counted in units that thirds, sevenths, ... sixteenths fit into: their sums stay exact.
_UNITS = 720_720_000


class Item(Struct, frozen=True, kw_only=True):
    """One call on either side.

    Only items of one `kind` can be paired, and items of one kind with equal keys are a whole pair (value 1).
    Items of one side with equal kind and key must have the same values with everything. `group` is the turn of an
    actual call: calls of one turn have no order among themselves. Likewise neighbours of one group on the expected
    side, where order is `partial`; elsewhere their groups are not looked at. An `optional` expected item is not missed.
    """

    kind: str
    key: Hashable
    group: int = 0
    optional: bool = False


class Weights:
    """Values as integers, each worked out once."""

    __slots__ = ("_required_bonus", "_value_unit", "_weigh", "_whole_bonus", "actual", "expected", "values")

    def __init__(self, expected: Sequence[Item], actual: Sequence[Item], weigh: Weigh) -> None:
        self.expected = expected
        self.actual = actual
        self.values: list[dict[int, float | None]] = [{} for _ in expected]
        self._weigh = weigh
        most = min(len(expected), len(actual)) + 1
        # Each place outweighs everything that all pairs together can hold in the places below it.
        self._required_bonus = most
        self._whole_bonus = most * (self._required_bonus + 1)
        self._value_unit = most * (self._whole_bonus + self._required_bonus + 1)

    def of(self, row: int, columns: Iterable[int]) -> list[int]:
        """Work out the weights of a row's pairs: 0 for those that may not be, more for all others."""
        weights: list[int] = []
        values, expected = self.values[row], self.expected[row]
        for column in columns:
            if column not in values:
                actual = self.actual[column]
                if expected.kind != actual.kind:
                    values[column] = None
                elif expected.key == actual.key:
                    values[column] = 1.0
                else:
                    values[column] = self._weigh(row, column)
            value = values[column]
            weights.append(0 if value is None else self.in_units(value, optional=expected.optional))
        return weights

    def of_column(self, rows: Iterable[int], column: int) -> list[int]:
        """Work out the weights of a column's pairs."""
        weights: list[int] = []
        for row in rows:
            weights += self.of(row, (column,))
        return weights

    def in_units(self, value: float, *, optional: bool) -> int:
        """Turn a value into an integer that also ranks equal totals."""
        bonus = 1 + (0 if optional else self._required_bonus) + (self._whole_bonus if value == 1.0 else 0)
        return round(value * _UNITS) * self._value_unit + bonus
