"""A request at the endpoint of another signal is told apart by its first item."""

from pathlib import Path

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue, KeyValueList
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    ExponentialHistogram,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    Sum,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.rows import each_row
from toolgauge.model.delivery import Signal
from toolgauge.model.errors import DecodeError
from toolgauge.otlp.request import newest_time_ns, read_request

CORPUS = Path(__file__).parent.parent / "corpus"
SIGNALS: tuple[Signal, ...] = ("traces", "logs", "metrics")
ATTRIBUTE = KeyValue(key="gen_ai.operation.name", value=AnyValue(string_value="execute_tool"))
POINT = NumberDataPoint(time_unix_nano=7, as_int=1)

SPANS = {
    "whole": Span(trace_id=b"t" * 16, span_id=b"s" * 8, name="a", start_time_unix_nano=5, end_time_unix_nano=7),
    "without ids": Span(name="a", kind=Span.SPAN_KIND_CLIENT, start_time_unix_nano=5),
    "without times": Span(trace_id=b"t" * 16, span_id=b"s" * 8, attributes=[ATTRIBUTE]),
}
RECORDS = {
    "whole": LogRecord(
        time_unix_nano=5,
        observed_time_unix_nano=7,
        severity_number=SeverityNumber.SEVERITY_NUMBER_INFO,
        body=AnyValue(string_value="b"),
    ),
    "observed": LogRecord(observed_time_unix_nano=7, attributes=[ATTRIBUTE]),
    "without times": LogRecord(
        severity_number=SeverityNumber.SEVERITY_NUMBER_INFO, severity_text="INFO", trace_id=b"t" * 16
    ),
    "attributes": LogRecord(attributes=[ATTRIBUTE]),
    "event": LogRecord(event_name="gen_ai.client.inference", body=AnyValue(string_value="b")),
    "structured body": LogRecord(body=AnyValue(kvlist_value=KeyValueList(values=[ATTRIBUTE]))),
    "ids": LogRecord(trace_id=b"t" * 16, span_id=b"s" * 8, flags=1),
}
METRICS = {
    "sum": Metric(name="toolgauge.scores", unit="1", sum=Sum(data_points=[POINT])),
    "histogram": Metric(name="a.b.c.d.e.f.g.h", histogram=Histogram(data_points=[HistogramDataPoint(count=1)])),
    "exponential": Metric(name="m", description="d", exponential_histogram=ExponentialHistogram()),
}


def of_span(span: Span) -> bytes:
    request = ExportTraceServiceRequest()
    # The first group that holds anything decides.
    request.resource_spans.add().scope_spans.add()
    request.resource_spans.add().scope_spans.add().spans.extend((span, Span(name="second")))
    return request.SerializeToString()


def of_record(record: LogRecord) -> bytes:
    request = ExportLogsServiceRequest()
    request.resource_logs.add().scope_logs.add().log_records.append(record)
    return request.SerializeToString()


def of_metric(metric: Metric) -> bytes:
    request = ExportMetricsServiceRequest()
    request.resource_metrics.add().scope_metrics.add().metrics.append(metric)
    return request.SerializeToString()


REQUESTS: list[tuple[Signal, bytes]] = [
    *(("traces", of_span(span)) for span in SPANS.values()),
    *(("logs", of_record(record)) for record in RECORDS.values()),
    *(("metrics", of_metric(metric)) for metric in METRICS.values()),
]


@each_row(("signal", "body"), REQUESTS, ids=[*SPANS, *(f"record {name}" for name in RECORDS), *METRICS])
def test_a_request_is_read_as_its_own_signal_only(signal: Signal, body: bytes):
    assert read_request(signal, body, 0).count >= 1
    for other in SIGNALS:
        if other != signal and (signal, other) not in (("logs", "metrics"), ("traces", "metrics")):
            with pytest.raises(DecodeError, match="send each signal to its own endpoint") as caught:
                read_request(other, body, 0)
            assert caught.value.reason == "wrong_signal"


def test_the_first_item_that_decides_decides():
    logs = ExportLogsServiceRequest()
    scope = logs.resource_logs.add().scope_logs.add()
    scope.log_records.add()
    scope.log_records.extend(RECORDS[name] for name in ("structured body", "whole"))
    with pytest.raises(DecodeError, match="it holds no spans"):
        read_request("traces", logs.SerializeToString(), 0)
    assert read_request("logs", logs.SerializeToString(), 0).count == 3
    traces = ExportTraceServiceRequest()
    spans = traces.resource_spans.add().scope_spans.add().spans
    spans.extend((Span(), Span(name="chat"), SPANS["whole"]))
    with pytest.raises(DecodeError, match="it holds no log records"):
        read_request("logs", traces.SerializeToString(), 0)
    assert read_request("traces", traces.SerializeToString(), 0).count == 3


@each_row("name", ["", "chat", "\n", "\nagent", "!", ": x", "*", "2"])
def test_a_span_that_has_only_a_name_is_no_log_record(name: str):
    assert read_request("traces", of_span(Span(name=name)), 0).count == 2


@each_row("folder", ["gemini-cli", "codex-cli", "google-adk", "openinference-langgraph", "vercel-ai"])
def test_recorded_requests_of_producers_are_told_apart(folder: str):
    for file in sorted((CORPUS / folder).glob("*.otlp.pb")):
        signal: Signal = "logs" if ".logs." in file.name else "traces"
        body = file.read_bytes()
        assert read_request(signal, body, 0).count
        for other in SIGNALS:
            if other != signal:
                with pytest.raises(DecodeError):
                    read_request(other, body, 0)


@each_row("raw", [b"", b"\xff", b"\x0a\x05ab", b"\x2a\x01a"])
def test_an_item_that_is_broken_or_empty_decides_nothing(raw: bytes):
    scope = b"\x12" + bytes([len(raw)]) + raw
    resource = b"\x12" + bytes([len(scope)]) + scope
    body = b"\x0a" + bytes([len(resource)]) + resource
    assert [read_request(signal, body, 0).count for signal in SIGNALS] == [1, 1, 1]


def test_the_time_of_a_request_is_read_around_broken_items_and_text():
    request = ExportTraceServiceRequest.FromString(of_span(SPANS["whole"]))
    body = request.SerializeToString().replace(b"\x2a\x01a", b"\x2a\x01\xff")
    assert newest_time_ns("traces", body) == 7
    assert newest_time_ns("logs", of_record(RECORDS["observed"])) == 7
    with pytest.raises(DecodeError, match="it holds no spans"):
        newest_time_ns("traces", of_record(RECORDS["observed"]))
