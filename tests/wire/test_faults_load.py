"""Very large traces, very many of them, senders that stop in the middle, and what an acknowledgement means."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from tests.wire.destination import receiving
from tests.wire.sink import Sink, onward_to
from tests.wire.support import Toolgauge, post, recorded, serving, to_http, until

START_NS = 1_800_000_000_000_000_000


def text(key: str, value: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=value))


def tool_spans(trace_number: int, numbers: range, *, with_root: bool = False) -> bytes:
    """A part of one run: tool spans, and at last the run's own span."""
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.append(text("service.name", "large"))
    spans = group.scope_spans.add().spans
    trace_id = trace_number.to_bytes(16, "big")
    for number in numbers:
        span = spans.add(
            trace_id=trace_id,
            span_id=(number + 1).to_bytes(8, "big"),
            parent_span_id=b"rootroot",
            name="execute_tool",
            start_time_unix_nano=START_NS + number,
            end_time_unix_nano=START_NS + number + 1,
        )
        span.attributes.extend(
            (
                text("gen_ai.operation.name", "execute_tool"),
                text("gen_ai.tool.name", f"tool_{number % 50}"),
                text("gen_ai.tool.call.arguments", f'{{"id": {number}}}'),
            )
        )
    if with_root:
        root = spans.add(
            trace_id=trace_id, span_id=b"rootroot", name="invoke_agent",
            start_time_unix_nano=START_NS, end_time_unix_nano=START_NS + 1_000_000_000,
        )  # fmt: skip
        root.attributes.append(text("gen_ai.operation.name", "invoke_agent"))
    return request.SerializeToString()


class Prober(threading.Thread):
    """Sends an empty request again and again, and keeps the longest time that an answer took."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self.slowest_s = 0.0
        self.answers = 0
        self._port = port
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.05):
            began = time.monotonic()
            assert post(self._port, b"")[0] == 200
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)
            self.answers += 1

    def stop(self) -> None:
        self._over.set()
        self.join()


@contextlib.contextmanager
def probing(toolgauge: Toolgauge) -> Generator[Prober]:
    prober = Prober(toolgauge.http_port)
    prober.start()
    try:
        yield prober
    finally:
        prober.stop()


@pytest.mark.parametrize("count", [2000, pytest.param(100_000, marks=pytest.mark.long)])
def test_a_very_large_trace_is_scored_while_others_are_answered(tmp_path: Path, sink: Sink, count: int):
    settings = (onward_to(sink, "grpc"), "hold.timeout=10s")
    # More text than is kept.
    with serving(tmp_path, *settings, "assemble.max_content_bytes=64KiB") as toolgauge:
        before = toolgauge.memory_mib()
        began = time.monotonic()
        with probing(toolgauge) as prober:
            for first in range(0, count, 1000):
                toolgauge.send(tool_spans(1, range(first, first + 1000), with_root=first + 1000 == count))
            toolgauge.settled(count + 1)
            until(lambda: toolgauge.total("toolgauge_trajectories_total") >= 1, "the trajectory")
        assert prober.answers > 1
        if count > 10_000:
            # Nobody waits for the trace, however busy the machine is.
            assert prober.slowest_s < (time.monotonic() - began) / 3
        assert sink.counted("unique_spans") == count + 1
        assert toolgauge.books()["forwarded"] == count + 1
        assert toolgauge.memory_mib() - before < 300 + count / 200


def send_traces(toolgauge: Toolgauge, numbers: range) -> None:
    """Send one tool span of each trace, a thousand a request."""
    whole = ExportTraceServiceRequest.FromString(tool_spans(1, range(1000)))
    for first in range(numbers.start, numbers.stop, 1000):
        for number, span in enumerate(whole.resource_spans[0].scope_spans[0].spans, first):
            span.trace_id = number.to_bytes(16, "big")
        toolgauge.send(whole.SerializeToString())


def test_half_sent_requests_and_idle_connections_take_nothing_from_others(tmp_path: Path):
    (body,) = recorded("pydantic-ai", "tool_error")
    head = f"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\nContent-Length: {len(body)}"
    openings = (b"", b"POST /v1", head.encode(), f"{head}\r\n\r\n".encode() + body[: len(body) // 2])
    with (
        receiving() as destination,
        contextlib.ExitStack() as connections,
        serving(tmp_path, to_http(destination.http_port)) as toolgauge,
    ):
        before = toolgauge.memory_mib()
        for number in range(300):
            port = (toolgauge.http_port, toolgauge.grpc_port)[number % 5 == 4]
            connection = connections.enter_context(socket.create_connection(("127.0.0.1", port), 60))
            if port == toolgauge.http_port:
                connection.sendall(openings[number % 4])
        with probing(toolgauge) as prober:
            toolgauge.send(body, "http")
            toolgauge.send(body, "grpc")
            toolgauge.settled(6)
        assert prober.answers
        assert len(destination.spans()) == 6
        assert toolgauge.memory_mib() - before < 100
        # They do not keep it from stopping either.
        toolgauge.signal()
        assert toolgauge.ended() == 0


ACKNOWLEDGED = "An acknowledgement means that the data is in memory and will be sent on"


@pytest.mark.parametrize(("number", "arrives"), [(signal.SIGTERM, 3), (signal.SIGKILL, 0)])
def test_what_is_acknowledged_is_in_memory_sent_on_at_sigterm_and_lost_at_kill(
    tmp_path: Path, sink: Sink, number: int, arrives: int
):
    assert ACKNOWLEDGED in (Path(__file__).parents[2] / "docs" / "delivery.md").read_text()
    with serving(tmp_path, onward_to(sink, "http")) as toolgauge:
        sink.tell("/down")
        toolgauge.send_recorded("pydantic-ai", "tool_error", "http")
        until(lambda: toolgauge.total("toolgauge_send_failures_total"), "an attempt to fail")
        toolgauge.signal(number)
        if number == signal.SIGTERM:
            until(lambda: "stopping" in toolgauge.said(), "the signal to be seen")
            sink.tell("/up")
        assert toolgauge.ended() == (0 if number == signal.SIGTERM else -signal.SIGKILL)
    sink.tell("/up")
    # There is no state that a successor could find.
    with serving(tmp_path, onward_to(sink, "http")) as successor:
        successor.send(b"", "http")
        successor.assert_books_balance()
    assert sink.counted("unique_spans") == arrives
