"""`toolgauge.Criterion`: what a program writes, and what is refused."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

import toolgauge
from tests.rows import each_row
from toolgauge import Criterion, evaluators
from toolgauge.model.ports import Evaluation

BAD_ARGUMENTS = Path(__file__).parents[1] / "corpus" / "pydantic-ai" / "bad_args.otlp.pb"


class Calls:
    """A class of a person's own, without a base."""

    version = "1"
    level = "call"

    def evaluate(self, trajectory: toolgauge.Trajectory, expected: toolgauge.Expected | None) -> Iterator[Evaluation]:
        del expected
        for call in trajectory.calls:
            yield call, toolgauge.Scored(value=float(call.error is None), explanation="errors were looked for")


class Broken(Calls):
    def evaluate(self, trajectory: toolgauge.Trajectory, expected: toolgauge.Expected | None) -> Iterator[Evaluation]:
        raise RuntimeError(f"{len(trajectory.calls)} calls, expected {expected}")


def evaluate(*criteria: Criterion) -> toolgauge.Evaluation:
    return toolgauge.evaluate(BAD_ARGUMENTS, criteria, defaults=False)


def test_an_object_of_any_class_is_an_evaluator():
    criterion = Criterion("worked", Calls())
    evaluation = evaluate(criterion)
    assert criterion.evaluator == "Calls"
    assert [(one.evaluator, one.outcome) for one in evaluation["worked"]] == [("Calls", "fail"), ("Calls", "pass")]
    (evaluated,) = evaluation
    assert [one.call for one in evaluated.of("worked")] == list(evaluated.trajectory.calls)


def test_an_evaluator_that_raises_is_an_error_and_no_pass():
    evaluation = evaluate(Criterion("broken", Broken()))
    (result,) = evaluation.results
    assert (result.outcome, result.passed, result.value, result.reason) == ("error", False, None, "RuntimeError")
    assert not evaluation
    assert re.search(
        r"error broken: RuntimeError .*the evaluator raised an exception \(test_criterion\.py, line \d+\)",
        evaluation.why,
    )


def test_a_duration_of_an_object_is_that_of_a_file():
    made = Criterion("quick", evaluators.Budget.model_validate({"duration": "10s"}))
    assert made.revision == Criterion("quick", "budget", duration="10s").revision


def test_what_is_tried_out_decides_nothing():
    tried = Criterion("tried", Calls(), enforce="shadow")
    sure = Criterion("sure", "tool_call_f1", expected=["get_weather", "get_weather"])
    assert evaluate(tried, sure).passed
    alone = evaluate(tried)
    assert not alone.passed
    assert alone.why == "nothing was scored, so that nothing could pass"


def test_what_cannot_be_looked_at_is_no_pass():
    evaluation = evaluate(Criterion("repeated", "error_handling", when={"service": "*"}, tools=["no_such_tool"]))
    (result,) = evaluation.results
    assert (result.outcome, result.passed, result.reason) == ("not_evaluated", None, "no_calls")
    assert not result
    assert evaluation.why == "nothing was scored, so that nothing could pass (not evaluated: no_calls 1)"


def test_a_criterion_that_asks_a_judge_is_not_evaluated():
    (result,) = evaluate(Criterion("judged", "trajectory_judge", rubric="Pass if sensible")).results
    assert (result.outcome, result.reason) == ("not_evaluated", "judge_budget")


def test_an_expected_answer_of_null_differs_from_none():
    given = Criterion("answer", "json_similarity", expected_output=None)
    assert given.revision != Criterion("answer", "json_similarity", expected_output={}).revision
    with pytest.raises(toolgauge.ConfigError, match="has nothing that evaluator `json_similarity` could compare with"):
        Criterion("answer", "json_similarity")


def test_a_name_is_given_once():
    with pytest.raises(toolgauge.ConfigError, match="criterion `twice` is given twice"):
        evaluate(Criterion("twice", Calls()), Criterion("twice", Broken()))


@each_row(
    ("make", "found"),
    [
        (lambda: Criterion("Upper", Calls()), r"Criterion\('Upper'\): `name` in criterion `Upper` must match"),
        (lambda: Criterion("own", "tool_call_arg"), "no evaluator called `tool_call_arg` in criterion `own`"),
        (lambda: Criterion("own", cast("Any", Calls)), "the class `Calls` is given as evaluator, not an object of it"),
        (lambda: Criterion("own", Calls(), tools=["x"]), "`tools` is given beside the evaluator"),
        (lambda: Criterion("own", cast("Any", object())), "evaluator `object` has no `version`, `level`, `evaluate`"),
        (lambda: Criterion("own", evaluators.ToolCallF1()), "could compare with"),
        (lambda: Criterion("own", Calls(), pass_at=2), "`pass_at` in criterion `own` must be less than or equal to 1"),
        (lambda: Criterion("own", "tool_call_f1", expected=[{"name": object()}]), "object is not a value of a conf"),
        (lambda: Criterion("own", "./checks.py:Own"), "only criteria in local files may name one"),
    ],
)
def test_what_is_wrong_is_named_where_the_criterion_is_made(make: Callable[[], Any], found: str):
    with pytest.raises(toolgauge.ConfigError, match=found):
        make()


def test_what_is_no_criterion_is_a_type_error():
    with pytest.raises(TypeError, match="a `int` is not a criterion"):
        toolgauge.evaluate([], [3])  # pyright: ignore[reportArgumentType] # the value under test
