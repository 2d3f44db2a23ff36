"""Pairs calls in order, with the highest total score: call by call, or by stages and turns.

Stages are groups of expected calls, turns are groups of actual ones, without order within: every pairing is a walk through
the grid of stages and turns. Equal calls of a stage or turn are one class: how many are taken matters, not which.
"""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from math import prod
from typing import NamedTuple, TypeAlias

# The weights of a row's pairs with these columns: not negative, 0 for a forbidden pair.
RowWeights: TypeAlias = Callable[[int, Sequence[int]], Sequence[int]]
Pairs: TypeAlias = list[tuple[int, int]]


def in_order(expected: Sequence[Hashable], actual: Sequence[Hashable], weights: RowWeights) -> Pairs:
    """Pair in order. Equal keys must have the greatest weight there is: it bounds the search."""
    rows, columns = len(expected), len(actual)
    least = _common(expected, actual)
    best = [[0] * (columns + 1) for _ in range(rows + 1)]
    found: list[dict[int, int]] = [{} for _ in range(rows)]
    for row in reversed(range(rows)):
        looked_at = range(max(0, least - rows + row), min(columns, columns - least + row + 1))
        in_row = weights(row, looked_at)
        found[row] = {column: weight for column, weight in zip(looked_at, in_row, strict=True) if weight}
        current, following, right = best[row], best[row + 1], 0
        for column in reversed(range(columns)):
            if following[column] > right:
                right = following[column]
            weight = found[row].get(column)
            if weight is not None and weight + following[column + 1] > right:
                right = weight + following[column + 1]
            current[column] = right
    pairs: Pairs = []
    row = column = 0
    while row < rows and column < columns:
        total, weight = best[row][column], found[row].get(column)
        if weight is not None and total == weight + best[row + 1][column + 1]:
            pairs.append((row, column))
            row += 1
            column += 1
        elif total == best[row][column + 1]:
            column += 1
        else:
            row += 1
    return pairs


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


# The classes of one stage or turn: indices of calls that can take each other's place.
Classes: TypeAlias = Sequence[Sequence[int]]

_MAX_STATES = 300_000
_MAX_GRID_STEPS = 3_000_000


def is_affordable(stages: Sequence[Classes], turns: Sequence[Classes]) -> bool:
    """Return whether `in_stages` ends in about a second."""
    sizes = [[prod(len(members) + 1 for members in classes) for classes in side] for side in (stages, turns)]
    steps = [
        sum(size * len(classes) for size, classes in zip(sizes[side], classes_of, strict=True))
        for side, classes_of in enumerate((stages, turns))
    ]
    return prod(map(sum, sizes)) <= _MAX_STATES and prod(steps) <= _MAX_GRID_STEPS


class _Counts:
    """Counts of calls taken by class, as one number: a digit a class."""

    def __init__(self, classes: Classes) -> None:
        self.places: list[int] = []
        self.size = 1
        for members in classes:
            self.places.append(self.size)
            self.size *= len(members) + 1
        # Whether a class has a call left, by class and number.
        self.room = [
            [state // place % (len(members) + 1) < len(members) for state in range(self.size)]
            for place, members in zip(self.places, classes, strict=True)
        ]


# The pairs of a way, the last one first: its stage, turn and classes, and the way before it.
_Way: TypeAlias = "tuple[_Pair, _Way] | None"
_Pair: TypeAlias = tuple[int, int, int, int]
# A pair's gain, the difference between the states after and before it, and by state of stage and turn whether both have a call left.
_Move: TypeAlias = tuple[int, int, Sequence[bool], Sequence[bool], _Pair]


class _Cell(NamedTuple):
    """One stage at one turn: the best total and way by state, number of the stage * size of the turn + number of the turn."""

    best: list[int]
    ways: list[_Way]

    def first_best(self, states: range) -> tuple[int, _Way]:
        """Return the total and way of the best state, the first of several."""
        state = max(states, key=self.best.__getitem__)
        return self.best[state], self.ways[state]

    def move(self, moves: Sequence[_Move], size: int) -> None:
        """Pair calls from each state on; every move leads to a higher state, and the last of equal ones has the earliest pair."""
        best, ways = self
        for state, total in enumerate(best) if moves else ():
            if total >= 0:
                of_row, of_column = divmod(state, size)
                for gain, step, row_room, column_room, pair in moves:
                    if row_room[of_row] and column_room[of_column] and total + gain >= best[state + step]:
                        best[state + step], ways[state + step] = total + gain, (pair, ways[state])


def in_stages(stages: Sequence[Classes], turns: Sequence[Classes], weights: RowWeights) -> Pairs:
    """Pair in order of stages and turns; the work grows with the product of the sizes of their classes.

    Of several best ways, that with the earliest pairs wins, so that ties are stable.
    """
    if not stages or not turns:
        return []
    columns = [_Counts(classes) for classes in turns]
    firsts = [[members[0] for members in classes] for classes in turns]
    # The newest cell of each turn.
    cells = [_Cell([0], [None]) for _ in turns]
    for stage, row in enumerate(map(_Counts, stages)):
        for turn, column in enumerate(columns):
            size = column.size
            best, ways = cell = _Cell([-1] * (row.size * size), [None] * (row.size * size))
            if not stage and not turn:
                best[0] = 0
            if stage:
                # From the stage above with the calls that the turn has given.
                above = cells[turn]
                for taken in range(size):
                    best[taken], ways[taken] = above.first_best(range(taken, len(above.best), size))
            if turn:
                # From the turn before with the calls that the stage has.
                width = columns[turn - 1].size
                for taken in range(row.size):
                    total, way = cells[turn - 1].first_best(range(taken * width, (taken + 1) * width))
                    if total >= best[taken * size]:
                        best[taken * size], ways[taken * size] = total, way
            moves = [
                (
                    gain,
                    row.places[expected] * size + column.places[actual],
                    row.room[expected],
                    column.room[actual],
                    (stage, turn, expected, actual),
                )
                for expected, members in enumerate(stages[stage])
                for actual, gain in enumerate(weights(members[0], firsts[turn]))
                if gain
            ]
            cell.move(moves, size)
            cells[turn] = cell
    _, way = cells[-1].first_best(range(len(cells[-1].best)))
    steps: list[_Pair] = []
    while way is not None:
        pair, way = way
        steps.append(pair)
    # Give each step the first calls of its classes that are left.
    expected_calls = [[deque(members) for members in classes] for classes in stages]
    actual_calls = [[deque(members) for members in classes] for classes in turns]
    return sorted(
        (expected_calls[stage][expected].popleft(), actual_calls[turn][actual].popleft())
        for stage, turn, expected, actual in reversed(steps)
    )
