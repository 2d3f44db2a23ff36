"""What is sent arrives: whatever the transport, whatever the destination does; and the books say so throughout."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, ResourceMetrics, ScopeMetrics

from tests.wire.destination import Destination, receiving, without_scores
from tests.wire.sink import LOADGEN, Sink, onward_to
from tests.wire.support import (
    Toolgauge,
    Transport,
    free_port,
    post,
    recorded,
    serving,
    to_grpc,
    to_http,
    until,
)

TRANSPORTS: tuple[Transport, ...] = ("grpc", "grpc+gzip", "http", "http+gzip")
# Recorded runs of four frameworks, in two dialects.
RUNS = (
    ("pydantic-ai", "tool_error"),
    ("openinference-langgraph", "sequence"),
    ("vercel-ai", "parallel"),
    ("otel-util-genai", "parallel"),
)


def spans_in_runs() -> int:
    taken = Destination()
    for framework, scenario in RUNS:
        for body in recorded(framework, scenario):
            taken.take("traces", body)
    return len(taken.spans())


@pytest.mark.parametrize(("destination_protocol", "transports"), [("grpc", TRANSPORTS), ("http", ("http+gzip",))])
def test_the_same_requests_arrive_identically_over_every_transport(
    tmp_path: Path, destination_protocol: str, transports: tuple[Transport, ...]
):
    sent = Destination()
    arrived: dict[str, list[bytes]] = {}
    scored: dict[str, list[tuple[str, str]]] = {}
    for framework, scenario in RUNS:
        for body in recorded(framework, scenario):
            sent.take("traces", body)
    for transport in transports:
        with receiving() as destination, serving(tmp_path, onward(destination, destination_protocol)) as toolgauge:
            for framework, scenario in RUNS:
                toolgauge.send_recorded(framework, scenario, transport)
            until(lambda: len(destination.scorecards()) == len(RUNS), "all scorecards")
            books = toolgauge.settled(len(sent.spans()))
            assert books["forwarded"] == books["received"] == len(sent.spans())
        arrived[transport] = sorted(without_scores(span) for span in destination.spans())
        scored[transport] = sorted(
            (span.span_id.hex(), attribute.key)
            for span in destination.spans()
            for attribute in span.attributes
            if attribute.key.startswith("toolgauge.eval.")
        )
    expected = sorted(without_scores(span) for span in sent.spans())
    assert [transport for transport in transports if arrived[transport] != expected] == []
    assert scored[transports[0]]
    assert [transport for transport in transports if scored[transport] != scored[transports[0]]] == []


def onward(destination: Destination, protocol: str) -> str:
    return to_grpc(destination.grpc_port) if protocol == "grpc" else to_http(destination.http_port)


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_proxy_in_the_environment_has_no_part_in_sending_to_this_machine(tmp_path: Path, protocol: str):
    nowhere: dict[str, str] = dict.fromkeys(
        ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9"
    )
    with receiving() as destination, serving(tmp_path, onward(destination, protocol), env=nowhere) as toolgauge:
        toolgauge.send_recorded("pydantic-ai", "tool_error", "http")
        assert toolgauge.settled(3)["forwarded"] == 3


def test_without_a_destination_spans_are_consumed_and_scores_are_in_the_metrics(tmp_path: Path):
    with serving(tmp_path) as toolgauge:
        for framework, scenario in RUNS:
            toolgauge.send_recorded(framework, scenario)
        books = toolgauge.settled(spans_in_runs())
        assert books["consumed"] == books["received"] == spans_in_runs()
        until(lambda: toolgauge.total("toolgauge_trajectories_total") == len(RUNS), "all trajectories")
        assert toolgauge.total("toolgauge_evaluation_score_count") > 0
        assert toolgauge.total("toolgauge_tool_calls_total") > 0


def test_metrics_and_logs_of_senders_go_on_as_they_were_sent(tmp_path: Path):
    with receiving() as destination, serving(tmp_path, to_http(destination.http_port)) as toolgauge:
        body = next(iter(sorted((Path(__file__).parent.parent / "corpus").glob("*/*.logs.otlp.pb")))).read_bytes()
        assert post(toolgauge.http_port, body, path="/v1/logs") == (200, b"")
        metrics = ExportMetricsServiceRequest(
            resource_metrics=[ResourceMetrics(scope_metrics=[ScopeMetrics(metrics=[Metric(name="queue.length")])])]
        ).SerializeToString()
        assert post(toolgauge.http_port, metrics, path="/v1/metrics") == (200, b"")
        until(lambda: body in destination.bodies("logs"), "the log records as they were sent")
        until(lambda: metrics in destination.bodies("metrics"), "the metrics as they were sent")


def test_metrics_of_senders_are_refused_plainly_where_nothing_is_sent_on(tmp_path: Path):
    with serving(tmp_path) as toolgauge:
        assert post(toolgauge.http_port, b"\x0a\x00", path="/v1/metrics")[0] == 404


# -- a destination with faults ------------------------------------------------------------------------------------------


FAULTS = {
    "refuses most requests": "unavailable:p=0.7@0-1",
    "is overloaded and says when to come back": "exhausted:retry=0.2,first=4",
    "is slow": "slow:ms=150@0-1",
    "cuts connections before it answers": "drop:p=0.5@0-1",
}


@pytest.mark.parametrize(
    ("fault", "protocol"),
    [
        ("refuses most requests", "http"),
        ("is overloaded and says when to come back", "grpc"),
        ("is slow", "grpc"),
        ("cuts connections before it answers", "grpc"),
    ],
)
def test_nothing_is_lost_when_the_destination(tmp_path: Path, sink: Sink, fault: str, protocol: str):
    with serving(tmp_path, onward_to(sink, protocol)) as toolgauge:
        sink.tell("/fault", FAULTS[fault])
        send_all(toolgauge)
        books = toolgauge.settled(spans_in_runs())
        assert books["forwarded"] == spans_in_runs()
        assert sink.counted("unique_spans") == spans_in_runs()


def send_all(toolgauge: Toolgauge) -> None:
    for number, (framework, scenario) in enumerate(RUNS):
        toolgauge.send_recorded(framework, scenario, TRANSPORTS[number % len(TRANSPORTS)])
        toolgauge.assert_books_balance()


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_nothing_is_lost_when_the_destination_is_away_and_comes_back(tmp_path: Path, sink: Sink, protocol: str):
    with serving(tmp_path, onward_to(sink, protocol)) as toolgauge:
        sink.tell("/down")
        send_all(toolgauge)
        until(lambda: toolgauge.total("toolgauge_send_failures_total") > 3, "attempts to fail")
        assert toolgauge.assert_books_balance()["forwarded"] == 0
        sink.tell("/up")
        books = toolgauge.settled(spans_in_runs())
        assert books["forwarded"] == spans_in_runs()
        assert sink.counted("unique_spans") == spans_in_runs()
        assert toolgauge.said().count("does not accept requests") == 1
        assert toolgauge.said().count("accepts requests again") == 1


def test_a_lost_acknowledgement_makes_duplicates_but_no_second_score(tmp_path: Path, sink: Sink):
    with serving(tmp_path, to_http(sink.ports["http"])) as toolgauge:
        sink.tell("/fault", "lost_ack:first=3")
        send_all(toolgauge)
        toolgauge.settled(spans_in_runs())
        assert sink.counted("unique_spans") == spans_in_runs()
        assert sink.counted("duplicate_spans") > 0
        assert toolgauge.total("toolgauge_trajectories_total") <= len(RUNS)


@pytest.mark.parametrize(("fault", "reason"), [("invalid", "invalid"), ("partial:rejected=1", "partial_success")])
def test_what_the_destination_refuses_for_good_is_dropped_with_a_reason(
    tmp_path: Path, sink: Sink, fault: str, reason: str
):
    with serving(tmp_path, to_grpc(sink.ports["grpc"])) as toolgauge:
        sink.tell("/fault", f"{fault},signal=traces" if ":" in fault else f"{fault}:signal=traces")
        send_all(toolgauge)
        books = toolgauge.settled(spans_in_runs())
        assert books["dropped"] > 0
        reasons = {
            dict(labels)["toolgauge_reason"]
            for (name, labels), value in toolgauge.samples().items()
            if value and name == "toolgauge_spans_total" and dict(labels)["toolgauge_outcome"] == "dropped"
        }
        assert any(reason in told for told in reasons)


def test_a_full_queue_sends_senders_away_and_takes_them_again_later(tmp_path: Path, sink: Sink):
    (body,) = recorded("pydantic-ai", "tool_error")
    sink.tell("/down")
    onward = to_grpc(sink.ports["grpc"], "queue: {max_bytes: 64KiB}")
    with serving(tmp_path, onward, "annotate=off") as toolgauge:
        answers = {post(toolgauge.http_port, body)[0] for _ in range(200)}
        assert answers == {200, 503}
        books = toolgauge.assert_books_balance()
        assert books["refused"] > 0
        assert books["received"] == 600
        sink.tell("/up")
        until(lambda: post(toolgauge.http_port, body)[0] == 200, "the sender to be taken again")
        toolgauge.settled(603)
        assert toolgauge.books()["dropped"] == 0


def test_no_score_is_lost_while_the_destination_is_away_and_spans_fill_its_queue(tmp_path: Path, sink: Sink):
    onward = to_grpc(sink.ports["grpc"], "queue: {max_bytes: 4MiB}")
    with serving(tmp_path, onward, "hold.max_bytes=2MiB") as toolgauge:
        sink.tell("/down")
        command = [sys.executable, str(LOADGEN), "--endpoint", f"127.0.0.1:{toolgauge.grpc_port}"]
        command += ["--requests", "40", "--settle", "0"]
        sent = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=120).stdout)
        assert toolgauge.books()["refused"] > 0
        until(lambda: toolgauge.total("toolgauge_traces_open") == 0, "all trajectories to be closed")
        sink.tell("/up")
        toolgauge.settled(int(toolgauge.books()["received"]))
        until(lambda: toolgauge.total("toolgauge_send_queue_bytes") == 0, "all that is said of them to be sent")
        assert sink.counted("unique_spans") == sent["acked_spans"]
        assert toolgauge.total("toolgauge_own_dropped_total") == 0


def test_load_of_many_connections_arrives_once_and_every_tool_span_is_scored(tmp_path: Path, sink: Sink):
    with serving(tmp_path, to_grpc(sink.ports["grpc"])) as toolgauge:
        sink.tell("/fault", "unavailable:p=0.3")
        command = [sys.executable, str(LOADGEN), "--endpoint", f"127.0.0.1:{toolgauge.grpc_port}", "--retry"]
        command += ["--requests", "20", "--batch", "128", "--settle", "0", "--duration", "60"]
        sent = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=120).stdout)
        assert sent["acked_spans"] >= 20 * 128
        toolgauge.settled(sent["acked_spans"])
        until(lambda: toolgauge.total("toolgauge_traces_open") == 0, "all trajectories to be closed")
        assert sink.counted("unique_spans") == sent["acked_spans"]
        assert toolgauge.assert_books_balance()["dropped"] == 0


def test_a_dead_destination_under_load_costs_bounded_memory_and_senders_are_told(tmp_path: Path):
    onward = to_grpc(free_port(), "queue: {max_bytes: 8MiB}")
    with serving(tmp_path, onward, "hold.max_bytes=8MiB", "assemble.max_open_bytes=16MiB") as toolgauge:
        before = toolgauge.memory_mib()
        command = [sys.executable, str(LOADGEN), "--endpoint", f"127.0.0.1:{toolgauge.grpc_port}"]
        command += ["--requests", "150", "--batch", "128", "--settle", "0"]
        subprocess.run(command, capture_output=True, check=False, timeout=120)
        books = toolgauge.assert_books_balance()
        assert books["refused"] > 0
        assert books["held"] + books["queued"] + books["refused"] + books["dropped"] == books["received"]
        assert toolgauge.memory_mib() - before < 120
        (body,) = recorded("pydantic-ai", "tool_error")
        # Where a large request has no room, a few small ones may have some.
        until(lambda: post(toolgauge.http_port, body)[0] == 503, "a small request to be refused")
        assert "Traceback" not in toolgauge.said()
        # There is nothing to wait for.
        toolgauge.signal(signal.SIGKILL)
        toolgauge.ended()
