"""Pairs calls in order, with the highest total score: call by call, or by stages and turns.

Stages are groups of expected calls, turns are groups of actual ones, without order within: every pairing is a walk through
the grid of stages and turns. Equal calls of a stage or turn are one class: how many are taken matters, not which.
"""

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

# The weights of a row's pairs with these columns: not negative, 0 for what may not be paired.
RowWeights: TypeAlias = Callable[[int, Sequence[int]], Sequence[int]]
Pairs: TypeAlias = list[tuple[int, int]]


def in_order(expected: Sequence[Hashable], actual: Sequence[Hashable], weights: RowWeights) -> Pairs:
    """Pair in order. Equal keys must have the greatest weight there is: it bounds what has to be looked at."""
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


# Indices of calls that may stand in for each other, and the classes of one stage or turn.
Class: TypeAlias = Sequence[int]
Classes: TypeAlias = Sequence[Class]

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


def in_stages(stages: Sequence[Classes], turns: Sequence[Classes], weights: RowWeights) -> Pairs:
    """Pair in order of stages and turns; the work grows with the product of the sizes of their classes."""
    if not stages or not turns:
        return []
    columns = [[members[0] for members in classes] for classes in turns]
    rows = [_Counts(classes) for classes in stages]
    places = [_Counts(classes) for classes in turns]
    grid: list[list[_Cell]] = []
    for stage, counts in enumerate(rows):
        grid.append([])
        for turn, taken in enumerate(places):
            cell = _Cell(counts, taken, [weights(members[0], columns[turn]) for members in stages[stage]])
            cell.enter(grid[stage - 1][turn] if stage else None, grid[stage][turn - 1] if turn else None)
            cell.advance()
            grid[stage].append(cell)
    # Give each step the first calls of its classes that are left.
    steps = _traced_grid(grid)
    expected = [[deque(members) for members in classes] for classes in stages]
    actual = [[deque(members) for members in classes] for classes in turns]
    return sorted(
        (expected[stage][row].popleft(), actual[turn][column].popleft()) for stage, row, turn, column in steps
    )


class _Counts:
    """How many calls of each class are taken, as one number: a digit a class."""

    __slots__ = ("places", "room", "size")

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


@dataclass(frozen=True, slots=True)
class _Move:
    expected: int
    actual: int
    gain: int
    step: int


class _Cell:
    """One stage at one turn: the best total by state, number of the stage * size of the turn + number of the turn."""

    __slots__ = ("best", "moves", "stage", "turn")

    def __init__(self, stage: _Counts, turn: _Counts, gains: Sequence[Sequence[int]]) -> None:
        self.stage = stage
        self.turn = turn
        self.best = [-1] * (stage.size * turn.size)
        self.moves = [
            _Move(expected, actual, gain, step=stage.places[expected] * turn.size + turn.places[actual])
            for expected, row in enumerate(gains)
            for actual, gain in enumerate(row)
            if gain
        ]

    def enter(self, above: "_Cell | None", before: "_Cell | None") -> None:
        """Come from the stage above with what the turn has given, and from the turn before with what the stage has."""
        if above is None and before is None:
            self.best[0] = 0
        if above is not None:
            for taken in range(self.turn.size):
                self.best[taken] = max(above.best[taken :: self.turn.size])
        if before is not None:
            size = before.turn.size
            for taken in range(self.stage.size):
                total = max(before.best[taken * size : (taken + 1) * size])
                if total > self.best[taken * self.turn.size]:
                    self.best[taken * self.turn.size] = total

    def advance(self) -> None:
        """Pair calls from each state on; every move leads to a higher state."""
        best, size = self.best, self.turn.size
        moves = [(one.gain, one.step, self.stage.room[one.expected], self.turn.room[one.actual]) for one in self.moves]
        if not moves:
            return
        for state, total in enumerate(best):
            if total < 0:
                continue
            of_stage, of_turn = divmod(state, size)
            for gain, step, stage_room, turn_room in moves:
                if stage_room[of_stage] and turn_room[of_turn] and total + gain > best[state + step]:
                    best[state + step] = total + gain

    def last_move(self, state: int) -> _Move | None:
        """Find a move that led to a state; `None` when the state was entered."""
        of_stage, of_turn = divmod(state, self.turn.size)
        for move in self.moves:
            before = state - move.step
            stage, turn = of_stage - self.stage.places[move.expected], of_turn - self.turn.places[move.actual]
            if (
                stage >= 0
                and turn >= 0
                and self.stage.room[move.expected][stage]
                and self.turn.room[move.actual][turn]
                and self.best[before] >= 0
                and self.best[before] + move.gain == self.best[state]
            ):
                return move
        return None


# Stage and turn with the classes of the paired calls.
_GridStep: TypeAlias = tuple[int, int, int, int]


def _traced_grid(grid: Sequence[Sequence[_Cell]]) -> list[_GridStep]:
    """Walk back a best way; of several the one that pairs earliest, so that ties are stable."""
    stage, turn = len(grid) - 1, len(grid[0]) - 1
    cell = grid[stage][turn]
    state = _best(cell, range(len(cell.best)))
    steps: list[_GridStep] = []
    while True:
        cell = grid[stage][turn]
        of_stage, of_turn = divmod(state, cell.turn.size)
        total = cell.best[state]
        if turn and not of_turn:
            before = grid[stage][turn - 1]
            size = before.turn.size
            came_from = _best(before, range(of_stage * size, (of_stage + 1) * size))
            if before.best[came_from] == total:
                turn, state = turn - 1, came_from
                continue
        if stage and not of_stage:
            above = grid[stage - 1][turn]
            came_from = _best(above, range(of_turn, len(above.best), above.turn.size))
            if above.best[came_from] == total:
                stage, state = stage - 1, came_from
                continue
        move = cell.last_move(state)
        if move is None:
            return steps[::-1]
        steps.append((stage, move.expected, turn, move.actual))
        state -= move.step


def _best(cell: _Cell, states: range) -> int:
    return max(states, key=lambda state: (cell.best[state], -state))
