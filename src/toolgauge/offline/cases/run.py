"""Scores cases with the scorer that scores live traffic, so that the same evaluator says the same in both places.

Arrives: a case. Leaves: its result. An evaluator that breaks, a parameter that does not exist and a case of an unknown
shape are the result `error` of that one case.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, cast

from toolgauge.judge.scripted import scripted
from toolgauge.model.errors import ConfigError
from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.judging import JudgeEvaluator
from toolgauge.model.offline import CaseEvaluator
from toolgauge.model.outcomes import Errored, Level, NotEvaluated, Outcome, Result, Scored
from toolgauge.model.ports import Evaluation, Evaluator
from toolgauge.model.trajectory import Trajectory
from toolgauge.offline.cases.actual import trajectory_of
from toolgauge.offline.cases.case import Case, CaseError
from toolgauge.offline.cases.expected import expected_of
from toolgauge.offline.cases.judged import Judge, Judged, answers
from toolgauge.offline.cases.trajectory_builder import TrajectoryBuilder
from toolgauge.score.criterion import Criterion, Inline, NoReference, ToolKinds
from toolgauge.score.scorer import Scorer
from toolgauge.service.evaluators import make_evaluator

_ROUNDING = 1e-9
_KINDS = ToolKinds()
_NOTHING = TrajectoryBuilder().trajectory()


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """What became of a case. `calls` are the results of an evaluator that judges calls, `original` see `CaseOutcome`."""

    case: Case
    outcome: Outcome
    calls: tuple[Result, ...] = ()
    original: JsonObject = field(default_factory=dict[str, Json])


class Cases:
    """Scores cases one after the other; evaluators with the same parameters are made once."""

    def __init__(self, judge: Judge = scripted) -> None:
        self._judge = judge
        self._evaluators: dict[tuple[str, str], Evaluator | JudgeEvaluator] = {}
        self._as_written: dict[tuple[str, str, float], _AsWritten] = {}

    def score(self, case: Case) -> CaseResult:
        """Score one case; whatever is wrong with it becomes its outcome."""
        key = (case.evaluator, json.dumps(case.config, sort_keys=True))
        try:
            evaluator = self._evaluator(case, key)
            if not _is_for_cases(evaluator, case):
                return self._on_trajectory(case, self._answered(evaluator, case))
        except ConfigError as error:
            hint = f" ({error.hint})" if error.hint else ""
            return _broken(case, "invalid_config", f"{error.message}{hint}")
        except CaseError as error:
            return _broken(case, error.error_type, error.message)
        between = self._as_written.get((*key, case.pass_at))
        if between is None:
            # `_is_for_cases` has looked at what the evaluator is.
            between = self._as_written[*key, case.pass_at] = _AsWritten(cast("CaseEvaluator", evaluator), case)
        return between.score(case)

    def _evaluator(self, case: Case, key: tuple[str, str]) -> Evaluator | JudgeEvaluator:
        if key not in self._evaluators:
            self._evaluators[key] = make_evaluator(case.evaluator, case.config)
        return self._evaluators[key]

    def _answered(self, evaluator: Evaluator | JudgeEvaluator, case: Case) -> Evaluator:
        """Give an evaluator that asks a judge one that answers."""
        if not hasattr(evaluator, "questions"):
            return cast("Evaluator", evaluator)  # of the two kinds it is the other one
        asking = cast("JudgeEvaluator", evaluator)  # what has `questions` is of this kind
        return cast(
            "Evaluator", Judged(asking, self._judge(answers(case.verdicts)))
        )  # its version and level are its own

    def _on_trajectory(self, case: Case, evaluator: Evaluator) -> CaseResult:
        results = _score(case, evaluator, trajectory_of(case.actual), expected_of(case.expected))
        if evaluator.level == "trajectory":
            outcome = results[-1].outcome
            original = evaluator.original(outcome) if isinstance(evaluator, Judged) else {}
            return CaseResult(case=case, outcome=outcome, original=original)
        calls = tuple(result for result in results if result.call is not None)
        return CaseResult(case=case, outcome=_of_calls(results, case.pass_at), calls=calls)


class _AsWritten:
    """Stands between the scorer and an evaluator that is given the case as it was written, one case after the other."""

    level: ClassVar[Level] = "trajectory"

    def __init__(self, evaluator: CaseEvaluator, case: Case) -> None:
        self._evaluator = evaluator
        self._case = case
        self._original: JsonObject = {}
        self.version: str = evaluator.version
        itself = cast("Evaluator", self)  # its version is its own
        self._scorer = _scorer(case, itself, _NOTHING, None)

    def score(self, case: Case) -> CaseResult:
        """Score a case with the evaluator and the `pass_at` of the first one."""
        self._case, self._original = case, {}
        (*_, result) = _results(self._scorer, _NOTHING)
        return CaseResult(case=case, outcome=result.outcome, original=self._original)

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        """Yield what the evaluator says about the case."""
        del trajectory, expected
        said = self._evaluator.score_case(self._case.expected, self._case.actual)
        self._original = said.original
        yield None, said.outcome


def _is_for_cases(evaluator: object, case: Case) -> bool:
    shapes: tuple[str, ...] = getattr(evaluator, "case_shapes", ())
    if not hasattr(evaluator, "score_case") or not any(key in case.actual for key in shapes):
        return False
    expected_shapes: tuple[str, ...] = getattr(evaluator, "expected_shapes", tuple(case.expected))
    return not case.expected or any(key in case.expected for key in expected_shapes)


def _score(case: Case, evaluator: Evaluator, trajectory: Trajectory, expected: Expected | None) -> tuple[Result, ...]:
    return _results(_scorer(case, evaluator, trajectory, expected), trajectory)


def _scorer(case: Case, evaluator: Evaluator, trajectory: Trajectory, expected: Expected | None) -> Scorer:
    criterion = Criterion(
        name=case.name,
        evaluator_name=case.evaluator,
        evaluator=evaluator,
        revision="",
        scope=trajectory.scope,
        reference=NoReference() if expected is None else Inline(expected),
        pass_at=case.pass_at,
    )
    return Scorer([criterion], _KINDS)


def _results(scorer: Scorer, trajectory: Trajectory) -> tuple[Result, ...]:
    return scorer.score(trajectory, trajectory.end_ns)


def _of_calls(results: Sequence[Result], pass_at: float) -> Outcome:
    """Make one outcome of those of the calls: the mean of what could be scored, an error if one broke."""
    outcomes = [result.outcome for result in results]
    scored = [outcome for outcome in outcomes if isinstance(outcome, Scored)]
    errors = [outcome for outcome in outcomes if isinstance(outcome, Errored)]
    if errors:
        return errors[0]
    if not scored:
        unscored = [outcome for outcome in outcomes if isinstance(outcome, NotEvaluated)]
        return unscored[0]
    value = sum(outcome.value for outcome in scored) / len(scored)
    return Scored(
        value=value,
        explanation=f"mean over {len(scored)} of {len(outcomes)} calls",
        parts={"calls": len(outcomes), "calls_scored": len(scored)},
        passed=value >= pass_at - _ROUNDING,
    )


def _broken(case: Case, error_type: str, message: str) -> CaseResult:
    return CaseResult(case=case, outcome=Errored(error_type=error_type, message=message))
