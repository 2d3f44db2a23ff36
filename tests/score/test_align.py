"""Alignment on cases worth naming, at size, and what it reports; totals are checked in tests/property."""

import random
import time
from collections.abc import Sequence

import pytest

from tests.rows import each_row
from toolgauge.score.align import Alignment, Item, Order, Weigh, align


def items(names: Sequence[str], groups: Sequence[int] = ()) -> list[Item]:
    return [Item(kind=name, key=name, group=groups[at] if groups else at) for at, name in enumerate(names)]


def never(expected: int, actual: int) -> float | None:
    raise AssertionError((expected, actual))


def by_name(expected: str, actual: str, *, order: Order = "any", groups: Sequence[int] = ()) -> Alignment:
    return align(items(expected), items(actual, groups), never, order=order)


def pairs(alignment: Alignment) -> list[tuple[int, int]]:
    return [(pair.expected, pair.actual) for pair in alignment.pairs]


def test_nothing_aligns_with_nothing():
    for order in ("any", "ordered", "parallel"):
        alignment = align([], [], never, order=order)
        assert alignment == Alignment(pairs=(), missing=(), unexpected=(), repeated=(), out_of_order=())


def test_one_empty_side_is_all_missing_or_all_unexpected():
    for order in ("any", "ordered", "parallel"):
        assert align(items("ab"), [], never, order=order).missing == (0, 1)
        assert align([], items("ab"), never, order=order).unexpected == (0, 1)


def test_missing_unexpected_and_repeated_are_told_apart():
    alignment = by_name("abc", "axbb")
    assert pairs(alignment) == [(0, 0), (1, 2)]
    assert (alignment.missing, alignment.unexpected, alignment.repeated) == ((2,), (1, 3), (3,))


def test_equal_calls_are_paired_in_order():
    assert pairs(by_name("aa", "aaa")) == [(0, 0), (1, 1)]
    assert pairs(by_name("aaa", "aa")) == [(0, 0), (1, 1)]


def test_out_of_order_calls_are_named_where_order_does_not_bind():
    alignment = by_name("abc", "cab")
    assert len(alignment.pairs) == 3
    assert alignment.out_of_order == (0,)


def test_calls_of_one_turn_are_never_out_of_order():
    assert by_name("ab", "ba", groups=[0, 0]).out_of_order == ()


def test_ordered_pairs_do_not_cross():
    alignment = by_name("abc", "cab", order="ordered")
    assert pairs(alignment) == [(0, 1), (1, 2)]
    assert (alignment.missing, alignment.unexpected, alignment.out_of_order) == ((2,), (0,), (0,))


def test_calls_of_one_turn_may_take_any_order_and_turns_may_not():
    assert pairs(by_name("abc", "bac", order="parallel", groups=[0, 0, 1])) == [(0, 1), (1, 0), (2, 2)]
    assert len(by_name("abc", "cab", order="parallel", groups=[0, 1, 1]).pairs) == 2


def test_a_large_turn_is_one_group_and_needs_no_search():
    names = "abcdefghijklmnopqrstuvwxyz"
    alignment = by_name(names, names[::-1], order="parallel", groups=[0] * 26)
    assert len(alignment.pairs) == 26
    assert not alignment.is_greedy


def test_turns_too_large_to_search_keep_their_order_and_say_so():
    expected, actual = "abcdefghijklmnopqrstuvwx" + "yz", "yz" + "abcdefghijklmnopqrstuvwx"
    alignment = by_name(expected, actual, order="parallel", groups=[0, 0, *[1] * 24])
    assert alignment.is_greedy
    assert len(alignment.pairs) == 24


def constant(value: float | None) -> Weigh:
    def weigh(expected: int, actual: int) -> float | None:  # noqa: ARG001 (constant)
        return value

    return weigh


def side(count: int, name: str) -> list[Item]:
    return [Item(kind="t", key=(name, at), group=at) for at in range(count)]


@each_row("order", ["any", "ordered", "parallel"])
def test_ties_are_resolved_in_order(order: Order):
    alignment = align(side(4, "e"), side(6, "a"), constant(0.5), order=order)
    assert pairs(alignment) == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_calls_that_agree_in_nothing_are_paired_all_the_same():
    assert pairs(align(side(2, "e"), side(2, "a"), constant(0.0))) == [(0, 0), (1, 1)]


def test_calls_that_may_not_be_paired_are_not():
    assert pairs(align(side(2, "e"), side(2, "a"), constant(None))) == []


def test_peeling_is_not_taken_for_granted():
    # Pairing the equal calls would leave the others with nothing: 1.0 instead of 1.8.
    expected = [Item(kind="t", key="same"), Item(kind="t", key="e")]
    actual = [Item(kind="t", key="same"), Item(kind="t", key="a")]
    values = {(0, 1): 0.9, (1, 0): 0.9, (1, 1): 0.0}

    def weigh(row: int, column: int) -> float | None:
        return values[row, column]

    assert align(expected, actual, weigh).total == pytest.approx(1.8)
    assert align(expected, actual, weigh, peel=True).total == 1.0


def test_required_calls_come_before_optional_ones():
    expected = [Item(kind="t", key="x", optional=True), Item(kind="t", key="x")]
    for peel in (True, False):
        assert pairs(align(expected, [Item(kind="t", key="x")], never, peel=peel)) == [(1, 0)]


def test_too_many_calls_that_all_fit_are_not_called_greedy():
    same = [Item(kind="t", key=at) for at in range(300)]
    for order in ("ordered", "parallel", "partial"):
        alignment = align(same, same, never, order=order, max_pairs=100)
        assert (len(alignment.pairs), alignment.is_greedy) == (300, False)
        assert not align(same, same[:-1], never, order=order, max_pairs=100).is_greedy
    assert align(same, same[::-1], constant(None), order="ordered", max_pairs=100).is_greedy


def test_many_kinds_together_look_at_no_more_pairs_than_a_few_of_the_greatest_size():
    looks = 0

    def counted(expected: int, actual: int) -> float | None:  # noqa: ARG001 (constant)
        nonlocal looks
        looks += 1
        return 0.5

    def many(name: str) -> list[Item]:
        return [Item(kind=f"t{at % 20}", key=(name, at)) for at in range(800)]

    alignment = align(many("e"), many("a"), counted, max_pairs=1000)
    assert (len(alignment.pairs), alignment.is_greedy) == (800, True)
    assert looks <= 4 * 1000 + 800


def test_an_optional_call_is_not_settled_where_a_required_one_would_be_missed():
    expected = [Item(kind="t", key="x", optional=True), Item(kind="t", key="any")]
    for peel in (True, False):
        alignment = align(expected, [Item(kind="t", key="x")], constant(1.0), peel=peel)
        assert (pairs(alignment), alignment.missing) == ([(1, 0)], ())


@each_row("order", ["any", "ordered", "parallel"])
def test_too_many_calls_are_paired_greedily_and_the_alignment_says_so(order: Order):
    same = [Item(kind="t", key=("same", at), group=at // 3) for at in range(300)]
    expected, actual = [*same, *side(300, "e")], [*same, *side(300, "a")]
    alignment = align(expected, actual, constant(0.5), order=order, max_pairs=1000)
    assert alignment.is_greedy
    assert len(alignment.pairs) == 600
    assert alignment.total == pytest.approx(450)


def test_beyond_the_limit_equal_calls_alone_are_still_exact():
    same = [Item(kind="t", key=at) for at in range(5000)]
    shuffled = random.Random(1).sample(same, len(same))  # noqa: S311 (a shuffle)
    alignment = align(same, shuffled, never, peel=True)
    assert (len(alignment.pairs), alignment.is_greedy) == (5000, False)


@pytest.mark.parametrize("order", ["any", "ordered"])
@pytest.mark.parametrize("kind", ["random", "close", "equal"])
def test_two_hundred_calls_a_side_take_little_time(order: Order, kind: str):
    generator = random.Random(7)  # noqa: S311 (a measurement)
    table = [
        [generator.random() if kind == "random" else 0.9 - 0.001 * abs(i - j) for j in range(200)] for i in range(200)
    ]

    def weigh(row: int, column: int) -> float | None:
        return table[row][column]

    same = [Item(kind="t", key=at, group=at) for at in range(190)]
    sides = ([*same, *side(10, "e")], [*same, *side(10, "a")]) if kind == "equal" else (side(200, "e"), side(200, "a"))
    started = time.process_time()
    alignment = align(*sides, weigh, order=order)
    assert not alignment.is_greedy
    # Ten times what was measured, because test machines are shared.
    assert time.process_time() - started < (0.5 if kind == "equal" else 5)
