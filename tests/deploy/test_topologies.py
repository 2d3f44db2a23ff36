"""The configurations of `deploy/collector`, pasted: a real Collector and a running toolgauge between a real SDK and a backend.

Only ports are changed, and toolgauge closes trajectories sooner.
"""

# pyright: reportUnknownMemberType=false

import asyncio
import contextlib
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from tests.deploy.collector import built, collecting, pasted
from tests.deploy.files import DEPLOY
from tests.wire.destination import Destination, attributes, receiving
from tests.wire.support import (
    LISTEN,
    SOON,
    Process,
    Toolgauge,
    environment,
    free_port,
    post,
    recorded,
    serving,
    to_grpc,
    toolgauge_command,
    until,
)
from tests.wire.test_producers import (
    HAPPENED,
    SCORES,
    SPANS,
    assert_metrics_arrive,
    assert_one_scorecard_links_to,
    judged,
    run_pydantic_ai,
    scores,
)
from tests.wire.test_reload import other_trace

PASTED = DEPLOY / "collector"
# While the Collector is not up, toolgauge asks again sooner than it would in production.
RETRY_SOON = ("exporters.otlp.retry.initial_interval=100ms", "exporters.otlp.retry.max_interval=300ms")
RIGHT = {f"execute_tool {tool}": of_tool for tool, of_tool in SCORES.items()}


class Pasted(Toolgauge):
    """`toolgauge serve --config` with a pasted file, listening where there is room."""

    def __init__(
        self, folder: Path, file: Path, addresses: Mapping[str, str], settings: Sequence[str] = (), **variables: str
    ) -> None:
        own = folder / f"toolgauge-{free_port()}.yaml"
        own.write_text(pasted(file, addresses))
        arguments = ["serve", "--config", str(own)]
        for setting in (*LISTEN, *SOON, *RETRY_SOON, *settings):
            arguments += ["--set", setting]
        Process.__init__(self, toolgauge_command(*arguments), own.with_suffix(".log"), environment(**variables))
        self.grpc_port = self.http_port = self.metrics_port = 0


@contextlib.contextmanager
def gauging(
    folder: Path, file: Path, addresses: Mapping[str, str], *settings: str, **variables: str
) -> Generator[Pasted]:
    """Run one pasted toolgauge; it must have delivered everything at the end."""
    with contextlib.closing(Pasted(folder, file, addresses, settings, **variables)) as toolgauge:
        toolgauge.wait_until_up()
        yield toolgauge
        if toolgauge.is_running():
            toolgauge.signal()
            assert toolgauge.ended() == 0, toolgauge.said()
        assert "Traceback" not in toolgauge.said()


def local(port: int) -> str:
    return f"127.0.0.1:{port}"


def exporter(protocol: str, port: int) -> GrpcExporter | HttpExporter:
    if protocol == "grpc":
        return GrpcExporter(endpoint=f"http://127.0.0.1:{port}", insecure=True)
    return HttpExporter(endpoint=f"http://127.0.0.1:{port}/v1/traces")


def assert_each_span_once(destination: Destination, count: int) -> None:
    """Nothing was lost, nothing came twice."""
    ids = [(span.trace_id, span.span_id) for span in destination.spans()]
    assert len(ids) == len(set(ids)) == count


def assert_no_loop(toolgauge: Toolgauge, spans: int) -> None:
    """Scorecards, events and metrics have been all the way round by the time this is asked: they must not come in."""
    books = toolgauge.settled(spans)
    assert (books["received"], books["refused"], books["dropped"]) == (spans, 0, 0)
    assert toolgauge.total("toolgauge_loop_suspected") == 0


def tool_spans(destination: Destination) -> list[Span]:
    return [span for span in destination.spans() if span.name.startswith("execute_tool")]


def assert_scored_in_the_path(toolgauge: Toolgauge, destination: Destination) -> None:
    assert judged(destination) == HAPPENED
    tools = tool_spans(destination)
    assert {span.name: scores(span) for span in tools} == RIGHT
    assert_one_scorecard_links_to(destination, {span.span_id for span in tools})
    assert_metrics_arrive(toolgauge, destination)
    assert_no_loop(toolgauge, SPANS)
    assert_each_span_once(destination, SPANS)
    assert toolgauge.books()["forwarded"] == SPANS


@pytest.fixture(autouse=True)
def real_collector(pytestconfig: pytest.Config) -> None:
    built(may_build=bool(pytestconfig.getoption("--long")))


def test_toolgauge_in_front_of_the_collector(tmp_path: Path):
    ports = {"localhost:14317": local(free_port()), "localhost:4317": local(0), "localhost:4318": local(0)}
    with (
        receiving() as backend,
        collecting(tmp_path, PASTED / "in-front" / "collector.yaml", ports, backend=backend.grpc_port),
        gauging(tmp_path, PASTED / "in-front" / "toolgauge.yaml", ports) as toolgauge,
    ):
        asyncio.run(run_pydantic_ai(exporter("grpc", toolgauge.grpc_port)))
        assert_scored_in_the_path(toolgauge, backend)


def test_a_collector_with_tail_sampling_keeps_runs_that_failed_and_traces_without_an_agent(tmp_path: Path):
    ports = {"localhost:14317": local(free_port()), "localhost:4317": local(0), "localhost:4318": local(0)}
    (passed,), (failed,) = recorded("pydantic-ai", "one_call"), recorded("pydantic-ai", "tool_error")
    pair = PASTED / "keep-failed"
    with (
        receiving() as backend,
        collecting(tmp_path, pair / "collector.yaml", ports, backend=backend.grpc_port),
        gauging(tmp_path, pair / "toolgauge.yaml", ports) as toolgauge,
    ):
        for number in range(1, 41):
            assert post(toolgauge.http_port, other_trace(failed if number <= 5 else passed, number))[0] == 200
        tracer = TracerProvider(resource=Resource.create({"service.name": "shop"}))
        tracer.add_span_processor(SimpleSpanProcessor(exporter("http", toolgauge.http_port)))
        tracer.get_tracer("shop").start_span("GET /").end()
        kept = [number.to_bytes(8, "big") for number in range(1, 6)]

        def whole() -> bool:
            spans = [span.trace_id[:8] for span in backend.spans()]
            return all(spans.count(trace) == 3 for trace in kept) and "GET /" in [one.name for one in backend.spans()]

        until(whole, "the runs that failed and the trace without an agent")
        of_passed = {span.trace_id for span in backend.spans() if span.trace_id[:8] not in kept}
        assert len(of_passed) < 15
        tracer.shutdown()


@contextlib.contextmanager
def around(folder: Path, topology: str, backend: Destination, *settings: str) -> Generator[tuple[Pasted, int, int]]:
    """Run toolgauge between two receivers of one Collector; yields the agents' ports for gRPC and HTTP, too."""
    way_back, grpc, http = free_port(), free_port(), free_port()
    ports = {"localhost:14317": local(way_back), "localhost:4317": local(grpc), "localhost:4318": local(http)}
    listening = {"localhost:24317": local(0), "localhost:24318": local(0)}
    with gauging(folder, PASTED / topology / "toolgauge.yaml", {**ports, **listening}, *settings) as toolgauge:
        ports["localhost:24317"] = local(toolgauge.grpc_port)
        with collecting(folder, PASTED / topology / "collector.yaml", ports, backend=backend.grpc_port):
            yield toolgauge, grpc, http
            # toolgauge goes first: what it says at its end still has a way.
            if toolgauge.is_running():
                toolgauge.signal()
                assert toolgauge.ended() == 0, toolgauge.said()


def test_toolgauge_between_two_receivers_of_the_collector(tmp_path: Path):
    with receiving() as backend, around(tmp_path, "both-sides", backend) as (toolgauge, _, http):
        asyncio.run(run_pydantic_ai(exporter("http", http)))
        assert_scored_in_the_path(toolgauge, backend)


def test_what_comes_while_toolgauge_is_being_restarted_waits_in_the_collector(tmp_path: Path):
    with receiving() as backend, around(tmp_path, "both-sides", backend) as (toolgauge, grpc, _):
        asyncio.run(run_pydantic_ai(exporter("grpc", grpc)))
        toolgauge.settled(SPANS)
        toolgauge.signal()
        assert toolgauge.ended() == 0, toolgauge.said()
        asyncio.run(run_pydantic_ai(exporter("grpc", grpc)))
        again = f"receivers.otlp.protocols.grpc.endpoint={local(toolgauge.grpc_port)}"
        with serving(tmp_path, to_grpc(backend.grpc_port), again) as other:
            until(lambda: len(backend.scorecards()) >= 2, "the scorecard of the run that waited")
            assert other.settled(SPANS)["received"] == SPANS
        assert_each_span_once(backend, 2 * SPANS)


def test_a_copy_of_the_traces_is_scored_beside_the_path_where_a_dead_toolgauge_costs_nothing(tmp_path: Path):
    with receiving() as backend, around(tmp_path, "copy", backend) as (toolgauge, grpc, _):
        asyncio.run(run_pydantic_ai(exporter("grpc", grpc)))
        assert judged(backend) == HAPPENED
        assert_metrics_arrive(toolgauge, backend)
        assert_no_loop(toolgauge, SPANS)
        assert_each_span_once(backend, SPANS)
        assert not backend.scorecards()
        assert not any(scores(span) for span in backend.spans())
        assert toolgauge.books()["consumed"] == SPANS
        # A dead one costs the backend nothing.
        toolgauge.signal()
        assert toolgauge.ended() == 0
        asyncio.run(run_pydantic_ai(exporter("grpc", grpc)))
        until(lambda: len(backend.spans()) >= 2 * SPANS, "all spans")
        assert_each_span_once(backend, 2 * SPANS)


# -- several toolgauges -------------------------------------------------------------------------------------------------

TRACES = 16


def run_conversation(port: int, traces: int) -> None:
    """Send runs of one conversation, one trace a turn; every span is a request of its own."""
    provider = TracerProvider(resource=Resource.create({"service.name": "trip-planner"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter("grpc", port)))
    tracer = provider.get_tracer("trip-planner")
    run = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": "one"}
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_weather"}
    for _ in range(traces):
        with (
            tracer.start_as_current_span("invoke_agent", attributes=run),
            tracer.start_as_current_span("execute_tool get_weather", attributes=tool),
        ):
            pass
    provider.shutdown()


@contextlib.contextmanager
def balanced(folder: Path, backend: Destination, *settings: str) -> Generator[tuple[Pasted, Pasted, int]]:
    """Run two toolgauges behind the Collector's load-balancing exporter; yields the agents' port as well."""
    pair, way_back, agents = PASTED / "load-balancing", free_port(), free_port()
    own = {f"0.0.0.0:{port}": local(0) for port in (4317, 4318, 9464)}
    own["collector:14317"] = local(way_back)
    with (
        gauging(folder, pair / "toolgauge.yaml", own, *settings) as first,
        gauging(folder, pair / "toolgauge.yaml", own, *settings) as second,
    ):
        ports = {
            "0.0.0.0:4317": local(agents),
            "0.0.0.0:4318": local(free_port()),
            "0.0.0.0:14317": local(way_back),
            "toolgauge-0:4317": local(first.grpc_port),
            "toolgauge-1:4317": local(second.grpc_port),
        }
        with collecting(folder, pair / "collector.yaml", ports, backend=backend.grpc_port):
            yield first, second, agents
            for toolgauge in (first, second):
                toolgauge.signal()
                assert toolgauge.ended() == 0, toolgauge.said()


def test_every_trace_is_scored_whole_by_one_of_several_toolgauges(tmp_path: Path):
    with receiving() as backend, balanced(tmp_path, backend) as (first, second, agents):
        run_conversation(agents, TRACES)
        until(lambda: len(backend.scorecards()) >= TRACES, "a scorecard for every trace")
        cards = backend.scorecards()
        assert len({card.trace_id for card in cards}) == len(cards) == TRACES
        assert {attributes(card)["toolgauge.closed_because"] for card in cards} == {"run_ended"}
        until(lambda: len(backend.spans()) >= 2 * TRACES, "all spans")
        assert_each_span_once(backend, 2 * TRACES)
        assert [scores(span)["default.tool_success"] for span in tool_spans(backend)] == [1.0] * TRACES
        shares = [int(toolgauge.settled(2)["received"]) for toolgauge in (first, second)]
        assert min(shares) > 0
        assert sum(shares) == 2 * TRACES
        for toolgauge, share in zip((first, second), shares, strict=True):
            assert_no_loop(toolgauge, share)
            assert toolgauge.books()["forwarded"] == share
        until(lambda: metric_producers(backend) == 2, "the metrics of both")


def metric_producers(backend: Destination) -> int:
    """Count the instances whose metrics arrived."""
    resources = [
        group.resource.attributes
        for body in backend.bodies("metrics")
        for group in ExportMetricsServiceRequest.FromString(body).resource_metrics
    ]
    return len({one.value.string_value for own in resources for one in own if one.key == "service.instance.id"})


# -- containers ---------------------------------------------------------------------------------------------------------


def test_the_pair_of_the_compose_file_shows_spans_events_and_metrics_with_scores(tmp_path: Path):
    docker, way_back, agents = DEPLOY / "docker", free_port(), free_port()
    own = {f"0.0.0.0:{port}": local(0) for port in (4317, 4318, 9464, 13133)}
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{local(way_back)}", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    with receiving() as tempo, gauging(tmp_path, docker / "toolgauge.yaml", own, **variables) as toolgauge:
        ports = {
            "tempo:4317": local(tempo.grpc_port),
            "0.0.0.0:4317": local(agents),
            "0.0.0.0:4318": local(free_port()),
        }
        ports |= {"0.0.0.0:14317": local(way_back), "toolgauge:4317": local(toolgauge.grpc_port)}
        with collecting(tmp_path, docker / "collector.yaml", ports) as collector:
            asyncio.run(run_pydantic_ai(exporter("grpc", agents)))
            for word in ("EventName: gen_ai.evaluation.result", "Name: toolgauge.evaluation.score"):
                until(lambda word=word: word in collector.said(), word)
            until(tempo.scorecards, "the scorecard of the run in the trace store")
            scores = [attributes(span).get("toolgauge.eval.default.tool_success.score") for span in tempo.spans()]
            assert 0 in scores
            assert_no_loop(toolgauge, SPANS)
            toolgauge.signal()
            assert toolgauge.ended() == 0, toolgauge.said()
