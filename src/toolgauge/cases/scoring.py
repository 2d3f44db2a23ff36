"""Scores cases with the scorer of live traffic; the verdicts in a case answer the questions to a judge.

A broken evaluator, an unknown parameter and a case of unknown shape give that one case the outcome `error`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from msgspec.structs import replace

from toolgauge import plugins
from toolgauge.cases.actual import records_trajectory, trajectory_of
from toolgauge.cases.case import Case, CaseError
from toolgauge.cases.expectations import expected_of
from toolgauge.judge.inquiry import ScriptedEvaluator, scripted
from toolgauge.model.errors import ConfigError
from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.judging import JudgeEvaluator
from toolgauge.model.literals import finite
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.outcomes import Errored, Outcome, Result, Scored, outcome_word
from toolgauge.model.ports import CaseParameters, Evaluator, Original, needs_of
from toolgauge.report.explanations import figure
from toolgauge.score.contracts import ToolKinds
from toolgauge.score.criterion import Criterion, Inline, NoReference
from toolgauge.score.scorer import Scorer
from toolgauge.service.criteria_factory import make_evaluator
from toolgauge.service.plug_in_evaluators import on_spare_thread


def answers(verdicts: Sequence[Json]) -> Sequence[Json]:
    """Return the answers of the judge; bare words are the verdicts of one answer, as DeepEval asks for them."""
    if not verdicts or not all(isinstance(verdict, str) for verdict in verdicts):
        return verdicts
    return ({"verdicts": [{"verdict": verdict} for verdict in verdicts]},)


_ROUNDING = 1e-9
_KINDS = ToolKinds()


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """The outcome of a case.

    `calls` are the results of an evaluator that judges calls, `original` is the report of another package in its own words.
    """

    case: Case
    outcome: Outcome
    calls: tuple[Result, ...] = ()
    original: JsonObject = field(default_factory=dict[str, Json])


class Cases:
    """Scores cases one after the other; evaluators with the same parameters are made once."""

    def __init__(self, registered_tools: Mapping[str, ToolDefinition] | None = None) -> None:
        self._registered_tools = registered_tools
        self._evaluators: dict[tuple[str, str], Evaluator | JudgeEvaluator] = {}

    def score(self, case: Case) -> CaseResult:
        """Score one case; a fault of the case becomes its outcome."""
        try:
            evaluator, is_own = self._evaluator(case)
            if needs_of(evaluator).recorded_run and not records_trajectory(case.actual):
                return _broken(case, "Exception", "`actual` records no trajectory, not even an empty one")
            return self._scored(case, evaluator, None if is_own else expected_of(case.expected))
        except ConfigError as error:
            hint = f" ({error.hint})" if error.hint else ""
            return _broken(case, "invalid_config", f"{error.message}{hint}")
        except CaseError as error:
            return _broken(case, "invalid_case", str(error))

    def _evaluator(self, case: Case) -> tuple[Evaluator | JudgeEvaluator, bool]:
        """Make the evaluator; True where the expectation of the case is one of its parameters."""
        own: JsonObject = {}
        if case.evaluator in plugins.names(plugins.EVALUATORS):
            loaded = plugins.evaluator(case.evaluator)
            own = loaded.case_parameters(case.expected, case.actual) if issubclass(loaded, CaseParameters) else {}
        if own:
            return make_evaluator(case.evaluator, {**case.config, **own}), True
        key = (case.evaluator, json.dumps(case.config, sort_keys=True))
        if key not in self._evaluators:
            self._evaluators[key] = on_spare_thread(make_evaluator(case.evaluator, case.config))
        return self._evaluators[key], False

    def _scored(self, case: Case, found: Evaluator | JudgeEvaluator, expected: Expected | None) -> CaseResult:
        is_judge = isinstance(found, JudgeEvaluator)
        judging = ScriptedEvaluator(found, scripted(answers(case.verdicts))) if is_judge else found
        evaluator = cast("Evaluator", judging)  # a scripted one has the version and level of its evaluator
        trajectory = trajectory_of(case.actual, as_written=needs_of(found).raw_spans)
        if self._registered_tools:
            trajectory = replace(trajectory, registered_tools=self._registered_tools)
        criterion = Criterion(
            name=case.name,
            evaluator_name=case.evaluator,
            evaluator=evaluator,
            revision="",
            scope=trajectory.scope,
            reference=NoReference() if expected is None else Inline(expected),
            pass_at=case.pass_at,
        )
        results = Scorer([criterion], _KINDS).score(trajectory)
        if evaluator.level == "trajectory":
            outcome, original = results[-1].outcome, {}
            if isinstance(found, Original) and not isinstance(outcome, Errored):
                original = found.original(outcome, trajectory, expected)
            return CaseResult(case=case, outcome=outcome, original=original)
        calls = tuple(result for result in results if result.call is not None)
        return CaseResult(case=case, outcome=_of_calls(results, case.pass_at), calls=calls)


def _of_calls(results: Sequence[Result], pass_at: float) -> Outcome:
    """Make one outcome of the calls: the mean of their scores, or the first error."""
    outcomes = [result.outcome for result in results]
    scored = [outcome for outcome in outcomes if isinstance(outcome, Scored)]
    errors = [outcome for outcome in outcomes if isinstance(outcome, Errored)]
    if errors or not scored:
        return (*errors, *outcomes)[0]
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


def sendable(value: Json) -> Json:
    """Write NaN and infinities, which JSON does not have, as text."""
    if isinstance(value, dict):
        return {key: sendable(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [sendable(entry) for entry in value]
    return finite(value) if isinstance(value, float) else value


def _outcome_object(outcome: Outcome) -> JsonObject:
    value, reason = figure(outcome)
    details: JsonObject = {"outcome": outcome_word(outcome), "value": value if value is None else float(value)}
    details |= {"reason": reason, "explanation": outcome.explanation}
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
