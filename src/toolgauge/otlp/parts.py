"""Splits one request: into requests of one trace each for a message broker, or into one part for each worker.

A broker wants all of a trace under one key, as the Collector's kafka exporter writes it. A request for one worker stays byte
for byte. With conversation ids, the first request with spans of a trace decides: the trace goes to the worker of the
conversation that one of these spans shows, else to the worker of the trace id. Later spans follow it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias
from zlib import crc32

from msgspec import Struct

from toolgauge.model.delivery import Signal
from toolgauge.model.errors import DecodeError
from toolgauge.otlp.bounds import parse
from toolgauge.otlp.envelope import Container, container, copied, encode_spans, is_trace_id, parse_request, read_head
from toolgauge.otlp.marks import is_back_to_front
from toolgauge.otlp.request import check_signal
from toolgauge.otlp.wire_pb2 import LogRecordMessage, RequestMessage, ResourceGroupMessage, ScopeGroupMessage

Item: TypeAlias = tuple[Container, bytes]


class TraceRequest(Struct, frozen=True):
    """A request of one trace. `trace_id` is lower-case hex, `None` where its items have none; `count` of spans or log records."""

    trace_id: str | None
    body: bytes
    count: int


def split_by_trace(signal: Signal, body: bytes, max_bytes: int) -> Iterator[TraceRequest]:
    """Yield requests of one trace each, divided between items over `max_bytes`; metrics stay whole. Raise `DecodeError`."""
    if signal == "metrics":
        yield TraceRequest(None, body, 0)
        return
    by_trace: dict[str | None, list[Item]] = {}
    for around, raw in copied_items(body):
        trace_id = trace_id_of(signal, raw)
        by_trace.setdefault(trace_id, []).append((around, raw))
    if len(by_trace) == 1 and len(body) <= max_bytes:
        for trace_id, items in by_trace.items():
            yield TraceRequest(trace_id, body, len(items))
        return
    for trace_id, items in by_trace.items():
        yield from _fitting(trace_id, items, max_bytes)


def copied_items(body: bytes) -> Iterator[Item]:
    """Yield the spans or log records of a request, each with what stands around it. Raise `DecodeError` when the envelope is broken."""
    request = object()
    for group in parse_request(body).resource_groups:
        resource = copied(group.resource)
        for scope_group in group.scope_groups:
            around = container(resource, group.schema_url, scope_group, request=request, origin=request)
            for raw in scope_group.items:
                yield around, raw


def _fitting(trace_id: str | None, items: Sequence[Item], max_bytes: int) -> Iterator[TraceRequest]:
    body = encode_spans(items)
    if len(body) <= max_bytes or len(items) == 1:
        yield TraceRequest(trace_id, body, len(items))
        return
    middle = len(items) // 2
    yield from _fitting(trace_id, items[:middle], max_bytes)
    yield from _fitting(trace_id, items[middle:], max_bytes)


def trace_id_of(signal: Signal, raw: bytes) -> str | None:
    """Read the trace id of a span or log record, in lower-case hex; `None` where it has none."""
    if signal == "traces":
        head = read_head(raw)
        return None if head is None else head[0].hex()
    try:
        trace_id = parse(LogRecordMessage, raw).trace_id
    except DecodeError:
        return None
    return trace_id.hex() if is_trace_id(trace_id) else None


# Beyond them the oldest are forgotten: their later spans go by trace id.
_MAX_TRACES = 100_000
# The tag and the length of a trace id in a span.
_TRACE_ID = b"\n\x10"
# Items of one worker, in the groups that they came in.
_Group: TypeAlias = tuple[ResourceGroupMessage, ScopeGroupMessage, list[bytes]]


class Part(Struct, frozen=True):
    """What of a request one worker is to have; `items` counts its spans or log records."""

    worker: int
    body: bytes
    items: int


class Divider:
    """Divides requests between `workers`, on one thread, by trace id or by the first of `conversation_keys` that a trace has."""

    def __init__(self, workers: int, conversation_keys: Sequence[str] = ()) -> None:
        self._workers = workers
        self._searches = tuple(re.compile(_written_key(key), re.DOTALL).search for key in conversation_keys)
        # The worker of each trace that goes by its conversation, the oldest first.
        self._of_trace: dict[str, int] = {}

    @property
    def remembers(self) -> bool:
        """Whether traces go by conversations, and where they go is remembered: requests are divided on one thread then."""
        return bool(self._searches)

    def adopt(self, conversation_keys: Sequence[str]) -> None:
        """Go by these keys from here on; traces that are known stay where they are."""
        self._searches = tuple(re.compile(_written_key(key), re.DOTALL).search for key in conversation_keys)

    def divide(self, signal: Signal, body: bytes) -> list[Part]:
        """Return a request's parts, items without a trace id at one worker; raise `DecodeError` when it is broken."""
        if signal == "metrics":
            return [Part(0, body, 0)]
        request = parse_request(body)
        check_signal(signal, request)
        groups = [(group, list(group.scope_groups)) for group in request.resource_groups]
        if self._searches:
            self._remember_conversations((trace_id_of(signal, item[1]), item) for item in copied_items(body))
        # Of each worker what stands around its items, and the items.
        by_worker: dict[int, list[_Group]] = {}
        of_trace: dict[bytes, int] = {}
        for group, scope_groups in groups:
            for scope_group in scope_groups:
                for worker, raws in self._divided(signal, scope_group.items, of_trace).items():
                    by_worker.setdefault(worker, []).append((group, scope_group, raws))
        counts = {worker: sum(len(raws) for _, _, raws in own) for worker, own in by_worker.items()}
        if len(by_worker) <= 1:
            return [Part(worker, body, counts.get(worker, 0)) for worker in by_worker or (0,)]
        return [Part(worker, _encoded(own), counts[worker]) for worker, own in by_worker.items()]

    def _divided(self, signal: Signal, raws: Iterable[bytes], of_trace: dict[bytes, int]) -> dict[int, list[bytes]]:
        """Return the items of each worker; `of_trace` has the workers of the ids that were seen in this request."""
        divided: dict[int, list[bytes]] = {}
        is_span = signal == "traces"
        for raw in raws:
            # As SDKs write a span, and as the Collector does, back to front. In all others the id is looked for.
            if is_span and raw[:2] == _TRACE_ID:
                written = raw[2:18]
            elif is_span and raw[-18:-16] == _TRACE_ID and is_back_to_front(raw):
                written = raw[-16:]
            else:
                found = trace_id_of(signal, raw)
                written = b"" if found is None else bytes.fromhex(found)
            worker = of_trace.get(written)
            if worker is None:
                worker = of_trace[written] = self.worker_of(written.hex() if is_trace_id(written) else None)
            if worker in divided:
                divided[worker].append(raw)
            else:
                divided[worker] = [raw]
        return divided

    def worker_of(self, trace_id: str | None) -> int:
        """Return which worker has the trace with this id, `None` for what belongs to no trace."""
        if trace_id is None:
            return 0
        known = self._of_trace.get(trace_id)
        return self._worker_by(trace_id.encode()) if known is None else known

    def _worker_by(self, key: bytes) -> int:
        return crc32(key) % self._workers

    def _remember_conversations(self, items: Iterable[tuple[str | None, Item]]) -> None:
        """Decide where traces go that this request brings."""
        begun: dict[str, bytes | None] = {}
        of_resource: dict[tuple[bytes, ...], bytes | None] = {}
        for trace_id, (around, raw) in items:
            if trace_id is None or trace_id in self._of_trace or begun.get(trace_id) is not None:
                continue
            found = self._conversation(raw)
            if found is None:
                if around.resource not in of_resource:
                    of_resource[around.resource] = self._conversation(b"".join(around.resource))
                found = of_resource[around.resource]
            begun[trace_id] = found
        for trace_id, conversation in begun.items():
            self._of_trace[trace_id] = self._worker_by(trace_id.encode() if conversation is None else conversation)
        while len(self._of_trace) > _MAX_TRACES:
            del self._of_trace[next(iter(self._of_trace))]

    def _conversation(self, raw: bytes) -> bytes | None:
        for search in self._searches:
            found = search(raw)
            if found is not None:
                start, size = found.end(), found[1][0]
                return raw[start : start + size]
        return None


def _encoded(own: Iterable[_Group]) -> bytes:
    request = RequestMessage()
    begun: ResourceGroupMessage | None = None
    written = request.resource_groups
    for group, scope_group, raws in own:
        if group is not begun:
            begun = group
            resource_group = written.add()
            resource_group.resource.extend(copied(group.resource))
            resource_group.schema_url = group.schema_url
        scope = written[-1].scope_groups.add()
        scope.scope.extend(copied(scope_group.scope))
        scope.schema_url = scope_group.schema_url
        scope.items.extend(raws)
    return request.SerializeToString()


def _written_key(key: str) -> bytes:
    """Write the pattern of an attribute with this key; its group is the length of a text of 1 to 125 bytes."""
    written = key.encode()
    return b"\n" + re.escape(bytes((len(written),)) + written) + b"\x12[\x03-\x7f]\n([\x01-\x7d])"
