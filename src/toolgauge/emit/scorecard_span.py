"""From scorecards to scorecard spans: the scores of a trajectory, in its own trace, whenever they come.

Spans are held for seconds and real runs last for minutes; this span is how late scores still reach the trace.
"""

# pyright: reportUnknownMemberType=false

from collections.abc import Callable, Generator, Iterator, Sequence
from hashlib import blake2b

from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from toolgauge.emit import names
from toolgauge.emit.annotations import criterion_attributes, sound, without_rivals
from toolgauge.emit.attributes import Attribute, Places, ResultWriter
from toolgauge.emit.fit import MAX_IDENTIFIER, fit_text, fit_time, raw_id
from toolgauge.emit.redact import Redactor
from toolgauge.emit.wire import AttributeWriter, RequestWriter, elements, field, tag, time_field, time_tag
from toolgauge.model.outcomes import NotEvaluated, Result, Scorecard
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import Trajectory

MAX_EVENTS = 1000
MAX_LINKS = 1000
_MAX_EVENT_BYTES = 1024 * 1024
# So many results are written, and so many small spans, without a pause.
_PAUSE_EVERY = 100
_PAUSE_AFTER_SPANS = 20
# Sampled; the parent's process is known to be another one (OTLP `Span.flags`, bits 8 and 9).
_FLAGS = 0x301
# Fields of Span, of its events and of its links.
_ATTRIBUTES, _EVENTS, _LINKS = tag(9), tag(11), tag(13)
_EVENT_TIME, _EVENT_ATTRIBUTES = time_tag(1), tag(3)
_EVENT_NAME = field(tag(2), names.EVENT_NAME.encode())
_LINK_TRACE_ID, _LINK_SPAN_ID = tag(1), tag(2)


def live_results(scorecard: Scorecard) -> list[Result]:
    """Select the results that may stand on spans."""
    return [result for result in scorecard.results if result.enforce == "live"]


def _judged_spans(results: Sequence[Result]) -> Generator[None, None, list[SpanRef]]:
    """Name each judged span once, in order of the results."""
    named: dict[SpanRef, None] = {}
    for first in range(0, len(results), _PAUSE_EVERY):
        if first:
            yield
        part = results[first : first + _PAUSE_EVERY]
        named.update(dict.fromkeys([result.target for result in part if result.target is not None]))
    return list(named)


class ScorecardSpanEncoder:
    """Encodes one span a scorecard, in requests of at most about `max_bytes`.

    `count_judged` is told how many spans each of them judges.
    """

    def __init__(
        self,
        redactor: Redactor,
        writer: ResultWriter,
        resource: Resource,
        scope: InstrumentationScope,
        max_bytes: int,
        count_judged: Callable[[int], None],
    ) -> None:
        self._count_judged = count_judged
        self._redactor = redactor
        self._writer = writer
        self._attributes = AttributeWriter()
        self._requests = RequestWriter(resource, scope, max_bytes)

    def encode(self, scorecards: Sequence[Scorecard], places: Places) -> Iterator[bytes | None]:
        """Yield serialised export requests, none when no scorecard has a live result, and pauses."""
        return self._requests.requests(self._paced(scorecards, places))

    def _paced(self, scorecards: Sequence[Scorecard], places: Places) -> Iterator[bytes | None]:
        for count, scorecard in enumerate(scorecards, 1):
            live = live_results(scorecard)
            if live:
                yield (yield from self._span(scorecard, live, places))
            if count % _PAUSE_AFTER_SPANS == 0:
                yield None

    def _span(self, scorecard: Scorecard, live: list[Result], places: Places) -> Generator[None, None, bytes]:
        trajectory = scorecard.trajectory
        span = Span(
            trace_id=raw_id(trajectory.trace_id, 16),
            span_id=scorecard_span_id(scorecard),
            name=names.SCORECARD_NAME,
            kind=Span.SPAN_KIND_INTERNAL,
            flags=_FLAGS,
            start_time_unix_nano=fit_time(scorecard.scored_at_ns),
            end_time_unix_nano=fit_time(scorecard.scored_at_ns),
        )
        root = trajectory.root
        # A conversation's root may lie in an earlier trace; a parent in another trace is no parent.
        if root is not None and root.trace_id == trajectory.trace_id:
            span.parent_span_id = raw_id(root.span_id, 8)
        of_calls = [result for result in live if result.level == "call"]
        events = yield from self._events(scorecard, of_calls, places)
        span.dropped_events_count = len(of_calls) - len(events)
        links = yield from _judged_spans(live)
        if links:
            self._count_judged(len(links))
        span.dropped_links_count = max(0, len(links) - MAX_LINKS)
        of_trajectory = [result for result in live if result.level == "trajectory"]
        attributes = (
            *_head_attributes(trajectory),
            *(attribute for result in without_rivals(of_trajectory) for attribute in self._said(result)),
        )
        return b"".join(
            (
                span.SerializeToString(),
                elements(_ATTRIBUTES, [self._attributes.one(key, value) for key, value in attributes]),
                *events,
                *map(_link, links[:MAX_LINKS]),
            )
        )

    def _said(self, result: Result) -> Iterator[Attribute]:
        yield from criterion_attributes(result).items()
        outcome = sound(result.outcome)
        if isinstance(outcome, NotEvaluated):
            yield names.on_span(result.criterion, "reason"), outcome.reason
        explanation = self._redactor.explain(outcome)
        if explanation:
            yield names.on_span(result.criterion, "explanation"), explanation
        yield names.on_span(result.criterion, "revision"), fit_text(result.revision, MAX_IDENTIFIER)

    def _events(
        self, scorecard: Scorecard, results: list[Result], places: Places
    ) -> Generator[None, None, list[bytes]]:
        begin = _EVENT_NAME + time_field(_EVENT_TIME, fit_time(scorecard.scored_at_ns))
        size = 0
        events: list[bytes] = []
        for result in results[:MAX_EVENTS]:
            if size >= _MAX_EVENT_BYTES:
                break
            if len(events) % _PAUSE_EVERY == _PAUSE_EVERY - 1:
                yield
            attributes = self._writer.attributes(scorecard.trajectory, result, sound(result.outcome), places)
            if result.target is not None:
                judged = self._attributes.repeated(names.JUDGED_SPAN, result.target.span_id, MAX_IDENTIFIER)
                attributes = (*attributes, judged)
            event = field(_EVENTS, begin + elements(_EVENT_ATTRIBUTES, attributes))
            size += len(event)
            events.append(event)
        return events


def _link(ref: SpanRef) -> bytes:
    return field(_LINKS, field(_LINK_TRACE_ID, raw_id(ref.trace_id, 16)) + field(_LINK_SPAN_ID, raw_id(ref.span_id, 8)))


def scorecard_span_id(scorecard: Scorecard) -> bytes:
    """Derive the span id from the trajectory: the same scorecard sent twice is a duplicate, not a second span."""
    trajectory = scorecard.trajectory
    identity = "\0".join((trajectory.scope, trajectory.trace_id, trajectory.conversation_id or ""))
    # The judges' scorecard is a second span.
    person = b"judges" if scorecard.by_judges else b"scorecard"
    digest = blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=8, person=person).digest()
    # An id of zeros is not valid.
    return digest if any(digest) else b"\x01" * 8


def _head_attributes(trajectory: Trajectory) -> Iterator[Attribute]:
    yield names.SPAN_KIND, "EVALUATOR"
    yield names.SCOPE_OF_TRAJECTORY, trajectory.scope
    yield names.CLOSED_BECAUSE, trajectory.closed_because
    if trajectory.service is not None:
        yield names.SERVICE, fit_text(trajectory.service, MAX_IDENTIFIER)
    if trajectory.conversation_id is not None:
        conversation = fit_text(trajectory.conversation_id, MAX_IDENTIFIER)
        yield names.CONVERSATION, conversation
        yield names.SESSION, conversation
