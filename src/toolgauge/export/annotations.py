"""From a scorecard to the attributes of the spans that were held for it.

Only what a span can say without doubt: results of shadow criteria stay off, and so do several results of
one criterion for one span (calls that share the model's span), which would overwrite each other.
"""

from collections.abc import Hashable, Iterable, Iterator

from toolgauge.export import names
from toolgauge.export.memo import Memo
from toolgauge.export.wire import attribute, elements, tag
from toolgauge.model.outcomes import Errored, Outcome, Result, Scorecard, Scored, outcome_word

# A field of Span.
SPAN_ATTRIBUTES = tag(9)
# No criterion has this name.
_OF_THE_RUN = ""


def sound(outcome: Outcome) -> Outcome:
    """Turn a score that is no number from 0 to 1 into an error: it must not enter a mean anywhere."""
    if isinstance(outcome, Scored) and not 0.0 <= outcome.value <= 1.0:
        return Errored(error_type="invalid_score", message="the score is not a number from 0 to 1")
    return outcome


def criterion_attributes(criterion: str, outcome: Outcome) -> Iterator[tuple[str, str | float]]:
    """Say what came of a criterion, in attributes named after it."""
    if isinstance(outcome, Scored):
        yield names.on_span(criterion, "score"), float(outcome.value)
    yield names.on_span(criterion, "outcome"), outcome_word(outcome)


class Annotations:
    """Writes what is said on spans, and remembers it: most spans of a criterion say the same."""

    def __init__(self) -> None:
        self._written: Memo[Hashable, bytes] = Memo()

    def collect(self, scorecard: Scorecard) -> dict[str, dict[str, bytes]]:
        """Collect the attributes of each judged span of the trace and of the run's root, by span id and criterion.

        They are fields of a serialised span. None for conversations.
        """
        spans: dict[str, dict[str, bytes]] = {}
        trajectory = scorecard.trajectory
        live = [result for result in scorecard.results if result.enforce == "live"]
        if trajectory.scope != "trace" or not live:
            return spans
        if trajectory.root is not None:
            spans[trajectory.root.span_id] = {_OF_THE_RUN: self._closed(trajectory.closed_because)}
        self._add(live, trajectory.trace_id, spans)
        return spans

    def _add(self, results: Iterable[Result], trace_id: str, spans: dict[str, dict[str, bytes]]) -> None:
        said, said_of, said_by = b"", None, None
        for result in results:
            target, criterion, outcome = result.target, result.criterion, result.outcome
            if target is None or target.trace_id != trace_id:
                continue
            # Evaluators judge one call after the other, and say the same of most with the very same object.
            if outcome is not said_of or criterion is not said_by:
                said, said_of, said_by = self._said(criterion, outcome), outcome, criterion
            on_span = spans.get(target.span_id)
            if on_span is None:
                spans[target.span_id] = {criterion: said}
            else:
                # Two results of one criterion would overwrite each other: none of them is said.
                on_span[criterion] = b"" if criterion in on_span else said

    def _said(self, criterion: str, outcome: Outcome) -> bytes:
        is_score = isinstance(outcome, Scored)
        key = (criterion, outcome.passed, outcome.value) if is_score else (criterion, outcome_word(outcome))
        known = self._written.get(key)
        if known is None:
            known = _encoded(criterion_attributes(criterion, sound(outcome)))
            self._written.keep(key, known, len(known))
        return known

    def _closed(self, closed_because: str) -> bytes:
        known = self._written.get(closed_because)
        if known is None:
            known = _encoded([(names.CLOSED_BECAUSE, closed_because)])
            self._written.keep(closed_because, known, len(known))
        return known


def _encoded(attributes: Iterable[tuple[str, str | float]]) -> bytes:
    return elements(SPAN_ATTRIBUTES, [attribute(key, value) for key, value in attributes])
