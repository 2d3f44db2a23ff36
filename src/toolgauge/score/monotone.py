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


class _Move(NamedTuple):
    """A pair of two classes: its weight, and the difference between the states after and before it."""

    expected: int
    actual: int
    gain: int
    step: int


class _Cell(NamedTuple):
    """One stage at one turn: the best total by state, number of the stage * size of the turn + number of the turn."""

    best: list[int]
    moves: list[_Move]


def in_stages(stages: Sequence[Classes], turns: Sequence[Classes], weights: RowWeights) -> Pairs:
    """Pair in order of stages and turns; the work grows with the product of the sizes of their classes."""
    if not stages or not turns:
        return []
    rows, columns = [_Counts(classes) for classes in stages], [_Counts(classes) for classes in turns]
    firsts = [[members[0] for members in classes] for classes in turns]
    grid: list[list[_Cell]] = []
    for stage, row in enumerate(rows):
        grid.append([])
        for turn, column in enumerate(columns):
            size = column.size
            best = [-1] * (row.size * size)
            if not stage and not turn:
                best[0] = 0
            if stage:
                # From the stage above with the calls that the turn has given.
                above = grid[stage - 1][turn].best
                best[:size] = [max(above[taken::size]) for taken in range(size)]
            if turn:
                # From the turn before with the calls that the stage has.
                before, width = grid[stage][turn - 1].best, columns[turn - 1].size
                for taken in range(row.size):
                    total = max(before[taken * width : (taken + 1) * width])
                    best[taken * size] = max(best[taken * size], total)
            moves = [
                _Move(expected, actual, gain, step=row.places[expected] * size + column.places[actual])
                for expected, members in enumerate(stages[stage])
                for actual, gain in enumerate(weights(members[0], firsts[turn]))
                if gain
            ]
            # Pair calls from each state on; every move leads to a higher state.
            ways = [(one.gain, one.step, row.room[one.expected], column.room[one.actual]) for one in moves]
            for state, total in enumerate(best) if ways else ():
                if total >= 0:
                    of_row, of_column = divmod(state, size)
                    for gain, step, row_room, column_room in ways:
                        if row_room[of_row] and column_room[of_column] and total + gain > best[state + step]:
                            best[state + step] = total + gain
            grid[stage].append(_Cell(best, moves))
    # Give each step the first calls of its classes that are left.
    expected = [[deque(members) for members in classes] for classes in stages]
    actual = [[deque(members) for members in classes] for classes in turns]
    pairs = Pairs()
    for stage, turn, move in _steps(grid, rows, columns):
        pairs.append((expected[stage][move.expected].popleft(), actual[turn][move.actual].popleft()))
    return sorted(pairs)


def _steps(
    grid: Sequence[Sequence[_Cell]], rows: Sequence[_Counts], columns: Sequence[_Counts]
) -> list[tuple[int, int, _Move]]:
    """Walk back a best way; of several, the earliest pairs win, so that ties are stable."""
    stage, turn = len(rows) - 1, len(columns) - 1
    best, moves = grid[stage][turn]
    state = _first_best(best, range(len(best)))
    steps: list[tuple[int, int, _Move]] = []
    while True:
        best, moves = grid[stage][turn]
        row, column = rows[stage], columns[turn]
        of_row, of_column = divmod(state, column.size)
        if turn and not of_column:
            before, width = grid[stage][turn - 1].best, columns[turn - 1].size
            came_from = _first_best(before, range(of_row * width, (of_row + 1) * width))
            if before[came_from] == best[state]:
                turn, state = turn - 1, came_from
                continue
        if stage and not of_row:
            above = grid[stage - 1][turn].best
            came_from = _first_best(above, range(of_column, len(above), column.size))
            if above[came_from] == best[state]:
                stage, state = stage - 1, came_from
                continue
        for move in moves:
            row_before, column_before = of_row - row.places[move.expected], of_column - column.places[move.actual]
            if (
                row_before >= 0
                and column_before >= 0
                and row.room[move.expected][row_before]
                and column.room[move.actual][column_before]
                and best[state - move.step] >= 0
                and best[state - move.step] + move.gain == best[state]
            ):
                break
        else:
            return steps[::-1]
        steps.append((stage, turn, move))
        state -= move.step


def _first_best(best: Sequence[int], states: range) -> int:
    return max(states, key=lambda state: (best[state], -state))
