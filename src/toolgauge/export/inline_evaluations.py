"""Writes scores as attributes of spans in the words of OpenInference: `evaluations.<i>.evaluation.*`.

What is no score is left out: OpenInference has no word for it. A result of a trajectory has the scope of its trajectory in
front: `trace.evaluations.<i>` or `session.evaluations.<i>`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import count

from msgspec import json

from toolgauge.export.redact import Redactor
from toolgauge.model.feedback import OWN_IDENTIFIER
from toolgauge.model.outcomes import Result, Scorecard, Scored, outcome_word
from toolgauge.otlp.encode import (
    MAX_IDENTIFIER,
    AttributeValue,
    attribute,
    elements,
    fit_text,
    tag,
)

_SPAN_ATTRIBUTES = tag(9)


def inline_evaluations(
    scorecard: Scorecard, results: Iterable[Result], redactor: Redactor, taken: Collection[bytes] = ()
) -> bytes:
    """Write the live scores among `results` as attributes of one span; others have `taken` indices of it.

    Several results of one criterion have one name and one identifier, and would overwrite each other: none is written.
    """
    session = "session." if scorecard.trajectory.scope == "conversation" else "trace."
    live = [result for result in results if result.enforce == "live"]
    times = Counter((result.level, result.criterion) for result in live)
    indices = {scope: _free(f"{scope}evaluations", taken) for scope in ("", session)}
    written = [
        attribute(f"{slot}.evaluation.{name}", value)
        for result in live
        if times[result.level, result.criterion] == 1
        and isinstance(result.outcome, Scored)
        and 0.0 <= result.outcome.value <= 1.0
        for slot in [next(indices["" if result.level == "call" else session])]
        for name, value in _fields(result, redactor, by_judge=scorecard.by_judges)
    ]
    return elements(_SPAN_ATTRIBUTES, written) if written else b""


def _free(prefix: str, taken: Collection[bytes]) -> Iterator[str]:
    return (slot for slot in (f"{prefix}.{index}" for index in count()) if slot.encode() not in taken)


def _fields(result: Result, redactor: Redactor, *, by_judge: bool) -> Iterator[tuple[str, AttributeValue]]:
    outcome = result.outcome
    yield "name", fit_text(result.criterion, MAX_IDENTIFIER)
    yield "label", outcome_word(outcome)
    if isinstance(outcome, Scored):
        yield "score", float(outcome.value)
    if explanation := redactor.explain(outcome):
        yield "explanation", explanation
    yield "annotator_kind", "LLM" if by_judge else "CODE"
    yield "identifier", fit_text(OWN_IDENTIFIER + result.revision, MAX_IDENTIFIER)
    evaluator = {"evaluator": result.evaluator, "evaluator_version": result.version}
    yield "metadata", fit_text(json.encode(evaluator).decode(), 2 * MAX_IDENTIFIER)
