"""OpenAI's client in a loop of an application's own, traced by the SDK that KIND names: `traceai-openai`."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "stub"))
from chat_loop import converse
from client import SCENARIOS, STUB, TOOLS, capture
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


around_agent, around_tool, flush, packages = {"traceai-openai": traceai}[KIND]()
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
