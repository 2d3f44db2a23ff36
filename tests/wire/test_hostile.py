"""Whatever comes in over the sockets, the process stays up, answers, and stays small."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import gzip
import random
import secrets
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.wire.destination import Destination, receiving
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

    def __init__(self, number: int, service: str = "hostile") -> None:
        self.number = number
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


@dataclass(frozen=True)
class Running:
    """A toolgauge that all tests but a few send to, and where it sends to."""

    toolgauge: Toolgauge
    destination: Destination

    def spans(self, number: int) -> list[Span]:
        return [span for span in self.destination.spans() if span.trace_id == number.to_bytes(16, "big")]

    def sent_and_scored(self, trace: Trace) -> tuple[Span, Span]:
        """Send a trace, and return its call and its scorecard when all of it has arrived."""
        body = trace.ended()
        number = trace.number.to_bytes(16, "big")
        count = len(ExportTraceServiceRequest.FromString(body).resource_spans[0].scope_spans[0].spans)
        self.toolgauge.send(body)

        def arrived() -> tuple[Span, Span] | None:
            cards = [card for card in self.destination.scorecards() if card.trace_id == number]
            calls = [span for span in self.spans(trace.number) if span.name == "execute_tool"]
            return (calls[0], cards[0]) if cards and len(calls) == count - 1 else None

        return until(arrived, "the spans and the scorecard")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with (
        receiving() as destination,
        serving(tmp_path_factory.mktemp("hostile"), to_grpc(destination.grpc_port)) as toolgauge,
    ):
        # Connections that began in a test would seem to be left behind by it.
        assert_still_well(toolgauge)
        until(lambda: destination.scorecards() and destination.events() and destination.metrics(), "the connections")
        yield Running(toolgauge, destination)


@pytest.fixture(autouse=True)
def stays_well(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "running" in request.fixturenames:
        assert_still_well(request.getfixturevalue("running").toolgauge)


def assert_still_well(toolgauge: Toolgauge) -> None:
    """It answers senders and scrapes, scores what comes next, and its books balance."""
    assert toolgauge.is_running(), toolgauge.said()
    before = toolgauge.total("toolgauge_trajectories_total")
    # A trace that nothing else sends: more spans of one that was scored already make no second trajectory.
    run = Trace(secrets.randbits(128), "still well")
    run.tool("search")
    toolgauge.send(run.ended(), "http")
    toolgauge.send(b"", "grpc")
    until(lambda: toolgauge.total("toolgauge_trajectories_total") > before, "the next trajectory to be scored")
    toolgauge.assert_books_balance()


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


def test_garbage_in_requests_is_refused_and_nothing_else_happens(running: Running):
    toolgauge = running.toolgauge
    with grpc.insecure_channel(f"127.0.0.1:{toolgauge.grpc_port}") as channel:
        export = channel.unary_unary(TRACES)
        for body in garbage():
            assert post(toolgauge.http_port, body)[0] in (200, 400)
            call = export.future(body, timeout=60)
            assert call.code() in (grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT)


def test_garbage_on_connections_is_closed_and_nothing_else_happens(running: Running):
    openings = (
        bytes(range(255, 0, -1)) * 256,
        b"POST /v1/traces HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFF\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 200_000,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 1000,
    )
    toolgauge = running.toolgauge
    for port in (toolgauge.grpc_port, toolgauge.http_port, toolgauge.metrics_port):
        for opening in openings:
            with socket.create_connection(("127.0.0.1", port), 60) as connection:
                connection.sendall(opening)


def test_gzip_bombs_are_too_large_and_cost_no_memory(running: Running):
    bomb, toolgauge = gzip.compress(bytes(70 * MIB)), running.toolgauge
    before = toolgauge.memory_mib()
    headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
    for _ in range(2):
        assert request(toolgauge.http_port, "POST", "/v1/traces", bomb, headers)[0] == 413
    with grpc.insecure_channel(f"127.0.0.1:{toolgauge.grpc_port}") as channel:
        call = channel.unary_unary(TRACES).future(bytes(70 * MIB), compression=grpc.Compression.Gzip, timeout=60)
        assert call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert toolgauge.memory_mib() - before < 250


@pytest.mark.parametrize("senders", [4, pytest.param(12, marks=pytest.mark.long)])
def test_many_requests_of_a_million_attributes_at_once_stay_within_the_limit_of_memory(tmp_path: Path, senders: int):
    attributes = ExportTraceServiceRequest.FromString(Trace(1).ended())
    span = attributes.resource_spans[0].scope_spans[0].spans[0]
    span.attributes.extend([KeyValue(key="n", value=AnyValue(int_value=1))] * 1_000_000)
    body = gzip.compress(attributes.SerializeToString(), 1)
    headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
    with serving(tmp_path, "memory.limit=256MiB") as toolgauge:
        with ThreadPoolExecutor(senders) as pool:
            port = toolgauge.http_port
            sent = [pool.submit(request, port, "POST", "/v1/traces", body, headers) for _ in range(senders)]
            answers = {one.result()[0] for one in sent}
        assert {200} <= answers <= {200, 503}
        assert toolgauge.memory_mib("VmHWM") < 256
        until(lambda: toolgauge.total("toolgauge_spans_undecodable_total") > 0, "the spans to be counted")
        assert_still_well(toolgauge)


def test_a_span_of_ten_megabytes_goes_through_unchanged(running: Running):
    trace = Trace(2)
    trace.tool("upload", '{"content": "' + "x" * (10 * MIB) + '"}')
    tool, _ = running.sent_and_scored(trace)
    assert len(tool.attributes[2].value.string_value) == 10 * MIB + 15


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


def test_names_that_break_formats_leave_the_metrics_readable(running: Running):
    trace, broken, toolgauge = Trace(6, 'a\nb"c\\d'), Trace(7), running.toolgauge
    for name in NAMES:
        trace.tool(name)
    broken.tool("SURROGATE")
    running.sent_and_scored(trace)
    # As bytes: protobuf refuses to write a lone surrogate, hostile senders do not.
    post(toolgauge.http_port, broken.ended().replace(b"SURROGATE", b"\xed\xa0\x80\xed\xa0\x80\xff\xfe\xfd"))
    counted = calls_by_tool(toolgauge).keys()
    assert {"日本語", "(a+)+$", "<script>alert(1)</script>"} <= counted
    assert max(len(name) for name in counted) < 1000
    assert toolgauge.exposition(OPENMETRICS).endswith("# EOF\n")
    assert "\x1b" not in toolgauge.exposition() + toolgauge.said()
    until(lambda: running.destination.metrics().get("toolgauge.tool_calls"), "the pushed metrics")


def calls_by_tool(toolgauge: Toolgauge) -> dict[str, float]:
    return {
        dict(labels)["gen_ai_tool_name"]: value
        for (name, labels), value in toolgauge.samples().items()
        if value and name == "toolgauge_tool_calls_total"
    }


def test_ids_of_wrong_length_cost_their_neighbours_nothing(running: Running):
    trace, short = Trace(8), b"short"
    trace.tool("fine")
    trace.tool("no id").span_id = b""
    trace.tool("short id").trace_id = short
    trace.tool("zero id").span_id = bytes(8)
    running.toolgauge.send(trace.ended())
    until_equal(lambda: len(running.spans(8)), 4, "the spans of the trace")
    until(lambda: [span for span in running.destination.spans() if span.trace_id == short], "the one of no trace")
