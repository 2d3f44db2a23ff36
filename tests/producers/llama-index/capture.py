"""LlamaIndex's function agent, over chat completions, under OpenInference, Traceloop or its own package (`KIND=llama-index-otel`)."""

import os

from client import SCENARIOS, STUB, capture, tools_of, traced

KIND = os.environ.get("KIND", "openinference-llama-index")
provider = traced("llama-index-app")

if KIND == "llama-index-otel":
    from llama_index.observability.otel import LlamaIndexOpenTelemetry
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    PACKAGE = "llama-index-observability-otel"
    LlamaIndexOpenTelemetry(tracer_provider=provider, span_exporter=InMemorySpanExporter()).start_registering()
elif KIND == "traceloop-llama-index":
    from opentelemetry.instrumentation.llamaindex import LlamaIndexInstrumentor

    PACKAGE = "opentelemetry-instrumentation-llamaindex"
    LlamaIndexInstrumentor().instrument(tracer_provider=provider)
else:
    from openinference.instrumentation.llama_index import LlamaIndexInstrumentor

    PACKAGE = "openinference-instrumentation-llama-index"
    LlamaIndexInstrumentor().instrument(tracer_provider=provider)

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.memory import Memory
from llama_index.llms.openai_like import OpenAILike


def agent(scenario, name="assistant", without=(), **more):
    model = OpenAILike(
        model="stub-model",
        api_key="none",
        api_base=f"{STUB}/v1",
        is_chat_model=True,
        is_function_calling_model=True,
        max_retries=0,
    )
    return FunctionAgent(
        name=name,
        description=name,
        system_prompt="Help the user.",
        tools=tools_of(scenario, *without),
        llm=model,
        streaming=scenario["stream"],
        **more,
    )


def application(scenario):
    if scenario["name"] != "handoff":
        return AgentWorkflow(agents=[agent(scenario)])
    triage = agent(scenario, "triage_agent", ("refund_order",), can_handoff_to=["refund_agent"])
    return AgentWorkflow(agents=[triage, agent(scenario, "refund_agent")], root_agent="triage_agent")


async def play(scenario, text, number, state):
    if not number:
        state["memory"] = Memory.from_defaults(session_id=scenario["conversation_id"])
    await application(scenario).run(user_msg=text, memory=state["memory"])


capture(
    KIND,
    play,
    packages=("llama-index-core", PACKAGE, "opentelemetry-sdk"),
    convention={"traceloop-llama-index": "Traceloop", "llama-index-otel": "LlamaIndex"}.get(KIND, "OpenInference"),
    names={"handoff": "handoff", "handoff_arguments": {"to_agent": "refund_agent", "reason": "money"}},
    scenarios=(*SCENARIOS, "handoff"),
)
