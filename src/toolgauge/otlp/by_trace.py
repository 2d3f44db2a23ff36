"""One request of many traces -> requests of one trace each, as a message broker wants them: all of a trace under one key.

What the Collector's kafka exporter does with `partition_traces_by_id` and `partition_logs_by_trace_id`.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

from toolgauge.model.delivery import Signal
from toolgauge.model.errors import DecodeError
from toolgauge.otlp.envelope import Container, container, copied, encode_spans, parse_request
from toolgauge.otlp.heads import is_trace_id, read_head
from toolgauge.otlp.messages import LOG_RECORD, parse

Item: TypeAlias = tuple[Container, bytes]


class TraceRequest(Struct, frozen=True):
    """A request of one trace. `trace_id` is lower-case hex, `None` where its items have none; `count` of spans or log records."""

    trace_id: str | None
    body: bytes
    count: int


def split_by_trace(signal: Signal, body: bytes, max_bytes: int) -> Iterator[TraceRequest]:
    """Yield requests of one trace each, in the order in which traces first occur.

    One of more than `max_bytes` is divided between its items; a single item may still be larger. Metrics stay as they are. Raise
    `DecodeError` when the envelope is broken.
    """
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
        trace_id = parse(LOG_RECORD, raw).trace_id
    except DecodeError:
        return None
    return trace_id.hex() if is_trace_id(trace_id) else None
