"""What a result says, as attributes of a log record, of an event of the scorecard's span and of that span itself.

Criteria, outcomes and explanations repeat, so it is written once for all results that say the same. Where they stand
(tool, agent, ids, times) is not said here.
"""

from collections.abc import Hashable, Iterable, Iterator
from typing import TypeAlias

from msgspec import Struct

from toolgauge.export import names
from toolgauge.export.annotations import SPAN_ATTRIBUTES, criterion_attributes, sound
from toolgauge.export.emit_settings import EmitSettings
from toolgauge.export.events import beginnings
from toolgauge.export.fit import MAX_EXPLANATION, MAX_IDENTIFIER, MAX_LABEL, fit_text
from toolgauge.export.memo import Memo
from toolgauge.export.redact import Redactor
from toolgauge.export.wire import AttributeValue, attribute, elements, tag
from toolgauge.model.outcomes import Errored, NotEvaluated, Outcome, OutcomeWord, Result, Scored, outcome_word

Attribute: TypeAlias = tuple[str, AttributeValue]

# Fields of a span's events and of LogRecord.
EVENT_ATTRIBUTES, RECORD_ATTRIBUTES = tag(3), tag(6)


class Said(Struct, frozen=True, gc=False):
    """What one result says. Empty is what is not said there: an event and its end are, or the span's attributes, or
    neither of them.

    `event` and `record` stand in front of what is said of the place, their ends behind it.
    """

    span: bytes
    event: bytes
    event_end: bytes
    event_size: int
    record: bytes
    record_end: bytes
    record_size: int


class ResultWriter:
    """Writes what results say, by settings that hold for all of them."""

    def __init__(self, redactor: Redactor, settings: EmitSettings) -> None:
        self._redactor = redactor
        self._shows_values = redactor.shows_values
        self._beginnings = beginnings(settings.events)
        self._writes_spans = settings.annotate in {"both", "scorecard"}
        self._remembered: Memo[Hashable, Said] = Memo()

    def said(self, results: Iterable[Result]) -> list[Said]:
        """Write what each of these results says."""
        written: list[Said] = []
        remembered = self._remembered
        for result in results:
            outcome = result.outcome
            # Nearly all are scores, so theirs is written out here.
            if isinstance(outcome, Scored) and not (self._shows_values and outcome.differences):
                key = (
                    outcome.passed,
                    outcome.value,
                    outcome.explanation,
                    result.criterion,
                    result.revision,
                    result.evaluator,
                    result.version,
                    result.level,
                    result.enforce,
                )
                written.append(remembered.get(key) or self._kept(result, key, outcome.explanation))
            else:
                written.append(self._other(result, outcome))
        return written

    def _other(self, result: Result, outcome: Outcome) -> Said:
        criterion = (result.criterion, result.revision, result.evaluator, result.version, result.level, result.enforce)
        match outcome:
            case Scored():
                # The values that are shown are different each time.
                return self._written(result)
            case NotEvaluated(reason=reason, explanation=text):
                key = ("not_evaluated", reason, text, criterion)
                words = (text,)
            case Errored(error_type=error_type, message=text):
                key = ("error", error_type, text, criterion)
                words = (error_type, text)
        return self._remembered.get(key) or self._kept(result, key, *words)

    def _kept(self, result: Result, key: Hashable, *words: str) -> Said:
        """Remember what is written; `words` are all of the key that may be long."""
        written = self._written(result)
        size = sum(map(len, words)) + len(written.span) + written.event_size + written.record_size
        self._remembered.keep(key, written, size)
        return written

    def _written(self, result: Result) -> Said:
        outcome = sound(result.outcome)
        word = outcome_word(outcome)
        first = _encoded(_constant(result, word))
        last = _encoded(self._varying(outcome))
        span = event = event_end = record = record_end = b""
        if self._writes_spans and result.enforce == "live":
            if result.level == "call":
                event, event_end = elements(EVENT_ATTRIBUTES, first), elements(EVENT_ATTRIBUTES, last)
            else:
                span = elements(SPAN_ATTRIBUTES, _encoded(self._on_span(result, outcome)))
        beginning = self._beginnings.get(word)
        if beginning is not None:
            record = beginning + elements(RECORD_ATTRIBUTES, first)
            record_end = elements(RECORD_ATTRIBUTES, last)
        return Said(
            span, event, event_end, len(event) + len(event_end), record, record_end, len(record) + len(record_end)
        )

    def _varying(self, outcome: Outcome) -> Iterator[Attribute]:
        match outcome:
            case Scored(value=value):
                yield names.SCORE_VALUE, float(value)
            case NotEvaluated(reason=reason):
                yield names.REASON, fit_text(reason, MAX_LABEL)
            case Errored(error_type=error_type):
                yield names.ERROR_TYPE, fit_text(error_type or "_OTHER", MAX_LABEL)
        explanation = self._redactor.explain(outcome)
        if explanation:
            yield names.EXPLANATION, fit_text(explanation, MAX_EXPLANATION)

    def _on_span(self, result: Result, outcome: Outcome) -> Iterator[Attribute]:
        yield from criterion_attributes(result.criterion, outcome)
        if isinstance(outcome, NotEvaluated):
            yield names.on_span(result.criterion, "reason"), outcome.reason
        explanation = self._redactor.explain(outcome)
        if explanation:
            yield names.on_span(result.criterion, "explanation"), explanation
        yield names.on_span(result.criterion, "revision"), fit_text(result.revision, MAX_IDENTIFIER)


def _encoded(attributes: Iterable[Attribute]) -> list[bytes]:
    return [attribute(key, value) for key, value in attributes]


def _constant(result: Result, word: OutcomeWord) -> Iterator[Attribute]:
    yield names.CRITERION, fit_text(result.criterion, MAX_IDENTIFIER)
    yield names.OUTCOME, word
    if word in {"pass", "fail"}:
        yield names.SCORE_LABEL, word
    yield names.LEVEL, result.level
    yield names.REVISION, fit_text(result.revision, MAX_IDENTIFIER)
    yield names.EVALUATOR, fit_text(result.evaluator, MAX_IDENTIFIER)
    yield names.EVALUATOR_VERSION, fit_text(result.version, MAX_IDENTIFIER)
    if result.enforce == "shadow":
        yield names.SHADOW, True
