"""Runs that are nearly as expected, paired as the solvers of `align` would, without any; `None` is for the solvers."""

from collections.abc import Hashable

from toolgauge.score.monotone import Pairs
from toolgauge.score.weights import Weights


def by_keys(table: Weights) -> Pairs | None:
    """Pair equal calls, the earliest first, and of each kind at most one more, which has nothing to choose from."""
    places: dict[tuple[str, Hashable], list[int]] = {}
    for column in range(len(table.actual) - 1, -1, -1):
        item = table.actual[column]
        places.setdefault((item.kind, item.key), []).append(column)
    pairs: Pairs = []
    rows: list[int] = []
    for row, item in enumerate(table.expected):
        same = places.get((item.kind, item.key))
        if same:
            column = same.pop()
            table.values[row][column] = 1.0
            pairs.append((row, column))
        else:
            rows.append(row)
    if not rows or len(pairs) == len(table.actual):
        return pairs
    columns = {column for same in places.values() for column in same}
    keys = {(table.expected[row].kind, table.expected[row].key) for row, _ in pairs}
    for row in rows:
        kind = table.expected[row].kind
        others = [column for column in columns if table.actual[column].kind == kind]
        if not others:
            continue
        # Equal calls could change places, and several of a kind could be paired in several ways.
        is_only = len(others) == 1 and sum(table.expected[other].kind == kind for other in rows) == 1
        if not is_only or not keys.isdisjoint(((kind, table.expected[row].key), (kind, table.actual[others[0]].key))):
            return None
        (weight,) = table.of(row, others)
        pairs += [(row, others[0])] if weight else []
    return sorted(pairs)


def in_step(table: Weights) -> Pairs | None:
    """Pair calls that stand at the same place, where all are equal but one, or but those that one side lacks at its end."""
    rows, columns = len(table.expected), len(table.actual)
    odd: list[int] = []
    for place, (item, made) in enumerate(zip(table.expected, table.actual, strict=False)):
        if item.kind == made.kind and item.key == made.key:
            table.values[place][place] = 1.0
        elif odd or rows != columns:
            return None
        else:
            odd.append(place)
    for place in odd:
        (weight,) = table.of(place, (place,))
        if not weight:
            return None
    return [(place, place) for place in range(min(rows, columns))]
