"""Wherever a limit cuts JSON or a Python literal, what is left is valid up to its end."""

import json

from hypothesis import given
from hypothesis import strategies as st

from toolgauge.model.json import Json
from toolgauge.model.masks import extent, is_broken_by_mask, was_cut

_TEXTS = st.text(st.characters(exclude_categories=("Cs",)))
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXTS
_VALUES: st.SearchStrategy[Json] = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4), max_leaves=12
)
_OBJECTS = st.dictionaries(_TEXTS, _VALUES, min_size=1, max_size=4)


@given(_OBJECTS, st.booleans(), st.data())
def test_json_is_valid_up_to_any_cut(value: dict[str, Json], is_ascii: bool, data: st.DataObject):  # noqa: FBT001 - drawn
    text = json.dumps(value, ensure_ascii=is_ascii)
    assert extent(text) == "complete"
    assert extent(text[: data.draw(st.integers(1, len(text) - 1))]) == "cut"


@given(_OBJECTS, st.data())
def test_a_python_literal_is_valid_up_to_any_cut(value: dict[str, Json], data: st.DataObject):
    text = repr(value)
    assert extent(text) == "complete"
    assert extent(text[: data.draw(st.integers(1, len(text) - 1))]) == "cut"


@given(_OBJECTS, st.sampled_from(["****", "[REDACTED]", "<EMAIL_ADDRESS>", "__REDACTED__", "[Filtered]"]))
def test_a_mask_in_place_of_any_value_breaks_json(value: dict[str, Json], mask: str):
    whole = {**value, "masked": 4_711_470_815}
    assert is_broken_by_mask(json.dumps(whole).replace("4711470815", mask))


@given(st.text(alphabet=st.sampled_from("{[(\"'*:,truX1.\\u_<R}]) \ufffd\u00fc\U0001f389")) | st.text())
def test_any_text_can_be_looked_at(text: str):
    was_cut(text)
    is_broken_by_mask(text)
