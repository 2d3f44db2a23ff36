"""What the chart renders for Kafka, run: its Collector, a real broker and two toolgauges that share the partitions."""

import contextlib
from collections.abc import Generator
from pathlib import Path

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from tests.deploy.collector import built, collecting
from tests.deploy.test_helm_topologies import BACKEND, Release
from tests.deploy.test_topologies import Pasted, assert_each_span_once, exporter, gauging, local
from tests.kafka.real_broker import Broker, running_broker
from tests.wire.destination import Destination, attributes, receiving
from tests.wire.support import free_port, until

BROKERS = "kafka-kafka-bootstrap.kafka.svc.cluster.local:9092"
TRACES = 24
_RUN = {"gen_ai.operation.name": "invoke_agent"}
_CALL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search_flights"}


@pytest.fixture(autouse=True)
def real_peers(pytestconfig: pytest.Config, kafka_jars: None) -> None:
    del kafka_jars
    built(may_build=bool(pytestconfig.getoption("--long")))


class Consumers:
    """A release with its Collector in front of a broker, and toolgauges behind it."""

    def __init__(self, folder: Path, broker: Broker, backend: Destination) -> None:
        self._release, self._folder, self._broker, self._backend = Release(folder, "kafka"), folder, broker, backend
        self._files = [self._release.toolgauge(number) for number in range(2)]
        self._agents = free_port()

    @contextlib.contextmanager
    def pod(self, number: int) -> Generator[Pasted]:
        """Run the toolgauge with this number."""
        addresses = {f"0.0.0.0:{port}": local(0) for port in (9464, 13133)}
        addresses |= {BACKEND: local(self._backend.grpc_port), BROKERS: self._broker.address}
        name = f"toolgauge-{number}"
        with gauging(self._folder, self._files[number], addresses, POD_NAME=name) as toolgauge:
            yield toolgauge

    @contextlib.contextmanager
    def collector(self) -> Generator[None]:
        """Run the Collector that agents send to."""
        addresses = {"0.0.0.0:4317": local(self._agents), "0.0.0.0:4318": local(free_port())}
        addresses |= {BACKEND: local(self._backend.grpc_port), BROKERS: self._broker.address}
        with collecting(self._folder, self._release.collector, addresses):
            yield

    def send(self) -> None:
        """Send runs of three spans, every span in a request of its own."""
        provider = TracerProvider(resource=Resource.create({"service.name": "trip-planner"}))
        provider.add_span_processor(SimpleSpanProcessor(exporter("grpc", self._agents)))
        tracer = provider.get_tracer("trip-planner")
        for _ in range(TRACES):
            with tracer.start_as_current_span("invoke_agent", attributes=_RUN):
                for _ in range(2):
                    with tracer.start_as_current_span("execute_tool", attributes=_CALL):
                        pass
        provider.shutdown()


def assert_scored_whole(backend: Destination, traces: int) -> None:
    """Each trace has one scorecard, of a run that was seen to its end."""
    cards = backend.scorecards()
    assert len({card.trace_id for card in cards}) == len(cards) == traces
    assert {attributes(card)["toolgauge.closed_because"] for card in cards} == {"run_ended"}
    assert not [card for card in cards if "toolgauge.incomplete" in attributes(card)]
    assert {len(card.links) for card in cards} == {3}


def test_every_span_comes_once_and_every_trace_is_scored_whole_over_a_rolling_restart(tmp_path: Path):
    with receiving() as backend, running_broker(tmp_path) as broker, contextlib.ExitStack() as running:
        for topic in ("otlp_spans", "otlp_logs"):
            broker.create_topic(topic)
        consumers = Consumers(tmp_path, broker, backend)
        running.enter_context(consumers.collector())
        with consumers.pod(0), consumers.pod(1):
            consumers.send()
            until(lambda: len(backend.scorecards()) >= TRACES, "a scorecard for every trace")
            assert_scored_whole(backend, TRACES)
            assert_each_span_once(backend, 3 * TRACES)
            until(
                lambda: sum(broker.committed("toolgauge", "otlp_spans").values()) == broker.written("otlp_spans"),
                "everything to be committed",
            )
        # The names that come back have their partitions, and what was written meanwhile waits there.
        consumers.send()
        with consumers.pod(0) as first, consumers.pod(1) as second:
            until(lambda: len(backend.scorecards()) >= 2 * TRACES, "the scorecards of what waited")
            assert_scored_whole(backend, 2 * TRACES)
            assert_each_span_once(backend, 6 * TRACES)
            assert all(pod.total("toolgauge_spans_total") > 0 for pod in (first, second))
