"""Alignment against brute force: no way of pairing has a greater total, and ties do not flicker."""

from collections.abc import Iterator, Sequence
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from toolgauge.score.align import Alignment, Item, Order, Weigh, align

# Few distinct values, so that ties are common; sixths and tenths do not add up exactly as floats.
VALUES = st.sampled_from([None, 0.0, 1 / 6, 0.3, 1 / 3, 0.5, 2 / 3, 0.9, 1.0])
MATRICES = st.integers(0, 5).flatmap(
    lambda columns: st.lists(st.lists(VALUES, min_size=columns, max_size=columns), min_size=1, max_size=5)
)
Matrix = Sequence[Sequence[float | None]]


def weigh_by(matrix: Matrix) -> Weigh:
    def weigh(expected: int, actual: int) -> float | None:
        return matrix[expected][actual]

    return weigh


def items(count: int, side: str, groups: Sequence[int] = ()) -> list[Item]:
    return [Item(kind="", key=(side, index), group=groups[index] if groups else index) for index in range(count)]


def ways(rows: int, columns: int) -> Iterator[list[tuple[int, int]]]:
    """Every way to give each row a column of its own or none."""
    places = [*range(columns), *[-1] * rows]
    for chosen in set(permutations(places, rows)):
        yield [(row, column) for row, column in enumerate(chosen) if column >= 0]


def best_total(matrix: Matrix, columns: int, groups: Sequence[int] | None) -> float:
    """Try every way; with `groups`, only those in which the groups do not decrease."""
    best = 0.0
    for pairs in ways(len(matrix), columns):
        values = [matrix[row][column] for row, column in pairs]
        if groups is not None and not is_ordered(pairs, groups):
            continue
        total = sum(value for value in values if value is not None)
        if None not in values and total > best:
            best = total
    return best


def is_ordered(pairs: Sequence[tuple[int, int]], groups: Sequence[int]) -> bool:
    turns = [groups[column] for _, column in sorted(pairs)]
    return turns == sorted(turns)


def aligned(matrix: Matrix, columns: int, order: Order, groups: Sequence[int] = ()) -> Alignment:
    return align(items(len(matrix), "e"), items(columns, "a", groups), weigh_by(matrix), order=order, peel=False)


def assert_sound(alignment: Alignment, matrix: Matrix, columns: int) -> None:
    rows = [pair.expected for pair in alignment.pairs]
    taken = [pair.actual for pair in alignment.pairs]
    assert sorted(rows) == rows
    assert len(set(rows)) == len(rows)
    assert len(set(taken)) == len(taken)
    assert all(matrix[pair.expected][pair.actual] == pair.value for pair in alignment.pairs)
    assert sorted([*rows, *alignment.missing]) == list(range(len(matrix)))
    assert sorted([*taken, *alignment.unexpected]) == list(range(columns))
    assert not alignment.is_greedy


@given(MATRICES)
def test_any_order_finds_the_greatest_total(matrix: Matrix):
    columns = len(matrix[0])
    alignment = aligned(matrix, columns, "any")
    assert_sound(alignment, matrix, columns)
    assert abs(alignment.total - best_total(matrix, columns, None)) < 1e-8


@given(MATRICES)
def test_ordered_finds_the_greatest_total_without_crossing(matrix: Matrix):
    columns = len(matrix[0])
    alignment = aligned(matrix, columns, "ordered")
    assert_sound(alignment, matrix, columns)
    assert is_ordered([(pair.expected, pair.actual) for pair in alignment.pairs], range(columns))
    assert abs(alignment.total - best_total(matrix, columns, range(columns))) < 1e-8


@given(MATRICES, st.lists(st.booleans(), min_size=5, max_size=5))
def test_parallel_finds_the_greatest_total_in_the_order_of_turns(matrix: Matrix, ends: list[bool]):
    columns = len(matrix[0])
    groups = [sum(ends[:column]) for column in range(columns)]
    alignment = aligned(matrix, columns, "parallel", groups)
    assert_sound(alignment, matrix, columns)
    assert is_ordered([(pair.expected, pair.actual) for pair in alignment.pairs], groups)
    assert abs(alignment.total - best_total(matrix, columns, groups)) < 1e-8


# Calls as sets of arguments: 1 - the share of equal arguments obeys the triangle inequality.
CALLS = st.lists(
    st.tuples(st.sampled_from("ab"), st.dictionaries(st.sampled_from("xyz"), st.integers(0, 1), max_size=3)), max_size=5
)
Call = tuple[str, dict[str, int]]


def share(expected: dict[str, int], actual: dict[str, int]) -> float:
    names = {**expected, **actual}
    equal = sum(name in expected and expected[name] == actual.get(name) for name in names)
    return equal / len(names) if names else 1.0


def align_calls(expected: Sequence[Call], actual: Sequence[Call], *, peel: bool, order: Order = "any") -> Alignment:
    def weigh(row: int, column: int) -> float | None:
        return share(expected[row][1], actual[column][1])

    sides = [
        [Item(kind=name, key=tuple(sorted(args.items())), group=group) for group, (name, args) in enumerate(calls)]
        for calls in (expected, actual)
    ]
    return align(sides[0], sides[1], weigh, peel=peel, order=order)


@given(CALLS, CALLS)
def test_neither_peeling_nor_the_order_of_calls_changes_the_total(expected: list[Call], actual: list[Call]):
    peeled, whole = (align_calls(expected, actual, peel=peel) for peel in (True, False))
    assert abs(peeled.total - whole.total) < 1e-8
    assert len(peeled.pairs) == len(whole.pairs)
    assert abs(align_calls(expected[::-1], actual[::-1], peel=True).total - peeled.total) < 1e-8


@given(CALLS, CALLS, st.booleans())
def test_equal_calls_are_paired_in_order_and_the_later_ones_are_the_repeats(
    expected: list[Call],
    actual: list[Call],
    peel: bool,  # noqa: FBT001 (hypothesis fills it in)
):
    alignment = align_calls(expected, actual, peel=peel)
    assert alignment == align_calls(expected, actual, peel=peel)
    for first in alignment.pairs:
        for column in alignment.unexpected:
            assert actual[column] != actual[first.actual] or column > first.actual
        for second in alignment.pairs:
            if expected[first.expected] == expected[second.expected] and actual[first.actual] == actual[second.actual]:
                assert (first.expected < second.expected) == (first.actual < second.actual)
    repeats = [c for c in alignment.unexpected if actual[c] in [actual[pair.actual] for pair in alignment.pairs]]
    assert list(alignment.repeated) == repeats
