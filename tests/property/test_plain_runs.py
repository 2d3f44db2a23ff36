"""Runs that are nearly as expected are paired without the solvers, and just as they would pair them."""

from collections.abc import Sequence
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from toolgauge.score import align as module
from toolgauge.score.align import Alignment, Order, align
from toolgauge.score.weights import Item

# Few kinds and keys, so that repeats are common.
CALLS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5)), max_size=7)


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """An expected side and one that is the same but for a few calls."""
    expected = draw(CALLS)
    actual = list(expected)
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(actual)))
        actual[place : place + draw(st.integers(0, 1))] = draw(
            st.lists(st.sampled_from([("a", 6), ("b", 1)]), max_size=1)
        )
    return expected, actual


def aligned(
    expected: Sequence[tuple[str, int]], actual: Sequence[tuple[str, int]], groups: Sequence[int], order: Order
) -> Alignment:
    def weigh(row: int, column: int) -> float | None:
        # Equal for equal parity, never for 5: as far apart as a share of two arguments can be.
        wanted, found = expected[row][1], actual[column][1]
        return None if wanted == 5 else 0.5 if wanted % 2 == found % 2 else 0.0

    return align(
        [Item(kind=kind, key=key, group=place) for place, (kind, key) in enumerate(expected)],
        [Item(kind=kind, key=key, group=group) for (kind, key), group in zip(actual, groups, strict=True)],
        weigh,
        order=order,
        peel=order == "any",
    )


def _nothing_is_plain(*_: object, **__: object) -> None:
    pass


@given(
    runs(), st.sampled_from(["any", "ordered", "parallel", "partial"]), st.lists(st.booleans(), min_size=9, max_size=9)
)
def test_the_short_way_pairs_as_the_solvers_do(
    sides: tuple[list[tuple[str, int]], list[tuple[str, int]]], order: Order, alone: list[bool]
):
    expected, actual = sides
    groups = [sum(alone[: place + 1]) for place in range(len(actual))]
    short = aligned(expected, actual, groups, order)
    with patch.object(module, "_plainly", _nothing_is_plain):
        assert short == aligned(expected, actual, groups, order)
