from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsPartialSuccess, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from tests.rows import each_row
from toolgauge.export.sender import Delivered, delivered, retry_after_s, target

NOON_S = 1_445_412_480.0  # 2015-10-21 07:28:00 GMT


@each_row(
    ("value", "expected"),
    [
        (None, None),
        ("3", 3.0),
        (" 120 ", 120.0),
        ("0", 0.0),
        ("99999999999999999999", 999999999.0),
        ("Wed, 21 Oct 2015 07:28:05 GMT", 5.0),
        ("Wed, 21 Oct 2015 07:28:05 -0000", 5.0),
        ("Wed, 21 Oct 2015 07:27:00 GMT", 0.0),
        ("soon", None),
        ("Wed, 21 Oct 99999999999999999999 07:28:05 GMT", None),
        ("Wed, 21 Oct 2015 07:28:05 +99999999999999999999", None),
        ("-1", None),
        ("", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str | None, expected: float | None):
    assert retry_after_s(value, NOON_S) == expected


@each_row(
    ("endpoint", "expected"),
    [
        ("collector:4317", "collector:4317"),
        ("http://collector:4317", "collector:4317"),
        ("http://collector:4317/", "collector:4317"),
        ("[::1]:4317", "[::1]:4317"),
    ],
)
def test_grpc_endpoint_may_have_a_scheme(endpoint: str, expected: str):
    assert target(endpoint) == expected


def test_partial_success_tells_how_many_were_rejected():
    spans = ExportTraceServiceResponse(
        partial_success=ExportTracePartialSuccess(rejected_spans=3, error_message="too old")
    )
    logs = ExportLogsServiceResponse(partial_success=ExportLogsPartialSuccess(rejected_log_records=2))
    assert delivered("traces", spans.SerializeToString()) == Delivered(3)
    assert delivered("logs", logs.SerializeToString()) == Delivered(2)


@each_row("response", [b"", b"\xff\xff", b"{}", b"\x0a\x00"])
def test_success_with_another_body_is_a_success(response: bytes):
    assert delivered("traces", response) == Delivered(0)


def test_negative_rejection_is_none():
    spans = ExportTraceServiceResponse(partial_success=ExportTracePartialSuccess(rejected_spans=-3))
    assert delivered("traces", spans.SerializeToString()) == Delivered(0)
