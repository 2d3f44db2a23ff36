"""Pairing in a partial order against brute force: groups without order on both sides."""

from collections.abc import Iterator, Sequence
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from toolgauge.score.align import Alignment, Item, align

VALUES = st.sampled_from([None, 0.0, 1 / 6, 0.3, 1 / 3, 0.5, 2 / 3, 0.9, 1.0])
MATRICES = st.integers(1, 5).flatmap(
    lambda columns: st.lists(st.lists(VALUES, min_size=columns, max_size=columns), min_size=1, max_size=5)
)
ENDS = st.lists(st.booleans(), min_size=5, max_size=5)
Matrix = Sequence[Sequence[float | None]]
# Name, group ends after it, optional.
CALLS = st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.booleans()), max_size=5)
Call = tuple[str, bool, bool]


def groups_of(ends: Sequence[bool], count: int) -> list[int]:
    return [sum(ends[:index]) for index in range(count)]


def ways(rows: int, columns: int) -> Iterator[list[tuple[int, int]]]:
    """Every way to give each row a column of its own or none."""
    places = [*range(columns), *[-1] * rows]
    for chosen in set(permutations(places, rows)):
        yield [(row, column) for row, column in enumerate(chosen) if column >= 0]


def keeps_order(pairs: Sequence[tuple[int, int]], stages: Sequence[int], turns: Sequence[int]) -> bool:
    return not any(
        stages[row] < stages[other] and turns[column] > turns[another]
        for row, column in pairs
        for other, another in pairs
    )


def best_total(matrix: Matrix, stages: Sequence[int], turns: Sequence[int]) -> float:
    best = 0.0
    for pairs in ways(len(stages), len(turns)):
        values = [matrix[row][column] for row, column in pairs]
        if None in values or not keeps_order(pairs, stages, turns):
            continue
        best = max(best, sum(value for value in values if value is not None))
    return best


def made_of(alignment: Alignment) -> list[tuple[int, int]]:
    return [(pair.expected, pair.actual) for pair in alignment.pairs]


@given(MATRICES, ENDS, ENDS)
def test_a_partial_order_finds_the_greatest_total(matrix: Matrix, stage_ends: list[bool], turn_ends: list[bool]):
    rows, columns = len(matrix), len(matrix[0])
    stages, turns = groups_of(stage_ends, rows), groups_of(turn_ends, columns)

    def weigh(row: int, column: int) -> float | None:
        return matrix[row][column]

    expected = [Item(kind="", key=("e", row), group=stages[row]) for row in range(rows)]
    actual = [Item(kind="", key=("a", column), group=turns[column]) for column in range(columns)]
    alignment = align(expected, actual, weigh, order="partial")
    assert not alignment.is_greedy
    assert len({pair.actual for pair in alignment.pairs}) == len(alignment.pairs)
    assert sorted([*(pair.expected for pair in alignment.pairs), *alignment.missing]) == list(range(rows))
    assert keeps_order(made_of(alignment), stages, turns)
    assert abs(alignment.total - best_total(matrix, stages, turns)) < 1e-8


def by_name(expected: Sequence[Call], actual: Sequence[Call]) -> Alignment:
    def weigh(row: int, column: int) -> float | None:
        raise AssertionError((row, column))

    stages, turns = groups_of([end for _, end, _ in expected], 9), groups_of([end for _, end, _ in actual], 9)
    slots = [Item(kind=n, key=n, optional=o, group=stages[at]) for at, (n, _, o) in enumerate(expected)]
    calls = [Item(kind=n, key=n, group=turns[at]) for at, (n, _, _) in enumerate(actual)]
    return align(slots, calls, weigh, order="partial")


@given(CALLS, CALLS)
def test_equal_calls_are_paired_as_often_as_can_be_and_required_ones_first(expected: list[Call], actual: list[Call]):
    alignment = by_name(expected, actual)
    assert alignment == by_name(expected, actual)
    stages = groups_of([end for _, end, _ in expected], len(expected))
    turns = groups_of([end for _, end, _ in actual], len(actual))
    best = (0, 0)
    for pairs in ways(len(expected), len(actual)):
        if all(expected[row][0] == actual[column][0] for row, column in pairs) and keeps_order(pairs, stages, turns):
            best = max(best, (len(pairs), sum(not expected[row][2] for row, _ in pairs)))
    required = sum(not expected[row][2] for row, _ in made_of(alignment))
    assert (len(alignment.pairs), required) == best
    assert keeps_order(made_of(alignment), stages, turns)
