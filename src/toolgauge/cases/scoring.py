"""Scores cases with the scorer of live traffic; the verdicts in a case answer the questions to a judge.

A broken evaluator, an unknown parameter and a case of unknown shape give that one case the outcome `error`.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias, cast

from msgspec.structs import replace

from toolgauge.cases.actual import records_trajectory, trajectory_of
from toolgauge.cases.case import Case, CaseError
from toolgauge.cases.expectations import expected_of
from toolgauge.cases.trajectories import TrajectoryBuilder
from toolgauge.judge.inquiry import scripted
from toolgauge.model.errors import ConfigError
from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.judging import JudgeEvaluator, Question
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.outcomes import Errored, Level, NotEvaluated, Outcome, Result, Scored, outcome_word
from toolgauge.model.ports import CaseEvaluator, Evaluation, Evaluator
from toolgauge.model.trajectory import Trajectory
from toolgauge.plugins import error_text
from toolgauge.report.explanations import figure
from toolgauge.score.contracts import ToolKinds
from toolgauge.score.criterion import Criterion, Inline, NoReference
from toolgauge.score.scorer import Scorer
from toolgauge.service.criteria_factory import make_evaluator
from toolgauge.service.plug_in_evaluators import on_spare_thread

# A verdict that fits the question's form, or why there is none.
Answer: TypeAlias = Callable[[Question], JsonObject | Errored]
# Makes the function that answers the questions of one case from the verdicts that stand in it.
Judge: TypeAlias = Callable[[Sequence[Json]], Answer]


class ScriptedEvaluator:
    """A judge evaluator whose questions `answer` answers, without a model."""

    def __init__(self, evaluator: JudgeEvaluator, answer: Answer) -> None:
        self._evaluator = evaluator
        self._answer = answer
        self.version: str = evaluator.version
        self.level: Level = evaluator.level

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        """Ask and yield what the answers mean."""
        outcomes: list[Outcome] = []
        for asking in self._evaluator.questions(trajectory, expected):
            if asking is None:
                continue
            call, asked = asking
            if isinstance(asked, Question):
                verdict = self._answer(asked)
                outcome = verdict if isinstance(verdict, Errored) else self._evaluator.outcome(asked, verdict)
            else:
                outcome = asked
            if self.level == "call":
                yield call, outcome
            else:
                outcomes.append(outcome)
        if self.level == "trajectory":
            yield None, self._evaluator.joined(outcomes)

    def original(self, outcome: Outcome) -> JsonObject:
        """Return the output of the original besides the score, where the evaluator knows it."""
        original: Callable[[Scored], JsonObject] | None = getattr(self._evaluator, "original", None)
        return original(outcome) if original is not None and isinstance(outcome, Scored) else {}


def answers(verdicts: Sequence[Json]) -> Sequence[Json]:
    """Return what the judge answers; bare words are the verdicts of one answer, as DeepEval asks for them."""
    if not verdicts or not all(isinstance(verdict, str) for verdict in verdicts):
        return verdicts
    return ({"verdicts": [{"verdict": verdict} for verdict in verdicts]},)


_ROUNDING = 1e-9
_KINDS = ToolKinds()
_NOTHING = TrajectoryBuilder().trajectory()


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """The outcome of a case. `calls` are the results of an evaluator that judges calls, `original` see `CaseOutcome`."""

    case: Case
    outcome: Outcome
    calls: tuple[Result, ...] = ()
    original: JsonObject = field(default_factory=dict[str, Json])


class Cases:
    """Scores cases one after the other; evaluators with the same parameters are made once."""

    def __init__(self, judge: Judge = scripted, registered_tools: Mapping[str, ToolDefinition] | None = None) -> None:
        self._judge = judge
        self._registered_tools = registered_tools
        self._evaluators: dict[tuple[str, str], Evaluator | JudgeEvaluator] = {}

    def score(self, case: Case) -> CaseResult:
        """Score one case; whatever is wrong with it becomes its outcome."""
        key = (case.evaluator, json.dumps(case.config, sort_keys=True))
        try:
            if key not in self._evaluators:
                made = make_evaluator(case.evaluator, case.config)
                self._evaluators[key] = on_spare_thread(made)
            evaluator = self._evaluators[key]
            if getattr(evaluator, "needs_trajectory", False) and not records_trajectory(case.actual):
                return _broken(case, "Exception", "`actual` records no trajectory, not even an empty one")
            if not _is_for_cases(evaluator, case):
                if hasattr(evaluator, "questions"):
                    asking = cast("JudgeEvaluator", evaluator)  # what has `questions` is of this kind
                    evaluator = ScriptedEvaluator(asking, self._judge(answers(case.verdicts)))
                # Of the two kinds it is the other one, and a scripted one has a version and level of its own.
                return self._on_trajectory(case, cast("Evaluator", evaluator))
        except ConfigError as error:
            hint = f" ({error.hint})" if error.hint else ""
            return _broken(case, "invalid_config", f"{error.message}{hint}")
        except CaseError as error:
            return _broken(case, "invalid_case", str(error))
        # `_is_for_cases` has looked at what the evaluator is.
        written = _WrittenCase(cast("CaseEvaluator", evaluator), case)
        (*_, result) = _scorer(case, cast("Evaluator", written), _NOTHING, None).score(_NOTHING)
        return CaseResult(case=case, outcome=result.outcome, original=written.original)

    def _on_trajectory(self, case: Case, evaluator: Evaluator) -> CaseResult:
        trajectory = trajectory_of(case.actual)
        if self._registered_tools:
            trajectory = replace(trajectory, registered_tools=self._registered_tools)
        scorer = _scorer(case, evaluator, trajectory, expected_of(case.expected))
        results = scorer.score(trajectory)
        if evaluator.level == "trajectory":
            outcome = results[-1].outcome
            original = evaluator.original(outcome) if isinstance(evaluator, ScriptedEvaluator) else {}
            return CaseResult(case=case, outcome=outcome, original=original)
        calls = tuple(result for result in results if result.call is not None)
        return CaseResult(case=case, outcome=_of_calls(results, case.pass_at), calls=calls)


class _WrittenCase:
    """Stands between the scorer and an evaluator that is given a case as it was written."""

    level: ClassVar[Level] = "trajectory"

    def __init__(self, evaluator: CaseEvaluator, case: Case) -> None:
        self._evaluator = evaluator
        self._case = case
        self.original: JsonObject = {}
        self.version: str = evaluator.version

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        """Yield the evaluator's outcome for the case."""
        del trajectory, expected
        try:
            scored_case = self._evaluator.score_case(self._case.expected, self._case.actual)
        except (TypeError, AttributeError, LookupError, ValueError) as error:
            # The exception that the original raises for the case, with the shape that it accepts.
            refused = f"`{error.args[0]}` is missing" if isinstance(error, KeyError) else error_text(error)
            accepted: str = getattr(self._evaluator, "accepted_case", "")
            message = "; ".join(filter(None, (f"the original cannot read the case: {refused}", accepted)))
            yield None, Errored(error_type=type(error).__name__, message=message)
            return
        self.original = scored_case.original
        yield None, scored_case.outcome


def _is_for_cases(evaluator: object, case: Case) -> bool:
    # An original reads a case as written only if both sides are in its own shape: of two shapes a trajectory is made.
    shapes: tuple[str, ...] = getattr(evaluator, "case_shapes", ())
    if not hasattr(evaluator, "score_case") or not any(key in case.actual for key in shapes):
        return False
    expected_shapes: tuple[str, ...] = getattr(evaluator, "expected_shapes", tuple(case.expected))
    return not case.expected or any(key in case.expected for key in expected_shapes)


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


def _of_calls(results: Sequence[Result], pass_at: float) -> Outcome:
    """Make one outcome of those of the calls: the mean of what could be scored, an error if one broke."""
    outcomes = [result.outcome for result in results]
    scored = [outcome for outcome in outcomes if isinstance(outcome, Scored)]
    errors = [outcome for outcome in outcomes if isinstance(outcome, Errored)]
    if errors:
        return errors[0]
    if not scored:
        return outcomes[0]
    value = sum(outcome.value for outcome in scored) / len(scored)
    return Scored(
        value=value,
        explanation=f"mean over {len(scored)} of {len(outcomes)} calls",
        parts={"calls": len(outcomes), "calls_scored": len(scored)},
        # An exempt call passes with any value.
        passed=value >= pass_at - _ROUNDING or all(outcome.passed for outcome in scored),
    )


def _broken(case: Case, error_type: str, message: str) -> CaseResult:
    return CaseResult(case=case, outcome=Errored(error_type=error_type, message=message))


def result_object(result: CaseResult) -> JsonObject:
    """Describe one result: `value` is null unless scored, and `reason` explains why."""
    found = _outcome_object(result.outcome)
    details: JsonObject = {key: found.pop(key) for key in ("explanation", "parts", "differences") if key in found}
    if result.calls:
        details["calls"] = [
            {"name": "" if judged.call is None else judged.call.name, **_outcome_object(judged.outcome)}
            for judged in result.calls
        ]
    if result.original:
        details["original"] = sendable(result.original)
    return {"id": result.case.name, **found, "details": details}


def explanation(outcome: Outcome) -> str:
    """Return the explanation or message of an outcome."""
    match outcome:
        case Scored(explanation=text) | NotEvaluated(explanation=text) | Errored(message=text):
            return text


def sendable(value: Json) -> Json:
    """Write NaN and infinities, which JSON does not have, as text."""
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dict():
            return {key: sendable(entry) for key, entry in value.items()}
        case list():
            return [sendable(entry) for entry in value]
        case _:
            return value


def _outcome_object(outcome: Outcome) -> JsonObject:
    value, reason = figure(outcome)
    details: JsonObject = {"outcome": outcome_word(outcome), "value": value if value is None else float(value)}
    details |= {"reason": reason, "explanation": explanation(outcome)}
    if isinstance(outcome, Scored):
        details["parts"] = dict(outcome.parts)
        details["differences"] = [
            {
                "where": one.where,
                "rule": one.rule,
                **({} if one.expected is None else {"expected": sendable(one.expected.value)}),
                **({} if one.actual is None else {"actual": sendable(one.actual.value)}),
            }
            for one in outcome.differences
        ]
    return details
