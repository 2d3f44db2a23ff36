"""OpenAI's client in a loop of an application's own, traced by the SDK that KIND names: `traceai-openai`, `genai-openai`,
`elastic-openai`, `agentops`, `langwatch`, `judgeval` or `honeyhive`."""

import os

from chat_loop import converse
from client import SCENARIOS, STUB, TOOLS, capture, logged, traced
from opentelemetry import trace
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
    return (
        tracer.agent(name="assistant"),
        tracer.tool,
        provider.force_flush,
        ("traceAI-openai", "fi-instrumentation-otel"),
    )


def official():
    """OpenTelemetry's own instrumentation of the client; the functions of the application are not traced."""
    os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_ONLY"
    provider = traced("client-app")
    from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument(tracer_provider=provider)
    span = provider.get_tracer("client-app").start_as_current_span("assistant")
    return span, lambda tool: tool, None, ("opentelemetry-instrumentation-genai-openai",)


def elastic():
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "true"
    provider = traced("client-app")
    logged("client-app")
    from opentelemetry.instrumentation.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument(tracer_provider=provider)
    span = provider.get_tracer("client-app").start_as_current_span("assistant")
    return span, lambda tool: tool, None, ("elastic-opentelemetry-instrumentation-openai",)


def by_langwatch():
    import langwatch

    langwatch.setup(api_key="none", endpoint_url=STUB)

    def agent(function):
        @langwatch.trace(name="assistant")
        def traced_agent(question):
            langwatch.get_current_trace().autotrack_openai_calls(client)
            return function(question)

        return traced_agent

    return agent, langwatch.span(type="tool"), None, ("langwatch",)


def by_judgeval():
    from judgeval import Tracer, wrap

    Tracer.init(project_name="client-app", api_key="none", organization_id="none", api_url=STUB)
    WRAPPED.append(wrap)
    return Tracer.observe(span_type="agent"), Tracer.observe(span_type="tool"), Tracer.force_flush, ("judgeval",)


def by_honeyhive():
    from honeyhive import HoneyHiveTracer
    from honeyhive import trace as traced_by

    os.environ["HH_OTLP_PROTOCOL"] = "http/protobuf"
    tracer = HoneyHiveTracer.init(api_key="none", server_url=STUB, disable_http_tracing=True)

    def around(kind):
        return lambda function: traced_by(event_type=kind, event_name=function.__name__, tracer=tracer)(function)

    return around("chain"), around("tool"), tracer.force_flush, ("honeyhive",)


def by_agentops():
    import agentops
    from agentops.sdk.decorators import operation
    from agentops.sdk.decorators import tool as traced_tool
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    os.environ["AGENTOPS_API_ENDPOINT"] = STUB
    agentops.init(
        api_key="11111111-1111-4111-8111-111111111111",
        endpoint=STUB,
        exporter_endpoint=f"{STUB}/v1/traces",
        instrument_llm_calls=True,
        auto_start_session=False,
        log_level="CRITICAL",
    )
    # Its own exporter does not go with this release of OpenTelemetry.
    trace.get_tracer_provider().add_span_processor(BatchSpanProcessor(EXPORTER))
    return operation(name="assistant"), traced_tool, None, ("agentops",)


WRAPPED = []
SDKS = {
    "traceai-openai": traceai,
    "genai-openai": official,
    "elastic-openai": elastic,
    "agentops": by_agentops,
    "langwatch": by_langwatch,
    "judgeval": by_judgeval,
    "honeyhive": by_honeyhive,
}
around_agent, around_tool, flush, packages = SDKS[KIND]()
import openai

client = openai.OpenAI(api_key="none", base_url=f"{STUB}/v1", max_retries=0)
for wrap in WRAPPED:
    client = wrap(client)
tools = {name: around_tool(tool) for name, tool in TOOLS.items()}


def play(scenario, text, number, state):
    messages = state.setdefault("messages", [{"role": "system", "content": "Help the user."}])
    messages.append({"role": "user", "content": text})

    def assistant(question: str) -> str:
        return converse(client.chat.completions.create, scenario, messages, tools)

    around_agent(assistant)(text)


capture(
    KIND,
    play,
    packages=("openai", *packages, "opentelemetry-sdk"),
    convention=packages[0],
    flush=flush,
    scenarios=tuple(name for name in SCENARIOS if not name.startswith("stream")),
)
