"""Scores a case with an original, as `toolgauge check` does."""

from pydantic import BaseModel

from toolgauge import plugins
from toolgauge.cases.case import Case
from toolgauge.cases.scoring import CaseResult, Cases
from toolgauge.model.json import JsonObject
from toolgauge.model.outcomes import Errored, Scored


def result(evaluator: BaseModel, expected: JsonObject, actual: JsonObject) -> CaseResult:
    name = plugins.evaluator_name(type(evaluator))
    assert name is not None
    case = Case(
        place="c:1",
        name="c",
        evaluator=name,
        config=evaluator.model_dump(mode="json", exclude_unset=True, by_alias=True),
        expected=expected,
        actual=actual,
        pass_at=1.0,
        verdicts=(),
    )
    return Cases().score(case)


def score(evaluator: BaseModel, expected: JsonObject, actual: JsonObject) -> float | str:
    """Return the score, or the type of the error."""
    outcome = result(evaluator, expected, actual).outcome
    assert isinstance(outcome, Scored | Errored), outcome
    return outcome.value if isinstance(outcome, Scored) else outcome.error_type
