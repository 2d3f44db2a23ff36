"""More calls of one tool than all pairs can be weighed of: found by what is pinned down, where some arguments are free."""

import random
from collections.abc import Mapping

import pytest

from tests.score.support import expected
from tests.score.support import scored as scored_run
from toolgauge.cases.actual import trajectory_of
from toolgauge.evaluators.tool_call_accuracy import ToolCallAccuracy
from toolgauge.evaluators.tool_call_args import ToolCallArgs
from toolgauge.evaluators.tool_call_f1 import ToolCallF1
from toolgauge.evaluators.tool_parameter_match import ToolParameterMatch
from toolgauge.evaluators.tool_trajectory import ToolTrajectory
from toolgauge.model.expected import ExpectedCall
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import Scored
from toolgauge.model.ports import Evaluator
from toolgauge.score.align import Item, align
from toolgauge.score.rules import ArgumentRules

CALLS = 1_500
FREE_NOTE = ArgumentRules.model_validate({"*.note": "ignore"})
PRESENT_NOTE = ArgumentRules.model_validate({"*.note": "present"})


def made(*, shuffled: bool = True) -> list[Json]:
    calls: list[Json] = [{"name": "t", "args": {"id": number, "note": f"n{number}"}} for number in range(CALLS)]
    return random.Random(3).sample(calls, CALLS) if shuffled else calls  # noqa: S311 (a shuffle)


def wanted(extra: Mapping[str, Json], *, wrong: int = 0) -> list[ExpectedCall]:
    ids = [-1 - number if number < wrong else number for number in range(CALLS)]
    return [ExpectedCall(name="t", args={"id": number, **extra}) for number in ids]


def scored(evaluator: Evaluator, calls: list[Json], reference: list[ExpectedCall]) -> Scored:
    return scored_run(evaluator, trajectory_of({"calls": calls}), expected(*reference))


@pytest.mark.parametrize(
    ("evaluator", "extra"),
    [
        (ToolCallArgs(arguments=FREE_NOTE), {"note": "x"}),
        (ToolCallArgs(arguments=PRESENT_NOTE), {"note": "x"}),
        (ToolCallArgs(arguments=FREE_NOTE, similarity="json"), {"note": "x"}),
        (ToolCallArgs(subset=True), {}),
        (ToolCallArgs(volatile=("note",)), {}),
        (ToolCallF1(match="name_and_args", arguments=FREE_NOTE), {"note": "x"}),
        (ToolTrajectory(mode="superset", arguments=FREE_NOTE), {"note": "x"}),
        (ToolParameterMatch(arguments=FREE_NOTE), {"note": "x"}),
        (ToolCallAccuracy(ordered=False, arguments=FREE_NOTE), {"note": "x"}),
    ],
    ids=lambda part: type(part).__name__,
)
def test_shuffled_calls_with_a_free_argument_are_all_found(evaluator: Evaluator, extra: JsonObject):
    outcome = scored(evaluator, made(), wanted(extra))
    assert outcome.value == 1.0
    assert "too many calls" not in outcome.explanation


def test_calls_that_are_not_as_expected_are_paired_after_those_that_are():
    outcome = scored(ToolCallArgs(arguments=PRESENT_NOTE), made(), wanted({"note": "x"}, wrong=10))
    # Ten pairs agree in `note` alone.
    assert outcome.value == pytest.approx((CALLS - 10 + 10 * 0.5) / CALLS)


def test_a_rule_with_room_is_solved_among_the_calls_with_the_pinned_values():
    rules = ArgumentRules.model_validate({"*.amount": {"rule": "numeric", "absolute": 10}})
    calls: list[Json] = [{"name": "t", "args": {"user": n % 30, "amount": n + 9}} for n in range(CALLS)]
    reference = [ExpectedCall(name="t", args={"user": n % 30, "amount": n}) for n in range(CALLS)]
    shuffled = random.Random(5).sample(calls, CALLS)  # noqa: S311 (a shuffle)
    assert scored(ToolCallArgs(arguments=rules), shuffled, reference).value == 1.0


def test_calls_that_pin_down_more_choose_first():
    rules = ArgumentRules.model_validate({"*.note": "ignore"})
    calls: list[Json] = [{"name": "t", "args": {"id": n // 2, "part": n % 2, "note": n}} for n in range(CALLS)]
    # One of each two says which part it wants, the other one takes what is left.
    loose = [ExpectedCall(name="t", args={"id": n}) for n in range(CALLS // 2)]
    strict = [ExpectedCall(name="t", args={"id": n, "part": 0}) for n in range(CALLS // 2)]
    assert scored(ToolCallArgs(subset=True, arguments=rules), calls, [*loose, *strict]).value == 1.0


@pytest.mark.parametrize("evaluator", [ToolTrajectory(arguments=FREE_NOTE), ToolCallAccuracy(arguments=FREE_NOTE)])
def test_in_order_a_missing_call_does_not_shift_those_after_it(evaluator: ToolTrajectory | ToolCallAccuracy):
    calls = made(shuffled=False)
    outcome = scored(evaluator, calls[:300] + calls[301:], wanted({"note": "x"}))
    assert outcome.parts["missing"] == 1
    assert outcome.parts["recall"] == pytest.approx((CALLS - 1) / CALLS)


def test_a_call_that_meets_its_expected_one_in_part_only_is_not_settled_before_better_ones():
    rules = ArgumentRules.model_validate({key: {"rule": "numeric", "absolute": 1} for key in ("*.x", "*.y")})
    reference = [ExpectedCall(name="t", args={"id": number, "x": 1, "y": 1}) for number in range(CALLS)]
    # The call with its id has neither of its figures, and one with another id has both.
    others: list[JsonObject] = [{"id": -1, "x": 50, "y": 50}, {"id": -2, "x": 9, "y": 9}]
    arguments: list[JsonObject] = [{"id": number, "x": 0, "y": 0} for number in range(CALLS)]
    calls: list[Json] = [{"name": "t", "args": args} for args in [*arguments, *others]]
    reference += [ExpectedCall(name="t", args={"id": -1, "x": 9, "y": 9})]
    outcome = scored(ToolCallArgs(arguments=rules), calls, reference)
    assert outcome.value == pytest.approx((CALLS + 2 / 3) / (CALLS + 1))


class Numbers:
    """Pins of calls by index, the same on both sides."""

    def __init__(self, *values: dict[str, int]) -> None:
        self._values = values

    def pinned(self, expected: int) -> dict[str, int]:
        return self._values[expected]

    def given(self, actual: int) -> dict[str, int] | None:
        return self._values[actual]


def test_what_is_pinned_down_leaves_later_tools_enough_to_look_at():
    # Four blocks of a tool would use up all that there is; the best pairs of the other tool are not the first ones.
    def side(name: str) -> list[Item]:
        return [Item(kind="a", key=(name, at)) for at in range(40)] + [Item(kind="b", key=(name, at)) for at in (0, 1)]

    def weigh(expected: int, actual: int) -> float | None:
        if expected < 40:
            return 0.5
        return {(40, 40): 0.9, (40, 41): 0.8, (41, 40): 0.8, (41, 41): 0.0}[expected, actual]

    pins = Numbers(*({"block": at % 4} for at in range(40)), {}, {})
    alignment = align(side("e"), side("a"), weigh, max_pairs=100, pins=pins)
    assert [pair.value for pair in alignment.pairs[-2:]] == [0.8, 0.8]


def test_an_optional_call_does_not_take_what_a_required_one_pins_down():
    class OneCall(Numbers):
        def given(self, actual: int) -> dict[str, int] | None:
            return {"id": 1, "part": 2} if actual == 0 else None

    def weigh(expected: int, actual: int) -> float | None:
        return 1.0 if actual == 0 else 0.1 * expected

    both = [Item(kind="t", key="a", optional=True), Item(kind="t", key="b")]
    alignment = align(
        both,
        [Item(kind="t", key="c"), Item(kind="t", key="d")],
        weigh,
        max_pairs=3,
        pins=OneCall({"id": 1, "part": 2}, {"id": 1}),
    )
    assert (1, 0) in [(pair.expected, pair.actual) for pair in alignment.pairs]
