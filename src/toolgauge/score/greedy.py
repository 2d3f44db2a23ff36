"""Pairing too many calls to look for the greatest total: linear work, and `align` says so.

Equal keys are paired by their place among equals; what is left looks only at what stands near.
"""

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Sequence
from typing import TypeAlias

from toolgauge.score.monotone import Pairs, Weights

# A key for each expected and for each actual call.
Keys: TypeAlias = tuple[Sequence[Hashable], Sequence[Hashable]]


def in_any_order(rows: Sequence[int], columns: Sequence[int], weights: Weights, max_pairs: int) -> Pairs:
    """Give each row in turn the best of the first columns that are left, as many as `max_pairs` has room for."""
    window = max(1, max_pairs // len(rows))
    # From the end, where taking one out is cheap.
    left = list(reversed(columns))
    pairs: Pairs = []
    for row in rows:
        near = left[-window:][::-1]
        if not near:
            break
        in_row = weights(row, near)
        best = max(range(len(near)), key=lambda place: (in_row[place], -place))
        if in_row[best]:
            pairs.append((row, near[best]))
            left.pop(len(left) - 1 - best)
    return pairs


def in_order(keys: Sequence[Keys], weights: Weights) -> Pairs:
    """Anchor the longest run of equal keys that is in order; pair what lies between anchors place by place.

    Where there are several keys for each call, the next ones find anchors between those of the ones before.
    """
    end = len(keys[0][0]), len(keys[0][1])
    anchors: Pairs = []
    for sides in keys:
        found: Pairs = []
        for start, anchor in _gaps(anchors, end):
            found += _anchors(sides, start, anchor, weights)
            found += [anchor] if anchor != end else []
        anchors = found
    pairs: Pairs = []
    for (row, column), anchor in _gaps(anchors, end):
        for step in range(min(anchor[0] - row, anchor[1] - column)):
            (weight,) = weights(row + step, (column + step,))
            if weight:
                pairs.append((row + step, column + step))
        pairs += [anchor] if anchor != end else []
    return pairs


def _gaps(anchors: Pairs, end: tuple[int, int]) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield where each gap between anchors begins, and the anchor that ends it."""
    row = column = 0
    for anchor in [*anchors, end]:
        yield (row, column), anchor
        row, column = anchor[0] + 1, anchor[1] + 1


def _anchors(keys: Keys, start: tuple[int, int], end: tuple[int, int], weights: Weights) -> Pairs:
    """Pair the first of equal keys with the first, the second with the second; keep the longest increasing run."""
    expected, actual = keys
    places: dict[Hashable, list[int]] = {}
    for column in reversed(range(start[1], end[1])):
        places.setdefault(actual[column], []).append(column)
    twins: Pairs = []
    for row in range(start[0], end[0]):
        same = places.get(expected[row])
        if same:
            twin = same.pop()
            (weight,) = weights(row, (twin,))
            twins += [(row, twin)] if weight else []
    tails: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for index, (_, column) in enumerate(twins):
        place = bisect_left(tails, column)
        before.append(last[place - 1] if place else -1)
        tails[place : place + 1] = [column]
        last[place : place + 1] = [index]
    run: Pairs = []
    index = last[-1] if last else -1
    while index >= 0:
        run.append(twins[index])
        index = before[index]
    return run[::-1]
