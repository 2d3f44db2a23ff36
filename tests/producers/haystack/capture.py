"""Haystack's agent under OpenInference, over chat completions."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "stub"))
from client import STUB, capture, tools_of, traced

provider = traced("haystack-app")
from openinference.instrumentation.haystack import HaystackInstrumentor

HaystackInstrumentor().instrument(tracer_provider=provider)

from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function
from haystack.utils import Secret


def play(scenario, text, number, state):
    generator = OpenAIChatGenerator(
        api_key=Secret.from_token("none"), model="stub-model", api_base_url=f"{STUB}/v1", max_retries=0
    )
    agent = Agent(
        chat_generator=generator,
        tools=[create_tool_from_function(tool) for tool in tools_of(scenario)],
        system_prompt="Help the user.",
    )
    streaming = {"streaming_callback": lambda _chunk: None} if scenario["stream"] else {}
    answer = agent.run(messages=[*state.get("messages", []), ChatMessage.from_user(text)], **streaming)
    state["messages"] = answer["messages"]


capture(
    "openinference-haystack-agent",
    play,
    packages=("haystack-ai", "openinference-instrumentation-haystack", "opentelemetry-sdk"),
    convention="OpenInference",
    flush=provider.force_flush,
)
