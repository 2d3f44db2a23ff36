"""The scorer picks criteria, trusts no evaluator, and turns everything that happens into results."""

import re
from asyncio import CancelledError
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import ClassVar, cast

import pytest
from msgspec.structs import replace

from tests.rows import each_row
from tests.score.support import expect, expected, tool_call, trajectory, user
from toolgauge.evaluators.expected_calls import ToolCallF1
from toolgauge.evaluators.tool_call_args import ToolCallArgs
from toolgauge.evaluators.tool_checks import KnownTool, ToolSuccess
from toolgauge.model.content import NotRecorded
from toolgauge.model.expected import Expected
from toolgauge.model.left_out import HASH_BYTES, LeftOut, token_hash
from toolgauge.model.observations import CallError
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
from toolgauge.model.trajectory import Message, Trajectory, TrajectoryScope
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
NOW_NS = 1_000_000_000_000


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
    assert (result.criterion, result.evaluator, result.version, result.revision) == (
        "works",
        "fake",
        "5",
        "0123456789ab",
    )
    assert (result.level, result.target, result.call) == ("call", judged.calls[0].span, judged.calls[0])


def test_a_result_for_the_trajectory_targets_its_root():
    judged = trajectory(tool_call("search"))
    (result,) = score(judged, criterion(Yields((None, Scored(value=1.0, explanation="x")))))
    assert (result.target, result.call, result.version) == (judged.root, None, "7")


@each_row(("value", "pass_at", "word"), [(0.8, 0.8, "pass"), (0.79, 0.8, "fail"), (1 - 1e-12, 1, "pass")])
def test_the_threshold_decides_what_passes(value: float, pass_at: float, word: str):
    rule = criterion(Yields((None, Scored(value=value, explanation="x"))), pass_at=pass_at)
    assert outcome_word(only(trajectory(), rule)) == word


@pytest.mark.parametrize("parts", [{}, {"wrong_type": 1.0}])
def test_an_exempt_score_passes_below_the_threshold(parts: dict[str, float]):
    rule = criterion(Yields((None, Scored(value=0.2, explanation="x", parts=parts, is_exempt=True))))
    outcome = only(JUDGED, rule)
    assert isinstance(outcome, Scored)
    assert (outcome.value, outcome.passed) == (0.2, True)


def test_results_come_in_the_order_of_criteria_and_calls():
    judged = trajectory(tool_call("a"), tool_call("b"), offered=["a"])
    results = score(judged, criterion(KnownTool(), name="second"), criterion(ToolSuccess(), name="first"))
    assert [(result.criterion, result.call.name if result.call else "") for result in results] == [
        ("second", "a"), ("second", "b"), ("first", "a"), ("first", "b")
    ]  # fmt: skip


def test_without_criteria_the_result_is_empty():
    assert score(trajectory(tool_call("a"))) == ()


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


def test_a_criterion_of_another_scope_does_not_apply():
    of_conversation = trajectory(tool_call("a"), scope="conversation", conversation_id="c-1")
    assert score(of_conversation, criterion()) == ()
    of_trace = trajectory(tool_call("a"), conversation_id="c-1")
    assert score(of_trace, criterion(scope="conversation")) == ()


def test_a_trace_without_a_conversation_id_is_a_conversation_of_its_own():
    of_trace = trajectory(tool_call("a"), conversation_id=None)
    assert len(score(of_trace, criterion(scope="conversation"))) == 1


def test_a_trajectory_without_a_service_matches_no_named_service():
    judged = trajectory(tool_call("a"), service=None)
    assert score(judged, criterion(when=When(service="shop"))) == ()


def test_with_an_agent_only_the_calls_of_that_agent_are_judged():
    judged = trajectory(tool_call("a", agent="clerk"), tool_call("b", agent="cook"), agents=("clerk", "cook"))
    results = score(judged, criterion(when=When(agent="cook")))
    assert [result.call.name for result in results if result.call] == ["b"]
    assert only(
        trajectory(tool_call("a", agent="clerk"), agents=("clerk", "cook")), criterion(when=When(agent="cook"))
    ) == (NotEvaluated(reason="no_calls", explanation="no call to judge"))


def test_with_a_single_agent_a_call_of_unknown_agent_is_its_call():
    assert len(score(trajectory(tool_call("a")), criterion(when=When(agent="clerk")))) == 1


def looked_up(cases: dict[str, Expected]) -> Criterion:
    return criterion(ToolCallArgs(), reference=Lookup("eval.case.id", cases))


def test_a_reference_is_looked_up_by_an_attribute():
    rule = looked_up({"7": expected(expect("a", {"x": 1}))})
    judged = trajectory(tool_call("a", {"x": 1}), attributes={"eval.case.id": "7"})
    assert outcome_word(only(judged, rule)) == "pass"
    as_number = trajectory(tool_call("a", {"x": 1}), attributes={"eval.case.id": 7})
    assert outcome_word(only(as_number, rule)) == "pass"


@pytest.mark.parametrize("attributes", [{}, {"eval.case.id": "unknown"}])
def test_without_a_known_case_there_is_no_reference(attributes: dict[str, str]):
    outcome = only(trajectory(tool_call("a"), attributes=attributes), looked_up({"7": expected()}))
    assert isinstance(outcome, NotEvaluated)
    assert outcome.reason == "no_reference"


def test_a_case_glob_picks_trajectories_by_their_reference_key():
    cases = {"refund-1": expected(expect("a", {})), "sale-1": expected(expect("a", {}))}
    rule = criterion(ToolCallArgs(), when=When(case="refund-*"), reference=Lookup("case", cases))
    assert len(score(trajectory(tool_call("a"), attributes={"case": "refund-1"}), rule)) == 1
    assert score(trajectory(tool_call("a"), attributes={"case": "sale-1"}), rule) == ()
    assert score(trajectory(tool_call("a")), rule) == ()


def test_the_keys_that_criteria_ask_for_are_known():
    rules = [looked_up({}), criterion(when=When(attributes={"env": "prod"}))]
    scorer = Scorer(rules, ToolKinds())
    assert scorer.wanted == {"eval.case.id", "env"}
    assert not scorer.gathers_conversations


def test_sampling_keeps_the_same_conversations_for_all_criteria():
    judged = [trajectory(tool_call("a"), conversation_id=f"conversation-{number}") for number in range(2000)]
    few, more = criterion(name="few", sample=0.1), criterion(name="more", sample=0.4)
    kept = {"few": set[int](), "more": set[int]()}
    for number, one in enumerate(judged):
        for result in score(one, few, more):
            if isinstance(result.outcome, Scored):
                kept[result.criterion].add(number)
            else:
                assert result.outcome == NotEvaluated(reason="sampled_out", explanation="not in the sample")
    assert kept["few"] < kept["more"]
    assert 140 < len(kept["few"]) < 260
    assert 700 < len(kept["more"]) < 900


def test_sampling_goes_by_trace_where_there_is_no_conversation_and_knows_all_and_none():
    assert len({len(score(trajectory(tool_call("a")), criterion(sample=0.5))) for _ in range(5)}) == 1
    assert outcome_word(only(trajectory(tool_call("a")), criterion(sample=1.0))) == "pass"
    assert outcome_word(only(trajectory(tool_call("a")), criterion(sample=0.0))) == "not_evaluated"


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


def test_what_stands_around_evaluations_is_entered_for_each_evaluation_only():
    steps: list[str] = []

    @contextmanager
    def around(judged: Criterion, trajectory: Trajectory) -> Generator[None]:
        steps.append(f"enter {judged.name} {trajectory.trace_id[:4]}")
        yield
        steps.append(f"leave {judged.name}")

    class Noted(Yields):
        def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
            steps.append("evaluate")
            return super().evaluate(trajectory, expected)

    criteria = [criterion(Noted((None, FINE)), name="one"), criterion(sample=0.0), criterion(Noted(), name="two")]
    Scorer(criteria, ToolKinds(), around=around).score(replace(JUDGED, trace_id="ab" * 16))
    assert steps == ["enter one abab", "evaluate", "leave one", "enter two abab", "evaluate", "leave two"]


def test_what_ended_the_process_is_evaluated_no_more():
    scorer = Scorer([criterion(name="one"), criterion(name="two")], ToolKinds())
    scorer.set_crashed_aside([(JUDGED.trace_id, "one")])
    other = replace(JUDGED, trace_id="ab" * 16)
    found = [outcome_word(one.outcome) for run in (JUDGED, other) for one in scorer.score(run)]
    assert found == ["error", "pass", "pass", "pass"]
    scorer.set_crashed_aside([("", "two")])
    assert [outcome_word(one.outcome) for one in scorer.score(other)] == ["pass", "error"]


def test_a_none_of_an_older_evaluator_is_ignored():
    assert only(JUDGED, criterion(Yields(None, (None, FINE), None))) == replace(FINE, passed=True)


def test_an_evaluator_may_return_its_outcomes():
    class Returns:
        version: ClassVar[str] = "1"
        level: ClassVar[Level] = "trajectory"

        def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterable[Evaluation]:  # noqa: ARG002 (a fake)
            return [(None, FINE)]

    assert only(JUDGED, criterion(Returns())) == replace(FINE, passed=True)


def test_an_evaluator_that_yields_outcomes_for_ever_is_stopped_at_the_first_repeat():
    fine = (None, Scored(value=1.0, explanation="x"))
    results = score(trajectory(), criterion(Yields(*[fine] * 1000)))
    assert [outcome_word(result.outcome) for result in results] == ["pass", "error"]


@each_row(
    "evaluator",
    [
        Yields((None, Scored(value=1.5, explanation="x"))),
        Yields((None, Scored(value=-0.1, explanation="x"))),
        Yields((None, Scored(value=float("nan"), explanation="x"))),
        Yields((None, Scored(value=True, explanation="x"))),
        Yields((None, Scored(value=cast("float", "1"), explanation="x"))),
        Yields((None, Scored(value=1.0, explanation=""))),
        Yields((None, Scored(value=1.0, explanation="x", is_exempt=cast("bool", 1)))),
        Yields((None, NotEvaluated(reason="no_calls", explanation=cast("str", None)))),
        Yields((None, NotEvaluated(reason="no_calls", explanation=cast("str", ["x"])))),
        Yields((None, Errored(error_type=cast("str", ["x"]), message="x"))),
        Yields((None, Errored(error_type="x", message=cast("str", None)))),
        Yields((None, Scored(value=1.0, explanation="x", parts={"recall": float("inf")}))),
        Yields((None, Scored(value=1.0, explanation="x", parts=cast("dict[str, float]", [1])))),
        Yields((None, Scored(value=1.0, explanation="x", differences=(Difference(where=cast("str", 1), rule="x"),)))),
        Yields(
            (None, Scored(value=1.0, explanation="x", differences=(Difference(where="x", rule=cast("str", None)),)))
        ),
        Yields((None, Scored(1.0, "x", {}, (Difference(where="x", rule="x", actual=cast("Side", "bare")),)))),
        Yields((None, NotEvaluated(reason=cast("object", "tired")))),  # pyright: ignore[reportArgumentType] (the fault under test)
        Yields((None, "fine")),
        Yields("fine"),
        Yields(42),
        Yields((JUDGED.calls[0], FINE)),
        Yields(),
        YieldsForCalls((None, FINE)),
        YieldsForCalls((tool_call("elsewhere"), FINE)),
    ],
)
def test_what_is_not_an_outcome_becomes_an_error(evaluator: Evaluator):
    assert outcome_word(only(JUDGED, criterion(evaluator))) == "error"


def test_an_evaluator_of_calls_that_says_nothing_found_none():
    outcome = only(JUDGED, criterion(YieldsForCalls()))
    assert outcome == NotEvaluated(reason="no_calls", explanation="no call to judge")


def test_an_evaluator_that_will_not_be_closed_is_an_error_and_no_more():
    class Stubborn(Yields):
        def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Generator[Evaluation]:  # noqa: ARG002 (a fake)
            for _ in range(3):
                try:
                    yield None, Scored(value=2.0, explanation="x")
                except GeneratorExit:
                    yield None

    results = score(JUDGED, criterion(Stubborn()))
    assert {outcome_word(result.outcome) for result in results} == {"error"}


def test_overload_is_said_for_every_criterion_that_applies():
    scorer = Scorer([criterion(), criterion(when=When(service="other")), criterion(sample=0.0)], ToolKinds())
    reasons = [
        result.outcome.reason for result in scorer.overloaded(JUDGED) if isinstance(result.outcome, NotEvaluated)
    ]
    assert reasons == ["overload", "sampled_out"]
    (interrupted, _) = scorer.interrupted(JUDGED)
    assert interrupted.outcome == NotEvaluated(reason="incomplete", explanation="scoring was interrupted")


def test_tools_that_write_are_told_from_those_that_read():
    called = trajectory(tool_call("get_order"), tool_call("issue_refund"))
    results = score(called, criterion(ToolSuccess(tools="writes")))
    assert [result.call.name for result in results if result.call] == ["issue_refund"]


def test_an_expected_writing_tool_counts_though_it_was_not_called():
    rule = criterion(ToolCallF1(tools="writes"), reference=Inline(expected(expect("issue_refund", {"id": 1}))))
    outcome = only(trajectory(tool_call("get_order", {"id": 1})), rule)
    assert isinstance(outcome, Scored)
    assert outcome.value == 0.0


def inline(**args: str | int) -> Criterion:
    return criterion(ToolCallArgs(), reference=Inline(expected(expect("refund", dict(args)))))


def test_a_reference_whose_values_occur_nowhere_is_flagged():
    judged = trajectory(tool_call("refund", {"order": "B-2"}), messages=(user("please refund B-2", 0),))
    outcome = only(judged, inline(order="A-17"))
    assert isinstance(outcome, Scored)
    assert outcome.parts["reference_values_seen"] == 0
    assert outcome.explanation.endswith(
        "no value of the reference occurs in the conversation: it may belong to another one"
    )


@pytest.mark.parametrize("messages", [(), (Message(role="system", text="refund orders", turn=0),)])
def test_calls_alone_are_no_conversation_that_a_reference_may_not_belong_to(messages: tuple[Message, ...]):
    judged = trajectory(tool_call("refund", {"order": "B-2"}), messages=messages)
    outcome = only(judged, inline(order="A-17"))
    assert isinstance(outcome, Scored)
    assert outcome.parts["reference_values_seen"] == 0
    assert "another one" not in outcome.explanation


def test_values_that_were_said_called_or_answered_are_seen():
    said = trajectory(tool_call("refund", {"order": "B-2"}), messages=(user("refund a-17, it cost 20 euro", 0),))
    outcome = only(said, inline(order="A-17", amount=20, currency="euro", note="unheard of"))
    assert isinstance(outcome, Scored)
    assert outcome.parts["reference_values_seen"] == 0.75
    assert "may belong" not in outcome.explanation


def test_a_number_is_not_seen_within_a_longer_one():
    judged = trajectory(tool_call("refund", {"amount": 1201}))
    outcome = only(judged, inline(amount=20))
    assert isinstance(outcome, Scored)
    assert outcome.parts["reference_values_seen"] == 0


def test_nothing_is_flagged_where_no_content_was_recorded_or_no_value_is_expected():
    unseen = trajectory(tool_call("search", arguments=NotRecorded()))
    outcome = only(unseen, inline(order="A-17"))
    assert isinstance(outcome, Scored)
    assert "reference_values_seen" not in outcome.parts
    outcome = only(trajectory(tool_call("refund", {"x": 1})), inline())
    assert isinstance(outcome, Scored)
    assert "reference_values_seen" not in outcome.parts


def test_a_value_in_the_cut_part_of_a_text_is_seen():
    cut = LeftOut(hashes=token_hash("a-17").to_bytes(HASH_BYTES, "big"), texts=1)
    judged = trajectory(tool_call("refund", {"order": "B-2"}), left_out=cut)
    seen, unseen = only(judged, inline(order="A-17")), only(judged, inline(order="A-18"))
    assert isinstance(seen, Scored)
    assert isinstance(unseen, Scored)
    assert (seen.parts["reference_values_seen"], unseen.parts["reference_values_seen"]) == (1, 0)


def test_a_value_that_may_have_been_in_a_cut_text_does_not_count_as_unseen():
    judged = trajectory(tool_call("refund", {"order": "B-2"}), left_out=LeftOut(texts=1))
    outcome = only(judged, inline(order="B-2", city="Berlin"))
    assert isinstance(outcome, Scored)
    assert outcome.parts["reference_values_seen"] == 1
    outcome = only(judged, inline(city="Berlin"))
    assert isinstance(outcome, Scored)
    assert "reference_values_seen" not in outcome.parts


def test_scoring_twice_gives_the_same_results():
    calls = (
        tool_call("a", {"x": 1}),
        tool_call("b", error=CallError(kind="E", message="m")),
        tool_call("a", {"x": 1}),
    )
    judged = trajectory(*calls, offered=["a"])
    rules = [
        criterion(),
        criterion(KnownTool()),
        criterion(ToolCallF1(), reference=Inline(expected(expect("a", {"x": 1})))),
    ]
    assert score(judged, *rules) == score(judged, *rules)


def test_a_hostile_name_or_id_does_not_stop_scoring():
    hostile = tuple(tool_call(name, state="requested_only") for name in ("\ud800", "x" * 1_000_000, "a\nb"))
    judged = trajectory(*hostile, conversation_id="\udfff", offered=["\ud801"], service="\ud802")
    rules = [criterion(KnownTool(tools=("*",))), criterion(when=When(service="*"))]
    assert {outcome_word(result.outcome) for result in score(judged, *rules)} == {"fail", "not_evaluated"}
