"""A real Collector that writes into a real broker: in the form of `exporters.kafka`, and for toolgauges that share the partitions."""

# pyright: reportUnknownMemberType=false

import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.deploy.collector import built, collecting
from tests.kafka.real_broker import Broker
from tests.kafka_broker import Written, read
from tests.wire.destination import attributes, receiving
from tests.wire.support import free_port, post, serving, to_grpc, until

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


def run(trace_id: str) -> list[bytes]:
    """Write the requests of a run: two calls of a tool, then the agent's span."""
    written: list[bytes] = []
    for number, kind in enumerate(("execute_tool", "execute_tool", "invoke_agent"), 1):
        body = ExportTraceServiceRequest()
        span = (
            body.resource_spans.add()
            .scope_spans.add()
            .spans.add(trace_id=bytes.fromhex(trace_id), span_id=number.to_bytes(8, "big"), name=kind)
        )
        span.start_time_unix_nano = time.time_ns()
        span.end_time_unix_nano = span.start_time_unix_nano + 1
        span.attributes.add(key="gen_ai.operation.name").value.string_value = kind
        if kind == "execute_tool":
            span.parent_span_id = (3).to_bytes(8, "big")
            span.attributes.add(key="gen_ai.tool.name").value.string_value = "search_flights"
        written.append(body.SerializeToString())
    return written


def test_every_span_comes_once_and_every_trace_is_scored_whole(shared_broker: Broker, tmp_path: Path):
    spans, logs = (shared_broker.create_topic(f"read-{name}") for name in ("spans", "logs"))

    def reads(pod: str) -> str:
        group = f"group_id: whole, group_instance_id: {pod}, initial_offset: earliest"
        topics = f"topics: {{traces: {spans}, logs: {logs}}}"
        return f'receivers.kafka={{brokers: ["{shared_broker.address}"], {group}, {topics}}}'

    with receiving() as backend, writing(tmp_path, shared_broker, spans, logs) as agents, ExitStack() as running:
        onward = to_grpc(backend.grpc_port)
        both = [running.enter_context(serving(tmp_path, onward, reads(f"pod-{number}"))) for number in range(2)]
        until(lambda: all(one.total("toolgauge_kafka_rebalances_total") for one in both), "both to have partitions")
        for body in (body for trace_id in IDS for body in run(trace_id)):
            assert post(agents, body)[0] == 200
        until(lambda: len(backend.scorecards()) >= len(IDS), "a scorecard of every trace")
        until(
            lambda: sum(shared_broker.committed("whole", spans).values()) == shared_broker.written(spans),
            "everything to be committed",
        )
        assert all(one.total("toolgauge_spans_total") > 0 for one in both)
        cards = backend.scorecards()
        assert sorted(card.trace_id.hex() for card in cards) == sorted(IDS)
        assert {attributes(card)["toolgauge.closed_because"] for card in cards} == {"run_ended"}
        assert not [card for card in cards if "toolgauge.incomplete" in attributes(card)]
        assert {len(card.links) for card in cards} == {3}
        found = [(span.trace_id, span.span_id) for span in backend.spans()]
        assert len(found) == len(set(found)) == 3 * len(IDS)
