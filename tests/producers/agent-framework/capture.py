"""Microsoft Agent Framework with its own instrumentation, over chat completions."""

import sys

from client import SCENARIOS, STUB, capture, tools_of, traced

provider = traced("agent-framework-app")

from agent_framework import Agent, observability
from agent_framework.openai import OpenAIChatCompletionClient

observability.enable_instrumentation(enable_sensitive_data="content_off" not in sys.argv)


def model():
    return OpenAIChatCompletionClient(model="stub-model", api_key="none", base_url=f"{STUB}/v1")


def application(scenario):
    if scenario["name"] == "subagent":
        inner = Agent(client=model(), name="flight_agent", tools=tools_of(scenario, "get_weather"))
        outer = inner.as_tool(name="flight_agent", description="Finds flights", arg_name="input")
        return Agent(client=model(), name="coordinator", tools=[outer, *tools_of(scenario, "search_flights")])
    return Agent(client=model(), name="assistant", instructions="Help the user.", tools=tools_of(scenario))


async def play(scenario, text, number, state):
    if not number:
        state["agent"] = application(scenario)
        state["session"] = state["agent"].create_session(session_id=scenario["conversation_id"])
    if scenario["stream"]:
        async for _ in state["agent"].run(text, session=state["session"], stream=True):
            pass
    else:
        await state["agent"].run(text, session=state["session"])


capture(
    "agent-framework",
    play,
    packages=("agent-framework-core", "agent-framework-openai", "opentelemetry-sdk"),
    convention="its own instrumentation (GenAI conventions)",
    scenarios=(*SCENARIOS, "subagent"),
)
