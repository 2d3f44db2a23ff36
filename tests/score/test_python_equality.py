"""Equality as Python has it: true is 1, and NaN is nothing."""

from hypothesis import given
from hypothesis import strategies as st

from toolgauge.model.json import Json
from toolgauge.score.equality import PythonEquality

LEAVES = st.sampled_from(
    [None, True, False, 0, 1, 1.0, -0.0, "", "1", "nan", "{", 2**53 + 1, float(2**53), 2**70, 2.0**70, 2**70 + 1]
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab{"), inner, max_size=3)
)


def keys_agree(first: Json, second: Json) -> bool:
    equality = PythonEquality()
    return equality.key(first) == equality.key(second)


@given(first=VALUES, second=VALUES)
def test_values_are_the_same_exactly_where_python_says_so(first: Json, second: Json):
    equality = PythonEquality()
    assert equality.same(first, second) is (first == second)
    assert keys_agree(first, second) is (first == second)


def test_nan_is_equal_to_nothing():
    assert not keys_agree([float("nan")], [float("nan")])
    assert not PythonEquality().same(float("nan"), float("nan"))


def test_depth_is_no_limit_and_values_of_the_moment_are_not_mixed_up():
    deep: Json = []
    other: Json = [1]
    for _ in range(5_000):
        deep, other = [deep], [other]
    equality = PythonEquality()
    assert equality.key(deep) != equality.key(other)
    # Each list is gone when the next is made, and may be at the same place of memory.
    assert len({equality.key([number]) for number in range(100)}) == 100
