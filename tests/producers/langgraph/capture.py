"""LangChain's agents on LangGraph under the tracer that KIND names: `genai-langchain` (OpenTelemetry's own), `monocle-langgraph`, `azure-ai-langgraph`
or `splunk-langgraph`."""

import os

from client import STUB, capture, tools_of, traced

os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_ONLY"
KIND = os.environ["KIND"]
callbacks = []
if KIND == "monocle-langgraph":
    from monocle_apptrace import setup_monocle_telemetry
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{STUB}/v1/traces"))
    setup_monocle_telemetry(workflow_name="langgraph-app", span_processors=[provider])
    PACKAGE = "monocle-apptrace"
elif KIND == "azure-ai-langgraph":
    provider = traced("langgraph-app")
    from langchain_azure_ai.callbacks.tracers import AzureAIOpenTelemetryTracer

    callbacks.append(AzureAIOpenTelemetryTracer(enable_content_recording=True, name="assistant"))
    PACKAGE = "langchain-azure-ai"
elif KIND == "splunk-langgraph":
    provider = traced("langgraph-app")
    from opentelemetry.instrumentation.langchain import LangchainInstrumentor

    LangchainInstrumentor().instrument(tracer_provider=provider)
    PACKAGE = "splunk-otel-instrumentation-langchain"
else:
    provider = traced("langgraph-app")
    from opentelemetry.instrumentation.genai.langchain import LangChainInstrumentor

    LangChainInstrumentor().instrument(tracer_provider=provider)
    PACKAGE = "opentelemetry-instrumentation-genai-langchain"
from langchain.agents import create_agent
from langchain.agents.middleware import wrap_tool_call
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver


@wrap_tool_call
def told(request, handler):
    """Tell the model of a tool's error."""
    try:
        return handler(request)
    except Exception as error:
        content = f"Error: {type(error).__name__}: {error}"
        return ToolMessage(content=content, tool_call_id=request.tool_call["id"], status="error")


def application(scenario):
    model = ChatOpenAI(model="stub-model", api_key="none", base_url=f"{STUB}/v1", streaming=scenario["stream"])
    tools = [tool(one) for one in tools_of(scenario)]
    return create_agent(
        model, tools, system_prompt="Help the user.", middleware=[told], checkpointer=InMemorySaver(), name="assistant"
    )


def play(scenario, text, number, state):
    agent = state.setdefault("agent", None) or application(scenario)
    state["agent"] = agent
    thread = scenario["conversation_id"] or "thread-1"
    config = {"configurable": {"thread_id": thread}, "callbacks": callbacks}
    agent.invoke({"messages": [{"role": "user", "content": text}]}, config)


capture(KIND, play, packages=("langchain", "langgraph", PACKAGE), convention=PACKAGE)
