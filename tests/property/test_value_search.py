"""Searching for many values at once finds what comparing each with each would."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from toolgauge.model.json import Leaf
from toolgauge.score.equality import agreement
from toolgauge.score.origins.provenance import SearchRule, ValueSearch
from toolgauge.score.recorded_values import occurs_alone
from toolgauge.score.rules import Casefold, DateTime, Exact, Numeric

LEAVES: st.SearchStrategy[Leaf] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(),
    st.floats(),
    st.floats(-2, 2),
    st.text(max_size=3),
    st.sampled_from(["1", "true", "ß", "SS", "\u212a", "k", "K", "2025-01-31", "20250131", 10**400, -0.0, 1 << 64]),
)
WORDS = st.text(alphabet="aB1 .,-_", max_size=12)


@settings(max_examples=100)
@given(
    rule=st.sampled_from([Exact(), Casefold(), DateTime(zone=3600), Numeric(absolute=0.5), Numeric(relative=0.1)]),
    wanted=st.lists(LEAVES, max_size=8),
    places=st.lists(st.lists(LEAVES, max_size=6), max_size=4),
)
def test_the_mark_is_the_first_place_with_an_equal_value(
    rule: SearchRule, wanted: Sequence[Leaf], places: Sequence[Sequence[Leaf]]
):
    search = ValueSearch(rule, wanted)
    for mark, values in enumerate(places):
        search.look_among(values, mark)
    for value in wanted:
        meeting = (
            mark for mark, values in enumerate(places) if any(agreement(rule, one, value)[0] == 1 for one in values)
        )
        assert search.first(value) == min(meeting, default=None)


@given(value=WORDS.filter(lambda text: text.strip(" .,-") == text != ""), text=WORDS)
def test_what_is_found_in_prose_is_there(value: str, text: str):
    search = ValueSearch(Exact(), [value])
    search.look_in_prose(text, 0)
    # Spacing around single signs does not matter to the search.
    if " " not in value and " " not in text:
        assert (search.first(value) is not None) <= occurs_alone(value, text)


@given(before=WORDS, value=WORDS.filter(lambda text: text.strip() != ""), after=WORDS)
def test_a_value_between_spaces_is_found(before: str, value: str, after: str):
    search = ValueSearch(Exact(), [value])
    search.look_in_prose(f"{before} {value} {after}", 0)
    assert search.first(value) == 0
