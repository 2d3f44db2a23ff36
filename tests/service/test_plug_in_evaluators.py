"""Nothing that an evaluator of a plug-in or file does stops, delays or changes anything else."""

import threading
import time
import weakref
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import ClassVar, cast

import pytest
from msgspec import Struct
from msgspec.structs import force_setattr

from tests.rows import each_row
from tests.score.support import expect, expected, tool_call, trajectory
from toolgauge.evaluators.tool_checks import ToolSuccess
from toolgauge.judge.inquiry import outcome_of, outcomes_of, questions
from toolgauge.model.content import Recorded
from toolgauge.model.errors import EvaluationError
from toolgauge.model.expected import Expected
from toolgauge.model.json import JsonObject
from toolgauge.model.judging import Asking, Inquiry, JudgeEvaluator, Question
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
from toolgauge.model.ports import Evaluation, Evaluator, Needs, needs_of
from toolgauge.model.trajectory import Trajectory
from toolgauge.plugins import evaluator_fault
from toolgauge.score.criterion import Criterion, Inline, NoReference, ToolKinds
from toolgauge.score.scorer import MAX_ENTRIES, MAX_TEXT, Scorer
from toolgauge.service.plug_in_evaluators import (
    PlugInEvaluator,
    PlugInJudgeEvaluator,
    on_spare_thread,
)

FINE = Scored(1.0, "fine")
SHORT_S = 0.2
RUN = trajectory(tool_call("look", {"ids": [1, 2.5, float("nan")], "deep": {"a": [{"b": None}]}}), tool_call("buy"))


class Does:
    """An evaluator that does one thing with the trajectory and the reference, and yields what comes of it."""

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "trajectory"

    def __init__(self, act: Callable[[Trajectory], object] = lambda _run: None, *outcomes: object) -> None:
        self._act = act
        self._outcomes = outcomes or (FINE,)
        self.calls = 0

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:  # noqa: ARG002 (a fake)
        self.calls += 1
        self._act(trajectory)
        for outcome in self._outcomes:
            yield None, cast("Outcome", outcome)  # some are none


def guarded(
    evaluator: object, limit_s: float = 10, on_off: Callable[[str], None] = lambda _reason: None
) -> PlugInEvaluator:
    found = on_spare_thread(cast("Evaluator", evaluator), on_off, limit_s=limit_s)
    assert isinstance(found, PlugInEvaluator)
    return found


def score(*evaluators: object, of: Trajectory = RUN, reference: Expected | None = None) -> list[Result]:
    criteria = [
        Criterion(
            name=f"c{number}",
            evaluator_name="e",
            evaluator=cast("Evaluator", one),
            revision="0" * 12,
            reference=NoReference() if reference is None else Inline(reference),
        )
        for number, one in enumerate(evaluators)
    ]
    return [*Scorer(criteria, ToolKinds()).score(of)]


def errors(*results: Result) -> list[str]:
    return [
        one.outcome.error_type if isinstance(one.outcome, Errored) else outcome_word(one.outcome) for one in results
    ]


def raising(error: BaseException) -> Callable[[Trajectory], object]:
    def act(_run: Trajectory) -> None:
        raise error

    return act


@each_row(
    "error", [SystemExit(0), GeneratorExit(), CancelledError(), KeyboardInterrupt(), BaseException(), ValueError("x")]
)
def test_whatever_an_evaluator_raises_is_its_error_alone(error: BaseException):
    broken, fine = score(guarded(Does(raising(error))), guarded(Does()))
    assert errors(broken, fine) == [type(error).__name__, "pass"]
    assert "test_plug_in_evaluators.py, line " in cast("Errored", broken.outcome).message


def test_outcomes_before_an_exception_stay():
    class RaisesLate(Does):
        level: ClassVar[Level] = "call"

        def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:  # noqa: ARG002 (a fake)
            yield trajectory.calls[0], FINE
            raise ValueError

    first, second = score(guarded(RaisesLate()))
    assert first.call is RUN.calls[0]
    assert errors(first, second) == ["pass", "ValueError"]


def change(run: Trajectory) -> None:
    """Change a run in its struct, its call, a value and a list deep in it."""
    arguments = run.calls[0].arguments
    assert isinstance(arguments, Recorded)
    cast("list[object]", cast("dict[str, object]", arguments.value)["ids"]).append(3)
    cast("dict[str, object]", arguments.value)["deep"] = []
    cast("dict[str, object]", run.attributes)["x"] = 1
    force_setattr(run.calls[0], "name", "other")


def test_a_change_reaches_nobody_else():
    class Changes(Does):
        def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
            assert expected is not None
            cast("dict[str, object]", expected.calls[0].args).clear()
            return super().evaluate(trajectory, expected)

    reference, before, seen = expected(expect("look", {"id": 1})), repr(RUN), list[str]()
    found = score(guarded(Changes(change)), guarded(Does(lambda run: seen.append(repr(run)))), reference=reference)
    assert errors(*found) == ["pass", "pass"]
    assert repr(RUN) == before
    assert seen[0].startswith(before[:200])
    assert reference.calls[0].args == {"id": 1}


def mutable_parts(value: object, found: dict[int, object]) -> None:
    """Find all that could be changed in a value."""
    if isinstance(value, Mapping):
        entries: Iterable[object] = cast("Mapping[object, object]", value).values()
    elif isinstance(value, list | tuple):
        entries = cast("Sequence[object]", value)
    elif isinstance(value, Struct):
        entries = [getattr(value, name) for name in value.__struct_fields__]
    else:
        assert isinstance(value, str | int | float | bytes | frozenset | None), type(value)
        return
    if not isinstance(value, tuple):
        found[id(cast("object", value))] = value  # of any kind
    for entry in entries:
        mutable_parts(entry, found)


class Late(Does):
    """Waits for ever the first times."""

    def __init__(self, times: int = 1000) -> None:
        super().__init__()
        self.times = times

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        if self.calls < self.times:
            self.calls += 1
            threading.Event().wait()
        return super().evaluate(trajectory, expected)


def test_a_late_evaluator_is_an_error_and_after_three_times_it_is_called_no_more():
    late, reasons = Late(), list[str]()
    evaluator = guarded(late, SHORT_S, reasons.append)
    found = [score(evaluator, guarded(Does())) for _ in range(4)]
    assert [errors(*one) for one in found] == [["timeout", "pass"]] * 3 + [["not_evaluated", "pass"]]
    assert late.calls == 3
    (off,) = [one.outcome for one in found[3] if isinstance(one.outcome, NotEvaluated)]
    assert off.reason == "overload"
    assert reasons == ["did not end within 0.2 s, 3 times"]
    assert evaluator.off_since_ns is not None


def test_late_calls_count_though_others_between_them_are_in_time():
    late, found = Late(1), list[str]()
    evaluator = guarded(late, SHORT_S)
    for _ in range(3):
        late.calls = 0
        found += [*errors(*score(evaluator)), *errors(*score(evaluator))]
    assert found == ["timeout", "pass", "timeout", "pass", "timeout", "not_evaluated"]


def test_a_call_under_way_can_be_cut_off():
    evaluator, ended = guarded(Late()), list[str]()
    thread = threading.Thread(target=lambda: ended.extend(errors(*score(evaluator))))
    thread.start()
    until = time.monotonic() + 60
    while thread.is_alive() and time.monotonic() < until:
        evaluator.cut_off()
        thread.join(0.01)
    assert ended == ["timeout"]


def test_long_texts_names_and_differences_are_cut():
    parts = {f"{number}{'n' * 1000}": 1.0 for number in range(1000)}
    side = Side(value=["v" * (1 << 20)], words="w" * (1 << 20))
    difference = Difference(where="w" * (1 << 20), rule="r" * (1 << 20), expected=side, actual=None)
    (result,) = score(guarded(Does(lambda _run: None, Scored(1.0, "y" * (1 << 20), parts, (difference,) * 1000))))
    outcome = result.outcome
    assert isinstance(outcome, Scored)
    assert len(outcome.explanation) == MAX_TEXT
    assert (len(outcome.parts), len(outcome.differences)) == (MAX_ENTRIES, MAX_ENTRIES)
    assert len(repr(outcome)) < 10 * MAX_ENTRIES * MAX_TEXT
    for long in (
        NotEvaluated(reason="no_calls", explanation="y" * (1 << 20)),
        Errored(error_type="y" * (1 << 20), message="y" * (1 << 20)),
    ):
        (result,) = score(guarded(Does(lambda _run: None, long)))
        assert len(repr(result.outcome)) < 3 * MAX_TEXT


class Endless(Does):
    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterable[Evaluation]:  # type: ignore[override]  # noqa: ARG002 (a fake)
        return repeat((None, FINE))


class JudgesOther(Does):
    level: ClassVar[Level] = "call"

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:  # noqa: ARG002 (a fake)
        yield RUN.calls[0], FINE


@each_row(
    "evaluator",
    [
        Endless(),
        JudgesOther(),
        Does(lambda _run: None, "fine"),
        Does(lambda _run: None, Scored(2.0, "x")),
        Does(lambda _run: None, Scored(1.0, "x", {"a": float("nan")})),
    ],
)
def test_unsound_outcomes_are_errors(evaluator: Does):
    assert errors(*score(guarded(evaluator))) == ["invalid_outcome"]


def test_our_own_evaluators_stay_as_they_are():
    own = ToolSuccess()
    assert on_spare_thread(own) is own
    wrapped = guarded(Does())
    assert on_spare_thread(cast("Evaluator", wrapped)) is wrapped


def test_what_an_evaluator_declares_shows_through():
    class Declares(Does):
        needs = Needs(whole=False)

    found = guarded(Declares())
    assert (found.version, found.level, needs_of(found).whole) == ("1", "trajectory", False)
    assert evaluator_fault(Declares()) is None


class Judges:
    """A judge evaluator that does one thing each time it is called."""

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "trajectory"

    def __init__(self, act: Callable[[Trajectory | None], object] = lambda _run: None) -> None:
        self._act = act

    def questions(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Asking]:  # noqa: ARG002 (a fake)
        self._act(trajectory)
        yield None
        yield None, Question(instructions="i", prompt="p", form_name="f", form={})

    def outcome(self, question: Question, verdict: JsonObject) -> Outcome:  # noqa: ARG002 (a fake)
        self._act(None)
        return Scored(1.0, "y" * (1 << 20))

    def joined(self, outcomes: Sequence[Outcome]) -> Outcome:
        self._act(None)
        return outcomes[0]


def judging(act: Callable[[Trajectory | None], object] = lambda _run: None) -> tuple[JudgeEvaluator, Inquiry]:
    found = on_spare_thread(Judges(act), limit_s=SHORT_S)
    assert isinstance(found, PlugInJudgeEvaluator)
    assert isinstance(found, JudgeEvaluator)
    return found, Inquiry(criterion="j", evaluator=found, trajectory=RUN, expected=None)


ASKED = Question(instructions="i", prompt="p", form_name="f", form={})


def test_a_judge_evaluator_asks_and_answers_on_a_spare_thread():
    evaluator, inquiry = judging()
    ((call, asked),) = questions(inquiry)
    assert (call, asked) == (None, ASKED)
    outcome = outcome_of(evaluator, ASKED, {})
    assert isinstance(outcome, Scored)
    assert len(outcome.explanation) == MAX_TEXT
    assert outcomes_of(inquiry, [(None, FINE)]) == ((None, FINE),)


def raise_system_exit(_run: Trajectory | None) -> None:
    raise SystemExit(0)


def wait_for_ever(_run: Trajectory | None) -> None:
    threading.Event().wait()


@pytest.mark.parametrize(("act", "error"), [(raise_system_exit, "SystemExit"), (wait_for_ever, "timeout")])
def test_a_judge_evaluator_that_misbehaves_is_an_error(act: Callable[[Trajectory | None], object], error: str):
    evaluator, inquiry = judging(act)
    ((_, asked),) = questions(inquiry)
    outcomes = [asked, outcome_of(evaluator, ASKED, {}), outcomes_of(inquiry, [(None, FINE)])[0][1]]
    assert [one.error_type for one in outcomes if isinstance(one, Errored)] == [error] * 3


def test_a_call_that_fails_frees_what_it_held():
    class Held:
        pass

    freed: list[str] = []

    def fail() -> None:
        held = Held()
        weakref.finalize(held, freed.append, "held")
        raise ValueError

    with pytest.raises(EvaluationError):
        guarded(Does()).call(fail)
    assert freed == ["held"]
