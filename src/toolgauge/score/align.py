"""The one place that pairs expected with actual calls: one to one, with the highest total score.

Among equal totals, more whole pairs (value 1) win, then more required calls, then more pairs at all.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby, pairwise
from math import fsum
from typing import Literal, TypeAlias

from msgspec import Struct

from toolgauge.score import monotone
from toolgauge.score.monotone import Pairs

# The value of pairing an expected with an actual call (by index); `None` if the two may not be paired.
Weigh: TypeAlias = Callable[[int, int], float | None]

# Values are counted in units that thirds, sevenths, ... sixteenths fit into: their sums stay exact.
_UNITS = 720_720_000


# Items of one side with equal kind and key have the same values with everything. `group` is the turn of an actual call: calls
# of one turn have no order. `group` of expected calls counts for the order `partial` only. `optional` ones are not missed.
class Item(Struct, frozen=True, kw_only=True):
    """One call on either side; only items of one `kind` can be paired, and with equal keys they are a whole pair (value 1)."""

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
        """Work out the weights of a row's pairs: 0 for forbidden pairs, more for all others."""
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

    def in_units(self, value: float, *, optional: bool) -> int:
        """Turn a value into an integer that also ranks equal totals."""
        bonus = 1 + (0 if optional else self._required_bonus) + (self._whole_bonus if value == 1.0 else 0)
        return round(value * _UNITS) * self._value_unit + bonus


Order: TypeAlias = Literal["any", "ordered", "parallel", "partial"]

MAX_PAIRS = 250_000
_MAX_KINDS_OF_MAX_PAIRS = 4
# Beyond every distance.
_FAR = 1 << 200


class Pair(Struct, frozen=True, kw_only=True):
    """An expected and an actual call by index, and how well they agree."""

    expected: int
    actual: int
    value: float


# `repeated` are unexpected calls that equal a paired one. `out_of_order` are actual calls: paired ones outside the longest run in
# order, or, where order binds, unexpected ones that equal a missing call. `is_greedy`: too many calls for the greatest total.
class Alignment(Struct, frozen=True, kw_only=True):
    """The pairs in expected order, and the rest as ascending indices."""

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
) -> Alignment:
    """Pair expected with actual calls; `peel` settles equal keys first where order does not bind."""
    # That keeps the greatest total where 1 - value obeys the triangle inequality, as for a share of equal arguments. Beyond
    # `max_pairs` of one kind only equal keys are looked for; the other calls are paired one after the other.
    table = Weights(expected, actual, weigh)
    aligner = _Aligner(table, max_pairs)
    match order:
        case "any":
            pairs = aligner.any_order(peel=peel)
        case "ordered":
            pairs = aligner.ordered()
        case "parallel":
            pairs = aligner.by_turns([[row] for row in range(len(expected))])
        case "partial":
            pairs = aligner.by_turns(_runs(expected))
    # Equal calls may have changed places without having been weighed there.
    for row, column in pairs:
        if column not in table.values[row]:
            table.of(row, (column,))
    # No other pairs could be better where all are whole and none is missed.
    most = min(len(expected), len(actual))
    required = min(sum(not item.optional for item in expected), most)
    is_perfect = (
        len(pairs) == most
        and sum(not expected[row].optional for row, _ in pairs) == required
        and all(table.values[row].get(column) == 1.0 for row, column in pairs)
    )
    return _report(table, pairs, order, is_greedy=aligner.is_greedy and not is_perfect)


class _Aligner:
    """Picks the way to pair for the order that is asked for and for the number of calls there are."""

    __slots__ = ("_left", "_max_pairs", "_table", "is_greedy")

    def __init__(self, table: Weights, max_pairs: int) -> None:
        self._table = table
        self._max_pairs = max_pairs
        # Over all kinds; without it, many kinds of the greatest size would add up to minutes.
        self._left = _MAX_KINDS_OF_MAX_PAIRS * max_pairs
        self.is_greedy = False

    def any_order(self, *, peel: bool) -> Pairs:
        """Pair kind by kind: pairs of different kinds may not be, so the kinds do not touch each other."""
        if (in_step := _in_step(self._table)) is not None:
            return in_step
        pairs: Pairs = []
        kinds: dict[str, tuple[list[int], list[int]]] = {}
        for index, item in enumerate(self._table.expected):
            kinds.setdefault(item.kind, ([], []))[0].append(index)
        for index, item in enumerate(self._table.actual):
            if item.kind in kinds:
                kinds[item.kind][1].append(index)
        for rows, columns in kinds.values():
            if columns:
                pairs += self._of_kind(rows, columns, peel=peel)
        # Let equal expected calls take theirs in order, and of equal actual calls the earliest be the paired ones.
        column_of = dict(pairs)
        row_of: dict[int, int] = {}
        for rows in _classes(self._table.expected, sorted(column_of)):
            row_of.update(zip(sorted(column_of[row] for row in rows), rows, strict=True))
        stable: Pairs = []
        for columns in _classes(self._table.actual, range(len(self._table.actual))):
            stable += zip([row_of[column] for column in columns if column in row_of], columns, strict=False)
        return sorted(stable)

    def _of_kind(self, rows: list[int], columns: list[int], *, peel: bool) -> Pairs:
        table = self._table
        if len(rows) == len(columns) == 1:
            return [(rows[0], columns[0])] if table.of(rows[0], columns)[0] else []
        # Equal keys, the earliest first and required before optional.
        ordered = sorted(rows, key=lambda row: table.expected[row].optional)
        twins = _twins([table.expected[row].key for row in ordered], [table.actual[column].key for column in columns])
        same = [(ordered[row], columns[column]) for row, column in twins]
        # An optional call might be settled with one that a required call of another key needs.
        items = [table.expected[row] for row in rows]
        peel = peel and not (any(item.optional for item in items) and len({item.key for item in items}) > 1)
        if self._is_small(rows, columns) and not peel:
            return self._assigned(rows, columns, same)
        self.is_greedy = self.is_greedy or not peel
        paired_rows, paired_columns = {row for row, _ in same}, {column for _, column in same}
        rows = [row for row in rows if row not in paired_rows]
        columns = [column for column in columns if column not in paired_columns]
        if not rows or not columns:
            return same
        if self._is_small(rows, columns):
            return same + self._assigned(rows, columns, [])
        self.is_greedy = True
        return same + [(row, column) for row, column in zip(rows, columns, strict=False) if table.of(row, (column,))[0]]

    def _is_small(self, rows: Sequence[int], columns: Sequence[int]) -> bool:
        return len(rows) * len(columns) <= min(self._max_pairs, self._left)

    def _assigned(self, rows: list[int], columns: list[int], same: Pairs) -> Pairs:
        table = self._table
        self._left -= len(rows) * len(columns)
        is_flipped = len(rows) > len(columns)
        short, long = (columns, rows) if is_flipped else (rows, columns)

        @cache
        def weights(place: int) -> Sequence[int]:
            if is_flipped:
                return [table.of(row, (short[place],))[0] for row in long]
            return table.of(short[place], long)

        # All settled pairs have to weigh the same, which optional ones do not.
        starts = [] if any(table.expected[row].optional for row in rows) else same
        place_of_row = {index: place for place, index in enumerate(rows)}
        place_of_column = {index: place for place, index in enumerate(columns)}
        places = [(place_of_row[row], place_of_column[column]) for row, column in starts]
        settled = {column: row for row, column in places} if is_flipped else dict(places)
        chosen: Pairs = []
        column_of = _assignment(len(short), len(long), weights, settled, table.in_units(1.0, optional=False))
        for place, other in enumerate(column_of):
            row, column = (long[other], short[place]) if is_flipped else (short[place], long[other])
            chosen += [(row, column)] if table.of(row, (column,))[0] else []
        return chosen

    def ordered(self) -> Pairs:
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

        if len(expected) * len(actual) <= self._max_pairs:
            return sorted((rows[row], columns[place]) for row, place in monotone.in_order(expected, actual, weights))
        # The longest run of equal calls that is in order; calls between two of them are paired one after the other.
        self.is_greedy = True
        twins = _twins(expected, actual)
        pairs = Pairs()
        row = column = 0
        for end in [*(twins[at] for at in _longest_run([place for _, place in twins])), (len(rows), len(columns))]:
            between = zip(range(row, end[0]), range(column, end[1]), strict=False)
            pairs += [*(pair for pair in between if weights(pair[0], pair[1:])[0]), end]
            row, column = end[0] + 1, end[1] + 1
        return sorted((rows[row], columns[place]) for row, place in pairs[:-1])

    def by_turns(self, stages: Sequence[Sequence[int]]) -> Pairs:
        """Pair in the order of the expected stages and of the turns; within either any order will do."""
        table = self._table
        turns = _runs(table.actual)
        is_small = len(table.expected) * len(table.actual) <= self._max_pairs
        is_row = len(stages) == len(table.expected)
        if is_row and (len(turns) == len(table.actual) or not is_small):
            return self.ordered()
        # Without regard to order no total is greater; it often keeps the order by itself. Where it does not, it is but
        # the beginning of the work.
        self._left = self._max_pairs
        pairs = self.any_order(peel=False)
        stage_of = {row: number for number, stage in enumerate(stages) for row in stage}
        places = sorted((stage_of[row], table.actual[column].group) for row, column in pairs)
        if all(earlier[1] <= later[1] for earlier, later in pairwise(places)):
            return pairs
        classes = (
            [_classes(table.expected, stage) for stage in stages],
            [_classes(table.actual, turn) for turn in turns],
        )
        if is_small and monotone.is_affordable(*classes):
            return monotone.in_stages(*classes, table.of)
        self.is_greedy = True
        column_of, row_of = dict(pairs), {column: row for row, column in pairs}
        last = len(table.actual), len(table.expected)
        return self._in_order(
            [row for stage in stages for row in sorted(stage, key=lambda row: column_of.get(row, last[0]))],
            [column for turn in turns for column in sorted(turn, key=lambda column: row_of.get(column, last[1]))],
        )


def _runs(items: Sequence[Item]) -> list[list[int]]:
    return [list(run) for _, run in groupby(range(len(items)), key=lambda index: items[index].group)]


def _classes(items: Sequence[Item], indices: Sequence[int]) -> list[list[int]]:
    """Find the calls that can take each other's place, in order of the first of each."""
    classes: dict[Hashable, list[int]] = {}
    for index in indices:
        item = items[index]
        classes.setdefault((item.kind, item.key, item.optional), []).append(index)
    return list(classes.values())


def _in_step(table: Weights) -> Pairs | None:
    """Pair calls by their places where both sides are the same throughout, else return `None`."""
    # The solvers would find these pairs. Without it: a fifth to a third more for a run that is as expected.
    if len(table.expected) != len(table.actual):
        return None
    for item, made in zip(table.expected, table.actual, strict=True):
        if item.optional or item.kind != made.kind or item.key != made.key:
            return None
    return [(index, index) for index in range(len(table.expected))]


def _twins(expected: Sequence[Hashable], actual: Sequence[Hashable]) -> Pairs:
    """Pair equal keys by their places, the earliest first."""
    places: dict[Hashable, deque[int]] = {}
    for place, key in enumerate(actual):
        places.setdefault(key, deque()).append(place)
    return [(row, places[key].popleft()) for row, key in enumerate(expected) if places.get(key)]


def _longest_run(places: Sequence[int]) -> list[int]:
    tails: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for index, place in enumerate(places):
        at = bisect_right(tails, place)
        before.append(last[at - 1] if at else -1)
        tails[at : at + 1] = [place]
        last[at : at + 1] = [index]
    run: list[int] = []
    index = last[-1] if last else -1
    while index >= 0:
        run.append(index)
        index = before[index]
    return run[::-1]


def _assignment(
    rows: int, columns: int, weights: Callable[[int], Sequence[int]], settled: Mapping[int, int], settled_weight: int
) -> list[int]:
    """Return each row's column for the greatest total (Jonker-Volgenant: shortest augmenting paths)."""
    # There are no more `rows` than `columns`. `settled` pairs (row to column) all have the greatest weight; such a row may get another
    # column. Weights are asked for only when a path reaches their row: where most rows are settled, few are.
    # Costs are negated weights; with these duals every reduced cost of a matched row is >= 0.
    of_row, of_column = [0] * rows, [0] * columns
    column_of, row_of = [-1] * rows, [-1] * columns
    for row, column in settled.items():
        column_of[row], row_of[column], of_row[row] = column, row, -settled_weight
    for start in range(rows):
        if start in settled:
            continue
        # Give `start` a column along the cheapest path; others may move to another column.
        distance, previous = [_FAR] * columns, [-1] * columns
        waiting = list(range(columns))
        reached: list[int] = []
        row, base, nearest = start, 0, -1
        while True:
            in_row, offset = weights(row), base - of_row[row]
            base = _FAR + 1
            # A free column, then the first, wins a tie. This loop is where the time goes.
            for column in waiting:
                reach = offset - in_row[column] - of_column[column]
                if reach < distance[column]:
                    distance[column] = reach
                    previous[column] = row
                else:
                    reach = distance[column]
                if reach < base or (reach == base and row_of[column] < 0 <= row_of[nearest]):
                    base, nearest = reach, column
            waiting.remove(nearest)
            row = row_of[nearest]
            if row < 0:
                break
            reached.append(nearest)
        for other in reached:
            of_row[row_of[other]] += base - distance[other]
            of_column[other] -= base - distance[other]
        of_row[start] += base
        column = nearest
        while row != start:
            row = previous[column]
            row_of[column] = row
            column_of[row], column = column, column_of[row]
    return column_of


def _report(table: Weights, pairs: Pairs, order: Order, *, is_greedy: bool) -> Alignment:
    expected, actual = table.expected, table.actual
    rows, columns = {row for row, _ in pairs}, {column for _, column in pairs}
    missing = [row for row, item in enumerate(expected) if row not in rows and not item.optional]
    unexpected = [column for column in range(len(actual)) if column not in columns]
    misplaced: set[int] = set()
    pairs = sorted(pairs)
    if order == "any":
        if any(actual[before].group > actual[column].group for (_, before), (_, column) in pairwise(pairs)):
            in_order = _longest_run([actual[column].group for _, column in pairs])
            misplaced = columns - {pairs[index][1] for index in in_order}
    elif missing and unexpected:
        missed = _identities(expected, missing)
        misplaced = {column for column in unexpected if (actual[column].kind, actual[column].key) in missed}
    repeated: list[int] = []
    if unexpected:
        paired = _identities(actual, columns)
        repeated = [column for column in unexpected if (actual[column].kind, actual[column].key) in paired]
    found = [Pair(expected=row, actual=column, value=table.values[row][column] or 0.0) for row, column in pairs]
    return Alignment(
        pairs=tuple(found),
        missing=tuple(missing),
        unexpected=tuple(unexpected),
        repeated=tuple(repeated),
        out_of_order=tuple(sorted(misplaced)),
        is_greedy=is_greedy,
    )


def _identities(items: Sequence[Item], indices: Iterable[int]) -> set[tuple[str, Hashable]]:
    return {(items[index].kind, items[index].key) for index in indices}
