"""Whatever comes in over the sockets, the process stays up, answers, and stays small."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import gzip
import math
import random
import secrets
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.wire.destination import receiving
from tests.wire.support import (
    OPENMETRICS,
    TRACES,
    Toolgauge,
    post,
    recorded,
    request,
    serving,
    to_grpc,
    until,
    until_equal,
)

MIB = 1 << 20
START_NS = 1_800_000_000_000_000_000


def text(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


class Trace:
    """One run of an agent with tool spans."""

    def __init__(self, number: int = 1, service: str = "hostile") -> None:
        self.request = ExportTraceServiceRequest()
        group = self.request.resource_spans.add()
        group.resource.attributes.append(text("service.name", service))
        self._spans = group.scope_spans.add().spans
        self._trace_id = number.to_bytes(16, "big")

    def tool(self, name: str, arguments: str = "{}", *more: KeyValue) -> Span:
        span = self._span("execute_tool", parent=b"rootroot")
        span.attributes.extend((text("gen_ai.tool.name", name), text("gen_ai.tool.call.arguments", arguments), *more))
        return span

    def ended(self) -> bytes:
        """The request, with the run's own span last."""
        self._span("invoke_agent", span_id=b"rootroot")
        return self.request.SerializeToString()

    def _span(self, operation: str, *, parent: bytes = b"", span_id: bytes | None = None) -> Span:
        span = self._spans.add(
            trace_id=self._trace_id,
            span_id=span_id or (len(self._spans) + 1).to_bytes(8, "big"),
            parent_span_id=parent,
            name=operation,
            start_time_unix_nano=START_NS + len(self._spans),
            end_time_unix_nano=START_NS + 1_000_000_000,
        )
        span.attributes.append(text("gen_ai.operation.name", operation))
        return span


def assert_still_well(toolgauge: Toolgauge) -> None:
    """It answers senders and scrapes, scores what comes next, and its books balance."""
    assert toolgauge.is_running(), toolgauge.said()
    before = trajectories(toolgauge)
    # A trace that nothing else sends: more spans of one that was scored already make no second trajectory.
    run = Trace(secrets.randbits(128), "still well")
    run.tool("search")
    toolgauge.send(run.ended(), "http")
    toolgauge.send(b"", "grpc")
    until(lambda: trajectories(toolgauge) > before, "the next trajectory to be scored")
    toolgauge.assert_books_balance()


def trajectories(toolgauge: Toolgauge) -> float:
    return toolgauge.total("toolgauge_trajectories_total")


def garbage() -> Iterator[bytes]:
    seeded = random.Random(7)  # noqa: S311 (the same garbage every time)
    (whole,) = recorded("pydantic-ai", "tool_error")
    for length in (1, 10, 1000, 100_000):
        yield seeded.randbytes(length)
    for cut in range(1, len(whole), len(whole) // 20):
        yield whole[:cut]
    for _ in range(30):
        at = seeded.randrange(len(whole))
        yield whole[:at] + seeded.randbytes(3) + whole[at + 3 :]


def test_garbage_in_requests_is_refused_and_nothing_else_happens(tmp_path: Path):
    with serving(tmp_path) as toolgauge, grpc.insecure_channel(f"127.0.0.1:{toolgauge.grpc_port}") as channel:
        export = channel.unary_unary(TRACES)
        for body in garbage():
            assert post(toolgauge.http_port, body)[0] in (200, 400)
            call = export.future(body, timeout=60)
            assert call.code() in (grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT)
        assert_still_well(toolgauge)


def test_garbage_on_connections_is_closed_and_nothing_else_happens(tmp_path: Path):
    with serving(tmp_path) as toolgauge:
        openings = (
            b"\x00" * 4096,
            bytes(range(255, 0, -1)) * 256,
            b"POST /v1/traces HTTP/1.1\r\nContent-Length: 100000\r\n\r\nonly this",
            b"POST /v1/traces HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFF\r\n",
            b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 200_000,
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 1000,
        )
        for port in (toolgauge.grpc_port, toolgauge.http_port, toolgauge.metrics_port):
            for opening in openings:
                with socket.create_connection(("127.0.0.1", port), 60) as connection:
                    connection.sendall(opening)
        assert_still_well(toolgauge)


def test_gzip_bombs_are_too_large_and_cost_no_memory(tmp_path: Path):
    bomb = gzip.compress(bytes(70 * MIB))
    with serving(tmp_path) as toolgauge:
        before = toolgauge.memory_mib()
        for _ in range(3):
            headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
            assert request(toolgauge.http_port, "POST", "/v1/traces", bomb, headers)[0] == 413
        with grpc.insecure_channel(f"127.0.0.1:{toolgauge.grpc_port}") as channel:
            export = channel.unary_unary(TRACES)
            with pytest.raises(grpc.RpcError) as refused:
                export(bytes(70 * MIB), compression=grpc.Compression.Gzip, timeout=60)
            code = refused.value.code()  # pyright: ignore[reportAttributeAccessIssue]
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert toolgauge.memory_mib() - before < 250
        assert_still_well(toolgauge)


def test_many_requests_of_a_million_attributes_at_once_stay_within_the_limit_of_memory(tmp_path: Path):
    attributes = ExportTraceServiceRequest.FromString(Trace().ended())
    span = attributes.resource_spans[0].scope_spans[0].spans[0]
    span.attributes.extend([KeyValue(key="n", value=AnyValue(int_value=1))] * 1_000_000)
    body = gzip.compress(attributes.SerializeToString(), 1)
    headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
    with serving(tmp_path, "memory.limit=256MiB") as toolgauge:
        with ThreadPoolExecutor(12) as senders:
            port = toolgauge.http_port
            sent = [senders.submit(request, port, "POST", "/v1/traces", body, headers) for _ in range(12)]
            answers = {one.result()[0] for one in sent}
        assert answers <= {200, 503}
        assert 200 in answers
        assert toolgauge.memory_mib("VmHWM") < 256
        until(lambda: toolgauge.total("toolgauge_spans_undecodable_total") > 0, "the spans to be counted")
        assert_still_well(toolgauge)


def test_a_span_of_ten_megabytes_goes_through_unchanged(tmp_path: Path):
    trace = Trace()
    trace.tool("upload", '{"content": "' + "x" * (10 * MIB) + '"}')
    with receiving() as destination, serving(tmp_path, to_grpc(destination.grpc_port)) as toolgauge:
        before = toolgauge.memory_mib()
        toolgauge.send(trace.ended())
        toolgauge.settled(2)
        (span,) = [span for span in destination.spans() if span.name == "execute_tool"]
        assert len(span.attributes[2].value.string_value) == 10 * MIB + 15
        until(lambda: trajectories(toolgauge) == 1, "its trajectory to be scored")
        assert toolgauge.memory_mib() - before < 200
        assert_still_well(toolgauge)


DEEP = 100_000
ARGUMENTS = {
    "deep lists": "[" * DEEP + "]" * DEEP,
    "deep objects": '{"a":' * DEEP + "1" + "}" * DEEP,
    "deep and never closed": "[" * DEEP,
    "deep Python literals": "(" * DEEP + ")" * DEEP,
    "a long integer": "9" * DEEP,
    "many keys": "{" + ",".join(f'"k{number}": {number}' for number in range(50_000)) + "}",
    "not a number": '{"amount": NaN, "other": -Infinity, "big": 1e999}',
    "a lone surrogate": '{"name": "\\ud800"}',
    "text with controls": '{"name": "\\u0000\\u001b[31m"}',
}


def test_arguments_that_break_parsers_are_read_or_said_to_be_unreadable(tmp_path: Path):
    trace = Trace()
    for arguments in ARGUMENTS.values():
        trace.tool("deep", arguments)
    with receiving() as destination, serving(tmp_path, to_grpc(destination.grpc_port)) as toolgauge:
        toolgauge.send(trace.ended())
        toolgauge.settled(len(ARGUMENTS) + 1)
        (card,) = until(destination.scorecards, "the scorecard")
        assert len(card.links) >= len(ARGUMENTS)
        assert_still_well(toolgauge)


def test_attribute_values_that_are_no_text_are_passed_on(tmp_path: Path):
    nested = AnyValue(string_value="end")
    for _ in range(20):
        outer = AnyValue()
        outer.kvlist_value.values.add(key="k").value.CopyFrom(nested)
        nested = outer
    odd = (
        KeyValue(key="gen_ai.tool.call.result", value=AnyValue(double_value=math.nan)),
        KeyValue(key="gen_ai.tool.call.id", value=AnyValue(bytes_value=b"\xff\xfe")),
        KeyValue(key="gen_ai.agent.name", value=nested),
        KeyValue(key="error.type"),
    )
    trace = Trace()
    trace.tool("odd", "{}", *odd).end_time_unix_nano = 2**64 - 1
    with receiving() as destination, serving(tmp_path, to_grpc(destination.grpc_port)) as toolgauge:
        toolgauge.send(trace.ended())
        toolgauge.settled(2)
        (span,) = [span for span in destination.spans() if span.name == "execute_tool"]
        values = {attribute.key: attribute.value for attribute in span.attributes}
        assert math.isnan(values["gen_ai.tool.call.result"].double_value)
        assert values["gen_ai.agent.name"] == nested
        until(lambda: trajectories(toolgauge) == 1, "its trajectory to be scored")
        assert_still_well(toolgauge)


def test_values_nested_deeper_than_parsers_go_cost_nothing_but_themselves(tmp_path: Path):
    trace = Trace()
    trace.tool("fine")
    value = b"\x0a\x01x"
    for _ in range(3000):
        entry = b"\x0a\x01k\x12" + varint(len(value)) + value
        inner = b"\x0a" + varint(len(entry)) + entry
        value = b"\x32" + varint(len(inner)) + inner
    with serving(tmp_path) as toolgauge:
        trace.tool("deep")
        raw = ExportTraceServiceRequest.FromString(trace.ended())
        attribute = b"\x0a\x10gen_ai.tool.name\x12" + varint(len(value)) + value
        spans = raw.resource_spans[0].scope_spans[0]
        with_deep = spans.spans[1].SerializeToString() + b"\x4a" + varint(len(attribute)) + attribute
        scope_spans = spans.SerializeToString() + b"\x12" + varint(len(with_deep)) + with_deep
        resource_spans = b"\x12" + varint(len(scope_spans)) + scope_spans
        toolgauge.send(b"\x0a" + varint(len(resource_spans)) + resource_spans)
        until(lambda: trajectories(toolgauge) == 1, "its trajectory to be scored")
        assert_still_well(toolgauge)


def varint(number: int) -> bytes:
    """How protobuf writes a length."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


NAMES = (
    "<script>alert(1)</script>",
    'quote" and \\ backslash',
    "new\nline",
    "\x00\x1b[31m\x7f",
    "}{=,#",
    "# EOF",
    "\u202eright to left",
    "\ufffe\uffff",
    "日本語",
    "(a+)+$",
    "x" * 100_000,
    " ",
)


def test_names_that_break_formats_leave_the_metrics_readable(tmp_path: Path):
    trace = Trace(service='a\nb"c\\d')
    for name in NAMES:
        trace.tool(name)
    broken = Trace(number=2)
    broken.tool("SURROGATE")
    # As bytes: protobuf refuses to write a lone surrogate, hostile senders do not.
    surrogate = broken.ended().replace(b"SURROGATE", b"\xed\xa0\x80\xed\xa0\x80\xff\xfe\xfd")
    with receiving() as destination, serving(tmp_path, to_grpc(destination.grpc_port)) as toolgauge:
        toolgauge.send(trace.ended())
        post(toolgauge.http_port, surrogate)
        until(lambda: destination.scorecards() or None, "the scorecard")
        counted = {
            dict(labels)["gen_ai_tool_name"]
            for (name, labels) in toolgauge.samples()
            if name == "toolgauge_tool_calls_total"
        }
        assert {"日本語", "(a+)+$", "<script>alert(1)</script>"} <= counted
        assert max(len(name) for name in counted) < 1000
        assert toolgauge.exposition(OPENMETRICS).endswith("# EOF\n")
        assert "\x1b" not in toolgauge.exposition() + toolgauge.said()
        until(lambda: destination.metrics().get("toolgauge.tool_calls"), "the pushed metrics")
        assert_still_well(toolgauge)


def test_hundreds_of_tool_names_fill_no_metrics_store(tmp_path: Path):
    with serving(tmp_path, "watch.max_streams=300") as toolgauge:
        for number in range(4):
            trace = Trace(number=number + 1)
            for tool in range(100):
                trace.tool(f"tool_{number}_{tool}")
            toolgauge.send(trace.ended())
        until(lambda: trajectories(toolgauge) == 4, "all trajectories")
        # The last trajectory is counted before its calls are.
        until_equal(lambda: calls_by_tool(toolgauge).get("_other"), 200, "all calls")
        assert len(calls_by_tool(toolgauge)) == 201
        # Most of it are the streams that are watched.
        assert len(toolgauge.exposition()) < 2 * MIB
        assert_still_well(toolgauge)


def calls_by_tool(toolgauge: Toolgauge) -> dict[str, float]:
    return {
        dict(labels)["gen_ai_tool_name"]: value
        for (name, labels), value in toolgauge.samples().items()
        if value and name == "toolgauge_tool_calls_total"
    }


def test_ids_of_wrong_length_cost_their_neighbours_nothing(tmp_path: Path):
    trace = Trace()
    trace.tool("fine")
    trace.tool("no id").span_id = b""
    trace.tool("short id").trace_id = b"short"
    trace.tool("zero id").span_id = struct.pack(">Q", 0)
    with receiving() as destination, serving(tmp_path, to_grpc(destination.grpc_port)) as toolgauge:
        toolgauge.send(trace.ended())
        toolgauge.settled(5)
        until(lambda: trajectories(toolgauge) >= 1, "the trajectory of what is fine")
        assert len(destination.spans()) == 5
        assert_still_well(toolgauge)
