"""Signals that go to different destinations: one that is dead stops only its own."""

from pathlib import Path

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from tests.wire.sink import Sink
from tests.wire.support import free_port, post, recorded, serving


def log_request(size_bytes: int) -> bytes:
    request = ExportLogsServiceRequest()
    request.resource_logs.add().scope_logs.add().log_records.add().body.string_value = "x" * size_bytes
    return request.SerializeToString()


def test_traces_go_on_while_the_destination_of_logs_is_dead_and_full(tmp_path: Path, sink: Sink):
    good = (
        f'{{name: good, endpoint: "http://127.0.0.1:{sink.ports["http"]}", protocol: http, signals: [traces, metrics]}}'
    )
    dead = f'{{name: dead, endpoint: "http://127.0.0.1:{free_port()}", protocol: http, signals: [logs], queue: {{max_bytes: 100KiB}}}}'
    (body,) = recorded("pydantic-ai", "tool_error")
    logs = log_request(20_000)
    with serving(tmp_path, f"exporters.otlp=[{good}, {dead}]", "annotate=off") as toolgauge:
        answers = [post(toolgauge.http_port, logs, path="/v1/logs")[0] for _ in range(10)]
        assert answers[0] == 200
        assert answers[-1] == 503
        for _ in range(5):
            assert post(toolgauge.http_port, body)[0] == 200
        assert toolgauge.settled(15)["forwarded"] == 15
        assert post(toolgauge.http_port, logs, path="/v1/logs")[0] == 503
        # What is queued has nowhere to go.
        toolgauge.close()
