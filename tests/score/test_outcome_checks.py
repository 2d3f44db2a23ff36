"""What evaluators say is checked, and marked once where they say the same again."""

from functools import partial
from typing import cast

import pytest

from tests.rows import each_row
from tests.score.support import tool_call
from toolgauge.evaluators import ToolSuccess
from toolgauge.model.errors import EvaluationError
from toolgauge.model.outcomes import Difference, Errored, NotEvaluated, Outcome, Reason, Scored
from toolgauge.model.trajectory import ToolCall
from toolgauge.score.criterion import Criterion, Makes
from toolgauge.score.scorer import Checker

CALLS = (tool_call("a"), tool_call("b"), tool_call("c"))


def makes_of(pass_at: float = 1.0) -> Makes:
    return Makes(
        Criterion(name="c", evaluator_name="tool_success", evaluator=ToolSuccess(), revision="r", pass_at=pass_at)
    )


def judged(makes: Makes, call: ToolCall, outcome: Outcome) -> Outcome:
    return Checker(makes, "call", CALLS).result(call, outcome, None).outcome


def test_the_same_outcome_is_marked_once_for_all_calls_and_trajectories():
    outcome = Scored(0.75, "fine")
    for pass_at, passed in ((0.5, True), (0.8, False)):
        makes = makes_of(pass_at)
        first = [judged(makes, call, outcome) for call in CALLS]
        assert first == [Scored(0.75, "fine", passed=passed)] * 3
        assert len(set(map(id, first))) == 1


def test_what_is_remembered_of_outcomes_is_bounded_and_never_large():
    makes = makes_of()
    for number in range(1000):
        makes.of(Scored(1.0, f"number {number}"))
    assert 0 < len(makes) <= 256
    makes.clear()
    makes.of(Scored(1.0, "x" * 201))
    makes.of(NotEvaluated(reason="no_calls", explanation="x" * 201))
    makes.of(Errored(error_type="x" * 201, message="words"))
    makes.of(Scored(1.0, "parts", {"precision": 1.0}))
    makes.of(Scored(1.0, "differences", {}, (Difference(where="a", rule="exact"),)))
    assert not makes


class Reused(Scored, frozen=False):  # pyright: ignore[reportGeneralTypeIssues] - an evaluator's own class may be so
    """An outcome of an evaluator that fills in one and the same for every trajectory."""

    seen: object = None


def test_an_outcome_that_may_change_is_looked_at_each_time():
    makes = makes_of(0.5)
    outcome = Reused(1.0, "fine", seen=bytearray(1 << 20))
    assert judged(makes, CALLS[0], outcome) == Scored(1.0, "fine", passed=True)
    setattr(outcome, "value", 0.25)  # noqa: B010 - it is not frozen, whatever the class that it is derived from says
    assert judged(makes, CALLS[0], outcome) == Scored(0.25, "fine", passed=False)
    assert not makes


@each_row(
    "outcome",
    [
        Scored(10**400, "fine"),
        Scored(0.5, "fine", {"count": 10**400}),
        NotEvaluated(reason=cast("Reason", ["no_calls"])),
    ],
)
def test_what_cannot_be_compared_or_looked_up_is_refused_and_raises_nothing(outcome: Outcome):
    with pytest.raises(EvaluationError, match="gave"):
        judged(makes_of(), CALLS[0], outcome)


def test_calls_may_be_judged_in_any_order_and_each_of_them_once():
    result = partial(Checker(makes_of(), "call", CALLS).result, outcome=Scored(1.0, "fine"), root=None)
    first, second, third = CALLS
    assert [result(second).call, result(first).call] == [second, first]
    with pytest.raises(EvaluationError):
        result(first)
    assert result(third).call is third
    for other in (third, tool_call("a")):
        with pytest.raises(EvaluationError):
            result(other)
