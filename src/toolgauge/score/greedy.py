"""Pairs calls that are too many to look for the greatest total, in linear work; `align` notes it.

Equal keys are paired by their place among equals. Calls with unequal keys can still agree in all: what an expected call
pins down are its arguments that plain equality decides, so only calls with just these values are compared with it. What is
left looks only at what stands near.
"""

from bisect import bisect_left
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias

from toolgauge.score.monotone import Pairs, RowWeights

# A key for each expected and for each actual call.
Keys: TypeAlias = tuple[Sequence[Hashable], Sequence[Hashable]]


def in_any_order(rows: Sequence[int], columns: Sequence[int], weights: RowWeights, max_pairs: int) -> Pairs:
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


def in_order(keys: Sequence[Keys], weights: RowWeights) -> Pairs:
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


def _anchors(keys: Keys, start: tuple[int, int], end: tuple[int, int], weights: RowWeights) -> Pairs:
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


# Calls by index: expected ones and actual ones.
Block: TypeAlias = tuple[list[int], list[int]]
_Names: TypeAlias = tuple[str, ...]


class Pins(Protocol):
    """Gives the numbers of argument values; equal values have equal numbers on either side."""

    def pinned(self, expected: int) -> Mapping[str, int]:
        """Return the values that a call must have to meet the expected one in all."""
        ...

    def given(self, actual: int) -> Mapping[str, int] | None:
        """Return all values of a call; `None` where they cannot be read."""
        ...


def shapes(rows: Sequence[int], pins: Pins) -> list[tuple[_Names, list[int]]]:
    """Find the arguments that expected calls pin down; the most first, as those calls have the fewest to choose from."""
    found: dict[_Names, list[int]] = {}
    for row in rows:
        names = tuple(sorted(pins.pinned(row)))
        if names:
            found.setdefault(names, []).append(row)
    return sorted(found.items(), key=lambda shape: -len(shape[0]))


def blocks(names: _Names, rows: Sequence[int], columns: Sequence[int], pins: Pins) -> list[Block]:
    """Put expected calls, which pin down these arguments, together with the calls that have their values.

    The smallest come first, of which the most can be looked at.
    """
    found: dict[Hashable, Block] = {}
    for row in rows:
        found.setdefault(_values(names, pins.pinned(row)), ([], []))[0].append(row)
    for column in columns:
        block = found.get(_values(names, pins.given(column)))
        if block is not None:
            block[1].append(column)
    return sorted((block for block in found.values() if block[1]), key=lambda block: len(block[0]) * len(block[1]))


def keys(
    rows: Sequence[tuple[int, str]], columns: Sequence[tuple[int, str]], pins: Pins
) -> tuple[list[Hashable], list[Hashable]]:
    """Return a key for each call, given with its kind; calls can agree in all only where their keys are equal.

    The key is the values of the arguments that all expected calls of its kind pin down. Without any, and where they
    are not all there, it is equal to no other.
    """
    names_of: dict[str, set[str]] = {}
    for row, kind in rows:
        pinned = pins.pinned(row).keys()
        if kind in names_of:
            names_of[kind] &= pinned
        else:
            names_of[kind] = set(pinned)
    sorted_names = {kind: tuple(sorted(names)) for kind, names in names_of.items()}
    found: tuple[list[Hashable], list[Hashable]] = ([], [])
    for side, (calls, values_of) in enumerate(((rows, pins.pinned), (columns, pins.given))):
        for index, kind in calls:
            names = sorted_names.get(kind, ())
            values = _values(names, values_of(index)) if names else None
            found[side].append((side, index) if values is None else (kind, values))
    return found


def _values(names: _Names, values: Mapping[str, int] | None) -> tuple[int, ...] | None:
    """Return the values of these arguments; `None` where any is missing."""
    if values is None:
        return None
    found = tuple(values[name] for name in names if name in values)
    return found if len(found) == len(names) else None
