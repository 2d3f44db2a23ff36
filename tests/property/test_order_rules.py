"""The monitor of `order_rules` finds what its definition says, written out pair by pair of calls."""

from hypothesis import given
from hypothesis import strategies as st

from tests.score.support import judge, tool_call, trajectory
from toolgauge.evaluators.order_rules import OrderRules
from toolgauge.model.observations import CallError
from toolgauge.model.outcomes import Scored
from toolgauge.model.trajectory import ToolCall, Trajectory

ERROR = CallError(kind="", message="")
CALLS = st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.integers(0, 1)), max_size=9)
SIDES = st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True)
KINDS = st.sampled_from(["before", "after", "never_before", "never", "at_most"])


def made(drawn: list[tuple[str, bool, int]]) -> Trajectory:
    calls: list[ToolCall] = []
    turn = 0
    for name, fails, step in drawn:
        turn += step
        calls.append(tool_call(name, error=ERROR if fails else None, turn=turn))
    return trajectory(*calls)


def by_definition(kind: str, bound: list[str], other: list[str], calls: tuple[ToolCall, ...]) -> str:
    """Return `holds`, `broken` or `free`, looking at every pair."""
    if kind == "never":
        return "broken" if any(call.name in bound for call in calls) else "holds"
    if kind == "at_most":
        return "broken" if sum(call.name in other for call in calls) > 2 else "holds"
    judged = [call for call in calls if call.name in bound and call.name not in other]
    if kind == "after":
        judged = [call for call in judged if call.error is None]
    if not judged:
        return "free"
    return "holds" if all(meets(kind, call, other, calls) for call in judged) else "broken"


def meets(kind: str, call: ToolCall, other: list[str], calls: tuple[ToolCall, ...]) -> bool:
    others = [one for one in calls if one.name in other]
    if kind == "before":
        return any(one.turn < call.turn and one.error is None for one in others)
    if kind == "after":
        return any(one.turn > call.turn and one.error is None for one in others)
    return not any(one.turn < call.turn for one in others)


@given(CALLS.filter(bool), SIDES, SIDES, KINDS)
def test_a_rule_finds_what_its_definition_says(
    drawn: list[tuple[str, bool, int]], bound: list[str], other: list[str], kind: str
):
    written: dict[str, object] = {kind: 2 if kind == "at_most" else bound}
    if kind != "never":
        written["call"] = other
    judged = made(drawn)
    (outcome,) = judge(OrderRules.model_validate({"rules": [written]}), judged)
    found = ("holds" if outcome.value == 1 else "broken") if isinstance(outcome, Scored) else "free"
    assert found == by_definition(kind, bound, other, judged.calls)
