"""Strands Agents for Python under OpenInference's span processor, over chat completions."""

from client import STUB, capture, tools_of, traced

provider = traced("strands-app")
# Before the exporter's: it rewrites spans in place.
from openinference.instrumentation.strands_agents import StrandsAgentsToOpenInferenceProcessor

provider._active_span_processor._span_processors = (
    StrandsAgentsToOpenInferenceProcessor(),
    *provider._active_span_processor._span_processors,
)

from strands import Agent, tool
from strands.models.openai import OpenAIModel


def play(scenario, text, number, state):
    if not number:
        model = OpenAIModel(
            client_args={"api_key": "none", "base_url": f"{STUB}/v1", "max_retries": 0},
            model_id="stub-model",
            params={"stream": True},
        )
        identifier = scenario["conversation_id"]
        state["agent"] = Agent(
            model=model,
            name="assistant",
            system_prompt="Help the user.",
            tools=[tool(one) for one in tools_of(scenario)],
            callback_handler=None,
            trace_attributes={"session.id": identifier} if identifier else None,
        )
    state["agent"](text)


capture(
    "openinference-strands",
    play,
    packages=("strands-agents", "openinference-instrumentation-strands-agents", "opentelemetry-sdk"),
    convention="OpenInference",
)
