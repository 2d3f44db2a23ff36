"""The scorecard's span: the scores of a trajectory, in its own trace, whenever they come.

Spans are held for seconds and real runs last for minutes; this span is how late scores still reach the trace.
"""

# pyright: reportUnknownMemberType=false

from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import islice

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from toolgauge.export import names
from toolgauge.export.annotations import SPAN_ATTRIBUTES
from toolgauge.export.attributes import Said
from toolgauge.export.fit import MAX_IDENTIFIER, fit_text, fit_time, raw_id
from toolgauge.export.memo import Memo
from toolgauge.export.places import Place
from toolgauge.export.wire import (
    Frames,
    TextAttribute,
    attribute,
    elements,
    field,
    fixed64,
    length,
    tag,
    time_tag,
    varint,
)
from toolgauge.model.outcomes import Result, Scorecard
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import Trajectory

MAX_EVENTS = 1000
MAX_LINKS = 1000
_MAX_EVENT_BYTES = 1024 * 1024
# Sampled; the parent's process is known to be another one (OTLP `Span.flags`, bits 8 and 9).
_FLAGS = 0x301
_NO_ID = bytes(8)
# Fields of Span.
_TRACE_ID, _BEFORE_SPAN_ID, _PARENT = tag(1), tag(2) + length(8), tag(4)
_START, _END = time_tag(7), time_tag(8)
_DROPPED_EVENTS, _DROPPED_LINKS = b"\x60", b"\x70"
_EVENT = Frames(tag(11))
_BEGINNING = Span(name=names.SCORECARD_NAME, kind=Span.SPAN_KIND_INTERNAL, flags=_FLAGS).SerializeToString()


class SpanWriter:
    """Writes the spans of scorecards, and remembers what they begin with."""

    def __init__(self) -> None:
        self._heads: Memo[tuple[str, str, str | None], bytes] = Memo()
        self._conversation = TextAttribute(names.CONVERSATION, MAX_IDENTIFIER, SPAN_ATTRIBUTES)
        self._session = TextAttribute(names.SESSION, MAX_IDENTIFIER, SPAN_ATTRIBUTES)

    def head(self, scorecard: Scorecard) -> bytes:
        """Write what stands in front of all that results say."""
        trajectory = scorecard.trajectory
        trace_id, conversation_id, root = trajectory.trace_id, trajectory.conversation_id, trajectory.root
        time = fixed64(fit_time(scorecard.scored_at_ns))
        key = (trajectory.scope, trajectory.closed_because, trajectory.service)
        always = self._heads.get(key) or self._kept(key, trajectory)
        parent = conversation = session = b""
        # A conversation's root may lie in an earlier trace; a parent in another trace is no parent.
        if root is not None and root.trace_id == trace_id:
            parent = field(_PARENT, raw_id(root.span_id, 8))
        if conversation_id is not None:
            conversation, session = self._conversation.written(conversation_id), self._session.written(conversation_id)
        trace = field(_TRACE_ID, raw_id(trace_id, 16))
        span_id = _BEFORE_SPAN_ID + scorecard_span_id(scorecard)
        return b"".join((trace, span_id, _START, time, _END, time, always, parent, conversation, session))

    def _kept(self, key: tuple[str, str, str | None], trajectory: Trajectory) -> bytes:
        written = _BEGINNING + elements(SPAN_ATTRIBUTES, [attribute(*said) for said in _said_of(trajectory)])
        self._heads.keep(key, written, len(written) + len(trajectory.service or ""))
        return written


class ScorecardSpan:
    """Takes what is said of a scorecard, some results after the others, and writes all of the span but its head."""

    __slots__ = ("_dropped_events", "_event_bytes", "_events", "_links", "_of_trajectory", "_room")

    def __init__(self) -> None:
        self._events: list[bytes] = []
        self._event_bytes = 0
        self._room = MAX_EVENTS
        self._dropped_events = 0
        # Each judged span once, in order of the results.
        self._links: dict[SpanRef, bytes] = {}
        self._of_trajectory: list[tuple[Result, bytes]] = []

    def add(self, results: Iterable[Result], all_said: Iterable[Said], places: Iterable[Place]) -> None:
        """Add what these results say, unless they are not to stand on the span."""
        links, events, room, size = self._links, self._events, self._room, self._event_bytes
        for result, said, place in zip(results, all_said, places, strict=True):
            if not said.event:
                if said.span:
                    self._add_to_span(result, said, place)
                continue
            if place.target is not None:
                links[place.target] = place.link
            if room and size < _MAX_EVENT_BYTES:
                of_event = said.event_size + place.event_size
                events += (_EVENT[of_event], said.event, place.event, said.event_end, place.judged)
                size += of_event
                room -= 1
            else:
                self._dropped_events += 1
        self._room, self._event_bytes = room, size

    def _add_to_span(self, result: Result, said: Said, place: Place) -> None:
        self._of_trajectory.append((result, said.span))
        if place.target is not None:
            self._links[place.target] = place.link

    @property
    def judged(self) -> int:
        """How many spans the results judge."""
        return len(self._links)

    @property
    def is_empty(self) -> bool:
        """Tell that no result is to stand on the span."""
        return not (self._events or self._of_trajectory)

    def pieces(self) -> list[bytes]:
        """Write it."""
        return [
            *self._said_of_trajectory(),
            *self._events,
            *islice(self._links.values(), MAX_LINKS),
            _counted(_DROPPED_EVENTS, self._dropped_events),
            _counted(_DROPPED_LINKS, len(self._links) - MAX_LINKS),
        ]

    def _said_of_trajectory(self) -> list[bytes]:
        """Write the results that are the only ones of their criterion for their span."""
        if not self._of_trajectory:
            return []
        rivals = Counter((result.target, result.criterion) for result, _ in self._of_trajectory)
        return [said for result, said in self._of_trajectory if rivals[result.target, result.criterion] == 1]


def _counted(field_tag: bytes, count: int) -> bytes:
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


def _said_of(trajectory: Trajectory) -> Iterator[tuple[str, str]]:
    yield names.SPAN_KIND, "EVALUATOR"
    yield names.SCOPE_OF_TRAJECTORY, trajectory.scope
    yield names.CLOSED_BECAUSE, trajectory.closed_because
    if trajectory.service is not None:
        yield names.SERVICE, fit_text(trajectory.service, MAX_IDENTIFIER)
