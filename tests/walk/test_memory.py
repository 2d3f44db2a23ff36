"""What we say open traces take is what they take: bounds in bytes are worth nothing otherwise."""

# pyright: reportUnknownMemberType=false

import gc
import json
import os
import tracemalloc
from collections.abc import Callable, Iterator

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.walk.support import START_NS, Walk

ROWS = [{"sku": f"A-{number}", "price": number / 3, "in_stock": True, "tags": ["new"]} for number in range(300)]


def _span(trace_id: bytes, parent: bytes = b"", **attributes: str) -> Span:
    span = Span(
        trace_id=trace_id,
        span_id=os.urandom(8),
        parent_span_id=parent,
        name=attributes["operation"],
        start_time_unix_nano=START_NS,
        end_time_unix_nano=START_NS + 1,
    )
    for name, value in attributes.items():
        key = "gen_ai.operation.name" if name == "operation" else "gen_ai." + name.replace("__", ".")
        span.attributes.append(KeyValue(key=key, value=AnyValue(string_value=value)))
    return span


def _tool(trace_id: bytes, parent: bytes, arguments: object, result: object) -> Span:
    return _span(
        trace_id,
        parent,
        operation="execute_tool",
        tool__name="find_order",
        tool__call__id="call_" + os.urandom(12).hex(),
        tool__call__arguments=json.dumps(arguments),
        tool__call__result=json.dumps(result),
    )


def one_span() -> Iterator[Span]:
    yield _span(os.urandom(16), os.urandom(8), operation="execute_tool", tool__name="find_order")


def a_run_of_ten() -> Iterator[Span]:
    trace_id, run = os.urandom(16), os.urandom(8)
    messages = [{"role": "user", "parts": [{"type": "text", "content": "Where is my order? " * 10}]}]
    for number in range(5):
        yield _span(trace_id, run, operation="chat", input__messages=json.dumps(messages))
        found = {"state": "shipped", "place": f"Depot {os.urandom(4).hex()}"}
        yield _tool(trace_id, run, {"order_id": f"A-{number}", "customer": os.urandom(6).hex()}, found)


def a_long_table() -> Iterator[Span]:
    yield _tool(os.urandom(16), os.urandom(8), {"page": "1"}, ROWS)


def many_tiny_containers() -> Iterator[Span]:
    pairs: list[list[object]] = [[{}, []] for _ in range(3000)]
    yield _tool(os.urandom(16), os.urandom(8), {"page": "1"}, pairs)


def texts_in_other_scripts() -> Iterator[Span]:
    yield _tool(os.urandom(16), os.urandom(8), {"page": "1"}, {"text": "\u6587" * 20_000, "laugh": "\U0001f600" * 5000})


def more_text_than_is_kept() -> Iterator[Span]:
    trace_id, parent = os.urandom(16), os.urandom(8)
    for _ in range(8):
        yield _tool(trace_id, parent, {"page": "1"}, os.urandom(30_000).hex())


def mostly_spans_that_nobody_reads() -> Iterator[Span]:
    trace_id, parent = os.urandom(16), os.urandom(8)
    yield _tool(trace_id, parent, {}, {})
    for _ in range(50):
        yield Span(trace_id=trace_id, span_id=os.urandom(8), parent_span_id=parent, name="GET /")


def _tools(text: str) -> str:
    schema = {"type": "object", "properties": {name: {"type": "string", "description": text} for name in "abcdef"}}
    return json.dumps([{"name": f"tool_{number}", "parameters": schema} for number in range(20)])


def many_tools_that_all_have() -> Iterator[Span]:
    # 140 KiB of text.
    yield _span(os.urandom(16), os.urandom(8), operation="chat", tool__definitions=_tools("What it is. " * 100))


def _request(spans: Iterator[Span]) -> bytes:
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.extend(spans)
    return request.SerializeToString()


def _said(walk: Walk) -> int:
    return int(walk.metrics.traces_open_bytes.current()[()])


def _estimated_and_taken(before: list[bytes], bodies: list[bytes]) -> tuple[int, int]:
    """Return by how much the estimate and the memory in use grow; `before` fills what is remembered of senders."""
    walk = Walk("annotate=off", "assemble.max_content_bytes=256KiB", "assemble.max_open_bytes=4GiB")
    walk.bag.is_leaf = True
    for body in before:
        walk.send(body)
    gc.collect()
    estimated = _said(walk)
    tracemalloc.start(1)
    try:
        for body in bodies:
            walk.send(body)
        walk.bag.taken.clear()
        gc.collect()
        return _said(walk) - estimated, tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("spans", "traces"),
    [
        (one_span, 250),
        (a_run_of_ten, 50),
        (a_long_table, 20),
        pytest.param(many_tiny_containers, 10, marks=pytest.mark.long),
        pytest.param(texts_in_other_scripts, 20, marks=pytest.mark.long),
        pytest.param(more_text_than_is_kept, 2, marks=pytest.mark.long),
        (mostly_spans_that_nobody_reads, 20),
        pytest.param(many_tools_that_all_have, 50, marks=pytest.mark.long),
    ],
)
def test_open_traces_take_about_what_is_said(spans: Callable[[], Iterator[Span]], traces: int):
    bodies = [_request(spans()) for _ in range(traces)]
    estimated, taken = _estimated_and_taken([_request(spans())], bodies)
    assert taken / 1.5 < estimated < taken * 1.5
