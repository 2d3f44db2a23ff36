"""OpenAI's client in a loop of an application's own, traced by the SDK that KIND names: `traceai-openai`, `genai-openai` or `elastic-openai`."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "stub"))
from chat_loop import converse
from client import SCENARIOS, STUB, TOOLS, capture, logged, traced
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

KIND = os.environ["KIND"]
EXPORTER = OTLPSpanExporter(endpoint=f"{STUB}/v1/traces")


def traceai():
    from fi_instrumentation import FITracer, register
    from fi_instrumentation.fi_types import ProjectType
    from traceai_openai import OpenAIInstrumentor

    provider = register(
        project_type=ProjectType.OBSERVE, project_name="client-app", span_exporter=EXPORTER, verbose=False
    )
    OpenAIInstrumentor().instrument(tracer_provider=provider)
    tracer = FITracer(provider.get_tracer("client-app"))
    return tracer.agent(name="assistant"), tracer.tool, provider.force_flush, ("traceAI-openai", "fi-instrumentation-otel")


def official():
    """OpenTelemetry's own instrumentation of the client; the functions of the application are not traced."""
    os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_ONLY"
    provider = traced("client-app")
    from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument(tracer_provider=provider)
    span = provider.get_tracer("client-app").start_as_current_span("assistant")
    return span, lambda tool: tool, provider.force_flush, ("opentelemetry-instrumentation-genai-openai",)


def elastic():
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "true"
    provider, logger = traced("client-app"), logged("client-app")
    from opentelemetry.instrumentation.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument(tracer_provider=provider, logger_provider=logger)
    span = provider.get_tracer("client-app").start_as_current_span("assistant")

    def flush():
        provider.force_flush()
        logger.force_flush()

    return span, lambda tool: tool, flush, ("elastic-opentelemetry-instrumentation-openai",)


SDKS = {"traceai-openai": traceai, "genai-openai": official, "elastic-openai": elastic}
around_agent, around_tool, flush, packages = SDKS[KIND]()
import openai

client = openai.OpenAI(api_key="none", base_url=f"{STUB}/v1", max_retries=0)
tools = {name: around_tool(tool) for name, tool in TOOLS.items()}


def play(scenario, text, number, state):
    messages = state.setdefault("messages", [{"role": "system", "content": "Help the user."}])
    messages.append({"role": "user", "content": text})

    def assistant(question: str) -> str:
        return converse(client, scenario, messages, tools)

    around_agent(assistant)(text)


capture(
    KIND,
    play,
    packages=("openai", *packages, "opentelemetry-sdk"),
    convention=packages[0],
    flush=flush,
    scenarios=tuple(name for name in SCENARIOS if not name.startswith("stream")),
)
