"""`exporters.kafka` against a real broker: with TLS and a password, and while the broker is killed and comes back."""

from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.certificates import certificates
from tests.kafka.real_broker import PASSWORD, USER, running_broker
from tests.kafka_broker import read
from tests.wire.support import RETRY_SOON, serving, until

pytestmark = pytest.mark.usefixtures("kafka_jars")


def trace(number: int) -> bytes:
    """Write a request of one trace with one span, both with this number."""
    body = ExportTraceServiceRequest()
    spans = body.resource_spans.add().scope_spans.add().spans
    spans.add(trace_id=number.to_bytes(16, "big"), span_id=number.to_bytes(8, "big"), name="chat")
    return body.SerializeToString()


def keys(address: str, topic: str, count: int) -> list[int]:
    """Read the trace ids of so many messages."""
    return sorted(int(message.key or "", 16) for message in read(address, topic, count))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_password_over_tls_opens_the_brokers_for_what_is_written_and_read(mechanism: str, tmp_path: Path):
    made = certificates(tmp_path)
    with running_broker(tmp_path, certificates=made) as broker:
        broker.create_topic("otlp_spans")
        sasl = f"{{mechanism: {mechanism}, username: {USER}, password: {PASSWORD}}}"
        secured = f"tls: {{ca_file: {made.ca_file}}}, auth: {{sasl: {sasl}}}"
        with serving(tmp_path, f'exporters.kafka={{brokers: ["{broker.tls_address}"], {secured}}}') as toolgauge:
            for number in range(1, 21):
                toolgauge.send(trace(number))
            toolgauge.settled(20)
        assert keys(broker.address, "otlp_spans", 20) == list(range(1, 21))
        reads = f'receivers.kafka={{brokers: ["{broker.tls_address}"], initial_offset: earliest, {secured}}}'
        with serving(tmp_path, reads) as toolgauge:
            toolgauge.settled(20)


def test_a_broker_that_is_killed_and_comes_back_misses_nothing(tmp_path: Path):
    with running_broker(tmp_path) as broker:
        broker.create_topic("otlp_spans")
        with serving(tmp_path, f'exporters.kafka={{brokers: ["{broker.address}"], {RETRY_SOON}}}') as toolgauge:
            for number in range(1, 101):
                toolgauge.send(trace(number))
            broker.kill()
            for number in range(101, 201):
                toolgauge.send(trace(number))
            until(lambda: toolgauge.books()["queued"] >= 100, "spans to wait for the broker")
            broker.start()
            books = toolgauge.settled(200)
        assert books["dropped"] == books["refused"] == 0
        # What was on its way at the kill may lie there twice.
        assert set(keys(broker.address, "otlp_spans", broker.written("otlp_spans"))) == set(range(1, 201))
