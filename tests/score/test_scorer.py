"""The scorer picks criteria, trusts no evaluator, and turns everything that happens into results."""

import re
from asyncio import CancelledError
from collections.abc import Iterator
from typing import ClassVar, cast

import pytest
from msgspec.structs import replace

from tests.rows import each_row
from tests.score.support import expect, expected, tool_call, trajectory, user
from toolgauge.evaluators.expected_arguments import ToolCallArgs
from toolgauge.evaluators.tool_checks import KnownTool, ToolSuccess
from toolgauge.model.expected import Expected
from toolgauge.model.left_out import HASH_BYTES, LeftOut, token_hash
from toolgauge.model.outcomes import (
    Difference,
    Errored,
    Level,
    NotEvaluated,
    Outcome,
    Result,
    Scored,
    Side,
    outcome_word,
)
from toolgauge.model.ports import Evaluation, Evaluator
from toolgauge.model.trajectory import Trajectory, TrajectoryScope
from toolgauge.score.criterion import Criterion, Inline, Lookup, NoReference, Reference, ToolKinds, When
from toolgauge.score.scorer import Scorer


def criterion(
    evaluator: Evaluator | None = None,
    *,
    name: str = "c",
    when: When | None = None,
    reference: Reference | None = None,
    pass_at: float = 1.0,
    sample: float = 1.0,
    scope: TrajectoryScope = "trace",
) -> Criterion:
    return Criterion(
        scope=scope,
        name=name,
        evaluator_name="fake",
        evaluator=evaluator or ToolSuccess(),
        revision="0123456789ab",
        when=when or When(),
        reference=reference or NoReference(),
        pass_at=pass_at,
        sample=sample,
    )


JUDGED = trajectory(tool_call("a"))
FINE = Scored(value=1.0, explanation="fine")


def score(judged: Trajectory, *criteria: Criterion) -> tuple[Result, ...]:
    return Scorer(criteria, ToolKinds()).score(judged)


def only(judged: Trajectory, rule: Criterion) -> Outcome:
    (result,) = score(judged, rule)
    return result.outcome


class Yields:
    """Yields what it is told to, whatever that is."""

    version: ClassVar[str] = "7"
    level: ClassVar[Level] = "trajectory"

    def __init__(self, *evaluations: object) -> None:
        self._evaluations = evaluations

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:  # noqa: ARG002 (a fake)
        # The point of this fake is to yield what the types forbid.
        yield from cast("tuple[Evaluation, ...]", self._evaluations)


class YieldsForCalls(Yields):
    level: ClassVar[Level] = "call"


class Raises:
    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "call"

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:  # noqa: ARG002 (a fake)
        yield trajectory.calls[0], Scored(value=1.0, explanation="fine")
        raise ValueError("card 4111 is unknown")


def test_a_result_names_criterion_evaluator_and_the_judged_span():
    judged = trajectory(tool_call("search"))
    (result,) = score(judged, criterion(name="works"))
    assert (result.criterion, result.evaluator, result.revision) == ("works", "fake", "0123456789ab")
    assert (result.level, result.target, result.call) == ("call", judged.calls[0].span, judged.calls[0])
    (result,) = score(judged, criterion(Yields((None, FINE))))
    assert (result.target, result.call, result.version) == (judged.root, None, "7")


@each_row(("value", "pass_at", "word"), [(0.8, 0.8, "pass"), (0.79, 0.8, "fail"), (1 - 1e-12, 1, "pass")])
def test_the_threshold_decides_what_passes(value: float, pass_at: float, word: str):
    rule = criterion(Yields((None, Scored(value=value, explanation="x"))), pass_at=pass_at)
    assert outcome_word(only(trajectory(), rule)) == word


def test_results_come_in_the_order_of_criteria_and_calls():
    judged = trajectory(tool_call("a"), tool_call("b"), offered=["a"])
    results = score(judged, criterion(KnownTool(), name="second"), criterion(ToolSuccess(), name="first"))
    assert [f"{one.criterion} {one.call.name}" for one in results if one.call] == [
        "second a",
        "second b",
        "first a",
        "first b",
    ]


@each_row(
    ("when", "applies"),
    [
        (When(service="shop"), True),
        (When(service="sh*"), True),
        (When(service="support-*"), False),
        (When(agent="cl?rk"), True),
        (When(agent="waiter"), False),
        (When(attributes={"env": "prod"}), True),
        (When(attributes={"env": "test"}), False),
        (When(attributes={"env": "prod", "absent": "x"}), False),
        (When(attributes={"canary": 1}), False),
        (When(attributes={"canary": True}), True),
        (When(attributes={"size": 1.0}), True),
        (When(case="*"), False),
    ],
)
def test_a_criterion_applies_when_all_conditions_hold(when: When, applies: bool):  # noqa: FBT001 (a table)
    judged = trajectory(tool_call("a"), attributes={"env": "prod", "canary": True, "size": 1})
    assert bool(score(judged, criterion(when=when))) is applies


def test_with_an_agent_only_the_calls_of_that_agent_are_judged():
    judged = trajectory(tool_call("a", agent="clerk"), tool_call("b", agent="cook"), agents=("clerk", "cook"))
    rule = criterion(when=When(agent="cook"))
    assert [result.call.name for result in score(judged, rule) if result.call] == ["b"]
    assert getattr(only(replace(judged, calls=judged.calls[:1]), rule), "reason", None) == "no_calls"
    # The only agent of a run makes the calls of which none is known.
    assert len(score(trajectory(tool_call("a")), criterion(when=When(agent="clerk")))) == 1
    assert score(trajectory(tool_call("a"), service=None), criterion(when=When(service="shop"))) == ()


def looked_up(cases: dict[str, Expected]) -> Criterion:
    return criterion(ToolCallArgs(), reference=Lookup("eval.case.id", cases))


def test_a_reference_is_looked_up_by_an_attribute():
    rule = looked_up({"7": expected(expect("a", {"x": 1}))})
    for case in ("7", 7):
        assert (
            outcome_word(only(trajectory(tool_call("a", {"x": 1}), attributes={"eval.case.id": case}), rule)) == "pass"
        )
    for attributes in ({}, {"eval.case.id": "unknown"}):
        outcome = only(trajectory(tool_call("a"), attributes=attributes), rule)
        assert isinstance(outcome, NotEvaluated)
        assert outcome.reason == "no_reference"
    assert Scorer([rule, criterion(when=When(attributes={"env": "prod"}))], ToolKinds()).wanted == {
        "eval.case.id",
        "env",
    }


def test_sampling_keeps_the_same_conversations_for_all_criteria():
    few, more = criterion(name="few", sample=0.1), criterion(name="more", sample=0.4)
    kept = {"few": set[int](), "more": set[int]()}
    for number in range(500):
        for result in score(trajectory(tool_call("a"), conversation_id=f"conversation-{number}"), few, more):
            if isinstance(result.outcome, Scored):
                kept[result.criterion].add(number)
            else:
                assert result.outcome == NotEvaluated(reason="sampled_out", explanation="not in the sample")
    assert kept["few"] < kept["more"]
    assert 25 < len(kept["few"]) < 75
    assert 160 < len(kept["more"]) < 240


def test_an_exception_becomes_an_error_without_values_and_earlier_outcomes_stay():
    results = score(trajectory(tool_call("a"), tool_call("b")), criterion(Raises()), criterion())
    assert [outcome_word(result.outcome) for result in results] == ["pass", "error", "pass", "pass"]
    broken = results[1].outcome
    assert isinstance(broken, Errored)
    assert broken.error_type == "ValueError"
    assert re.fullmatch(r"the evaluator raised an exception \(test_scorer\.py, line \d+\)", broken.message)


@each_row("error", [SystemExit(0), GeneratorExit(), CancelledError(), BaseException()])
def test_an_exception_that_would_end_a_thread_is_an_error_of_the_evaluator_that_raised_it(error: BaseException):
    class Ends(Yields):
        def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:  # noqa: ARG002 (a fake)
            raise error

    broken, fine = score(JUDGED, criterion(Ends()), criterion())
    assert isinstance(broken.outcome, Errored)
    assert broken.outcome.error_type == type(error).__name__
    assert outcome_word(fine.outcome) == "pass"


def test_a_person_may_interrupt_an_evaluation_on_the_main_thread():
    class Interrupted(Yields):
        def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:  # noqa: ARG002 (a fake)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        score(JUDGED, criterion(Interrupted()))


@each_row(
    "evaluator",
    [
        Yields((None, Scored(value=1.5, explanation="x"))),
        Yields((None, Scored(value=-0.1, explanation="x"))),
        Yields((None, Scored(value=float("nan"), explanation="x"))),
        Yields((None, Scored(value=True, explanation="x"))),
        Yields((None, Scored(value=1.0, explanation=""))),
        Yields((None, Scored(value=1.0, explanation="x", is_exempt=cast("bool", 1)))),
        Yields((None, NotEvaluated(reason="no_calls", explanation=cast("str", None)))),
        Yields((None, Errored(error_type=cast("str", ["x"]), message="x"))),
        Yields((None, Errored(error_type="x", message=cast("str", None)))),
        Yields((None, Scored(value=1.0, explanation="x", parts={"recall": float("inf")}))),
        Yields((None, Scored(value=1.0, explanation="x", parts=cast("dict[str, float]", [1])))),
        Yields((None, Scored(1.0, "x", {}, (Difference(where=cast("str", 1), rule="x"),)))),
        Yields((None, Scored(1.0, "x", {}, (Difference(where="x", rule=cast("str", None)),)))),
        Yields((None, Scored(1.0, "x", {}, (Difference(where="x", rule="x", actual=cast("Side", "bare")),)))),
        Yields((None, NotEvaluated(reason=cast("object", "tired")))),  # pyright: ignore[reportArgumentType] (the fault under test)
        Yields((None, "fine")),
        Yields(42),
        Yields((JUDGED.calls[0], FINE)),
        Yields(),
        YieldsForCalls((None, FINE)),
        YieldsForCalls((tool_call("elsewhere"), FINE)),
    ],
)
def test_what_is_not_an_outcome_becomes_an_error(evaluator: Evaluator):
    assert outcome_word(only(JUDGED, criterion(evaluator))) == "error"


def test_overload_is_said_for_every_criterion_that_applies():
    scorer = Scorer([criterion(), criterion(when=When(service="other")), criterion(sample=0.0)], ToolKinds())
    reasons = [
        result.outcome.reason for result in scorer.overloaded(JUDGED) if isinstance(result.outcome, NotEvaluated)
    ]
    assert reasons == ["overload", "sampled_out"]
    (interrupted, _) = scorer.interrupted(JUDGED)
    assert interrupted.outcome == NotEvaluated(reason="incomplete", explanation="scoring was interrupted")


def values_seen(judged: Trajectory, **args: str | int) -> float | None:
    """The share of a reference's values that occur in a trajectory."""
    outcome = only(judged, criterion(ToolCallArgs(), reference=Inline(expected(expect("refund", dict(args))))))
    assert isinstance(outcome, Scored)
    assert ("another one" in outcome.explanation) is (
        outcome.parts.get("reference_values_seen") == 0 and bool(judged.messages)
    )
    return outcome.parts.get("reference_values_seen")


def test_a_reference_whose_values_occur_nowhere_is_flagged():
    called = tool_call("refund", {"order": "B-2"})
    assert values_seen(trajectory(called, messages=(user("please refund B-2", 0),)), order="A-17") == 0
    # Calls alone are no conversation that a reference may not belong to.
    assert values_seen(trajectory(called), order="A-17") == 0
    assert values_seen(trajectory(tool_call("refund", {"amount": 1201})), amount=20) == 0


def test_a_value_in_the_cut_part_of_a_text_is_seen():
    cut = LeftOut(hashes=token_hash("a-17").to_bytes(HASH_BYTES, "big"), texts=1)
    judged = trajectory(tool_call("refund", {"order": "B-2"}), left_out=cut)
    assert (values_seen(judged, order="A-17"), values_seen(judged, order="A-18")) == (1, 0)
    unhashed = replace(judged, left_out=LeftOut(texts=1))
    assert values_seen(unhashed, order="B-2", city="Berlin") == 1
    assert values_seen(unhashed, city="Berlin") is None
