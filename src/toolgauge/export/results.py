"""Writes results as OTLP attributes: on judged spans, on the scorecard's span and its events, in log records.

`written_result` makes the one record of a result that all writers use. Attributes are written once for all results that are
alike; `emitter.py` adds tool, agent, ids and times.
"""
# pyright: reportUnknownMemberType=false

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import blake2b
from typing import TypeAlias, TypeVar, get_args

from msgspec import Struct, json
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber

from toolgauge.export.redact import Redactor
from toolgauge.export.run_usage import CostSettings
from toolgauge.export.settings import AnnotateForm, AnnotateMode, EventsMode, LabelQueue, MetricsSettings
from toolgauge.model.feedback import OWN_IDENTIFIER
from toolgauge.model.observations import OTHER_ERROR
from toolgauge.model.outcomes import (
    Enforce,
    Errored,
    Finding,
    Level,
    NotEvaluated,
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

# A record's id has two parts, each written once for many records: one hash a record costs twice as much, a third of encoding.
# Results of one subject are few, subjects are many.
_RESULT_BYTES, SUBJECT_BYTES = 6, 10
_DIGITS = 2 * (_RESULT_BYTES + SUBJECT_BYTES)
# All of the attribute of a LogRecord but its digits.
_BEFORE_UID = tag(6) + text_attribute(RECORD_UID, "0" * _DIGITS)[:-_DIGITS]


def record_uid(content: bytes) -> str:
    """Derive the id of any other log record of ours."""
    return blake2b(content, digest_size=_DIGITS // 2).hexdigest()


_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")

_MAX_ENTRIES = 4096
_MAX_BYTES = 4 * 1024 * 1024
# Larger entries seldom repeat.
_MAX_ENTRY_BYTES = 8 * 1024


class BoundedCache(dict[_Key, _Value]):
    """A dict of bounded size: `keep` adds an entry, and empties a full cache first."""

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
# People look for these among logs and spans: a failed check and a failed evaluation.
_EXPLAINED: frozenset[OutcomeWord] = frozenset({"fail", "error"})
_SAMPLED = 1
_MAX_REASON = 128
# The most characters of an event's sentence: for the name of a tool, for the explanation, and in all.
_MAX_NAME, _MAX_WHY, _MAX_SENTENCE = 80, 300, 800


class ScoreFilter(Struct, frozen=True):
    """Selects results for a score table: by default scored ones of trajectories and failed ones of calls."""

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


def on_span(criterion: str, field: str) -> str:
    """Name a criterion's attribute on a span: `toolgauge.eval.<criterion>.<field>`."""
    return f"toolgauge.eval.{criterion}.{field}"


_CLOSED: dict[ClosedBecause, bytes] = {
    reason: SPAN_ATTRIBUTES + attribute(CLOSED_BECAUSE, reason) for reason in get_args(ClosedBecause)
}


@lru_cache(maxsize=64)
def incomplete_attributes(why: str | None) -> bytes:
    """Write on a span why its trajectory may lack spans; nothing for a whole one."""
    if why is None:
        return b""
    return elements(SPAN_ATTRIBUTES, [attribute(INCOMPLETE, True), attribute(INCOMPLETE_BECAUSE, why)])  # noqa: FBT003 (a value)


class WrittenResult(Struct, frozen=True, gc=False):
    """A result that is fit to leave: texts are masked, cut and cleaned.

    `value` is a score from 0 to 1; `reason` says why nothing was evaluated, or names the type of an error.
    """

    criterion: str
    revision: str
    evaluator: str
    version: str
    level: Level
    is_shadow: bool
    word: OutcomeWord
    value: float | None
    reason: str
    explanation: str


def written_result(result: Result, redactor: Redactor) -> WrittenResult:
    """Write a result; a score outside 0 to 1 becomes an error: it must not enter a mean anywhere."""
    outcome, value, reason = result.outcome, None, ""
    if isinstance(outcome, Scored):
        if 0.0 <= outcome.value <= 1.0:
            value = float(outcome.value)
        else:
            outcome = Errored(error_type="invalid_score", message="the score is not a number from 0 to 1")
    if isinstance(outcome, NotEvaluated):
        reason = outcome.reason
    elif isinstance(outcome, Errored):
        reason = outcome.error_type or OTHER_ERROR
    return WrittenResult(
        fit_text(result.criterion, MAX_IDENTIFIER),
        fit_text(result.revision, MAX_IDENTIFIER),
        fit_text(result.evaluator, MAX_IDENTIFIER),
        fit_text(result.version, MAX_IDENTIFIER),
        result.level,
        result.enforce == "shadow",
        outcome_word(outcome),
        value,
        fit_text(reason, _MAX_REASON),
        redactor.explain(outcome),
    )


def _on_span(found: WrittenResult | Finding, *others: tuple[str, str]) -> bytes:
    """Write the attributes of a result on a span that have a value: `toolgauge.eval.<criterion>.<field>`."""
    score = None if found.value is None else float(found.value)
    criterion, fields = fit_text(found.criterion, MAX_IDENTIFIER), (("score", score), ("outcome", found.word), *others)
    written = [attribute(on_span(criterion, field), value) for field, value in fields if value not in (None, "")]
    return elements(SPAN_ATTRIBUTES, written)


# The same few findings come all day long. Without the two: 3 % of all CPU.
_unexplained = lru_cache(maxsize=_MAX_ENTRIES)(_on_span)


def enforced(scorecard: Scorecard) -> frozenset[Enforce]:
    """Return whether a scorecard has live results, and results in shadow."""
    return frozenset([finding.enforce for verdict in scorecard.verdicts for finding in verdict.findings])


class Annotations:
    """Writes live results on held spans, and explains failures and errors.

    Several results of one criterion on one span would overwrite each other: none of them is written.
    """

    def __init__(self, redactor: Redactor, *, openinference: bool = False) -> None:
        self._redactor = redactor
        self._openinference = openinference
        # Without it: 4 % of all CPU.
        self._written: BoundedCache[Verdict, bytes] = BoundedCache()

    def collect(self, scorecard: Scorecard, taken: Mapping[str, Collection[bytes]] | None = None) -> dict[str, bytes]:
        """Collect attribute fields by span id, of judged spans and the root; none for conversations.

        `taken` are the indices of evaluations that spans already bear.
        """
        trajectory = scorecard.trajectory
        if trajectory.scope != "trace" or "live" not in enforced(scorecard):
            return {}
        by_span: dict[str, list[Subject]] = {}
        for subject in scorecard.subjects:
            if subject.target is not None and subject.target.trace_id == trajectory.trace_id:
                by_span.setdefault(subject.target.span_id, []).append(subject)
        written: dict[str, bytes] = {}
        for span_id, subjects in by_span.items():
            verdict = subjects[0].verdict
            joined = self._written.get(verdict) if len(subjects) == 1 else None
            written[span_id] = self._joined(verdict, subjects, scorecard) if joined is None else joined
            if self._openinference:
                results = [result for subject in subjects for result in subject.results]
                slots = (taken or {}).get(span_id, ())
                written[span_id] += inline_evaluations(scorecard, results, self._redactor, slots)
        if trajectory.root is not None:
            closed = _CLOSED[trajectory.closed_because] + incomplete_attributes(trajectory.incomplete)
            written[trajectory.root.span_id] = closed + written.get(trajectory.root.span_id, b"")
        return written

    def _joined(self, verdict: Verdict, subjects: Sequence[Subject], scorecard: Scorecard) -> bytes:
        pairs = [pair for one in subjects for pair in zip(one.verdict.findings, one.results, strict=True)]
        if len(subjects) > 1:
            places = {name: place for place, name in enumerate(scorecard.criteria)}
            pairs.sort(key=lambda pair: places[pair[0].criterion])
        of_span, is_explained = dict[str, bytes](), False
        for found, result in pairs:
            if found.enforce != "live":
                continue
            if found.criterion in of_span:
                of_span[found.criterion] = b""
            elif found.word in _EXPLAINED:
                is_explained, written = True, written_result(result, self._redactor)
                of_span[found.criterion] = _on_span(written, ("explanation", written.explanation))
            else:
                of_span[found.criterion] = _unexplained(found)
        joined = b"".join(of_span.values())
        # An explanation has words of its own.
        if len(subjects) == 1 and not is_explained:
            self._written.keep(verdict, joined, len(joined))
        return joined


def inline_evaluations(
    scorecard: Scorecard, results: Iterable[Result], redactor: Redactor, taken: Collection[bytes] = ()
) -> bytes:
    """Write the live scores among `results` as attributes of one span in OpenInference's words, `evaluations.<i>.evaluation.*`.

    A result of a trajectory has its scope in front: `trace.evaluations.<i>`, `session.evaluations.<i>`. `taken` are the
    indices that others use. OpenInference has no word for other outcomes. Several results of one criterion would overwrite each
    other: none is written.
    """
    session = "session." if scorecard.trajectory.scope == "conversation" else "trace."
    live = [result for result in results if result.enforce == "live"]
    times = Counter((result.level, result.criterion) for result in live)
    next_index = Counter[str]()
    written: list[bytes] = []
    for result in live:
        found = written_result(result, redactor)
        if found.value is None or times[result.level, result.criterion] > 1:
            continue
        slots = f"{'' if result.level == 'call' else session}evaluations"
        while f"{slots}.{next_index[slots]}".encode() in taken:
            next_index[slots] += 1
        evaluator = {"evaluator": found.evaluator, "evaluator_version": found.version}
        fields: dict[str, AttributeValue] = {
            "name": found.criterion,
            "label": found.word,
            "score": found.value,
            "explanation": found.explanation,
            "annotator_kind": "LLM" if scorecard.by_judges else "CODE",
            "identifier": fit_text(OWN_IDENTIFIER + found.revision, MAX_IDENTIFIER),
            "metadata": fit_text(json.encode(evaluator).decode(), 2 * MAX_IDENTIFIER),
        }
        before = f"{slots}.{next_index[slots]}.evaluation."
        written += [attribute(before + name, value) for name, value in fields.items() if value != ""]
        next_index[slots] += 1
    return elements(SPAN_ATTRIBUTES, written) if written else b""


class ResultParts(Struct, frozen=True, gc=False):
    """Bytes shared by results that are alike: attributes of the scorecard's span and of its event, a log record's beginning."""

    on_span: bytes = b""
    event: bytes = b""
    record: bytes = b""


# Counts of a verdict on the scorecard's span: criterion, revision, index of the word.
Counted: TypeAlias = tuple[tuple[str, str, int], ...]
# The same with the findings that have `ResultParts`.
Outline: TypeAlias = tuple[Counted, tuple[Finding, ...]]
_COUNTED_BYTES = 128
# By criterion, how many calls had each outcome: `toolgauge.eval.<criterion>.calls.passed`.
_CALLS = ("calls.passed", "calls.failed", "calls.not_evaluated", "calls.error")


class ResultWriter:
    """Writes results, by settings that hold for all of them."""

    def __init__(self, redactor: Redactor, settings: EmitSettings) -> None:
        self._redactor = redactor
        self._records: dict[OutcomeWord, bytes] = {}
        for word in _OUTCOMES[settings.events]:
            warn = word in _EXPLAINED
            self._records[word] = LogRecord(
                severity_number=SeverityNumber.SEVERITY_NUMBER_WARN if warn else SeverityNumber.SEVERITY_NUMBER_INFO,
                severity_text="WARN" if warn else "INFO",
                event_name=EVENT_NAME,
                flags=_SAMPLED,
            ).SerializeToString()
        self.writes_spans = settings.annotate in {"both", "scorecard"}
        # Without it: 20 % of all CPU.
        self._written: BoundedCache[Hashable, ResultParts] = BoundedCache()
        self.outline = lru_cache(_MAX_ENTRIES)(self._outline)
        # Most runs are short, and most calls pass. Without it: 3 % of all CPU.
        self._calls: BoundedCache[Hashable, tuple[bytes, bytes]] = BoundedCache()

    def _outline(self, verdict: Verdict) -> Outline:
        shown = [one for one in verdict.findings if self.writes_spans and one.enforce != "shadow"]
        counted = [(one.criterion, one.revision, OUTCOME_WORDS.index(one.word)) for one in shown if one.level == "call"]
        # A missing call is not an event of the trajectory.
        found = [one for one in shown if one.level != "call" or (one.word != "pass" and one.reason != "no_calls")]
        found += [one for one in verdict.findings if one.word in self._records and (one.can_fail or one.word != "pass")]
        return tuple(counted), tuple(found)

    def calls(self, criteria: Sequence[str], counts: Mapping[Counted, int]) -> tuple[bytes, bytes]:
        """Write how many calls had which outcomes, in the order of the criteria, and apart from it the revisions of these."""
        key = (criteria, *counts.items())
        if (known := self._calls.get(key)) is not None:
            return known
        found: dict[str, tuple[str, list[int]]] = {}
        for counted, calls in counts.items():
            for criterion, revision, outcome in counted:
                found.setdefault(criterion, (revision, [0] * len(OUTCOME_WORDS)))[1][outcome] += calls
        in_order = [(criterion, *found[criterion]) for criterion in criteria if criterion in found]
        written = [
            attribute(on_span(criterion, field), count)
            for criterion, _, calls in in_order
            for field, count in zip(_CALLS, calls, strict=True)
        ]
        of_span = elements(SPAN_ATTRIBUTES, written) if written else b""
        revised = "\0".join([revision for _, revision, _ in in_order]).encode("utf-8", "surrogatepass")
        size_bytes = len(of_span) + _COUNTED_BYTES * (len(criteria) + sum(map(len, counts)))
        return self._calls.keep(key, (of_span, revised), size_bytes)

    def parts(self, result: Result) -> ResultParts:
        """Write the parts of a result that are equal for all results like it."""
        outcome = result.outcome
        if isinstance(outcome, Scored) and self._redactor.shows_values and outcome.differences:
            # The values that are shown are different each time.
            return self._parts(result)
        kind, text = outcome.error_type if isinstance(outcome, Errored) else "", outcome.explanation
        tool = None if result.call is None else result.call.name
        key = (result.finding, kind, text, tool, result.evaluator, result.version)
        if (known := self._written.get(key)) is not None:
            return known
        parts = self._parts(result)
        size_bytes = sum(map(len, (f"{kind}{text}{tool}", parts.on_span, parts.event, parts.record)))
        return parts if result.finding is None else self._written.keep(key, parts, size_bytes)

    def _parts(self, result: Result) -> ResultParts:
        found = written_result(result, self._redactor)
        word, explanation, on_span = found.word, found.explanation, b""
        is_shown = self.writes_spans and not found.is_shadow
        if is_shown and found.level == "trajectory":
            reason = found.reason if word == "not_evaluated" else ""
            others = (("reason", reason), ("explanation", explanation), ("revision", found.revision))
            is_shown, on_span = False, _on_span(found, *others)
        # A missing call is not an event of the trajectory either.
        is_event = is_shown and word != "pass" and found.reason != "no_calls"
        # A pass that could not have been anything else says nothing by itself.
        record = self._records.get(word, b"") if result.can_fail or word != "pass" else b""
        if not is_event and not record:
            return ResultParts(on_span)
        event: dict[str, AttributeValue] = {
            CRITERION: found.criterion,
            OUTCOME: word,
            LEVEL: found.level,
            REVISION: found.revision,
            _EVALUATOR: found.evaluator,
            _EVALUATOR_VERSION: found.version,
        }
        if found.is_shadow:
            event[_SHADOW] = True
        if found.value is not None:
            event |= {_SCORE_LABEL: word, _SCORE_VALUE: found.value}
            how = f"{word}, {found.value:.2f}"
        elif word == "error":
            event[ERROR_TYPE] = found.reason
            how = f"error, {error_words(found.reason)}"
        else:
            event[REASON] = found.reason
            how = f"not evaluated, {found.reason}"
        if explanation:
            event[_EXPLANATION] = explanation
        attributes = [attribute(key, value) for key, value in event.items()]
        if record:
            of = "" if result.call is None else f" of {result.call.name[:_MAX_NAME]}"
            why = with_cause(explanation, _MAX_WHY)
            text = with_spaces(
                fit_text(f"{result.criterion[:MAX_IDENTIFIER]}{of}: {how}{f' ({why})' if why else ''}", _MAX_SENTENCE)
            )
            record += LogRecord(body=AnyValue(string_value=text)).SerializeToString()
            record += elements(RECORD_ATTRIBUTES, attributes)
            # The digits of the subject follow.
            record += _BEFORE_UID + blake2b(record, digest_size=_RESULT_BYTES).hexdigest().encode()
        return ResultParts(on_span, elements(EVENT_ATTRIBUTES, attributes) if is_event else b"", record)
