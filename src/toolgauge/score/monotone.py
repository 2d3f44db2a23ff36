"""Pairing in order, with the greatest total: two pairs never cross.

`in_order` is the plain case. `in_groups` lets the calls of one group (one turn) take any order among themselves.
"""

from bisect import bisect_right
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

# The weights of a row's pairs with these columns: not negative, 0 for what may not be paired.
Weights: TypeAlias = Callable[[int, Sequence[int]], Sequence[int]]
Pairs: TypeAlias = list[tuple[int, int]]

_MAX_GROUP = 10
_MAX_STEPS = 3_000_000


def in_order(expected: Sequence[Hashable], actual: Sequence[Hashable], weights: Weights) -> Pairs:
    """Pair in order. Equal keys must have the greatest weight there is: it bounds what has to be looked at."""
    rows, columns = len(expected), len(actual)
    least = _common(expected, actual)
    best = [[0] * (columns + 1) for _ in range(rows + 1)]
    found: list[dict[int, int]] = [{} for _ in range(rows)]
    for row in reversed(range(rows)):
        looked_at = _worth_a_look(row, rows, columns, least)
        in_row = weights(row, looked_at)
        found[row] = {column: weight for column, weight in zip(looked_at, in_row, strict=True) if weight}
        _fill(best[row], best[row + 1], found[row])
    return _traced(best, found)


def _common(expected: Sequence[Hashable], actual: Sequence[Hashable]) -> int:
    """Return the length of the longest common subsequence: a set bit is a column not yet used."""
    places: dict[Hashable, int] = {}
    for column, key in enumerate(actual):
        places[key] = places.get(key, 0) | 1 << column
    full = (1 << len(actual)) - 1
    free = full
    for key in expected:
        hits = free & places.get(key, 0)
        free = ((free + hits) | (free - hits)) & full
    return len(actual) - free.bit_count()


def _worth_a_look(row: int, rows: int, columns: int, least: int) -> range:
    """Tell which columns a pair of this row may have in a pairing of at least `least` pairs.

    A pair at (row, column) leaves room for min(row, column) pairs before it and the like after it.
    """
    return range(max(0, least - rows + row), min(columns, columns - least + row + 1))


def _fill(current: list[int], following: list[int], weights: dict[int, int]) -> None:
    right = 0
    for column in range(len(current) - 2, -1, -1):
        best = following[column]
        if right > best:
            best = right
        found = weights.get(column)
        if found is not None and found + following[column + 1] > best:
            best = found + following[column + 1]
        current[column] = right = best


def _traced(best: list[list[int]], weights: list[dict[int, int]]) -> Pairs:
    """Walk a best way; of several the one that pairs earliest, so that ties are stable."""
    pairs: Pairs = []
    row = column = 0
    while row < len(weights) and column < len(best[0]) - 1:
        found = weights[row].get(column)
        total = best[row][column]
        if found is not None and total == found + best[row + 1][column + 1]:
            pairs.append((row, column))
            row += 1
            column += 1
        elif total == best[row][column + 1]:
            column += 1
        else:
            row += 1
    return pairs


def is_affordable(rows: int, groups: Sequence[Sequence[int]]) -> bool:
    """Tell whether `in_groups` ends in well under a second."""
    return all(len(group) <= _MAX_GROUP for group in groups) and (
        rows * sum(len(group) << len(group) for group in groups) <= _MAX_STEPS
    )


def in_groups(rows: int, groups: Sequence[Sequence[int]], weights: Weights) -> Pairs:
    """Pair in order of the groups; `groups` holds the columns of each. The work doubles with each call of a group.

    A state is a group and which of its calls are taken; the best total of every state is kept from row to row.
    """
    table = _Table(groups)
    columns = [column for group in groups for column in group]
    steps: list[_Step] = []
    for row in range(rows):
        in_row = weights(row, columns)
        step = _Step()
        for index in range(len(groups)):
            table.take(index, in_row, step)
        table.move_on(step)
        steps.append(step)
    return table.traced(steps)


@dataclass(slots=True)
class _Step:
    """What one row changed: states that took a column, states that were entered from an earlier group."""

    taken: dict[int, int] = field(default_factory=dict[int, int])
    entered: dict[int, int] = field(default_factory=dict[int, int])


class _Table:
    """The best total of each state, `offset of the group + bits of the calls taken`; -1 is out of reach."""

    __slots__ = ("_best", "_columns", "_groups", "_offsets")

    def __init__(self, groups: Sequence[Sequence[int]]) -> None:
        self._groups = groups
        self._offsets: list[int] = []
        self._columns: list[int] = []
        self._best: list[int] = []
        for group in groups:
            self._offsets.append(len(self._best))
            self._columns.append(sum(map(len, groups[: len(self._columns)])))
            self._best += [0, *[-1] * ((1 << len(group)) - 1)]

    def take(self, index: int, weights: Sequence[int], step: _Step) -> None:
        """Let the row take any call of the group that is left."""
        offset, first, size = self._offsets[index], self._columns[index], len(self._groups[index])
        best = self._best
        before = best[offset : offset + (1 << size)]
        for bit in range(size):
            gain, mark = weights[first + bit], 1 << bit
            if not gain:
                continue
            for taken, total in enumerate(before):
                if total >= 0 and not taken & mark and total + gain > best[offset + taken + mark]:
                    best[offset + taken + mark] = total + gain
                    step.taken[offset + taken + mark] = bit

    def move_on(self, step: _Step) -> None:
        """Let each group begin where the best of those before it ends."""
        best_state, best_total = 0, -1
        for index, offset in enumerate(self._offsets):
            if best_total > self._best[offset]:
                self._best[offset] = best_total
                step.entered[offset] = best_state
            for state in range(offset, offset + (1 << len(self._groups[index]))):
                if self._best[state] > best_total:
                    best_state, best_total = state, self._best[state]

    def traced(self, steps: Sequence[_Step]) -> Pairs:
        """Walk back from the best state."""
        pairs: Pairs = []
        state = max(range(len(self._best)), key=lambda candidate: (self._best[candidate], -candidate), default=0)
        for row in reversed(range(len(steps))):
            while state in steps[row].entered:
                state = steps[row].entered[state]
            bit = steps[row].taken.get(state)
            if bit is not None:
                pairs.append((row, self._groups[bisect_right(self._offsets, state) - 1][bit]))
                state -= 1 << bit
        return pairs[::-1]
