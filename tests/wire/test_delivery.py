"""What is sent arrives: whatever the transport, whatever the destination does; and the books say so throughout."""

import json
import signal
import subprocess
import sys
from collections import defaultdict
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
from tests.wire.test_reload import other_trace

TRANSPORTS: tuple[Transport, ...] = ("grpc", "grpc+gzip", "http", "http+gzip")
# Recorded runs of four frameworks, in two dialects.
RUNS = (
    ("pydantic-ai", "tool_error"),
    ("openinference-langgraph", "sequence"),
    ("vercel-ai", "parallel"),
    ("otel-util-genai", "parallel"),
)


def requests() -> list[bytes]:
    return [body for framework, scenario in RUNS for body in recorded(framework, scenario)]


def spans_in_runs() -> int:
    taken = Destination()
    for body in requests():
        taken.take("traces", body)
    return len(taken.spans())


def onward(destination: Destination, protocol: str) -> str:
    return to_grpc(destination.grpc_port) if protocol == "grpc" else to_http(destination.http_port)


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_the_same_requests_arrive_identically_over_every_transport(tmp_path: Path, protocol: str):
    sent = Destination()
    with receiving() as destination, serving(tmp_path, onward(destination, protocol)) as toolgauge:
        for number, transport in enumerate(TRANSPORTS):
            for body in requests():
                own = other_trace(body, number)
                sent.take("traces", own)
                toolgauge.send(own, transport)
        until(lambda: len(destination.scorecards()) == len(RUNS) * len(TRANSPORTS), "all scorecards")
        books = toolgauge.settled(len(sent.spans()))
        assert books["forwarded"] == books["received"] == len(sent.spans())
    assert sorted(map(without_scores, destination.spans())) == sorted(map(without_scores, sent.spans()))
    scored: dict[bytes, set[tuple[bytes, str]]] = defaultdict(set)
    for span in destination.spans():
        keys = (attribute.key for attribute in span.attributes if attribute.key.startswith("toolgauge.eval."))
        scored[span.trace_id[:8]].update((span.span_id, key) for key in keys)
    (first, *others) = scored.values()
    assert [len(TRANSPORTS), *others] == [len(scored), first, first, first]


def test_a_proxy_in_the_environment_has_no_part_in_sending_to_this_machine(tmp_path: Path):
    names = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
    nowhere: dict[str, str] = dict.fromkeys(names, "http://127.0.0.1:9")
    with receiving() as destination:
        over_grpc = f'{{name: grpc, endpoint: "127.0.0.1:{destination.grpc_port}"}}'
        over_http = f'{{name: http, endpoint: "http://127.0.0.1:{destination.http_port}", protocol: http}}'
        with serving(tmp_path, f"exporters.otlp=[{over_grpc}, {over_http}]", env=nowhere) as toolgauge:
            toolgauge.send_recorded("pydantic-ai", "tool_error", "http")
            until(lambda: len(destination.spans()) == 6, "the spans over both protocols")


def test_metrics_of_senders_are_refused_plainly_where_nothing_is_sent_on(tmp_path: Path):
    with serving(tmp_path) as toolgauge:
        assert post(toolgauge.http_port, b"\x0a\x00", path="/v1/metrics")[0] == 404
        for body in requests():
            toolgauge.send(body)
        books = toolgauge.settled(spans_in_runs())
        assert books["consumed"] == books["received"] == spans_in_runs()
        until(lambda: toolgauge.total("toolgauge_trajectories_total") == len(RUNS), "all trajectories")
        assert toolgauge.total("toolgauge_evaluation_score_count") > 0


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


# -- a destination with faults ------------------------------------------------------------------------------------------


def send_all(toolgauge: Toolgauge) -> None:
    for number, (framework, scenario) in enumerate(RUNS):
        toolgauge.send_recorded(framework, scenario, TRANSPORTS[number % len(TRANSPORTS)])
        toolgauge.assert_books_balance()


def test_nothing_is_lost_when_the_destination_is_away_and_comes_back(tmp_path: Path, sink: Sink):
    with serving(tmp_path, onward_to(sink, "grpc")) as toolgauge:
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
