"""Results of cases as JSON objects: offline, nothing is hidden, so values are shown."""

import math

from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import Difference, Errored, NotEvaluated, Outcome, Scored, outcome_word
from toolgauge.offline.cases.run import CaseResult


def result_object(result: CaseResult) -> JsonObject:
    """Describe one result: `value` is null unless scored, `reason` says why it is not."""
    details = _details(result.outcome)
    if result.calls:
        details["calls"] = [
            {"name": "" if judged.call is None else judged.call.name, **_said(judged.outcome)}
            for judged in result.calls
        ]
    if result.original:
        details["original"] = sendable(result.original)
    value, reason = value_and_reason(result.outcome)
    return {
        "id": result.case.name,
        "outcome": outcome_word(result.outcome),
        "value": value,
        "reason": reason,
        "details": details,
    }


def value_and_reason(outcome: Outcome) -> tuple[float | None, str | None]:
    """Return the score, or why there is none."""
    match outcome:
        case Scored(value=value):
            return float(value), None
        case NotEvaluated(reason=reason):
            return None, reason
        case Errored(error_type=error_type):
            return None, error_type


def explanation(outcome: Outcome) -> str:
    """Return what the outcome says in words."""
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


def _said(outcome: Outcome) -> JsonObject:
    value, reason = value_and_reason(outcome)
    return {"outcome": outcome_word(outcome), "value": value, "reason": reason, **_details(outcome)}


def _details(outcome: Outcome) -> JsonObject:
    details: JsonObject = {"explanation": explanation(outcome)}
    if isinstance(outcome, Scored):
        details["parts"] = dict(outcome.parts)
        details["differences"] = [_difference(difference) for difference in outcome.differences]
    return details


def _difference(difference: Difference) -> Json:
    written: JsonObject = {"where": difference.where, "rule": difference.rule}
    if difference.expected is not None:
        written["expected"] = sendable(difference.expected.value)
    if difference.actual is not None:
        written["actual"] = sendable(difference.actual.value)
    return written
