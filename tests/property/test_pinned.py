"""Beyond the bound, calls found by what is pinned down are as many as the exact solver finds; below it nothing changes."""

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.score.support import trajectory
from toolgauge.cases.actual import trajectory_of
from toolgauge.model.expected import ExpectedCall
from toolgauge.model.json import JsonObject
from toolgauge.score.align import MAX_PAIRS, Alignment, Order, align
from toolgauge.score.arguments import ArgumentComparer, Schemas, Terms
from toolgauge.score.rules import ArgumentRules
from toolgauge.score.selection import make_sides

# `note` is free; few values of the others, so that calls compete for each other.
ARGUMENTS = st.fixed_dictionaries(
    {"x": st.integers(0, 2)}, optional={"y": st.integers(0, 1), "note": st.integers(0, 3)}
)
CALLS = st.lists(ARGUMENTS, min_size=1, max_size=8)
RULES = ArgumentRules.model_validate({"*.note": "ignore"})


def comparer_of(expected: list[JsonObject], actual: list[JsonObject]) -> ArgumentComparer:
    terms = Terms(rules=RULES, schemas=Schemas(trajectory()))
    calls = trajectory_of({"calls": [{"name": "t", "args": args} for args in actual]}).calls
    wanted = [ExpectedCall(name="t", args=args) for args in expected]
    sides = make_sides(wanted, calls, names_only=False, equals_meet=terms.equals_meet)
    return ArgumentComparer(sides, terms)


def aligned(
    expected: list[JsonObject], actual: list[JsonObject], *, max_pairs: int = MAX_PAIRS, order: Order = "any"
) -> Alignment:
    return comparer_of(expected, actual).aligned(order=order, max_pairs=max_pairs)


def whole(alignment: Alignment) -> int:
    return sum(pair.value == 1.0 for pair in alignment.pairs)


@given(CALLS, CALLS)
def test_just_beyond_the_bound_the_total_is_that_of_the_exact_solver(
    expected: list[JsonObject], actual: list[JsonObject]
):
    # Where no two calls differ in `x` there is one block, as large as the whole.
    assume(any(wanted["x"] != made["x"] for wanted in expected for made in actual))
    bounded = aligned(expected, actual, max_pairs=len(expected) * len(actual) - 1)
    exact = aligned(expected, actual)
    assert whole(bounded) == whole(exact)
    # With nothing found there is too much left to look for the greatest total.
    assert abs(bounded.total - exact.total) < 1e-9 or not whole(bounded)


@given(CALLS, CALLS, st.integers(1, 8))
def test_far_beyond_the_bound_no_call_is_paired_twice_nor_better_than_it_is(
    expected: list[JsonObject], actual: list[JsonObject], max_pairs: int
):
    assume(len(expected) * len(actual) > max_pairs)
    comparer = comparer_of(expected, actual)
    alignment = comparer.aligned(max_pairs=max_pairs)
    rows, columns = [pair.expected for pair in alignment.pairs], [pair.actual for pair in alignment.pairs]
    assert sorted([*rows, *alignment.missing]) == list(range(len(expected)))
    assert sorted([*columns, *alignment.unexpected]) == list(range(len(actual)))
    assert all(comparer.weigh(pair.expected, pair.actual) == pair.value for pair in alignment.pairs)


@given(CALLS, CALLS, st.sampled_from(["any", "ordered", "partial"]))
def test_below_the_bound_pins_change_nothing(expected: list[JsonObject], actual: list[JsonObject], order: Order):
    comparer = comparer_of(expected, actual)
    sides = comparer.sides
    plain = align(sides.slot_items, sides.call_items, comparer.weigh, order=order, peel=comparer.may_peel)
    assert aligned(expected, actual, order=order) == plain


@given(CALLS, CALLS)
def test_in_order_pairs_do_not_cross_beyond_the_bound(expected: list[JsonObject], actual: list[JsonObject]):
    alignment = aligned(expected, actual, max_pairs=1, order="ordered")
    columns = [pair.actual for pair in alignment.pairs]
    assert columns == sorted(set(columns))
    assert alignment.total <= aligned(expected, actual, order="ordered").total + 1e-9
