"""An agent of Haystack in a pipeline, under its own tracing or (`KIND=openinference-haystack-agent`) OpenInference, over chat completions."""

import os

os.environ["HAYSTACK_CONTENT_TRACING_ENABLED"] = "true"
from client import SCENARIOS, STUB, capture, tools_of, traced

KIND = os.environ.get("KIND", "haystack-agent")
provider = traced("haystack-app")
from haystack import Pipeline, tracing
from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function
from haystack.utils import Secret

if KIND == "openinference-haystack-agent":
    from openinference.instrumentation.haystack import HaystackInstrumentor

    HaystackInstrumentor().instrument(tracer_provider=provider)
else:
    from haystack_integrations.tracing.opentelemetry import OpenTelemetryTracer

    tracing.enable_tracing(OpenTelemetryTracer(provider.get_tracer("haystack")))
    tracing.tracer.is_content_tracing_enabled = True


def application(scenario):
    model = OpenAIChatGenerator(
        model="stub-model", api_key=Secret.from_token("none"), api_base_url=f"{STUB}/v1", max_retries=0
    )
    agent = Agent(
        chat_generator=model,
        system_prompt="Help the user.",
        tools=[create_tool_from_function(tool) for tool in tools_of(scenario)],
        streaming_callback=(lambda _: None) if scenario["stream"] else None,
    )
    pipeline = Pipeline()
    pipeline.add_component("agent", agent)
    return pipeline


def play(scenario, text, number, state):
    pipeline = state["pipeline"] if number else state.setdefault("pipeline", application(scenario))
    messages = [*state.get("messages", ()), ChatMessage.from_user(text)]
    answer = pipeline.run({"agent": {"messages": messages}})["agent"]
    state["messages"] = [one for one in answer["messages"] if not one.is_from("system")]


capture(
    KIND,
    play,
    packages=("haystack-ai", "opentelemetry-sdk")
    + (("openinference-instrumentation-haystack",) if KIND.startswith("openinference") else ()),
    convention="OpenInference" if KIND.startswith("openinference") else "Haystack",
    # Haystack drops calls with broken JSON, and the scripted model would ask for them for ever.
    scenarios=tuple(name for name in SCENARIOS if name != "bad_json"),
)
