"""Requests that senders damage or send to the wrong endpoint: read, or refused with the cause, and never in a recording."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportAttributeAccessIssue=false

import json
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from tests.cli.command import run
from tests.wire.support import TRACES, Toolgauge, post, recorded, request, serving, until
from toolgauge.receive.unpack import zstd

LOGS = TRACES.replace("trace.v1.TraceService", "logs.v1.LogsService")
JSON = "application/json"
SPAN = {
    "spanId": "b7ad6b7169203331",
    "startTimeUnixNano": "1764150001000000000",
    "endTimeUnixNano": "1764150002000000000",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged")


@pytest.fixture(scope="module")
def toolgauge(files: Path) -> Iterator[Toolgauge]:
    with serving(files, f"exporters.file.path={files / 'all.otlp'}") as running:
        yield running


def document(trace: int, attributes: dict[str, str]) -> bytes:
    pairs = [{"key": key, "value": {"stringValue": value}} for key, value in attributes.items()]
    span = {**SPAN, "traceId": f"{trace:032x}", "name": "tool", "attributes": pairs}
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).encode()


def log_request() -> bytes:
    sent = ExportLogsServiceRequest()
    sent.resource_logs.add().scope_logs.add().log_records.add(
        observed_time_unix_nano=7, body=AnyValue(string_value="b")
    )
    return sent.SerializeToString()


def inspected(file: Path) -> dict[str, dict[str, object]]:
    """The first call of each trajectory that has one, by trace id."""
    shown = run("check", "--calls", "--json", str(file))
    assert (shown.code, "warning" in shown.err) == (0, False)
    found = [json.loads(line) for line in shown.out.splitlines()]
    return {each["trace_id"]: each["tool_calls"][0] for each in found if each["tool_calls"]}


@pytest.mark.parametrize(
    ("trace", "attributes"),
    [
        (1, {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "note", "gen_ai.tool.call.result": "half \ud83e"}),
        (2, {"openinference.span.kind": "TOOL", "tool.name": "note", "output.value": "half \udd14", "key \ud83e": ""}),
    ],
    ids=["conventions", "openinference"],
)  # fmt: skip
def test_half_an_emoji_loses_no_batch(toolgauge: Toolgauge, files: Path, trace: int, attributes: dict[str, str]):
    assert post(toolgauge.http_port, document(trace, attributes), content_type=JSON) == (200, b"{}")
    read = until(lambda: inspected(files / "all.otlp").get(f"{trace:032x}"), "the call in the recording")
    assert (read["name"], read["result"]) == ("note", "half \ufffd")


def test_a_request_of_another_signal_is_refused_counted_and_not_recorded(toolgauge: Toolgauge, files: Path):
    (spans,) = recorded("pydantic-ai", "tool_error")
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
    # It reads the whole file without a warning.
    inspected(files / "all.otlp")


def test_a_zstd_body_is_read_and_a_bomb_costs_no_memory(toolgauge: Toolgauge):
    (spans,) = recorded("pydantic-ai", "tool_error")
    headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "zstd"}
    before = toolgauge.total("toolgauge_spans_total")
    assert request(toolgauge.http_port, "POST", "/v1/traces", zstd.compress(spans), headers)[0] == 200
    assert toolgauge.total("toolgauge_spans_total") > before
    memory = toolgauge.memory_mib()
    bomb = zstd.compress(bytes(200 << 20))
    for _ in range(3):
        assert request(toolgauge.http_port, "POST", "/v1/traces", bomb, headers)[0] == 413
    assert toolgauge.memory_mib() - memory < 250
