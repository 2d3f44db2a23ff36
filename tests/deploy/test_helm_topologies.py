"""What the chart renders, run: its Collector's configuration in a real Collector, with the toolgauges that it configures."""

# pyright: reportUnknownMemberType=false

import contextlib
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from tests.deploy.collector import built, collecting
from tests.deploy.helm import rendered
from tests.deploy.test_topologies import (
    Pasted,
    assert_each_span_once,
    exporter,
    gauging,
    local,
)
from tests.wire.destination import Destination, attributes, receiving
from tests.wire.support import free_port, until

BACKEND = "otel-collector.observability.svc.cluster.local:4317"
INSTANCE = "toolgauge-{}.toolgauge-instances.toolgauge.svc:4317"
TRACES = 24


@pytest.fixture(autouse=True)
def real_collector(pytestconfig: pytest.Config) -> None:
    built(may_build=bool(pytestconfig.getoption("--long")))


class Release:
    """The files of a rendered example, in a folder: the Collector's, and one of each toolgauge."""

    def __init__(self, folder: Path, case: str) -> None:
        self._folder = folder
        maps = [one for one in rendered(case) if one["kind"] == "ConfigMap"]
        self._data = {one["metadata"]["name"]: one["data"] for one in maps}
        self.collector = folder / "collector.yaml"
        self.collector.write_text(self._data["toolgauge-collector"]["collector.yaml"])

    def toolgauge(self, number: int = 0) -> Path:
        """Write the files that the pod with this number has, with its own volume."""
        own = self._folder / f"pod-{number}"
        own.mkdir()
        for name, text in self._data["toolgauge"].items():
            moved = text.replace("/etc/toolgauge/", f"{own}/").replace("/var/lib/toolgauge", str(own))
            (own / name).write_text(moved)
        return own / "toolgauge.yaml"


class Gateway:
    """A release with a Collector in front of three toolgauges, each of which can be ended and started again."""

    def __init__(self, folder: Path, case: str, backend: Destination, *settings: str) -> None:
        self._release, self._folder, self._settings = Release(folder, case), folder, settings
        self.agents, self._backend = free_port(), backend
        self._files = [self._release.toolgauge(number) for number in range(3)]
        self._ports = [free_port() for _ in self._files]

    @contextlib.contextmanager
    def pod(self, number: int) -> Generator[Pasted]:
        """Run the toolgauge with this number on its port."""
        own = {f"0.0.0.0:{port}": local(0) for port in (4317, 4318, 9464, 13133)}
        own[BACKEND] = local(self._backend.grpc_port)
        listens = f"receivers.otlp.protocols.grpc.endpoint={local(self._ports[number])}"
        with gauging(self._folder, self._files[number], own, *self._settings, listens) as toolgauge:
            yield toolgauge

    @contextlib.contextmanager
    def collector(self) -> Generator[None]:
        """Run the Collector that agents send to."""
        addresses = {
            "0.0.0.0:4317": local(self.agents),
            "0.0.0.0:4318": local(free_port()),
            BACKEND: local(self._backend.grpc_port),
        }
        addresses |= {INSTANCE.format(number): local(port) for number, port in enumerate(self._ports)}
        with collecting(self._folder, self._release.collector, addresses):
            yield

    def send(self, conversations: Sequence[str]) -> None:
        """Send a run of each conversation, whose id every span carries; every span is a request of its own."""
        provider = TracerProvider(resource=Resource.create({"service.name": "trip-planner"}))
        provider.add_span_processor(SimpleSpanProcessor(exporter("grpc", self.agents)))
        tracer = provider.get_tracer("trip-planner")
        for conversation in conversations:
            names = {"gen_ai.conversation.id": conversation, "gen_ai.tool.name": "search_flights"}
            with (
                tracer.start_as_current_span(
                    "invoke_agent", attributes=names | {"gen_ai.operation.name": "invoke_agent"}
                ),
                tracer.start_as_current_span(
                    "execute_tool", attributes=names | {"gen_ai.operation.name": "execute_tool"}
                ),
            ):
                pass
        provider.shutdown()


def test_a_restarted_instance_gets_what_waited_for_it_and_no_trace_moves(tmp_path: Path):
    with receiving() as backend, contextlib.ExitStack() as running:
        # The Collector tries each request again after a while of its own: a run may come long after its call.
        gateway = Gateway(tmp_path, "gateway", backend, "assemble.open_idle_timeout=2m")
        for number in (0, 1):
            running.enter_context(gateway.pod(number))
        with gateway.pod(2), gateway.collector():
            gateway.send([str(number) for number in range(TRACES)])
            until(lambda: len(backend.scorecards()) >= TRACES, "a scorecard for every trace")
        with gateway.collector():
            gateway.send([str(number) for number in range(TRACES)])
            with gateway.pod(2) as again:
                until(lambda: len(backend.scorecards()) >= 2 * TRACES, "the scorecards of what waited")
                until(lambda: len(backend.spans()) >= 4 * TRACES, "all spans")
                assert again.total("toolgauge_spans_total") > 0
        cards = backend.scorecards()
        assert len({card.trace_id for card in cards}) == len(cards) == 2 * TRACES
        assert {attributes(card)["toolgauge.closed_because"] for card in cards} == {"run_ended"}
        assert not [card for card in cards if "toolgauge.incomplete" in attributes(card)]
        assert_each_span_once(backend, 4 * TRACES)


def test_conversations_are_scored_as_a_whole_where_every_span_carries_their_id(tmp_path: Path):
    conversations = [f"conversation-{number}" for number in range(TRACES)]
    soon = "assemble.conversation_idle_timeout=2s"
    with receiving() as backend, contextlib.ExitStack() as running:
        gateway = Gateway(tmp_path, "conversations", backend, soon)
        pods = [running.enter_context(gateway.pod(number)) for number in range(3)]
        with gateway.collector():
            gateway.send(conversations * 3)

            def scored() -> list[str]:
                cards = [attributes(card) for card in backend.scorecards()]
                found = [card for card in cards if "toolgauge.eval.no-endless-search.score" in card]
                return [str(card["gen_ai.conversation.id"]) for card in found]

            until(lambda: len(scored()) >= len(conversations), "a scorecard of every conversation")
            until(lambda: all(pod.total("toolgauge_traces_open") == 0 for pod in pods), "nothing to be open")
            assert sorted(scored()) == sorted(conversations)
            assert sum(1 for pod in pods if pod.total("toolgauge_spans_total")) > 1
