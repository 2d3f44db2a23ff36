"""Alignment on cases worth naming, at size, and what it reports; totals are checked in tests/property."""

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


def test_missing_unexpected_and_repeated_are_told_apart():
    alignment = by_name("abc", "axbb")
    assert pairs(alignment) == [(0, 0), (1, 2)]
    assert (alignment.missing, alignment.unexpected, alignment.repeated) == ((2,), (1, 3), (3,))


def test_out_of_order_calls_are_named_where_order_does_not_bind():
    alignment = by_name("abc", "cab")
    assert len(alignment.pairs) == 3
    assert alignment.out_of_order == (0,)


def test_calls_of_one_turn_are_never_out_of_order():
    assert by_name("ab", "ba", groups=[0, 0]).out_of_order == ()


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


def test_calls_that_agree_in_nothing_are_paired_and_those_that_may_not_be_are_not():
    assert pairs(align(side(2, "e"), side(2, "a"), constant(0.0))) == [(0, 0), (1, 1)]
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
