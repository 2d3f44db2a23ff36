"""`tool_trajectory` against brute force in every mode, and what holds for its edit scripts."""

from collections.abc import Iterator, Sequence
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.score.support import expected, judge, tool_call, trajectory
from toolgauge.evaluators.expected_arguments import Mode, ToolTrajectory
from toolgauge.model.expected import ExpectedCall
from toolgauge.model.json import JsonObject
from toolgauge.model.outcomes import NotEvaluated, Outcome, Scored
from toolgauge.model.trajectory import ToolCall, Trajectory

MODES: list[Mode] = ["exact", "in_order", "any_order", "subset", "superset", "partial_order"]
ORDERED = ("exact", "in_order", "partial_order")
NAMES = st.sampled_from(["a", "b"])
X = st.integers(1, 2)
ARGS: st.SearchStrategy[JsonObject | None] = st.sampled_from([None, {"x": 1}, {"x": 2}])


@st.composite
def steps(draw: st.DrawFn) -> list[ExpectedCall]:
    calls: list[ExpectedCall] = []
    for group in range(draw(st.integers(0, 3))):
        members = draw(st.integers(1, 2))
        for _ in range(members):
            calls.append(  # noqa: PERF401 (draws in order)
                ExpectedCall(
                    name=draw(NAMES),
                    args=draw(ARGS),
                    optional=draw(st.booleans()),
                    repeat=draw(st.sampled_from([(1, 1), (1, 1), (0, 1), (1, 2), (2, 2)])),
                    group=group if members > 1 else None,
                )
            )
    return calls


@st.composite
def runs(draw: st.DrawFn) -> Trajectory:
    calls: list[ToolCall] = []
    turn = 0
    for _ in range(draw(st.integers(0, 4))):
        calls.append(tool_call(draw(NAMES), {"x": draw(X)}, turn=turn))
        turn += draw(st.booleans())
    return trajectory(*calls)


# Stage, required, the call.
Slot = tuple[int, bool, ExpectedCall]


def slots_of(calls: Sequence[ExpectedCall]) -> list[Slot]:
    slots: list[Slot] = []
    stage, group = 0, None
    for call in calls:
        stage += call.group is None or call.group != group
        group = call.group
        least, most = call.repeat
        slots += [(stage, number < least and not call.optional, call) for number in range(most)]
    return slots


def agreement(call: ExpectedCall, made: ToolCall) -> float | None:
    if call.name != made.name:
        return None
    # Arguments of both hold `x` alone, or the expected call has none given.
    return 1.0 if call.args is None else float(f"Recorded(value={call.args})" == repr(made.arguments))


def ways(slots: int, calls: int) -> Iterator[list[tuple[int, int]]]:
    places = [*range(calls), *[-1] * slots]
    for chosen in set(permutations(places, slots)):
        yield [(slot, call) for slot, call in enumerate(chosen) if call >= 0]


def best(slots: Sequence[Slot], made: Sequence[ToolCall], *, in_order: bool) -> tuple[float, int, int, int]:
    """Total, whole pairs, required ones, pairs at all: the first that differs decides."""
    found = (0.0, 0, 0, 0)
    for pairs in ways(len(slots), len(made)):
        values = [agreement(slots[slot][2], made[call]) for slot, call in pairs]
        if None in values or (in_order and is_broken(pairs, slots, made)):
            continue
        total = sum(value or 0.0 for value in values)
        required = sum(slots[slot][1] for slot, _ in pairs)
        found = max(found, (total, values.count(1.0), required, len(pairs)))
    return found


def is_broken(pairs: Sequence[tuple[int, int]], slots: Sequence[Slot], made: Sequence[ToolCall]) -> bool:
    return any(
        slots[slot][0] < slots[other][0] and made[call].turn > made[another].turn
        for slot, call in pairs
        for other, another in pairs
    )


def by_brute_force(mode: Mode, calls: Sequence[ExpectedCall], made: Sequence[ToolCall]) -> float | str:
    slots = slots_of(calls)
    total, _, required, paired = best(slots, made, in_order=mode in ORDERED)
    wanted = sum(needed for _, needed, _ in slots) - required + paired
    if not wanted and not made:
        return 1.0
    if mode == "subset":
        return total / len(made) if made else "no_calls"
    if mode in ("exact", "partial_order"):
        return 2 * total / (wanted + len(made))
    return total / wanted if wanted else "nothing_expected"


def said(outcomes: Sequence[Outcome]) -> float | str:
    (outcome,) = outcomes
    if isinstance(outcome, NotEvaluated):
        return outcome.reason
    assert isinstance(outcome, Scored)
    return outcome.value


@pytest.mark.parametrize("mode", MODES)
@given(steps(), runs())
def test_every_mode_scores_what_brute_force_finds(mode: Mode, calls: list[ExpectedCall], run: Trajectory):
    if len(slots_of(calls)) > 5:
        calls = [call for call in calls if call.repeat == (1, 1)][:5]
    outcomes = judge(ToolTrajectory(mode=mode), run, expected(*calls))
    assert said(outcomes) == pytest.approx(by_brute_force(mode, calls, run.calls))
    assert judge(ToolTrajectory(mode=mode), run, expected(*calls)) == outcomes
