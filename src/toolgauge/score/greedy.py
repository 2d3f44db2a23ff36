"""Pairing too many calls to look for the greatest total: linear work, and `align` says so.

Equal keys are paired by their place among equals; what is left looks only at what stands near.
"""

from bisect import bisect_left
from collections.abc import Generator, Hashable, Sequence

from toolgauge.score.monotone import Pairs, Weights
from toolgauge.score.pauses import Pacer


def in_any_order(
    rows: Sequence[int], columns: Sequence[int], weights: Weights, max_pairs: int
) -> Generator[None, None, Pairs]:
    """Give each row in turn the best of the first columns that are left, as many as `max_pairs` has room for."""
    window = max(1, max_pairs // len(rows))
    # From the end, where taking one out is cheap.
    left = list(reversed(columns))
    pairs: Pairs = []
    for row in rows:
        near = left[-window:][::-1]
        if not near:
            break
        in_row = yield from weights(row, near)
        best = max(range(len(near)), key=lambda place: (in_row[place], -place))
        if in_row[best]:
            pairs.append((row, near[best]))
            left.pop(len(left) - 1 - best)
    return pairs


def in_order(
    expected: Sequence[Hashable], actual: Sequence[Hashable], weights: Weights, pacer: Pacer
) -> Generator[None, None, Pairs]:
    """Anchor the longest run of equal keys that is in order; pair what lies between anchors place by place."""
    pairs: Pairs = []
    row = column = 0
    anchors = yield from _anchors(expected, actual, pacer)
    for anchor in [*anchors, (len(expected), len(actual))]:
        while row < anchor[0] and column < anchor[1]:
            (weight,) = yield from weights(row, (column,))
            if weight:
                pairs.append((row, column))
            row += 1
            column += 1
        if anchor[0] < len(expected):
            pairs.append(anchor)
        row, column = anchor[0] + 1, anchor[1] + 1
    return pairs


def _anchors(expected: Sequence[Hashable], actual: Sequence[Hashable], pacer: Pacer) -> Generator[None, None, Pairs]:
    """Pair the first of equal keys with the first, the second with the second; keep the longest increasing run."""
    places: dict[Hashable, list[int]] = {}
    for column in reversed(range(len(actual))):
        places.setdefault(actual[column], []).append(column)
        if pacer.due():
            yield
    twins: Pairs = []
    for row, key in enumerate(expected):
        if places.get(key):
            twins.append((row, places[key].pop()))
        if pacer.due():
            yield
    tails: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for index, (_, column) in enumerate(twins):
        place = bisect_left(tails, column)
        before.append(last[place - 1] if place else -1)
        tails[place : place + 1] = [column]
        last[place : place + 1] = [index]
        if pacer.due():
            yield
    run: Pairs = []
    index = last[-1] if last else -1
    while index >= 0:
        run.append(twins[index])
        index = before[index]
    return run[::-1]
