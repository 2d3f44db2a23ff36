"""What holds for comparisons of any two values."""

import math
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from toolgauge.model.json import Json, canonical
from toolgauge.score.compare import Comparison, compare, describe
from toolgauge.score.equality import Identities, moment
from toolgauge.score.patterns import Step
from toolgauge.score.rules import (
    Casefold,
    Contains,
    DateTime,
    Deeper,
    Exact,
    Ignore,
    Lenient,
    Numeric,
    OneOf,
    Present,
    Rule,
    Scope,
    SetLike,
    Similarity,
    Subset,
)

SINGLE: st.SearchStrategy[Json] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(),
    st.floats(),
    st.text(max_size=6),
    st.sampled_from(["1", "true", "\ud800", 10**400, -0.0]),
)


def containers(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=3), inner, max_size=4))


VALUES: st.SearchStrategy[Json] = st.recursive(SINGLE, containers, max_leaves=12)
RULES: st.SearchStrategy[Rule] = st.sampled_from(
    [
        Exact(),
        Casefold(),
        Numeric(absolute=0.5),
        Numeric(relative=0.1),
        Contains(),
        Ignore(),
        SetLike(),
        Similarity(),
        DateTime(),
        DateTime(zone=3600),
        Present(),
        Subset(),
        Subset(Casefold()),
        Subset(Similarity()),
        Lenient(),
    ]
)


def compared(rule: Rule, expected: Json, actual: Json) -> Comparison:
    return compare(rule, expected, actual, where="x")


@given(RULES, VALUES, VALUES)
def test_the_value_is_a_share_and_one_exactly_when_nothing_differs(rule: Rule, expected: Json, actual: Json):
    comparison = compared(rule, expected, actual)
    assert 0 <= comparison.value <= 1
    assert (comparison.value == 1) == (not comparison.differences)
    assert comparison == compared(rule, expected, actual) or "nan" in repr(comparison)
    assert all(describe(difference) for difference in comparison.differences)


@given(RULES, VALUES)
def test_every_value_meets_itself_under_every_rule(rule: Rule, value: Json):
    assert compared(rule, value, value).value == 1


@given(VALUES, VALUES)
def test_exact_and_canonical_keys_agree_and_do_not_depend_on_sides(first: Json, second: Json):
    same = canonical(first) == canonical(second)
    assert same == (compared(Exact(), first, second).value == 1)
    assert same == (compared(Exact(), second, first).value == 1)
    assert same == (compared(Similarity(), first, second).value == 1)


KEYS = st.sampled_from([Step(), Step(key=""), Step(key="0"), Step(place=0)])


@st.composite
def scopes(draw: st.DrawFn) -> Scope:
    rules = st.one_of(RULES, st.just(OneOf()), st.just(OneOf(values=(1, "1"), omissible=True)))
    places = draw(st.lists(st.tuples(st.lists(KEYS, min_size=1, max_size=2), rules), max_size=3))
    return Scope(draw(RULES), tuple(Deeper(tuple(steps), rule, rank) for rank, (steps, rule) in enumerate(places)))


@given(scopes(), VALUES, VALUES)
def test_rules_of_places_never_break_a_comparison(scope: Scope, expected: Json, actual: Json):
    comparison = compare(scope, expected, actual, where="x")
    assert 0 <= comparison.value <= 1
    assert (comparison.value == 1) == (not comparison.differences)


@given(st.lists(VALUES, max_size=5))
def test_numbers_of_values_are_equal_for_equal_values_only(values: list[Json]):
    identities = Identities()
    numbers = [identities.of(value) for value in values]
    keys = [canonical(value) for value in values]
    assert [[one == other for other in numbers] for one in numbers] == [
        [one == other for other in keys] for one in keys
    ]


def with_more(value: Json) -> Json:
    """Add a key to every object, and turn around every list of single values."""
    if isinstance(value, dict):
        return {"more": 1, **{name: with_more(value[name]) for name in value}}
    if isinstance(value, list):
        order = value if any(isinstance(item, list | dict) for item in value) else value[::-1]
        return [with_more(item) for item in order]
    return value


@given(VALUES)
def test_more_keys_anywhere_and_another_order_of_single_values_are_met_by_lenience(value: Json):
    assert compared(Lenient(), value, with_more(value)).value == 1


@given(VALUES, VALUES)
def test_a_subset_is_met_by_lenience_and_similarity_has_no_sides(first: Json, second: Json):
    assert compared(Lenient(), first, second).value >= compared(Subset(), first, second).value
    there, back = compared(Similarity(), first, second).value, compared(Similarity(), second, first).value
    assert math.isclose(there, back, abs_tol=1e-12)
    if isinstance(first, dict):
        assert compared(Subset(), first, {"more": second, **dict(reversed(first.items()))}).value == 1


@given(st.datetimes(timezones=st.timezones()))
def test_a_moment_is_the_same_in_every_zone(when: datetime):
    text = when.isoformat()
    utc = when.astimezone(UTC).isoformat() if 1 < when.year < 9999 else text
    if moment(text) is not None:
        assert compared(DateTime(), text, utc).value == 1
