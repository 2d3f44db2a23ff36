"""A real producer: an agent of pydantic-ai, instrumented and exported by the SDK of OpenTelemetry.

The model is a script: it calls a tool that works, one that raises and one that nobody offered. The scores
that come out of the far end must say exactly that.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import asyncio
import contextlib
import http.server
import json
from collections.abc import Generator
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from pydantic_ai import Agent, ModelMessage, ModelResponse, ModelRetry, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.instrumented import InstrumentationSettings

from tests.http_server import Quiet, answering
from tests.wire.destination import Destination, attributes, receiving
from tests.wire.support import OPENMETRICS, Toolgauge, serving, to_grpc, to_http, until, until_equal

RESOURCE = Resource.create({"service.name": "trip-planner"})
# What really happened: (criterion, tool) -> outcome.
HAPPENED = {
    ("default.run_completed", ""): "pass",
    ("default.tool_success", "get_weather"): "pass",
    ("default.known_tool", "get_weather"): "pass",
    ("default.tool_success", "book_hotel"): "fail",
    ("default.known_tool", "book_hotel"): "pass",
    ("default.tool_success", "get_wether"): "fail",
    ("default.known_tool", "get_wether"): "fail",
    ("default.arguments_schema", "get_weather"): "pass",
    ("default.arguments_schema", "book_hotel"): "pass",
    ("default.repeated_calls", "get_weather"): "pass",
    ("default.repeated_calls", "book_hotel"): "pass",
    ("default.repeated_calls", "get_wether"): "pass",
    # The answer admits that there was no hotel.
    ("default.error_handling", "book_hotel"): "pass",
    ("default.error_handling", "get_wether"): "pass",
}

# In the metrics there is also what cannot fail, and what could not be judged: neither is an event.
COUNTED = {
    **HAPPENED,
    ("default.tool_use", ""): "pass",
    ("default.coverage", ""): "pass",
    ("default.arguments_schema", "get_wether"): "not_evaluated",
    ("default.grounded_arguments", ""): "not_evaluated",
    ("default.one_effect", ""): "not_evaluated",
    ("default.grounded_answer", ""): "not_evaluated",
    ("default.honest_answer", ""): "not_evaluated",
}
# Of the tools that were executed, as attributes of their spans.
SCORES = {
    "get_weather": {
        "default.tool_success": 1.0,
        "default.known_tool": 1.0,
        "default.arguments_schema": 1.0,
        "default.repeated_calls": 1.0,
    },
    "book_hotel": {
        "default.tool_success": 0.0,
        "default.known_tool": 1.0,
        "default.arguments_schema": 1.0,
        "default.repeated_calls": 1.0,
        "default.error_handling": 0.5,
    },
}

# Four model calls, two executed tools, one run.
SPANS = 7


def exporter_to(toolgauge: Toolgauge, protocol: str) -> GrpcExporter | HttpExporter:
    if protocol == "grpc":
        return GrpcExporter(endpoint=f"http://127.0.0.1:{toolgauge.grpc_port}", insecure=True)
    return HttpExporter(endpoint=f"http://127.0.0.1:{toolgauge.http_port}/v1/traces")


# -- pydantic-ai --------------------------------------------------------------------------------------------------------


def scripted(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    """One call a turn, then the answer."""
    turn = sum(isinstance(message, ModelResponse) for message in messages)
    script = (
        ToolCallPart("get_weather", {"city": "Lima"}, tool_call_id="call-weather"),
        ToolCallPart("get_wether", {"city": "Lima"}, tool_call_id="call-invented"),
        ToolCallPart("book_hotel", {"city": "Lima", "nights": 2}, tool_call_id="call-hotel"),
        TextPart("Mild, but no hotel was to be had."),
    )
    return ModelResponse(parts=[script[turn]])


def get_weather(city: str) -> str:
    return f"18 degrees in {city}"


def book_hotel(city: str, nights: int) -> str:
    raise ModelRetry(f"no room in {city} for {nights} nights")


async def run_pydantic_ai(exporter: GrpcExporter | HttpExporter) -> None:
    provider = TracerProvider(resource=RESOURCE)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    try:
        await run_planner(provider)
    finally:
        await asyncio.to_thread(provider.shutdown)


async def run_planner(provider: TracerProvider) -> None:
    Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))
    try:
        agent = Agent(FunctionModel(scripted), name="planner", retries=3, tools=[get_weather, book_hotel])
        answer = await agent.run("Weather and a hotel in Lima, please")
        assert answer.output == "Mild, but no hotel was to be had."
    finally:
        Agent.instrument_all(instrument=False)


@pytest.mark.parametrize("protocol", ["grpc", "http"])
async def test_a_run_of_pydantic_ai_arrives_with_the_scores_of_what_happened(tmp_path: Path, protocol: str):
    with receiving() as destination:
        onward = (to_grpc if protocol == "grpc" else to_http)(getattr(destination, f"{protocol}_port"))
        with serving(tmp_path, onward) as toolgauge:
            await run_pydantic_ai(exporter_to(toolgauge, protocol))
            assert judged(destination) == HAPPENED
            tools = [span for span in destination.spans() if span.name.startswith("execute_tool")]
            assert {span.name.removeprefix("execute_tool "): scores(span) for span in tools} == SCORES
            assert_one_scorecard_links_to(destination, {span.span_id for span in tools})
            assert_metrics_arrive(toolgauge, destination)
            toolgauge.settled(SPANS)


# -- a stand-in for a model -----------------------------------------------------------------------------------------------


def completion(content: str | None, *calls: tuple[str, str, str]) -> bytes:
    """A chat completion as the API answers it; a call is (id, name, arguments)."""
    tool_calls = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for call_id, name, arguments in calls
    ]
    message = {"role": "assistant", "content": content, **({"tool_calls": tool_calls} if calls else {})}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    usage = {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}
    whole = {"id": "c", "object": "chat.completion", "created": 1, "model": "stub", "choices": [choice], "usage": usage}
    return json.dumps(whole).encode()


@contextlib.contextmanager
def model_server(answers: list[bytes]) -> Generator[str]:
    """A stand-in for the model's API that gives these answers in order."""
    left = iter(answers)

    class Answer(Quiet, http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            body = next(left)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with answering(Answer) as url:
        yield f"{url}/v1"


# -- what must be seen --------------------------------------------------------------------------------------------------


def judged(destination: Destination) -> dict[tuple[object, object], object]:
    """Criterion and tool -> outcome, as the evaluation events tell it."""
    events = until(lambda: destination.events() or None, "evaluation events")
    assert {event.event_name for event in events} == {"gen_ai.evaluation.result"}
    told = [attributes(event) for event in events]
    outcomes = {
        (one["gen_ai.evaluation.name"], one.get("gen_ai.tool.name", "")): one["toolgauge.outcome"] for one in told
    }
    assert len(outcomes) == len(events)
    spans = until(lambda: destination.spans() if len(destination.spans()) == SPANS else None, "all spans")
    assert {event.span_id for event in events} <= {span.span_id for span in spans}
    return outcomes


def scores(span: Span) -> dict[str, object]:
    return {
        key.removeprefix("toolgauge.eval.").removesuffix(".score"): value
        for key, value in attributes(span).items()
        if key.endswith(".score")
    }


def assert_one_scorecard_links_to(destination: Destination, tool_spans: set[bytes]) -> None:
    (scorecard,) = until(lambda: destination.scorecards() or None, "the scorecard span")
    (root,) = [span for span in destination.spans() if not span.parent_span_id]
    assert scorecard.name == "toolgauge.scorecard"
    assert (scorecard.trace_id, scorecard.parent_span_id) == (root.trace_id, root.span_id)
    assert tool_spans <= {link.span_id for link in scorecard.links}


def assert_metrics_arrive(toolgauge: Toolgauge, destination: Destination) -> None:
    """By push and by scrape, with exemplars that lead to the judged span."""

    def pushed() -> float:
        metric = destination.metrics().get("toolgauge.evaluations")
        return sum(point.as_int or point.as_double for point in metric.sum.data_points) if metric else 0

    until_equal(pushed, len(COUNTED), "the pushed metrics")
    families = list(text_string_to_metric_families(toolgauge.exposition(OPENMETRICS)))
    labelled = {
        (sample.labels["gen_ai_evaluation_name"], sample.labels.get("gen_ai_tool_name", "")): sample.labels[
            "toolgauge_outcome"
        ]
        for family in families
        for sample in family.samples
        # Beside what was counted there is what begins at 0.
        if sample.name == "toolgauge_evaluations_total" and sample.value
    }
    assert labelled == COUNTED
    exemplars = {
        sample.exemplar.labels["span_id"]
        for family in families
        for sample in family.samples
        if sample.name == "toolgauge_evaluation_score_bucket" and sample.exemplar
    }
    spans = {span.span_id.hex() for span in destination.spans()}
    assert exemplars
    assert exemplars <= spans
