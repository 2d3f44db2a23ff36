"""Groups without order on the expected side: cases worth naming, and sizes; totals are checked in tests/property."""

from collections.abc import Sequence

from toolgauge.score.align import Alignment, Item, align


def never(expected: int, actual: int) -> float | None:
    raise AssertionError((expected, actual))


def side(groups: Sequence[str]) -> list[Item]:
    return [Item(kind=name, key=name, group=group) for group, names in enumerate(groups) for name in names]


def aligned(expected: Sequence[str], actual: Sequence[str]) -> Alignment:
    return align(side(expected), side(actual), never, order="partial")


def pairs(alignment: Alignment) -> list[tuple[int, int]]:
    return [(pair.expected, pair.actual) for pair in alignment.pairs]


def test_many_equal_calls_in_a_group_are_counted_not_listed():
    alignment = aligned(["a", "b" * 40 + "c", "d"], ["a", *"b" * 20, "c", *"b" * 20, "d"])
    assert (len(alignment.pairs), alignment.is_greedy) == (43, False)


def test_a_group_too_large_to_search_says_so_where_order_is_broken():
    names = "abcdefghijklmnopqrstuvwxyz"
    alignment = aligned(["0", names, "1"], ["1", "0", *names[::-1]])
    assert (len(alignment.pairs), alignment.is_greedy) == (27, True)


def test_the_largest_search_that_is_dared_ends():
    alignment = aligned(["abcdef"] * 8, ["cba", "fed"] * 40)
    assert (len(alignment.pairs), alignment.is_greedy) == (48, False)
