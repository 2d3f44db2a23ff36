"""A real Collector and toolgauge write the same messages into a real broker."""

# pyright: reportUnknownMemberType=false

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.deploy.collector import built, collecting
from tests.kafka.real_broker import Broker
from tests.kafka_broker import Written, read
from tests.wire.support import free_port, post, serving, until

# Forty trace ids as random ones are: multiples of a large odd number.
IDS = [f"{number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128):032x}" for number in range(1, 41)]
CONFIGURATION = """\
receivers:
  otlp:
    protocols:
      http: {{endpoint: "agents:4318"}}
exporters:
  kafka:
    brokers: ["kafka:9092"]
    traces: {{topic: {spans}}}
    logs: {{topic: {logs}}}
    partition_traces_by_id: true
    partition_logs_by_trace_id: true
service:
  pipelines:
    traces: {{receivers: [otlp], exporters: [kafka]}}
    logs: {{receivers: [otlp], exporters: [kafka]}}
"""


@pytest.fixture(autouse=True)
def real_collector(pytestconfig: pytest.Config) -> None:
    built(may_build=bool(pytestconfig.getoption("--long")))


@contextmanager
def writing(folder: Path, broker: Broker, spans: str, logs: str) -> Generator[int]:
    """Run a Collector that writes into these topics; yield the port to which agents send over HTTP."""
    file, agents = folder / "kafka.yaml", free_port()
    file.write_text(CONFIGURATION.format(spans=spans, logs=logs))
    with collecting(folder, file, {"agents:4318": f"127.0.0.1:{agents}", "kafka:9092": broker.address}):
        yield agents


def requests() -> tuple[bytes, bytes]:
    """Write one request with a span of each trace twice, and one with a log record of each."""
    traces, logs = ExportTraceServiceRequest(), ExportLogsServiceRequest()
    spans = traces.resource_spans.add().scope_spans.add().spans
    records = logs.resource_logs.add().scope_logs.add().log_records
    for number, trace_id in enumerate(IDS * 2, 1):
        spans.add(trace_id=bytes.fromhex(trace_id), span_id=number.to_bytes(8, "big"), name="chat")
    for trace_id in IDS:
        records.add(trace_id=bytes.fromhex(trace_id), observed_time_unix_nano=1)
    return traces.SerializeToString(), logs.SerializeToString()


def form(written: list[Written]) -> list[tuple[str | None, int, list[str]]]:
    """Key, partition and the ids of the spans of each message."""
    return sorted(
        (
            message.key,
            message.partition,
            sorted(
                span.span_id.hex()
                for group in ExportTraceServiceRequest.FromString(message.value).resource_spans
                for scope in group.scope_spans
                for span in scope.spans
            ),
        )
        for message in written
    )


def test_the_collector_and_toolgauge_write_the_same_messages_into_the_same_partitions(
    shared_broker: Broker, tmp_path: Path
):
    spans, logs, own = (shared_broker.create_topic(f"same-{name}") for name in ("spans", "logs", "own"))
    traces, records = requests()
    with writing(tmp_path, shared_broker, spans, logs) as agents:
        assert post(agents, traces)[0] == post(agents, records, path="/v1/logs")[0] == 200
        until(lambda: shared_broker.written(spans) >= len(IDS), "a message of each trace")
        until(lambda: shared_broker.written(logs) >= len(IDS), "the log records of each trace")
    to_kafka = f'exporters.kafka={{brokers: ["{shared_broker.address}"], topics: {{traces: {own}}}}}'
    with serving(tmp_path, to_kafka) as toolgauge:
        toolgauge.send(traces)
        toolgauge.settled(2 * len(IDS))
    theirs = read(shared_broker.address, spans, len(IDS))
    assert sorted(message.key or "" for message in theirs) == sorted(IDS)
    assert len({message.partition for message in theirs}) == 4
    assert form(read(shared_broker.address, own, len(IDS))) == form(theirs)
    # Log records lie in the partition of the number in which the spans of their trace lie.
    of_logs = {message.key: message.partition for message in read(shared_broker.address, logs, len(IDS))}
    assert of_logs == {message.key: message.partition for message in theirs}
