"""`exporters.kafka` against a broker inside librdkafka."""

# pyright: reportUnknownMemberType=false

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from pydantic import ValidationError

from tests.certificates import certificates
from tests.export.fakes import FAST, MS, OWN_HOP, Sending, request, until
from tests.kafka_broker import Written, kafka_broker, read
from tests.rows import each_row
from tests.wire.support import free_port
from toolgauge.export.destination import HOP_HEADER, Destination
from toolgauge.export.kafka_sender import KafkaSender
from toolgauge.export.sender import Permanent, Transient
from toolgauge.export.settings import KafkaExporterSettings, KafkaProducerSettings
from toolgauge.model.errors import StartError
from toolgauge.model.metrics import MetricRegistry
from toolgauge.net.settings import client_properties
from toolgauge.selfmetrics import SelfMetrics

ONE, TWO = "0af7651916cd43dd8448eb211c80319c", "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def broker() -> Iterator[str]:
    with kafka_broker() as address:
        yield address


TOPIC = "spans"


@asynccontextmanager
async def sending_to(settings: KafkaExporterSettings) -> AsyncGenerator[Sending]:
    metrics = SelfMetrics(MetricRegistry())
    sender = KafkaSender(settings, headers=((HOP_HEADER, OWN_HOP),))
    destination = Destination(settings.as_destination, metrics, sender)
    await destination.start()
    try:
        yield Sending(destination, metrics)
    finally:
        await destination.close()


def exporter(broker: str, **settings: object) -> KafkaExporterSettings:
    chosen = {"brokers": (broker,), "retry": FAST, **settings}
    return KafkaExporterSettings.model_validate(chosen)


def traces(*spans: tuple[str, str]) -> bytes:
    """Write a request of spans by trace id and name, each in a scope of its own."""
    body = ExportTraceServiceRequest()
    group = body.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = "support"
    for number, (trace_id, name) in enumerate(spans, 1):
        scope = group.scope_spans.add()
        scope.scope.name = f"scope-{name}"
        scope.spans.add(trace_id=bytes.fromhex(trace_id), span_id=number.to_bytes(8, "big"), name=name)
    return body.SerializeToString()


def spans_of(written: Sequence[Written]) -> list[tuple[str | None, str, str, str]]:
    """Key, service, scope and span of each message."""
    return [
        (
            message.key,
            group.resource.attributes[0].value.string_value,
            scope.scope.name,
            span.name,
        )
        for message in written
        for group in ExportTraceServiceRequest.FromString(message.value).resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


async def test_each_trace_is_a_message_under_its_id(broker: str):
    async with sending_to(exporter(broker, topics={"traces": TOPIC})) as out:
        assert out.destination.put(request(traces((ONE, "a"), (TWO, "b"), (ONE, "c")), spans=3))
        await until(lambda: out.destination.queue.spans == 0)
    assert out.spans() == {("forwarded", "", "kafka"): 3}
    written = await asyncio.to_thread(read, broker, TOPIC, 2)
    assert sorted(spans_of(written), key=lambda row: row[3]) == [
        (ONE, "support", "scope-a", "a"),
        (TWO, "support", "scope-b", "b"),
        (ONE, "support", "scope-c", "c"),
    ]
    assert [message.headers for message in written] == [(("x-toolgauge-hop", OWN_HOP.encode()),)] * 2


async def test_keys_go_where_the_collectors_exporter_sends_them(broker: str):
    # Partitions of sarama's hash partitioner, which the Collector's exporter keeps to, in a topic of four.
    ids = {ONE: 3, TWO: 2, "5b8efff798038103d269b633813fc60c": 1, "c0ffee00c0ffee00c0ffee00c0ffee00": 1}
    async with sending_to(exporter(broker, topics={"traces": TOPIC})) as out:
        assert out.destination.put(request(traces(*((trace_id, "a") for trace_id in ids)), spans=4))
        await until(lambda: out.destination.queue.spans == 0)
    written = await asyncio.to_thread(read, broker, TOPIC, 4)
    assert {message.key: message.partition for message in written} == ids


async def test_log_records_go_with_their_trace_and_metrics_whole(broker: str):
    body = ExportLogsServiceRequest()
    records = body.resource_logs.add().scope_logs.add().log_records
    for trace_id in (ONE, TWO, ""):
        records.add(trace_id=bytes.fromhex(trace_id), observed_time_unix_nano=1)
    metrics = b"\x0a\x00"
    settings = exporter(broker, topics={"logs": f"{TOPIC}-logs", "metrics": f"{TOPIC}-metrics"})
    async with sending_to(settings) as out:
        assert out.destination.put(request(body.SerializeToString(), spans=0, signal="logs"))
        assert out.destination.put(request(metrics, spans=0, signal="metrics", own=True))
        await until(lambda: out.destination.queue.size_bytes == 0)
    logs = await asyncio.to_thread(read, broker, f"{TOPIC}-logs", 3)
    assert {message.key for message in logs} == {ONE, TWO, None}
    written = await asyncio.to_thread(read, broker, f"{TOPIC}-metrics", 1)
    assert (written[0].key, written[0].value) == (None, metrics)


async def test_a_trace_too_large_for_a_message_is_divided_between_its_spans(broker: str):
    body = traces(*((ONE, name * 2000) for name in "abcdef"))
    settings = exporter(broker, topics={"traces": TOPIC}, producer=KafkaProducerSettings(max_message_bytes=10_000))
    async with sending_to(settings) as out:
        assert out.destination.put(request(body, spans=6))
        await until(lambda: out.destination.queue.spans == 0)
    assert out.spans() == {("forwarded", "", "kafka"): 6}
    written = await asyncio.to_thread(read, broker, TOPIC, 2)
    assert {message.key for message in written} == {ONE}
    assert all(len(message.value) < 10_000 for message in written)


async def test_a_span_too_large_for_a_message_is_dropped_alone_and_counted(broker: str):
    body = traces((ONE, "a"), (ONE, "b" * 20_000))
    settings = exporter(broker, topics={"traces": TOPIC}, producer=KafkaProducerSettings(max_message_bytes=10_000))
    async with sending_to(settings) as out:
        assert out.destination.put(request(body, spans=2))
        await until(lambda: out.destination.queue.spans == 0)
    assert out.spans() == {("forwarded", "", "kafka"): 1, ("dropped", "partial_success", "kafka"): 1}


async def test_brokers_that_do_not_answer_are_tried_again():
    settings = exporter(f"127.0.0.1:{free_port()}", timeout=100 * MS)
    async with sending_to(settings) as out:
        assert out.destination.put(request(traces((ONE, "a")), spans=1))
        await until(lambda: bool(out.metrics.retries.cells))
        assert (out.destination.queue.spans, out.destination.health.now() is None) == (1, False)
    assert set(out.failures()) == {("kafka", "traces", "timeout")}


async def test_a_sender_that_is_closed_says_so_and_a_broken_body_is_refused(broker: str):
    sender = KafkaSender(exporter(broker), headers=())
    assert await sender.send("traces", b"") == Transient("closed")
    await sender.start()
    assert await sender.send("traces", b"\x0a\xff") == Permanent("undecodable", is_about_content=True)
    await sender.close()
    await sender.close()


async def test_a_certificate_that_cannot_be_read_ends_the_start(tmp_path: Path):
    settings = exporter("localhost:9093", tls={"ca_file": str(tmp_path / "none.pem")})
    with pytest.raises(StartError, match=r"cannot read the TLS file `.*none\.pem`"):
        await KafkaSender(settings, headers=()).start()


def test_tls_and_sasl_become_properties_of_the_client(tmp_path: Path):
    made = certificates(tmp_path)
    tls = {"ca_file": str(made.ca_file), "cert_file": str(made.client_cert), "key_file": str(made.client_key)}
    sasl = {"mechanism": "SCRAM-SHA-512", "username": "toolgauge", "password": "hunter2"}
    settings = exporter("one:9093", tls=tls, auth={"sasl": sasl})
    assert client_properties(settings) == {
        "bootstrap.servers": "one:9093",
        "client.id": "toolgauge",
        "security.protocol": "SASL_SSL",
        "log_level": 0,
        "ssl.ca.location": str(made.ca_file),
        "ssl.certificate.location": str(made.client_cert),
        "ssl.key.location": str(made.client_key),
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "toolgauge",
        "sasl.password": "hunter2",
    }
    assert "hunter2" not in repr(settings)
    assert client_properties(exporter("one:9092"))["security.protocol"] == "PLAINTEXT"
    assert client_properties(exporter("one:9092", tls={"insecure": True}))["security.protocol"] == "PLAINTEXT"


@each_row(
    ("settings", "message"),
    [
        ({"tls": {"server_name_override": "other"}}, "cannot check certificates against `tls.server_name_override`"),
        ({"tls": {"min_version": "1.3"}}, "cannot refuse TLS 1.2"),
        ({"brokers": ()}, "at least 1"),
        ({"topics": {"traces": "a b"}}, "pattern"),
    ],
)
def test_what_the_client_cannot_do_is_an_error(settings: dict[str, object], message: str):
    with pytest.raises(ValidationError, match=message):
        exporter("localhost:9092", **settings)


def test_without_the_extra_the_section_names_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("toolgauge.net.settings.CLIENT", "no_such_client")
    with pytest.raises(ValidationError, match=r"pip --python .* install '.*\[kafka\]'"):
        exporter("localhost:9092")
