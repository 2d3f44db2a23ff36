"""From scorecards to requests: a span for each, in the trace that it judges, and log records of its results.

Spans are held for seconds and real runs last for minutes: the scorecard's span is how late scores still reach the trace.
It carries the trajectory's results and, by criterion, how many calls passed; only calls that did not pass have an event.
"""

# pyright: reportUnknownMemberType=false

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import islice

from msgspec import Struct
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from toolgauge.export.bounded_cache import BoundedCache
from toolgauge.export.redact import Redactor
from toolgauge.export.results import (
    AGENT,
    CLOSED_BECAUSE,
    EVENT_ATTRIBUTES,
    EVENT_NAME,
    OUTCOME_WORDS,
    RECORD_ATTRIBUTES,
    SERVICE,
    SPAN_ATTRIBUTES,
    TOOL,
    EmitSettings,
    ResultParts,
    ResultWriter,
    on_span,
)
from toolgauge.model.delivery import Outgoing, Signal
from toolgauge.model.outcomes import OutcomeWord, Result, Scorecard
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import ToolCall
from toolgauge.otlp.encode import (
    RequestWriter,
    attribute,
    elements,
    field,
    fit_time,
    fixed64,
    item,
    raw_id,
    tag,
    text_attribute,
    time_tag,
    varint,
)

MAX_EVENTS = 1000
MAX_LINKS = 1000
_MAX_EVENT_BYTES = 1024 * 1024
# gRPC servers, the Collector's among them, refuse 4 MiB and more unless told otherwise.
_MAX_REQUEST_BYTES = 2 * 1024 * 1024
# A run may have a hundred thousand calls, and each is judged by several criteria.
_MAX_SUBJECTS = 2048

_CALL_ID = "gen_ai.tool.call.id"
_CONVERSATION = "gen_ai.conversation.id"
_SESSION = "session.id"
_SPAN_KIND = "openinference.span.kind"
_SPAN_END = "toolgauge.span.end_time_unix_nano"
_JUDGED_SPAN = "toolgauge.judged.span_id"
_SCOPE_OF_TRAJECTORY = "toolgauge.trajectory.scope"
# By criterion, how many calls had this outcome: `toolgauge.eval.<criterion>.calls.passed`.
_CALLS: dict[OutcomeWord, str] = {
    "pass": "calls.passed",
    "fail": "calls.failed",
    "not_evaluated": "calls.not_evaluated",
    "error": "calls.error",
}

# Sampled; the parent's process is known to be another one (OTLP `Span.flags`, bits 8 and 9).
_FLAGS = 0x301
_NO_ID = bytes(8)
# Fields of Span.
_TRACE_ID, _SPAN_ID, _PARENT, _EVENT, _LINK = tag(1), tag(2), tag(4), tag(11), tag(13)
_START, _END = time_tag(7), time_tag(8)
_DROPPED_EVENTS, _DROPPED_LINKS = b"\x60", b"\x70"
_CONSTANT_PART = Span(name="toolgauge.scorecard", kind=Span.SPAN_KIND_INTERNAL, flags=_FLAGS).SerializeToString()
# Fields of a span's events, of a span's links, and of LogRecord.
_EVENT_TIME, _EVENT_NAME = time_tag(1), field(tag(2), EVENT_NAME.encode())
_LINK_TRACE_ID, _LINK_SPAN_ID = tag(1), tag(2)
_RECORD_TIME, _OBSERVED_TIME = time_tag(1), time_tag(11)
_RECORD_TRACE_ID, _RECORD_SPAN_ID = tag(9), tag(10)


class ScorecardEncoder:
    """Encodes scorecards by the same settings. `count_judged` counts the spans that a scorecard's span judges."""

    def __init__(
        self, redactor: Redactor, settings: EmitSettings, requests: RequestWriter, count_judged: Callable[[int], None]
    ) -> None:
        self._results = ResultWriter(redactor, settings)
        self._texts = _TextAttributes()
        self._requests = requests
        self._count_judged = count_judged

    def encode(self, scorecards: Sequence[Scorecard]) -> Iterator[Outgoing]:
        """Yield requests of about 2 MiB at most, none when there is nothing to export."""
        spans, records = _Batch("traces", self._requests), _Batch("logs", self._requests)
        for scorecard in scorecards:
            span = _ScorecardSpan(scorecard)
            subjects = _Subjects(scorecard, self._texts)
            for result in scorecard.results:
                parts, subject = self._results.parts(result), subjects.of(result)
                span.add(result, parts, subject)
                if parts.record and records.add(parts.record, subject.record):
                    yield records.take()
            if span.is_wanted:
                self._count_judged(span.judged)
                if spans.add(*span.pieces(self._texts)):
                    yield spans.take()
        for batch in (spans, records):
            if not batch.is_empty:
                yield batch.take()


class _Batch:
    """The spans or log records of the next request."""

    def __init__(self, signal: Signal, requests: RequestWriter) -> None:
        self._signal: Signal = signal
        self._requests = requests
        self._pieces: list[bytes] = []
        self._size = 0

    @property
    def is_empty(self) -> bool:
        return not self._pieces

    def add(self, *pieces: bytes) -> bool:
        """Add a span or log record; tell whether the request is full."""
        size = sum(map(len, pieces))
        self._pieces += (item(size), *pieces)
        self._size += size
        return self._size >= _MAX_REQUEST_BYTES

    def take(self) -> Outgoing:
        """Make the request, and begin the next."""
        pieces, self._pieces, self._size = self._pieces, [], 0
        return Outgoing(signal=self._signal, body=self._requests.request(pieces), spans=0, own=True)


class _TextAttributes:
    """Writes attributes whose texts come from spans: names of tools, agents and services, which repeat."""

    def __init__(self) -> None:
        # Without it: 5 % of all CPU.
        self._written: BoundedCache[tuple[str, str], bytes] = BoundedCache()

    def written(self, key: str, text: str) -> bytes:
        known = self._written.get((key, text))
        if known is None:
            known = self._written.keep((key, text), text_attribute(key, text), 2 * len(text))
        return known


class _Subject(Struct, frozen=True, gc=False):
    """What results are about: a call or the whole trajectory, and the span that stands for it (`None`: not known).

    `record` ends a log record, `link` is a whole field of the scorecard's span.
    """

    target: SpanRef | None
    attributes: list[bytes]
    record: bytes
    link: bytes


class _Subjects:
    """The subjects of one scorecard, each written once for all criteria."""

    def __init__(self, scorecard: Scorecard, texts: _TextAttributes) -> None:
        self._texts = texts
        self._trajectory = scorecard.trajectory
        self._known: dict[int, _Subject] = {}
        self._traces: dict[str, tuple[bytes, bytes]] = {}
        self._agents: dict[str | None, list[bytes]] = {}
        time = fixed64(fit_time(scorecard.scored_at_ns))
        self._times = _RECORD_TIME + time + _OBSERVED_TIME + time

    def of(self, result: Result) -> _Subject:
        """Write the subject of a result."""
        # By identity: the scorecard keeps its calls for as long as this is in use. Without it: 5 % of all CPU.
        subject = self._known.get(id(result.call))
        if subject is None or subject.target is not result.target:
            if len(self._known) >= _MAX_SUBJECTS:
                self._known.clear()
            subject = self._known[id(result.call)] = self._written(result.call, result.target)
        return subject

    def _written(self, call: ToolCall | None, target: SpanRef | None) -> _Subject:
        attributes = self._of_trajectory() if call is None else self._of_call(call)
        trace_id = self._trajectory.trace_id if target is None else target.trace_id
        record, link = self._traces.get(trace_id) or self._of_trace(trace_id)
        if target is None:
            link = b""
        else:
            span_id = raw_id(target.span_id, 8)
            record += field(_RECORD_SPAN_ID, span_id)
            link = field(_LINK, link + field(_LINK_SPAN_ID, span_id))
        return _Subject(target, attributes, RECORD_ATTRIBUTES.join((record, *attributes)), link)

    def _of_trace(self, trace_id: str) -> tuple[bytes, bytes]:
        """Begin a record's end and a link."""
        raw = raw_id(trace_id, 16)
        written = self._traces[trace_id] = (self._times + field(_RECORD_TRACE_ID, raw), field(_LINK_TRACE_ID, raw))
        return written

    def _of_call(self, call: ToolCall) -> list[bytes]:
        attributes = [
            self._texts.written(TOOL, call.name),
            *(self._agents.get(call.agent) or self._of_agent(call.agent)),
        ]
        if call.call_id is not None:
            attributes.append(text_attribute(_CALL_ID, call.call_id))
        if call.end_ns > 0:
            attributes.append(attribute(_SPAN_END, call.end_ns))
        return attributes

    def _of_trajectory(self) -> list[bytes]:
        trajectory = self._trajectory
        attributes = [*self._of_agent(trajectory.agents[0] if trajectory.agents else None)]
        if trajectory.end_ns > 0:
            attributes.append(attribute(_SPAN_END, trajectory.end_ns))
        return attributes

    def _of_agent(self, agent: str | None) -> list[bytes]:
        trajectory = self._trajectory
        texts = ((AGENT, agent), (_CONVERSATION, trajectory.conversation_id), (SERVICE, trajectory.service))
        written = self._agents[agent] = [self._texts.written(key, text) for key, text in texts if text is not None]
        return written


class _ScorecardSpan:
    """Gathers what results add to the scorecard's span, and writes it."""

    def __init__(self, scorecard: Scorecard) -> None:
        self._scorecard = scorecard
        self._calls: Counter[tuple[str, OutcomeWord]] = Counter()
        self._events: list[bytes] = []
        self._event_bytes = 0
        self._dropped_events = 0
        # Each judged span once, in order of the results.
        self._links: dict[SpanRef, bytes] = {}
        self._of_trajectory: list[tuple[Result, bytes]] = []

    def add(self, result: Result, parts: ResultParts, subject: _Subject) -> None:
        """Add a result, unless it is not to stand on the span."""
        if parts.counted_as is not None:
            self._calls[result.criterion, parts.counted_as] += 1
            if parts.event:
                self._add_event(parts.event, subject)
        elif parts.on_span:
            self._of_trajectory.append((result, parts.on_span))
        else:
            return
        if subject.target is not None:
            self._links[subject.target] = subject.link

    def _add_event(self, attributes: bytes, subject: _Subject) -> None:
        if len(self._events) == MAX_EVENTS or self._event_bytes >= _MAX_EVENT_BYTES:
            self._dropped_events += 1
            return
        time = _EVENT_TIME + fixed64(fit_time(self._scorecard.scored_at_ns))
        of_subject = [*subject.attributes]
        if subject.target is not None:
            of_subject.append(text_attribute(_JUDGED_SPAN, subject.target.span_id))
        event = EVENT_ATTRIBUTES.join((time + _EVENT_NAME + attributes, *of_subject))
        self._events.append(field(_EVENT, event))
        self._event_bytes += len(event)

    @property
    def judged(self) -> int:
        """How many spans the results judge."""
        return len(self._links)

    @property
    def is_wanted(self) -> bool:
        """Return whether any result is to stand on the span."""
        return bool(self._calls or self._of_trajectory)

    def pieces(self, texts: _TextAttributes) -> Iterator[bytes]:
        """Write the span."""
        yield from self._head(texts)
        yield from self._call_counts()
        # Several results of one criterion for one span would overwrite each other.
        rivals = Counter((result.target, result.criterion) for result, _ in self._of_trajectory)
        for result, attributes in self._of_trajectory:
            if rivals[result.target, result.criterion] == 1:
                yield attributes
        yield from self._events
        yield from islice(self._links.values(), MAX_LINKS)
        yield _dropped(_DROPPED_EVENTS, self._dropped_events)
        yield _dropped(_DROPPED_LINKS, len(self._links) - MAX_LINKS)

    def _head(self, texts: _TextAttributes) -> Iterator[bytes]:
        trajectory = self._scorecard.trajectory
        root, time = trajectory.root, fixed64(fit_time(self._scorecard.scored_at_ns))
        yield field(_TRACE_ID, raw_id(trajectory.trace_id, 16)) + field(_SPAN_ID, scorecard_span_id(self._scorecard))
        # A conversation's root may lie in an earlier trace; a parent in another trace is no parent.
        if root is not None and root.trace_id == trajectory.trace_id:
            yield field(_PARENT, raw_id(root.span_id, 8))
        yield _START + time + _END + time + _CONSTANT_PART
        yield elements(SPAN_ATTRIBUTES, self._trajectory_attributes(texts))

    def _trajectory_attributes(self, texts: _TextAttributes) -> Iterator[bytes]:
        trajectory = self._scorecard.trajectory
        yield texts.written(_SPAN_KIND, "EVALUATOR")
        yield texts.written(_SCOPE_OF_TRAJECTORY, trajectory.scope)
        yield texts.written(CLOSED_BECAUSE, trajectory.closed_because)
        if trajectory.service is not None:
            yield texts.written(SERVICE, trajectory.service)
        if trajectory.conversation_id is not None:
            yield texts.written(_CONVERSATION, trajectory.conversation_id)
            yield text_attribute(_SESSION, trajectory.conversation_id)

    def _call_counts(self) -> Iterator[bytes]:
        for criterion in dict.fromkeys(criterion for criterion, _ in self._calls):
            for outcome in OUTCOME_WORDS:
                yield _call_count(criterion, outcome, self._calls[criterion, outcome])


# Most runs are short, and most calls pass: without the cache encoding takes a sixth longer, 2 % of all CPU.
@lru_cache(maxsize=1024)
def _call_count(criterion: str, outcome: OutcomeWord, count: int) -> bytes:
    return SPAN_ATTRIBUTES + attribute(on_span(criterion, _CALLS[outcome]), count)


def _dropped(field_tag: bytes, count: int) -> bytes:
    return field_tag + varint(count) if count > 0 else b""


def scorecard_span_id(scorecard: Scorecard) -> bytes:
    """Derive the span id from the trajectory: the same scorecard sent twice is a duplicate, not a second span."""
    trajectory = scorecard.trajectory
    identity = f"{trajectory.scope}\0{trajectory.trace_id}\0{trajectory.conversation_id or ''}"
    # The judges' scorecard is a second span.
    person = b"judges" if scorecard.by_judges else b"scorecard"
    digest = blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=8, person=person).digest()
    # An id of zeros is not valid.
    return digest if digest != _NO_ID else b"\x01" * 8
