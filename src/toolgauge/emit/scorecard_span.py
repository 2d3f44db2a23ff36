"""From scorecards to scorecard spans: the scores of a trajectory, in its own trace, whenever they come.

Spans are held for seconds and real runs last for minutes; this span is how late scores still reach the trace.
"""

# pyright: reportUnknownMemberType=false

from collections.abc import Iterator, Sequence
from hashlib import blake2b

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans, Span

from toolgauge.emit import names
from toolgauge.emit.annotations import criterion_attributes, sound, without_rivals
from toolgauge.emit.attributes import Attribute, Places, ResultWriter, append_all
from toolgauge.emit.fit import MAX_IDENTIFIER, fit_text, fit_time, raw_id
from toolgauge.emit.redact import Redactor
from toolgauge.model.outcomes import NotEvaluated, Result, Scorecard
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import Trajectory

MAX_EVENTS = 1000
MAX_LINKS = 1000
_MAX_EVENT_BYTES = 1024 * 1024
# Sampled; the parent's process is known to be another one (OTLP `Span.flags`, bits 8 and 9).
_FLAGS = 0x301


def live_results(scorecard: Scorecard) -> list[Result]:
    """Select the results that may stand on spans."""
    return [result for result in scorecard.results if result.enforce == "live"]


def judged_spans(results: Sequence[Result]) -> list[SpanRef]:
    """Name each judged span once, in order of the results."""
    return list(dict.fromkeys(result.target for result in results if result.target is not None))


class ScorecardSpanEncoder:
    """Encodes one span a scorecard, in requests of at most about `max_bytes`."""

    def __init__(self, redactor: Redactor, resource: Resource, scope: InstrumentationScope, max_bytes: int) -> None:
        self._redactor = redactor
        self._writer = ResultWriter(lambda _word: Span.Event(name=names.EVENT_NAME), Span.Event, redactor)
        self._resource = resource
        self._scope = scope
        self._max_bytes = max_bytes

    def encode(self, scorecards: Sequence[Scorecard]) -> Iterator[bytes]:
        """Yield serialised export requests; none when no scorecard has a live result."""
        request, spans = self._empty_request()
        size = 0
        for scorecard in scorecards:
            live = live_results(scorecard)
            if not live:
                continue
            if size >= self._max_bytes:
                yield request.SerializeToString()
                request, spans = self._empty_request()
                size = 0
            span = spans.spans.add()
            self._fill(span, scorecard, live)
            size += span.ByteSize()
        if size:
            yield request.SerializeToString()

    def _empty_request(self) -> tuple[ExportTraceServiceRequest, ScopeSpans]:
        request = ExportTraceServiceRequest()
        resource_spans = request.resource_spans.add()
        resource_spans.resource.CopyFrom(self._resource)
        scope_spans = resource_spans.scope_spans.add()
        scope_spans.scope.CopyFrom(self._scope)
        return request, scope_spans

    def _fill(self, span: Span, scorecard: Scorecard, live: list[Result]) -> None:
        trajectory = scorecard.trajectory
        span.trace_id = raw_id(trajectory.trace_id, 16)
        span.span_id = scorecard_span_id(trajectory)
        root = trajectory.root
        # A conversation's root may lie in an earlier trace; a parent in another trace is no parent.
        if root is not None and root.trace_id == trajectory.trace_id:
            span.parent_span_id = raw_id(root.span_id, 8)
        span.name = names.SCORECARD_NAME
        span.kind = Span.SPAN_KIND_INTERNAL
        span.flags = _FLAGS
        span.start_time_unix_nano = span.end_time_unix_nano = fit_time(scorecard.scored_at_ns)
        append_all(span.attributes, _head_attributes(trajectory))
        of_trajectory = [result for result in live if result.level == "trajectory"]
        for result in without_rivals(of_trajectory):
            append_all(span.attributes, self._trajectory_attributes(result))
        self._add_events(span, scorecard, [result for result in live if result.level == "call"])
        _add_links(span, judged_spans(live))

    def _trajectory_attributes(self, result: Result) -> Iterator[Attribute]:
        yield from criterion_attributes(result).items()
        outcome = sound(result.outcome)
        if isinstance(outcome, NotEvaluated):
            yield names.on_span(result.criterion, "reason"), outcome.reason
        explanation = self._redactor.explain(outcome)
        if explanation:
            yield names.on_span(result.criterion, "explanation"), explanation
        yield names.on_span(result.criterion, "revision"), fit_text(result.revision, MAX_IDENTIFIER)

    def _add_events(self, span: Span, scorecard: Scorecard, results: list[Result]) -> None:
        size = 0
        places: Places = {}
        for index, result in enumerate(results):
            if index >= MAX_EVENTS or size >= _MAX_EVENT_BYTES:
                span.dropped_events_count = len(results) - index
                return
            event = span.events.add(time_unix_nano=span.start_time_unix_nano)
            self._writer.write(event, scorecard.trajectory, result, sound(result.outcome), places)
            if result.target is not None:
                append_all(event.attributes, [(names.JUDGED_SPAN, fit_text(result.target.span_id, MAX_IDENTIFIER))])
            size += event.ByteSize()


def scorecard_span_id(trajectory: Trajectory) -> bytes:
    """Derive the span id from the trajectory: the same scorecard sent twice is a duplicate, not a second span."""
    identity = "\0".join((trajectory.scope, trajectory.trace_id, trajectory.conversation_id or ""))
    digest = blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=8, person=b"scorecard").digest()
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


def _add_links(span: Span, judged: list[SpanRef]) -> None:
    for ref in judged[:MAX_LINKS]:
        span.links.add(trace_id=raw_id(ref.trace_id, 16), span_id=raw_id(ref.span_id, 8))
    span.dropped_links_count = max(0, len(judged) - MAX_LINKS)
