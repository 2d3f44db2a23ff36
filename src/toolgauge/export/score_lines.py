"""Writes the scores that other backends keep in their own tables: one JSON object a line, redacted as events are.

A line holds all that any vendor needs, so that each destination maps and sends it without the scorecard, and the journal
keeps it. Ids are derived from the judged span: a score that is sent twice overwrites itself.
"""

import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
from msgspec import Struct

from toolgauge.export.redact import Redactor
from toolgauge.export.results import ScoreFilter, written_result
from toolgauge.model.delivery import Outgoing, Signal
from toolgauge.model.feedback import OWN_IDENTIFIER, VERDICT_NAME
from toolgauge.model.outcomes import Level, OutcomeWord, Result, Scorecard, Scored
from toolgauge.model.plain_words import rule_words
from toolgauge.model.trajectory import Trajectory, TrajectoryScope
from toolgauge.otlp.encode import MAX_IDENTIFIER, fit_text

_NAMESPACE = uuid.UUID("6f2c1f0e-7f1b-5c63-9d0b-0d2f6a3c9e55")
_MAX_DIFFERENCES = 20
_MAX_REQUEST_BYTES = 256 * 1024


class Score(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One result for a backend. `subject` is the number of a call that has no span of its own; `value` is `None` for errors
    and for results that were not evaluated.

    `span_id` is `None` where the root was not seen; times are nanoseconds since the epoch, 0 when not known.
    """

    name: str
    word: OutcomeWord
    revision: str
    evaluator: str
    version: str
    level: Level
    trace_id: str
    scored_ns: int
    value: float | None = None
    explanation: str = ""
    reason: str = ""
    differences: tuple[str, ...] = ()
    by_judge: bool = False
    by_person: bool = False
    scope: TrajectoryScope = "trace"
    span_id: str | None = None
    session_id: str | None = None
    subject: str = ""
    tool: str | None = None
    agent: str | None = None
    service: str | None = None
    start_ns: int = 0
    # Of a mark: the backend that it is for, and the annotation queue there.
    to: str = ""
    queue: str = ""

    @property
    def is_of_session(self) -> bool:
        """Whether it judges a conversation as a whole."""
        return self.level == "trajectory" and self.scope == "conversation" and self.session_id is not None

    @property
    def annotator_kind(self) -> str:
        """Who judged, in the words of OpenInference."""
        return "HUMAN" if self.by_person else "LLM" if self.by_judge else "CODE"

    @property
    def judged_ns(self) -> int:
        """When the judged call or run began: unlike the time of scoring, the same each time it is judged."""
        return self.start_ns or self.scored_ns

    @property
    def identifier(self) -> str:
        """The criterion's revision, with the call's number where several calls share a span."""
        return f"{self.revision}.{self.subject}" if self.subject else self.revision

    @property
    def id(self) -> str:
        """A UUID that is the same each time this span is judged by this criterion."""
        of = (
            self.session_id if self.is_of_session else f"{self.trace_id}/{self.span_id if self.level == 'call' else ''}"
        )
        return str(uuid.uuid5(_NAMESPACE, "\0".join((of or "", self.name, self.level, self.identifier))))

    @property
    def metadata(self) -> dict[str, str]:
        """What made it, and what differs, without values."""
        texts = {
            "evaluator": self.evaluator,
            "version": self.version,
            "criterion_revision": self.revision,
            "tool": self.tool,
            "agent": self.agent,
            "reason": self.reason,
            "differences": "; ".join(self.differences),
        }
        return {key: text for key, text in texts.items() if text}


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Score).decode


def decoded(body: bytes) -> list[Score]:
    """Read lines; what an older version wrote and this one cannot read is left out."""
    scores: list[Score] = []
    for line in body.splitlines():
        try:
            scores.append(_decode(line))
        except msgspec.DecodeError:
            continue
    return scores


def encoded(scores: Sequence[Score]) -> bytes:
    """Write lines."""
    return b"".join([_encode(score) + b"\n" for score in scores])


def in_requests(items: Iterable[tuple[Signal, bytes]], most_bytes: int) -> Iterator[tuple[Signal, list[bytes]]]:
    """Yield items by signal, as many together as have about so many bytes."""
    waiting: dict[Signal, list[bytes]] = {}
    sizes = Counter[Signal]()
    for signal, item in items:
        waiting.setdefault(signal, []).append(item)
        sizes[signal] += len(item)
        if sizes[signal] >= most_bytes:
            del sizes[signal]
            yield signal, waiting.pop(signal)
    # Spans before log records.
    yield from sorted(waiting.items(), reverse=True)


def person_score(run: Trajectory, reason: str, given_ns: int, *, is_good: bool) -> Outgoing:
    """Write the verdict of a person on a run."""
    score = Score(
        name=VERDICT_NAME,
        word="pass" if is_good else "fail",
        value=float(is_good),
        explanation=reason,
        by_person=True,
        revision=f"{OWN_IDENTIFIER}{VERDICT_NAME}",
        evaluator="person",
        version="1",
        level="trajectory",
        scope=run.scope,
        trace_id=run.trace_id,
        span_id=None if run.root is None else run.root.span_id,
        session_id=_fit(run.conversation_id),
        service=_fit(run.service),
        start_ns=run.start_ns,
        scored_ns=given_ns,
    )
    return Outgoing(signal="scores", body=encoded((score,)), spans=0, own=True)


class ScoreLines:
    """Writes what any of the `filters` takes, and `marks` of runs. Belongs to the worker thread."""

    def __init__(
        self,
        redactor: Redactor,
        filters: Sequence[ScoreFilter],
        marks: Callable[[Scorecard], Iterable[Score]] = lambda _scorecard: (),
    ) -> None:
        self._redactor = redactor
        self._marks = marks
        self._filters = tuple(filters)

    def requests(self, scorecards: Sequence[Scorecard]) -> Iterator[Outgoing]:
        """Write the wanted results: requests of a bounded size, none when there is nothing to send."""
        scores = (score for scorecard in scorecards for score in self._scores(scorecard))
        for _, lines in in_requests((("scores", _encode(score) + b"\n") for score in scores), _MAX_REQUEST_BYTES):
            yield Outgoing(signal="scores", body=b"".join(lines), spans=0, own=True)

    def _scores(self, scorecard: Scorecard) -> Iterator[Score]:
        for verdict, alike in scorecard.verdicts.items():
            places = [
                place
                for place, one in enumerate(verdict.findings)
                if one.enforce == "live"
                and any(each.takes(one.criterion, one.level, one.word) for each in self._filters)
            ]
            for subject in alike if places else ():
                for place in places:
                    yield self._score(scorecard, subject.results[place])
        yield from self._marks(scorecard)

    def _score(self, scorecard: Scorecard, result: Result) -> Score:
        found, trajectory, call = written_result(result, self._redactor), scorecard.trajectory, result.call
        differences: tuple[str, ...] = ()
        if found.value is not None and isinstance(result.outcome, Scored):
            differences = tuple(
                self._redactor.mask(f"{each.where[:MAX_IDENTIFIER]}: {rule_words(each.rule)[:MAX_IDENTIFIER]}")
                for each in result.outcome.differences[:_MAX_DIFFERENCES]
            )
        target = result.target
        agent = (trajectory.agents[0] if trajectory.agents else None) if call is None else call.agent
        return Score(
            name=found.criterion,
            word=found.word,
            value=found.value,
            reason=found.reason,
            explanation=found.explanation,
            differences=differences,
            by_judge=scorecard.by_judges,
            revision=found.revision,
            evaluator=found.evaluator,
            version=found.version,
            level=found.level,
            scope=trajectory.scope,
            trace_id=trajectory.trace_id if target is None else target.trace_id,
            span_id=None if target is None else target.span_id,
            session_id=_fit(trajectory.conversation_id),
            subject="" if call is None or call.executed_by is not None else str(call.order),
            tool=None if call is None else _fit(call.name),
            agent=_fit(agent),
            service=_fit(trajectory.service),
            start_ns=trajectory.start_ns if call is None else call.start_ns,
            scored_ns=scorecard.scored_at_ns,
        )


def _fit(text: str | None) -> str | None:
    return None if text is None else fit_text(text, MAX_IDENTIFIER)
