"""From the bytes of a request to views of the spans and log records that some dialect could read.

Only spans that a byte pattern or their scope marks are parsed, once and alone. A broken span costs nobody but itself: it
stays in the request, unread. Nothing that leaves here, but for the request itself, keeps the request alive.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TypeAlias

from msgspec import Struct
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanProto

from toolgauge.model.errors import DecodeError
from toolgauge.model.records import LogRecord, PackedHead, Resource, Span
from toolgauge.otlp.bounds import parse
from toolgauge.otlp.envelope import Container, copied, parse_heads, parse_request, read_each, read_heads, without_items
from toolgauge.otlp.marks import log_marks, span_marks
from toolgauge.otlp.views import KnownScope, Views
from toolgauge.otlp.wire_pb2 import RequestMessage

# The place of a span in its request: index of the resource group, of the scope group, of the span.
Place: TypeAlias = tuple[int, int, int]

# Of so many or fewer, each is searched for marks by itself: one search of all takes longer to begin than for a kilobyte.
_FEW = 2
# Taking them apart at once takes as much memory as the request, and large ones have little to gain by it.
_LARGEST_AT_ONCE = 8 << 20
_TRACE_ID_BYTES = 16
# Of a scope that no dialect knows: after so many spans one is looked at. Scopes that are counted, and keys that are learned.
_EACH_SAMPLE, _MOST_SCOPES, _MOST_LEARNED = 4096, 512, 64
_MOST_AT_ONCE = 4096


class ViewedSpan(Struct, frozen=True, eq=False):
    """A span that some dialect could read, its own bytes, its container, and its place in the request."""

    span: Span
    raw: bytes
    container: Container
    place: Place
    # It bears no mark: it was looked at as one of the first of its scope.
    is_sample: bool = False

    @property
    def linked_trace(self) -> str | None:
        """The trace that its only link names; `None` with no link, or several."""
        try:
            links = parse(SpanProto, self.raw).links
        except DecodeError:
            return None
        return links[0].trace_id.hex() if len(links) == 1 and len(links[0].trace_id) == _TRACE_ID_BYTES else None


@dataclass(slots=True, eq=False)
class DecodedTraces:
    """A request of spans. `viewed` is read once, one view at a time: all at once take up to eleven times the memory of the request.
    Reading it fills `heads`, the ids of all spans that are not viewed, but for spans of our own scope and spans without ids, and
    counts `undecodable` spans by reason, which bear a mark, cannot be read, and stay in the body.
    """

    span_count: int
    viewed: Iterator[ViewedSpan] = field(repr=False)
    request: bytes = field(repr=False)
    envelope: RequestMessage | None = field(repr=False)
    heads: list[PackedHead] = field(default_factory=list[PackedHead])
    undecodable: Counter[str] = field(default_factory=Counter[str])

    def body(self, without: Collection[Place] = ()) -> bytes | None:
        """Return the request without these spans, each named once; the bytes as received without any, `None` without a span left."""
        if not without:
            return self.request
        if len(without) == self.span_count:
            return None
        # The envelope loses the spans, so another call parses the request again.
        envelope, self.envelope = self.envelope, None
        return without_items(parse_request(self.request) if envelope is None else envelope, without)


@dataclass(slots=True, eq=False)
class DecodedLogs:
    """A request of log records. `viewed` is read once, one view at a time, and counts `undecodable` records with a mark."""

    record_count: int
    viewed: Iterator[LogRecord] = field(repr=False)
    undecodable: Counter[str] = field(default_factory=Counter[str])


def _survey(body: bytes, envelope: RequestMessage | None) -> tuple[RequestMessage, int, set[bytes]]:
    """Return the envelope, the number of items, and the first byte of each scope group, which has one writer."""
    request = parse_request(body) if envelope is None else envelope
    count = 0
    beginnings: set[bytes] = set()
    for resource_group in request.resource_groups:
        for group in resource_group.scope_groups:
            if items := group.items:
                count += len(items)
                beginnings.add(items[0][:1])
    return request, count, beginnings


class Decoder:
    """Decodes requests; remembers the scopes and resources that senders repeat. `labels` are attributes of resources.
    Items are viewed with keys or log event names that begin with one of `marks`, `wanted` keys, or scopes of `scopes`;
    spans also with JSON of an object that begins as one of `objects`, or a scope that has one of `scope_words` in its name,
    or an attribute that has one of `words` in its key or kind, and of each other scope the first `samples` and few later ones.
    """

    def __init__(
        self,
        marks: Sequence[str],
        scopes: Sequence[str],
        wanted: Collection[str] = (),
        *,
        labels: Collection[str] = (),
        objects: Sequence[str] = (),
        scope_words: Sequence[str] = (),
        words: Sequence[str] = (),
        samples: int = 0,
    ) -> None:
        self._views = Views(scopes, labels, scope_words)
        # Counts values that could not be decoded when they were looked up, ever.
        self.values = self._views.values
        # View a span that was kept as bytes.
        self.view = self._views.span
        self._span_marks_of = partial(span_marks, marks, objects=objects, words=words)
        self._wanted = frozenset(wanted)
        self._span_marks = self._span_marks_of(self._wanted)
        self._learned = 0
        self._samples = samples
        # The spans of each scope that no dialect knows, as far as they came.
        self._passed: dict[str, int] = {}
        self._log_marks = log_marks(marks, wanted)

    def look_for(self, key: str) -> None:
        """View all further spans with this attribute."""
        if key not in self._wanted and self._learned < _MOST_LEARNED:
            self._learned += 1
            self._wanted |= {key}
            self._span_marks = self._span_marks_of(self._wanted)

    def _samples_of(self, known: KnownScope, count: int) -> int:
        """Return how many spans of a scope are viewed without a mark: the first, and one of many later."""
        if not self._samples or known.is_named:
            return 0
        if len(self._passed) >= _MOST_SCOPES:
            self._passed.clear()
        passed = self._passed.get(known.scope.name, 0)
        self._passed[known.scope.name] = passed + count
        if passed < self._samples:
            return min(count, self._samples - passed)
        return int(passed // _EACH_SAMPLE < (passed + count) // _EACH_SAMPLE)

    def traces(self, body: bytes, sender: str | None = None, envelope: RequestMessage | None = None) -> DecodedTraces:
        """Decode a request of spans of one connection's `sender`; raise `DecodeError` when its envelope is broken."""
        request, span_count, beginnings = _survey(body, envelope)
        has_mark = self._span_marks.found_in_request(body, beginnings)
        is_large = len(body) > _LARGEST_AT_ONCE or span_count > _MOST_AT_ONCE
        decoded = DecodedTraces(span_count, iter(()), body, request)

        def spans() -> Iterator[ViewedSpan]:
            parsed_heads = None if has_mark or is_large else parse_heads(body)
            # In place of the request, which views would keep alive.
            stands_for = object()
            for resource_index, resource_group in enumerate(request.resource_groups):
                # Read once, and only for spans that are viewed.
                resource: Resource | None = None
                written: tuple[bytes, ...] = ()
                for scope_index, group in enumerate(resource_group.scope_groups):
                    known = self._views.scope(group.scope)
                    if known.is_own or not group.items:
                        continue
                    samples = self._samples_of(known, len(group.items))
                    if has_mark or known.is_named or samples:
                        if resource is None:
                            resource = self._views.resource(resource_group.resource)
                            written = copied(resource_group.resource)
                        around = Container(
                            *(written, resource_group.schema_url, copied(group.scope), group.schema_url),
                            request=stands_for,
                            origin=sender or stands_for,
                        )
                        looked_for = (group.items, known, resource, around, (resource_index, scope_index))
                        yield from self._viewed(*looked_for, decoded, samples, has_mark=has_mark, is_large=is_large)
                        continue
                    whole = None
                    if parsed_heads is not None:
                        whole = read_heads(parsed_heads.resource_groups[resource_index].scope_groups[scope_index])
                    # One after the other: all at once they would take as much memory as the request.
                    decoded.heads.extend(read_each(group.items) if whole is None else whole)

        decoded.viewed = spans()
        return decoded

    def logs(self, body: bytes, envelope: RequestMessage | None = None) -> DecodedLogs:
        """Decode a request of log records; raise `DecodeError` when its envelope is broken."""
        request, count, beginnings = _survey(body, envelope)
        has_mark = self._log_marks.found_in_request(body, beginnings)
        decoded = DecodedLogs(record_count=count, viewed=iter(()))

        def records() -> Iterator[LogRecord]:
            for resource_group in request.resource_groups:
                resource: Resource | None = None
                for group in resource_group.scope_groups:
                    known = self._views.scope(group.scope)
                    if known.is_own or not group.items or not (has_mark or known.is_named):
                        continue
                    bears_mark = self._log_marks.search_like(group.items[0])
                    resource = resource or self._views.resource(resource_group.resource)
                    for raw in group.items:
                        if known.is_named or bears_mark(raw) is not None:
                            try:
                                yield self._views.log_record(raw, resource, known.scope)
                            except DecodeError as error:
                                decoded.undecodable[error.reason] += 1

        decoded.viewed = records()
        return decoded

    def _viewed(
        self,
        items: Sequence[bytes],
        known: KnownScope,
        resource: Resource,
        around: Container,
        place: tuple[int, int],
        decoded: DecodedTraces,
        samples: int,
        *,
        has_mark: bool,
        is_large: bool,
    ) -> Iterator[ViewedSpan]:
        bears_mark = self._span_marks.search_like(items[0])
        may_bear = has_mark
        if has_mark and not known.is_named and not is_large:
            items = list(items)
            # An agent's spans share their scope with few others: a group has marks in its first span or, mostly, in none.
            may_bear = (
                len(items) <= _FEW
                or bears_mark(items[0]) is not None
                or self._span_marks.found_in_request(b"".join(items), items[:1])
            )
        if not may_bear and not known.is_named:
            decoded.heads.extend(read_each(islice(items, samples, None)))
            items = items[:samples]
        for index, raw in enumerate(items):
            is_marked = known.is_named or (may_bear and bears_mark(raw) is not None)
            if is_marked or index < samples:
                try:
                    span = self._views.span(raw, resource, known.scope)
                except DecodeError as error:
                    decoded.undecodable[error.reason] += 1
                else:
                    yield ViewedSpan(span, raw, around, (*place, index), not is_marked)
                    continue
            decoded.heads.extend(read_each((raw,)))
