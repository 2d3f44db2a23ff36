"""Groups without order on the expected side: cases worth naming, and sizes; totals are checked in tests/property."""

import time
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


def test_calls_of_a_group_may_come_in_any_order():
    assert pairs(aligned(["a", "bc", "d"], ["a", "c", "b", "d"])) == [(0, 0), (1, 2), (2, 1), (3, 3)]


def test_groups_come_one_after_the_other():
    alignment = aligned(["a", "bc", "d"], ["b", "a", "c", "d"])
    assert pairs(alignment) == [(0, 1), (2, 2), (3, 3)]
    assert (alignment.missing, alignment.unexpected, alignment.out_of_order) == ((1,), (0,), (0,))


def test_a_turn_may_reach_over_several_groups():
    assert len(aligned(["ab", "cd"], ["dbca"]).pairs) == 4
    assert len(aligned(["ab", "cd"], ["a", "dcb"]).pairs) == 4
    assert len(aligned(["ab", "cd"], ["ac", "bd"]).pairs) == 3


def test_nothing_aligns_with_nothing_in_groups_too():
    assert aligned(["ab"], []).missing == (0, 1)
    assert aligned([], ["ab"]).unexpected == (0, 1)


def test_many_equal_calls_in_a_group_are_counted_not_listed():
    alignment = aligned(["a", "b" * 40 + "c", "d"], ["a", *"b" * 20, "c", *"b" * 20, "d"])
    assert (len(alignment.pairs), alignment.is_greedy) == (43, False)


def test_a_group_too_large_to_search_is_paired_all_the_same_where_order_holds():
    names = "abcdefghijklmnopqrstuvwxyz"
    alignment = aligned(["0", names, "1"], ["0", *names[::-1], "1"])
    assert (len(alignment.pairs), alignment.is_greedy) == (28, False)


def test_a_group_too_large_to_search_says_so_where_order_is_broken():
    names = "abcdefghijklmnopqrstuvwxyz"
    alignment = aligned(["0", names, "1"], ["1", "0", *names[::-1]])
    assert (len(alignment.pairs), alignment.is_greedy) == (27, True)


def test_two_thousand_calls_a_side_take_little_time():
    expected = [f"{chr(97 + at % 20)}{chr(97 + at % 19)}" for at in range(1000)]
    actual = [name for pair in expected for name in reversed(pair)]
    actual[7], actual[1400] = actual[1400], actual[7]
    started = time.process_time()
    alignment = align(side(expected), side(actual), never, order="partial")
    assert alignment.is_greedy
    assert len(alignment.pairs) > 1900
    # Ten times what was measured, because test machines are shared.
    assert time.process_time() - started < 20


def test_the_largest_search_that_is_dared_takes_little_time():
    expected = ["abcdef"] * 8
    actual = ["cba", "fed"] * 40
    started = time.process_time()
    alignment = aligned(expected, actual)
    assert (len(alignment.pairs), alignment.is_greedy) == (48, False)
    assert time.process_time() - started < 20
