"""`tool_call_order` against every way to leave out calls, on small cases."""

from itertools import combinations, permutations, product

from hypothesis import given
from hypothesis import strategies as st

from tests.score.support import expected, scored, tool_call, trajectory
from toolgauge.evaluators.expected_calls import ToolCallOrder
from toolgauge.model.expected import ExpectedCall

GROUPS = st.lists(st.text("ab", min_size=1, max_size=3), max_size=3)


def arrangements(groups: list[str]) -> set[str]:
    """All orders that the groups allow."""
    return {"".join(chosen) for chosen in product(*[{"".join(order) for order in permutations(g)} for g in groups])}


def subsequences(names: str) -> set[str]:
    return {"".join(chosen) for size in range(len(names) + 1) for chosen in combinations(names, size)}


def longest_common(wanted: list[str], made: list[str]) -> int:
    expected_ways = {way for order in arrangements(wanted) for way in subsequences(order)}
    actual_ways = {way for order in arrangements(made) for way in subsequences(order)}
    return max(map(len, expected_ways & actual_ways))


@given(GROUPS, GROUPS)
def test_the_score_is_the_longest_subsequence_that_any_order_allows(wanted: list[str], made: list[str]):
    reference = expected(
        *[ExpectedCall(name=name, group=group) for group, names in enumerate(wanted) for name in names]
    )
    called = trajectory(*[tool_call(name, turn=turn) for turn, names in enumerate(made) for name in names])
    outcome = scored(ToolCallOrder(), called, reference)
    total = len("".join(wanted))
    assert outcome.parts["matched"] == longest_common(wanted, made)
    if total:
        assert outcome.value == longest_common(wanted, made) / total
