"""From a scorecard to the attributes of the spans that were held for it.

Only what a span can say without doubt: results of shadow criteria stay off, and so do several results of
one criterion for one span (calls that share the model's span), which would overwrite each other.
"""

import math
from collections import Counter
from collections.abc import Generator

from toolgauge.emit import names
from toolgauge.model.json import Value
from toolgauge.model.outcomes import Errored, Outcome, Result, Scorecard, Scored, outcome_word
from toolgauge.model.records import SpanRef

_PAUSE_EVERY = 500


def sound(outcome: Outcome) -> Outcome:
    """Turn a score that is no number from 0 to 1 into an error: it must not enter a mean anywhere."""
    if isinstance(outcome, Scored) and not (math.isfinite(outcome.value) and 0.0 <= outcome.value <= 1.0):
        return Errored(error_type="invalid_score", message="the score is not a number from 0 to 1")
    return outcome


def span_attributes(scorecard: Scorecard) -> dict[SpanRef, dict[str, Value]]:
    """Collect the attributes of each judged span and of the run's root; nothing for conversations."""
    collecting = collecting_span_attributes(scorecard)
    while True:
        try:
            next(collecting)
        except StopIteration as done:
            return done.value


def collecting_span_attributes(scorecard: Scorecard) -> Generator[None, None, dict[SpanRef, dict[str, Value]]]:
    """Do what `span_attributes` does, with pauses: a run may have a hundred thousand calls."""
    spans: dict[SpanRef, dict[str, Value]] = {}
    live = [result for result in scorecard.results if result.enforce == "live"]
    if scorecard.trajectory.scope != "trace" or not live:
        return spans
    root = scorecard.trajectory.root
    if root is not None:
        spans[root] = {names.CLOSED_BECAUSE: scorecard.trajectory.closed_because}
    rivals: Counter[tuple[SpanRef | None, str]] = Counter()
    for first in range(0, len(live), _PAUSE_EVERY):
        rivals.update((result.target, result.criterion) for result in live[first : first + _PAUSE_EVERY])
        yield
    for count, result in enumerate(live, 1):
        if result.target is not None and rivals[result.target, result.criterion] == 1:
            spans.setdefault(result.target, {}).update(criterion_attributes(result))
        if count % _PAUSE_EVERY == 0:
            yield
    return spans


def without_rivals(results: list[Result]) -> list[Result]:
    """Keep the results that are the only ones of their criterion for their span."""
    rivals = Counter((result.target, result.criterion) for result in results)
    return [result for result in results if rivals[result.target, result.criterion] == 1]


def criterion_attributes(result: Result) -> dict[str, str | float]:
    """Write one result as attributes named after its criterion."""
    outcome = sound(result.outcome)
    attributes: dict[str, str | float] = {}
    if isinstance(outcome, Scored):
        attributes[names.on_span(result.criterion, "score")] = float(outcome.value)
    attributes[names.on_span(result.criterion, "outcome")] = outcome_word(outcome)
    return attributes
