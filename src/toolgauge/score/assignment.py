"""Assignment with the greatest total: each row gets a column of its own (Jonker-Volgenant: shortest augmenting paths).

Weights are integers, so totals are exact and ties are ties. A row's weights are asked for only when a path
reaches it: where most rows are settled beforehand, most weights are never worked out.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

# The weights of one row, for every column; none is negative.
Row: TypeAlias = Callable[[int], Sequence[int]]

# Beyond every distance.
_FAR = 1 << 200


def assign(rows: int, columns: int, row: Row, *, settled: Mapping[int, int], settled_weight: int) -> list[int]:
    """Return each row's column. `rows` must not exceed `columns`.

    `settled` starts from pairs (row to column) that all weigh `settled_weight`, which no weight exceeds. A settled
    row keeps a column but not necessarily this one.
    """
    solver = _Solver(rows, columns, row)
    for index, column in settled.items():
        solver.settle(index, column, settled_weight)
    for index in range(rows):
        if index not in settled:
            solver.augment(index)
    return solver.column_of


class _Solver:
    """Duals and the matching so far. Costs are negated weights; every reduced cost of a matched row is >= 0."""

    __slots__ = ("_columns", "_of_column", "_of_row", "_row", "column_of", "row_of")

    def __init__(self, rows: int, columns: int, row: Row) -> None:
        self._columns = columns
        self._row = row
        self._of_row = [0] * rows
        self._of_column = [0] * columns
        self.column_of = [-1] * rows
        self.row_of = [-1] * columns

    def settle(self, row: int, column: int, weight: int) -> None:
        self.column_of[row] = column
        self.row_of[column] = row
        self._of_row[row] = -weight

    def augment(self, start: int) -> None:
        """Give `start` a column along the cheapest path; others may move to another column."""
        distance = [_FAR] * self._columns
        previous = [-1] * self._columns
        waiting = list(range(self._columns))
        reached: list[int] = []
        row, base = start, 0
        while True:
            weights = self._row(row)
            column = self._look(weights, base - self._of_row[row], row, distance, previous, waiting)
            waiting.remove(column)
            base = distance[column]
            row = self.row_of[column]
            if row < 0:
                break
            reached.append(column)
        for other in reached:
            gain = base - distance[other]
            self._of_row[self.row_of[other]] += gain
            self._of_column[other] -= gain
        self._of_row[start] += base
        self._shift(start, column, previous)

    def _look(
        self,
        weights: Sequence[int],
        offset: int,
        row: int,
        distance: list[int],
        previous: list[int],
        waiting: list[int],
    ) -> int:
        """See whether the way through this row is nearer to a column that waits; return the nearest of them.

        A free one, then the first, wins a tie. This loop is where the time goes.
        """
        of_column, row_of = self._of_column, self.row_of
        least, nearest = _FAR + 1, -1
        for column in waiting:
            reach = offset - weights[column] - of_column[column]
            if reach < distance[column]:
                distance[column] = reach
                previous[column] = row
            else:
                reach = distance[column]
            if reach < least:
                least, nearest = reach, column
            elif reach == least and row_of[column] < 0 <= row_of[nearest]:
                nearest = column
        return nearest

    def _shift(self, start: int, column: int, previous: list[int]) -> None:
        row = -1
        while row != start:
            row = previous[column]
            self.row_of[column] = row
            self.column_of[row], column = column, self.column_of[row]
