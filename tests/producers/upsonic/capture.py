"""Upsonic's agents with their own instrumentation."""

import asyncio
import os

os.environ["UPSONIC_TELEMETRY"] = "False"
from client import SCENARIOS, STUB, capture, tools_of
from upsonic import Agent, Task
from upsonic.integrations.tracing import DefaultTracingProvider
from upsonic.models.openai import OpenAIChatModel
from upsonic.providers.openai import OpenAIProvider
from upsonic.tools import tool

LOOP = asyncio.new_event_loop()
provider = DefaultTracingProvider(endpoint=f"{STUB}/v1/traces", service_name="upsonic-app")


def play(scenario, text, number, state):
    model = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(base_url=f"{STUB}/v1", api_key="none"))
    agent = Agent(model, name="assistant", system_prompt="Help the user.", instrument=provider, print=False)
    LOOP.run_until_complete(agent.do_async(Task(text, tools=[tool(one) for one in tools_of(scenario)])))


capture(
    "upsonic",
    play,
    packages=("upsonic", "opentelemetry-sdk"),
    convention="Upsonic's own spans",
    flush=provider.flush,
    scenarios=tuple(name for name in SCENARIOS if not name.startswith("stream") and name != "multi_turn"),
)
