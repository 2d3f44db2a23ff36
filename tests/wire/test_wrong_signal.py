"""Requests that senders send to the wrong endpoint are refused with the cause, and never in a recording."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportAttributeAccessIssue=false

from pathlib import Path

import grpc
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from tests.cli.command import run
from tests.wire.support import TRACES, post, recorded, serving

LOGS = TRACES.replace("trace.v1.TraceService", "logs.v1.LogsService")


def log_request() -> bytes:
    sent = ExportLogsServiceRequest()
    sent.resource_logs.add().scope_logs.add().log_records.add(
        observed_time_unix_nano=7, body=AnyValue(string_value="b")
    )
    return sent.SerializeToString()


def test_a_request_of_another_signal_is_refused_counted_and_not_recorded(tmp_path: Path):
    (spans,) = recorded("pydantic-ai", "tool_error")
    file = tmp_path / "all.otlp"
    with serving(tmp_path, f"exporters.file.path={file}") as toolgauge:
        for path, body in (("/v1/traces", log_request()), ("/v1/logs", spans)):
            status, answer = post(toolgauge.http_port, body, path=path)
            assert status == 400
            assert b"send each signal to its own endpoint" in answer
        with grpc.insecure_channel(f"127.0.0.1:{toolgauge.grpc_port}") as channel:
            for method, body in ((TRACES, log_request()), (LOGS, spans)):
                refused = channel.unary_unary(method).future(body, timeout=60)
                assert refused.code() is grpc.StatusCode.INVALID_ARGUMENT
                assert "send each signal to its own endpoint" in refused.details()
        counted = {
            (dict(labels)["toolgauge_transport"], dict(labels)["toolgauge_signal"]): value
            for (name, labels), value in toolgauge.samples().items()
            if name == "toolgauge_requests_invalid_total" and ("toolgauge_reason", "wrong_signal") in labels
        }
        assert counted == {(way, signal): 1 for way in ("http", "grpc") for signal in ("traces", "logs")}
        assert post(toolgauge.http_port, log_request(), path="/v1/logs")[0] == 200
        toolgauge.assert_books_balance()
    shown = run("check", "--calls", "--json", str(file))
    assert (shown.code, "warning" in shown.err) == (0, False)
