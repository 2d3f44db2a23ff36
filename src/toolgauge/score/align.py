"""The one place that pairs expected with actual calls: one to one, and with the greatest total there is.

A pair has a value from 0 to 1, or may not be. Of several best totals the one with more whole pairs (value 1)
counts, then with more required, then with more pairs at all.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import groupby, pairwise
from math import fsum
from typing import Literal, TypeAlias

from msgspec import Struct

from toolgauge.score import greedy, monotone
from toolgauge.score.assignment import assign
from toolgauge.score.greedy import Pins
from toolgauge.score.monotone import Pairs

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


Order: TypeAlias = Literal["any", "ordered", "parallel", "partial"]

MAX_PAIRS = 250_000
_MAX_KINDS_OF_MAX_PAIRS = 4
# Going once through the calls for each set of arguments that expected ones pin down is done for so many sets at least.
_LEAST_SHAPES = 4


class Pair(Struct, frozen=True, kw_only=True):
    """An expected and an actual call by index, and how well they agree."""

    expected: int
    actual: int
    value: float


class Alignment(Struct, frozen=True, kw_only=True):
    """Who belongs to whom; pairs in expected order, the rest as ascending indices.

    `repeated` are the unexpected calls that equal a paired one. `out_of_order` are actual calls: where order does not
    bind, paired ones that stand outside the longest run in order; where it does, unexpected ones that equal
    a missing call. `is_greedy` says that there were too many calls to look for the greatest total.
    """

    pairs: tuple[Pair, ...]
    missing: tuple[int, ...]
    unexpected: tuple[int, ...]
    repeated: tuple[int, ...]
    out_of_order: tuple[int, ...]
    is_greedy: bool = False

    @property
    def total(self) -> float:
        """Sum of the pairs' values."""
        return fsum(pair.value for pair in self.pairs)


def align(
    expected: Sequence[Item],
    actual: Sequence[Item],
    weigh: Weigh,
    *,
    order: Order = "any",
    peel: bool = False,
    max_pairs: int = MAX_PAIRS,
    pins: Pins | None = None,
) -> Alignment:
    """Pair expected with actual calls.

    `peel` allows to settle equal keys first where order does not bind. That cannot lower the total where
    1 - value obeys the triangle inequality, as it does for a share of equal arguments; edit distances do not.
    `pins` tell where to look for whole pairs of unequal keys where there are more than `max_pairs` of one kind.
    """
    table = Weights(expected, actual, weigh)
    aligner = _Aligner(table, max_pairs, pins)
    match order:
        case "any":
            pairs = aligner.any_order(peel=peel)
        case "ordered":
            pairs = aligner.ordered()
        case "parallel":
            pairs = aligner.parallel()
        case "partial":
            pairs = aligner.partial()
    # Equal calls may have changed places without having been weighed there.
    for row, column in pairs:
        if column not in table.values[row]:
            table.of(row, (column,))
    return _report(table, pairs, order, is_greedy=aligner.is_greedy and not _is_perfect(table, pairs))


class _Aligner:
    """Picks the way to pair for the order that is asked for and for the number of calls there are."""

    __slots__ = ("_left", "_max_pairs", "_pins", "_table", "is_greedy")

    def __init__(self, table: Weights, max_pairs: int, pins: Pins | None) -> None:
        self._table = table
        self._max_pairs = max_pairs
        self._pins = pins
        # Over all kinds; without it, many kinds of the greatest size would add up to minutes.
        self._left = _MAX_KINDS_OF_MAX_PAIRS * max_pairs
        self.is_greedy = False

    def any_order(self, *, peel: bool) -> Pairs:
        """Pair kind by kind: pairs of different kinds may not be, so the kinds do not touch each other."""
        if (in_step := _in_step(self._table)) is not None:
            return in_step
        pairs: Pairs = []
        for rows, columns in _by_kind(self._table):
            pairs += self._of_kind(rows, columns, peel=peel)
        return _stable(self._table, pairs)

    def _of_kind(self, rows: list[int], columns: list[int], *, peel: bool) -> Pairs:
        same = _equal_keys(self._table, rows, columns)
        is_small = self._is_small(rows, columns)
        peel = peel and not _compete(self._table, rows)
        if is_small and not peel:
            return self._assigned(rows, columns, same)
        self.is_greedy = self.is_greedy or not peel
        rows, columns = _without(same, rows, columns)
        if self._pins is not None and rows and columns and not self._is_small(rows, columns):
            self.is_greedy = True
            whole = self._pinned(rows, columns, self._pins)
            same += whole
            rows, columns = _without(whole, rows, columns)
        return same + self._weighed(rows, columns)

    def _weighed(self, rows: list[int], columns: list[int]) -> Pairs:
        """Pair calls of one kind for the greatest total, or greedily where they are too many."""
        if not rows or not columns:
            return []
        if len(rows) == len(columns) == 1:
            (weight,) = self._table.of(rows[0], columns)
            return [(rows[0], columns[0])] if weight else []
        if self._is_small(rows, columns):
            return self._assigned(rows, columns, [])
        self.is_greedy = True
        # One look for each row there must be, whatever the kinds before have used up.
        looks = max(min(self._max_pairs, self._left), len(rows))
        self._left -= min(looks, len(rows) * len(columns))
        return greedy.in_any_order(rows, columns, self._row, looks)

    def _pinned(self, rows: list[int], columns: list[int], pins: Pins) -> Pairs:
        """Find whole pairs, looked for only among calls that have what the expected ones pin down."""
        table, pairs = self._table, Pairs()
        required = [row for row in rows if not table.expected[row].optional]
        optional = [row for row in rows if table.expected[row].optional]
        shapes = greedy.shapes(required, pins) + greedy.shapes(optional, pins)
        # The rest of this kind and the kinds that follow need something to look at as well.
        kept = max(self._left - self._max_pairs, 0)
        self._left -= kept
        for names, alike in shapes[: max(_LEAST_SHAPES, self._max_pairs // len(columns))]:
            whole: Pairs = []
            for block in greedy.blocks(names, alike, columns, pins):
                found = self._weighed(*block)
                whole += [(row, column) for row, column in found if table.values[row][column] == 1.0]
            pairs += whole
            _, columns = _without(whole, [], columns)
        self._left += kept
        return pairs

    def _is_small(self, rows: Sequence[int], columns: Sequence[int]) -> bool:
        return len(rows) * len(columns) <= min(self._max_pairs, self._left)

    def _row(self, row: int, columns: Sequence[int]) -> Sequence[int]:
        return self._table.of(row, columns)

    def _assigned(self, rows: list[int], columns: list[int], same: Pairs) -> Pairs:
        """Pair the calls of one kind, starting from the pairs of equal keys."""
        table = self._table
        self._left -= len(rows) * len(columns)
        is_flipped = len(rows) > len(columns)
        short, long = (columns, rows) if is_flipped else (rows, columns)
        known: dict[int, list[int]] = {}

        def weights(place: int) -> Sequence[int]:
            if place not in known:
                if is_flipped:
                    known[place] = table.of_column(long, short[place])
                else:
                    known[place] = table.of(short[place], long)
            return known[place]

        # All settled pairs have to weigh the same, which optional ones do not.
        starts = [] if any(table.expected[row].optional for row in rows) else same
        place_of_row = {index: place for place, index in enumerate(rows)}
        place_of_column = {index: place for place, index in enumerate(columns)}
        places = [(place_of_row[row], place_of_column[column]) for row, column in starts]
        column_of = assign(
            len(short),
            len(long),
            weights,
            settled={column: row for row, column in places} if is_flipped else dict(places),
            settled_weight=table.in_units(1.0, optional=False),
        )
        chosen: Pairs = []
        for place, other in enumerate(column_of):
            pair = (long[other], short[place]) if is_flipped else (short[place], long[other])
            (weight,) = table.of(pair[0], (pair[1],))
            chosen += [pair] if weight else []
        return chosen

    def ordered(self) -> Pairs:
        """Pair in the order of both sides."""
        if (in_step := _in_step(self._table)) is not None:
            return in_step
        return self._in_order(range(len(self._table.expected)), range(len(self._table.actual)))

    def _in_order(self, rows: Sequence[int], columns: Sequence[int]) -> Pairs:
        """Pair in order, where the calls of both sides come in the order of `rows` and `columns`."""
        table = self._table
        expected = [(table.expected[row].kind, table.expected[row].key) for row in rows]
        actual = [(table.actual[column].kind, table.actual[column].key) for column in columns]

        def weights(row: int, places: Sequence[int]) -> Sequence[int]:
            return table.of(rows[row], [columns[place] for place in places])

        if len(expected) * len(actual) > self._max_pairs:
            self.is_greedy = True
            keys: list[greedy.Keys] = [(expected, actual)]
            if self._pins is not None:
                kinds = [(row, table.expected[row].kind) for row in rows]
                made = [(column, table.actual[column].kind) for column in columns]
                keys.append(greedy.keys(kinds, made, self._pins))
            pairs = greedy.in_order(keys, weights)
        else:
            pairs = monotone.in_order(expected, actual, weights)
        return sorted((rows[row], columns[place]) for row, place in pairs)

    def parallel(self) -> Pairs:
        """Pair in the order of the turns; within a turn any order will do."""
        table = self._table
        rows, columns = len(table.expected), range(len(table.actual))
        groups = [list(group) for _, group in groupby(columns, key=lambda column: table.actual[column].group)]
        if len(groups) == len(columns) or rows * len(columns) > self._max_pairs:
            return self.ordered()
        if len(groups) > 1 and monotone.is_affordable(rows, groups):
            return monotone.in_groups(rows, groups, self._row)
        # Without regard to order no total is greater; it often keeps the order of the turns by itself.
        pairs = self.any_order(peel=False)
        if len(_longest_run(table, pairs)) == len(pairs):
            return pairs
        self.is_greedy = True
        partner = {column: row for row, column in pairs}
        return self._in_order(
            range(rows),
            [column for group in groups for column in sorted(group, key=lambda column: partner.get(column, rows))],
        )

    def partial(self) -> Pairs:
        """Pair in the order of the expected groups and of the turns; within either any order will do."""
        table = self._table
        stages, turns = _runs(table.expected), _runs(table.actual)
        if len(stages) == len(table.expected):
            return self.parallel()
        classes = (
            [_classes(table.expected, stage) for stage in stages],
            [_classes(table.actual, turn) for turn in turns],
        )
        is_small = len(table.expected) * len(table.actual) <= self._max_pairs
        if is_small and monotone.are_stages_affordable(*classes):
            return monotone.in_stages(*classes, self._row)
        # Without regard to order no total is greater; it often keeps the order by itself. Where it does not, it is but
        # the beginning of the work.
        self._left = self._max_pairs
        pairs = self.any_order(peel=False)
        if _keeps_order(table, pairs):
            return pairs
        self.is_greedy = True
        column_of, row_of = dict(pairs), {column: row for row, column in pairs}
        last = len(table.actual), len(table.expected)
        return self._in_order(
            [row for stage in stages for row in sorted(stage, key=lambda row: column_of.get(row, last[0]))],
            [column for turn in turns for column in sorted(turn, key=lambda column: row_of.get(column, last[1]))],
        )


def _runs(items: Sequence[Item]) -> list[list[int]]:
    """Find the neighbours of one group."""
    return [list(run) for _, run in groupby(range(len(items)), key=lambda index: items[index].group)]


def _classes(items: Sequence[Item], indices: Sequence[int]) -> list[list[int]]:
    """Find the calls that can take each other's place, in order of the first of each."""
    classes: dict[Hashable, list[int]] = {}
    for index in indices:
        item = items[index]
        classes.setdefault((item.kind, item.key, item.optional), []).append(index)
    return list(classes.values())


def _keeps_order(table: Weights, pairs: Pairs) -> bool:
    """Return whether no pair of an earlier expected group stands in a later turn than one of a later group."""
    places = sorted((table.expected[row].group, table.actual[column].group) for row, column in pairs)
    return all(earlier[1] <= later[1] for earlier, later in pairwise(places))


def _in_step(table: Weights) -> Pairs | None:
    """Pair calls by their places where both sides are the same throughout; `None` where they are not.

    The solvers would find these pairs. Without it: a fifth to a third more for a run that is as expected.
    """
    if len(table.expected) != len(table.actual):
        return None
    for item, made in zip(table.expected, table.actual, strict=True):
        if item.optional or item.kind != made.kind or item.key != made.key:
            return None
    return [(index, index) for index in range(len(table.expected))]


def _by_kind(table: Weights) -> list[tuple[list[int], list[int]]]:
    """Find the calls of each kind that is on both sides."""
    kinds: dict[str, tuple[list[int], list[int]]] = {}
    for index, item in enumerate(table.expected):
        kinds.setdefault(item.kind, ([], []))[0].append(index)
    for index, item in enumerate(table.actual):
        if item.kind in kinds:
            kinds[item.kind][1].append(index)
    return [sides for sides in kinds.values() if sides[1]]


def _is_perfect(table: Weights, pairs: Pairs) -> bool:
    """Return whether no other pairs could be better, however these were found."""
    most = min(len(table.expected), len(table.actual))
    if len(pairs) < most or any(table.values[row].get(column) != 1.0 for row, column in pairs):
        return False
    required = sum(not item.optional for item in table.expected)
    return sum(not table.expected[row].optional for row, _ in pairs) == min(required, most)


def _compete(table: Weights, rows: list[int]) -> bool:
    """Return whether an optional call could be settled with one that a required call of another key needs."""
    items = [table.expected[row] for row in rows]
    return any(item.optional for item in items) and len({item.key for item in items}) > 1


def _without(pairs: Pairs, rows: list[int], columns: list[int]) -> tuple[list[int], list[int]]:
    """Return the calls that are in none of the pairs."""
    paired_rows, paired_columns = {row for row, _ in pairs}, {column for _, column in pairs}
    return [row for row in rows if row not in paired_rows], [
        column for column in columns if column not in paired_columns
    ]


def _equal_keys(table: Weights, rows: list[int], columns: list[int]) -> Pairs:
    """Pair equal keys, the earliest first and required before optional."""
    places: dict[Hashable, deque[int]] = {}
    for column in columns:
        places.setdefault(table.actual[column].key, deque()).append(column)
    pairs: Pairs = []
    for row in sorted(rows, key=lambda row: (table.expected[row].optional, row)):
        same = places.get(table.expected[row].key)
        if same:
            pairs.append((row, same.popleft()))
    return pairs


def _stable(table: Weights, pairs: Pairs) -> Pairs:
    """Let equal expected calls take theirs in order, and of equal actual calls the earliest be the paired ones."""
    by_expected: dict[Hashable, Pairs] = {}
    for row, column in sorted(pairs):
        item = table.expected[row]
        by_expected.setdefault((item.kind, item.key, item.optional), []).append((row, column))
    row_of: dict[int, int] = {}
    for same in by_expected.values():
        columns = sorted(column for _, column in same)
        row_of.update((column, row) for (row, _), column in zip(same, columns, strict=True))
    by_actual: dict[Hashable, list[int]] = {}
    for column, item in enumerate(table.actual):
        by_actual.setdefault((item.kind, item.key), []).append(column)
    stable: Pairs = []
    for columns in by_actual.values():
        rows = [row_of[column] for column in columns if column in row_of]
        stable += zip(rows, columns, strict=False)
    return sorted(stable)


def _longest_run(table: Weights, pairs: Pairs) -> set[int]:
    """Find the most pairs whose turns do not decrease in the order of the expected calls; return their actual calls."""
    tails: list[int] = []
    last: list[int] = []
    before: dict[int, int | None] = {}
    for _, column in sorted(pairs):
        group = table.actual[column].group
        place = bisect_right(tails, group)
        before[column] = last[place - 1] if place else None
        tails[place : place + 1] = [group]
        last[place : place + 1] = [column]
    run: set[int] = set()
    column = last[-1] if last else None
    while column is not None:
        run.add(column)
        column = before[column]
    return run


def _report(table: Weights, pairs: Pairs, order: Order, *, is_greedy: bool) -> Alignment:
    expected, actual = table.expected, table.actual
    rows, columns = {row for row, _ in pairs}, {column for _, column in pairs}
    missing = [row for row, item in enumerate(expected) if row not in rows and not item.optional]
    unexpected = [column for column in range(len(actual)) if column not in columns]
    misplaced: set[int] = set()
    pairs = sorted(pairs)
    if order == "any":
        if any(actual[before].group > actual[column].group for (_, before), (_, column) in pairwise(pairs)):
            misplaced = columns - _longest_run(table, pairs)
    elif missing and unexpected:
        missed = _identities(expected, missing)
        misplaced = {column for column in unexpected if (actual[column].kind, actual[column].key) in missed}
    repeated: list[int] = []
    if unexpected:
        paired = _identities(actual, columns)
        repeated = [column for column in unexpected if (actual[column].kind, actual[column].key) in paired]
    found: list[Pair] = []
    for row, column in pairs:
        found.append(Pair(expected=row, actual=column, value=table.values[row][column] or 0.0))
    return Alignment(
        pairs=tuple(found),
        missing=tuple(missing),
        unexpected=tuple(unexpected),
        repeated=tuple(repeated),
        out_of_order=tuple(sorted(misplaced)),
        is_greedy=is_greedy,
    )


def _identities(items: Sequence[Item], indices: Iterable[int]) -> set[tuple[str, Hashable]]:
    """Return what makes these calls the same as others."""
    return {(items[index].kind, items[index].key) for index in indices}
