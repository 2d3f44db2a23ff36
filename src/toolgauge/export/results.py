"""Writes results as OTLP attributes: on the judged spans, on the scorecard's span and its events, in log records.

Attributes are written once for all results that are alike; tool, agent, ids and times are written elsewhere.
"""
# pyright: reportUnknownMemberType=false

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import blake2b
from typing import TypeAlias, TypeVar, get_args

from msgspec import Struct
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber

from toolgauge.export.inline_evaluations import inline_evaluations
from toolgauge.export.redact import MAX_EXPLANATION, Redactor
from toolgauge.export.run_usage import CostSettings
from toolgauge.export.settings import AnnotateForm, AnnotateMode, EventsMode, LabelQueue, MetricsSettings
from toolgauge.model.observations import OTHER_ERROR
from toolgauge.model.outcomes import (
    Errored,
    Level,
    NotEvaluated,
    Outcome,
    OutcomeWord,
    Result,
    Scorecard,
    Scored,
    Subject,
    Verdict,
    outcome_word,
)
from toolgauge.model.plain_words import error_words, with_cause, with_spaces
from toolgauge.model.trajectory import ClosedBecause
from toolgauge.otlp.encode import MAX_IDENTIFIER, AttributeValue, attribute, elements, fit_text, tag, text_attribute

RECORD_UID = "log.record.uid"

# Results of one subject are few, subjects are many.
_RESULT_BYTES, _SUBJECT_BYTES = 6, 10
_DIGITS = 2 * (_RESULT_BYTES + _SUBJECT_BYTES)
_NO_ID = bytes(8)
# All of the attribute of a LogRecord but its digits.
_BEFORE_UID = tag(6) + text_attribute(RECORD_UID, "0" * _DIGITS)[:-_DIGITS]


def span_id_of(kind: str, contents: Iterable[bytes]) -> bytes:
    """Derive the id of a span of ours from its other fields."""
    digest = blake2b(b"".join(contents), digest_size=8, person=kind.encode()).digest()
    # An id of zeros is not valid.
    return digest if digest != _NO_ID else b"\x01" * 8


# A record's id has two parts, each written once for many records: one hash a record costs twice as much, a third of encoding.
def uid_of_subject(*contents: bytes) -> bytes:
    """Write the digits that end this attribute, derived from the judged call or trajectory."""
    return blake2b(b"".join(contents), digest_size=_SUBJECT_BYTES).hexdigest().encode()


def record_uid(content: bytes) -> str:
    """Derive the id of any other log record of ours."""
    return blake2b(content, digest_size=_DIGITS // 2).hexdigest()


_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")

_MAX_ENTRIES = 4096
_MAX_BYTES = 4 * 1024 * 1024
# What is larger seldom repeats.
_MAX_ENTRY_BYTES = 8 * 1024


class BoundedCache(dict[_Key, _Value]):
    """Look up as in any dict; `keep` adds. When it is full it begins anew."""

    __slots__ = ("_size_bytes",)

    def __init__(self) -> None:
        super().__init__()
        self._size_bytes = 0

    def keep(self, key: _Key, value: _Value, size_bytes: int) -> _Value:
        """Add this, which takes about so many bytes together with its key, unless that is too much; return it."""
        if size_bytes > _MAX_ENTRY_BYTES:
            return value
        if len(self) >= _MAX_ENTRIES or self._size_bytes + size_bytes > _MAX_BYTES:
            self.clear()
            self._size_bytes = 0
        self._size_bytes += size_bytes
        self[key] = value
        return value


# Names under `gen_ai.`, `error.`, `session.` and `openinference.` are defined by their conventions.
EVENT_NAME = "gen_ai.evaluation.result"
SERVICE = "toolgauge.service"
AGENT = "gen_ai.agent.name"
TOOL = "gen_ai.tool.name"
CRITERION = "gen_ai.evaluation.name"
REVISION = "toolgauge.criterion.revision"
LEVEL = "toolgauge.level"
OUTCOME = "toolgauge.outcome"
REASON = "toolgauge.not_evaluated.reason"
CLOSED_BECAUSE = "toolgauge.closed_because"
INCOMPLETE, INCOMPLETE_BECAUSE = "toolgauge.incomplete", "toolgauge.incomplete_because"
ERROR_TYPE = "error.type"
_SCORE_VALUE = "gen_ai.evaluation.score.value"
_SCORE_LABEL = "gen_ai.evaluation.score.label"
_EXPLANATION = "gen_ai.evaluation.explanation"
_SHADOW = "toolgauge.shadow"
_EVALUATOR = "toolgauge.evaluator.name"
_EVALUATOR_VERSION = "toolgauge.evaluator.version"

# Fields of Span, of a span's events, and of LogRecord.
SPAN_ATTRIBUTES, EVENT_ATTRIBUTES, RECORD_ATTRIBUTES = tag(9), tag(3), tag(6)
OUTCOME_WORDS: tuple[OutcomeWord, ...] = ("pass", "fail", "not_evaluated", "error")

_OUTCOMES: dict[EventsMode, frozenset[OutcomeWord]] = {
    "scored": frozenset({"pass", "fail", "error"}),
    "failed": frozenset({"fail", "error"}),
    "all": frozenset(OUTCOME_WORDS),
}
# What people look for among logs and spans: a failed check and a failed evaluation.
_EXPLAINED: frozenset[OutcomeWord] = frozenset({"fail", "error"})
_SAMPLED = 1
_MAX_REASON = 128
# What the sentence of an event may hold: the name of a tool, an explanation, and all of it, in characters.
_MAX_NAME, _MAX_WHY, _MAX_SENTENCE = 80, 300, 800
_Attribute: TypeAlias = tuple[str, AttributeValue]


class ScoreFilter(Struct, frozen=True):
    """What a score table takes: by default results of trajectories that were scored, and failed ones of calls."""

    results: EventsMode | None = None
    criteria: tuple[str, ...] = ()

    def takes(self, criterion: str, level: Level, word: OutcomeWord) -> bool:
        """Return whether it takes such a result."""
        by_default: EventsMode = "scored" if level == "trajectory" else "failed"
        is_named = not self.criteria or any(fnmatchcase(criterion, glob) for glob in self.criteria)
        return is_named and word in _OUTCOMES[self.results or by_default]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmitSettings:
    """Selects results for log records (`events`) and for score tables (`scores`, one a destination), how scores reach
    the trace (`annotate`) and in whose words; `metrics` caps labels, `costs` says what runs cost.
    """

    events: EventsMode = "failed"
    annotate: AnnotateMode = "both"
    annotate_form: tuple[AnnotateForm, ...] = ("toolgauge",)
    trace_url: str | None = None
    scores: tuple[ScoreFilter, ...] = ()
    queues: tuple[LabelQueue, ...] = ()
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    costs: CostSettings = field(default_factory=CostSettings)


def sound(outcome: Outcome) -> Outcome:
    """Turn a score that is no number from 0 to 1 into an error: it must not enter a mean anywhere."""
    if isinstance(outcome, Scored) and not 0.0 <= outcome.value <= 1.0:
        return Errored(error_type="invalid_score", message="the score is not a number from 0 to 1")
    return outcome


def on_span(criterion: str, field: str) -> str:
    """Name a criterion's attribute on a span: `toolgauge.eval.<criterion>.<field>`."""
    return f"toolgauge.eval.{criterion}.{field}"


def _outcome_attributes(criterion: str, outcome: Outcome) -> Iterator[_Attribute]:
    if isinstance(outcome, Scored):
        yield on_span(criterion, "score"), float(outcome.value)
    yield on_span(criterion, "outcome"), outcome_word(outcome)


def _encoded(attributes: Iterable[_Attribute]) -> list[bytes]:
    return [attribute(key, value) for key, value in attributes]


_CLOSED: dict[ClosedBecause, bytes] = {
    reason: SPAN_ATTRIBUTES + attribute(CLOSED_BECAUSE, reason) for reason in get_args(ClosedBecause)
}


@lru_cache(maxsize=64)
def incomplete_attributes(why: str | None) -> bytes:
    """Write on a span why its trajectory may lack spans; nothing for a whole one."""
    if why is None:
        return b""
    return elements(SPAN_ATTRIBUTES, [attribute(INCOMPLETE, True), attribute(INCOMPLETE_BECAUSE, why)])  # noqa: FBT003 (a value)


class Annotations:
    """Writes live results on held spans, and why they are no pass; not several of one criterion, which would overwrite each other."""

    def __init__(self, redactor: Redactor, *, openinference: bool = False) -> None:
        self._redactor = redactor
        self._openinference = openinference
        # Without it: 4 % of all CPU.
        self._written: BoundedCache[Verdict, bytes] = BoundedCache()

    def collect(self, scorecard: Scorecard, taken: Mapping[str, Collection[bytes]] | None = None) -> dict[str, bytes]:
        """Collect attribute fields by span id, of judged spans and the root; none for conversations.

        `taken` are evaluations that spans already bear.
        """
        trajectory = scorecard.trajectory
        findings = (finding for verdict in scorecard.verdicts for finding in verdict.findings)
        if trajectory.scope != "trace" or not any(finding.enforce == "live" for finding in findings):
            return {}
        by_span: dict[str, list[Subject]] = {}
        for subject in scorecard.subjects:
            if subject.target is not None and subject.target.trace_id == trajectory.trace_id:
                by_span.setdefault(subject.target.span_id, []).append(subject)
        written = {span_id: self._joined(subjects, scorecard.criteria) for span_id, subjects in by_span.items()}
        if self._openinference:
            for span_id, subjects in by_span.items():
                results = [result for subject in subjects for result in subject.results]
                slots = (taken or {}).get(span_id, ())
                written[span_id] += inline_evaluations(scorecard, results, self._redactor, slots)
        if trajectory.root is not None:
            closed = _CLOSED[trajectory.closed_because] + incomplete_attributes(trajectory.incomplete)
            written[trajectory.root.span_id] = closed + written.get(trajectory.root.span_id, b"")
        return written

    def _joined(self, subjects: Sequence[Subject], criteria: Sequence[str]) -> bytes:
        verdict, results = subjects[0].verdict, subjects[0].results
        known = self._written.get(verdict)
        if known is not None and len(subjects) == 1:
            return known
        if len(subjects) > 1:
            results = [result for subject in subjects for result in subject.results]
            places = {name: place for place, name in enumerate(criteria)}
            results.sort(key=lambda result: places[result.criterion])
        of_span: dict[str, bytes] = {}
        for result in results:
            if result.enforce == "live":
                criterion = result.criterion
                of_span[criterion] = b"" if criterion in of_span else self._encoded(criterion, result.outcome)
        joined = b"".join(of_span.values())
        # What did not pass is explained, in words of its own.
        if len(subjects) == 1 and not any(one.enforce == "live" and one.word in _EXPLAINED for one in verdict.findings):
            self._written.keep(verdict, joined, len(joined))
        return joined

    def _encoded(self, criterion: str, outcome: Outcome) -> bytes:
        outcome = sound(outcome)
        attributes = [*_outcome_attributes(criterion, outcome)]
        if outcome_word(outcome) in _EXPLAINED and (explanation := self._redactor.explain(outcome)):
            attributes.append((on_span(criterion, "explanation"), explanation))
        return elements(SPAN_ATTRIBUTES, _encoded(attributes))


class ResultParts(Struct, frozen=True, gc=False):
    """Bytes shared by results that are alike: attributes of the scorecard's span and of its event, a log record's beginning."""

    on_span: bytes = b""
    event: bytes = b""
    record: bytes = b""


class Outline(Struct, frozen=True, gc=False):
    """What the scorecard's span counts of a verdict on a call, and whether its results have bytes of their own."""

    # Criterion, revision, and the place of the word.
    counted: tuple[tuple[str, str, int], ...]
    has_parts: bool


class ResultWriter:
    """Writes results, by settings that hold for all of them."""

    def __init__(self, redactor: Redactor, settings: EmitSettings) -> None:
        self._redactor = redactor
        self._records = {word: _begin_record(word) for word in _OUTCOMES[settings.events]}
        self.writes_spans = settings.annotate in {"both", "scorecard"}
        # Without it: 20 % of all CPU.
        self._written: BoundedCache[Hashable, ResultParts] = BoundedCache()
        self._outlines: BoundedCache[Verdict, Outline] = BoundedCache()

    def outline(self, verdict: Verdict) -> Outline:
        """Return what appears of a verdict."""
        known = self._outlines.get(verdict)
        if known is None:
            has_parts = any(
                one.word in self._records and (one.can_fail or one.word != "pass") for one in verdict.findings
            )
            shown = [one for one in verdict.findings if self.writes_spans and one.enforce != "shadow"]
            has_parts |= any(
                one.level == "trajectory" or (one.word != "pass" and one.reason != "no_calls") for one in shown
            )
            counted = [
                (one.criterion, one.revision, OUTCOME_WORDS.index(one.word)) for one in shown if one.level == "call"
            ]
            known = self._outlines.keep(verdict, Outline(tuple(counted), has_parts), 0)
        return known

    def parts(self, result: Result) -> ResultParts:
        """Write what this result shares with those that are alike."""
        outcome = result.outcome
        if isinstance(outcome, Scored):
            if self._redactor.shows_values and outcome.differences:
                # The values that are shown are different each time.
                return self._parts(result)
            word, text = outcome.passed, outcome.explanation
            value = outcome.value
        elif isinstance(outcome, NotEvaluated):
            word, text, value = outcome.reason, outcome.explanation, "not_evaluated"
        else:
            word, text, value = outcome.error_type, outcome.message, "error"
        criterion, revision, evaluator, version = result.criterion, result.revision, result.evaluator, result.version
        tool = None if result.call is None else result.call.name
        key = (word, text, value, tool, criterion, revision, evaluator, version, result.level, result.enforce)
        known = self._written.get(key)
        if known is None:
            parts = self._parts(result)
            size_bytes = sum(map(len, (f"{word}{text}{tool}", parts.on_span, parts.event, parts.record)))
            known = self._written.keep(key, parts, size_bytes)
        return known

    def _parts(self, result: Result) -> ResultParts:
        outcome = sound(result.outcome)
        word = outcome_word(outcome)
        explanation = self._redactor.explain(outcome)
        attributes = _encoded(_result_attributes(result, outcome, word, explanation))
        # A pass that could not have been anything else says nothing by itself.
        record = self._records.get(word, b"") if result.can_fail or word != "pass" else b""
        if record:
            match outcome:
                case Scored(value=value):
                    how = f"{word}, {value:.2f}"
                case NotEvaluated(reason=reason):
                    how = f"not evaluated, {reason[:_MAX_REASON]}"
                case Errored(error_type=error_type):
                    how = f"error, {error_words(error_type)[:_MAX_REASON]}"
            of = "" if result.call is None else f" of {result.call.name[:_MAX_NAME]}"
            why = with_cause(explanation, _MAX_WHY)
            text = with_spaces(
                fit_text(f"{result.criterion[:MAX_IDENTIFIER]}{of}: {how}{f' ({why})' if why else ''}", _MAX_SENTENCE)
            )
            record += LogRecord(body=AnyValue(string_value=text)).SerializeToString()
            record += elements(RECORD_ATTRIBUTES, attributes)
            # The digits of the subject follow.
            record += _BEFORE_UID + blake2b(record, digest_size=_RESULT_BYTES).hexdigest().encode()
        if not self.writes_spans or result.enforce == "shadow":
            return ResultParts(record=record)
        if result.level == "trajectory":
            on_span = elements(SPAN_ATTRIBUTES, _encoded(_trajectory_attributes(result, outcome, explanation)))
            return ResultParts(record=record, on_span=on_span)
        # That there was no call to judge is no event of the trajectory either.
        is_quiet = word == "pass" or (isinstance(outcome, NotEvaluated) and outcome.reason == "no_calls")
        return ResultParts(record=record, event=b"" if is_quiet else elements(EVENT_ATTRIBUTES, attributes))


def _result_attributes(result: Result, outcome: Outcome, word: OutcomeWord, explanation: str) -> Iterator[_Attribute]:
    yield CRITERION, fit_text(result.criterion, MAX_IDENTIFIER)
    yield OUTCOME, word
    yield LEVEL, result.level
    yield REVISION, fit_text(result.revision, MAX_IDENTIFIER)
    yield _EVALUATOR, fit_text(result.evaluator, MAX_IDENTIFIER)
    yield _EVALUATOR_VERSION, fit_text(result.version, MAX_IDENTIFIER)
    if result.enforce == "shadow":
        yield _SHADOW, True
    match outcome:
        case Scored(value=value):
            yield _SCORE_LABEL, word
            yield _SCORE_VALUE, float(value)
        case NotEvaluated(reason=reason):
            yield REASON, fit_text(reason, _MAX_REASON)
        case Errored(error_type=error_type):
            yield ERROR_TYPE, fit_text(error_type or OTHER_ERROR, _MAX_REASON)
    if explanation:
        yield _EXPLANATION, fit_text(explanation, MAX_EXPLANATION)


def _trajectory_attributes(result: Result, outcome: Outcome, explanation: str) -> Iterator[_Attribute]:
    yield from _outcome_attributes(result.criterion, outcome)
    if isinstance(outcome, NotEvaluated):
        yield on_span(result.criterion, "reason"), outcome.reason
    if explanation:
        yield on_span(result.criterion, "explanation"), explanation
    yield on_span(result.criterion, "revision"), fit_text(result.revision, MAX_IDENTIFIER)


def _begin_record(word: OutcomeWord) -> bytes:
    warn = word in _EXPLAINED
    record = LogRecord(
        severity_number=SeverityNumber.SEVERITY_NUMBER_WARN if warn else SeverityNumber.SEVERITY_NUMBER_INFO,
        severity_text="WARN" if warn else "INFO",
        event_name=EVENT_NAME,
        flags=_SAMPLED,
    )
    return record.SerializeToString()
