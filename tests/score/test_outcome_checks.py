"""What evaluators say is checked, and marked once where they say the same again."""

from typing import cast

from tests.rows import each_row
from tests.score.support import tool_call
from toolgauge.model.outcomes import Difference, Errored, NotEvaluated, Outcome, Reason, Scored
from toolgauge.score.criterion import Marks
from toolgauge.score.scorer import Checker

CALLS = (tool_call("a"), tool_call("b"), tool_call("c"))


def test_the_same_outcome_is_marked_once_for_all_calls_and_trajectories():
    outcome = Scored(0.75, "fine")
    for pass_at, passed in ((0.5, True), (0.8, False)):
        marks = Marks(pass_at)
        first = [Checker("call", CALLS, marks).passed(call, outcome) for call in CALLS]
        assert first == [(Scored(0.75, "fine", passed=passed), None)] * 3
        assert len({id(said[0]) for said in first if said is not None}) == 1


def test_what_is_remembered_of_outcomes_is_bounded_and_never_large():
    marks = Marks(1.0)
    for number in range(1000):
        marks.mark(Scored(1.0, f"number {number}"))
    assert 0 < len(marks) <= 256
    marks.clear()
    marks.mark(Scored(1.0, "x" * 201))
    marks.mark(NotEvaluated(reason="no_calls", explanation="x" * 201))
    marks.mark(Errored(error_type="x" * 201, message="words"))
    marks.mark(Scored(1.0, "parts", {"precision": 1.0}))
    marks.mark(Scored(1.0, "differences", {}, (Difference(where="a", rule="exact"),)))
    assert not marks


class Reused(Scored, frozen=False):  # pyright: ignore[reportGeneralTypeIssues] - an evaluator's own class may be so
    """An outcome of an evaluator that fills in one and the same for every trajectory."""

    seen: object = None


def test_an_outcome_that_may_change_is_looked_at_each_time():
    marks = Marks(0.5)
    outcome = Reused(1.0, "fine", seen=bytearray(1 << 20))
    assert marks.mark(outcome) == Scored(1.0, "fine", passed=True)
    setattr(outcome, "value", 0.25)  # noqa: B010 - it is not frozen, whatever the class that it is derived from says
    said = Checker("call", CALLS, marks).passed(CALLS[0], outcome)
    assert said == (Scored(0.25, "fine", passed=False), None)
    assert not marks


@each_row(
    "outcome",
    [
        Scored(10**400, "fine"),
        Scored(0.5, "fine", {"count": 10**400}),
        NotEvaluated(reason=cast("Reason", ["no_calls"])),
    ],
)
def test_what_cannot_be_compared_or_looked_up_is_refused_and_raises_nothing(outcome: Outcome):
    assert Checker("call", CALLS, Marks(0.5)).passed(CALLS[0], outcome) is None


def test_calls_may_be_judged_in_any_order_and_each_of_them_once():
    checker = Checker("call", CALLS, Marks(1.0))
    outcome = Scored(1.0, "fine")
    first, second, third = CALLS
    assert checker.passed(second, outcome) is not None
    assert checker.passed(first, outcome) is not None
    assert checker.passed(first, outcome) is None
    assert checker.passed(third, outcome) is not None
    assert checker.passed(third, outcome) is None
    assert checker.passed(tool_call("a"), outcome) is None
