"""BeeAI's RequirementAgent with OpenInference's instrumentation."""

import asyncio
import os

from client import STUB, capture, tools_of, traced

os.environ["BEEAI_LOG_LEVEL"] = "ERROR"
provider = traced("beeai-app")
from openinference.instrumentation.beeai import BeeAIInstrumentor

BeeAIInstrumentor().instrument(tracer_provider=provider)
from beeai_framework.adapters.openai import OpenAIChatModel
from beeai_framework.agents.requirement import RequirementAgent
from beeai_framework.backend import ChatModelParameters
from beeai_framework.memory import UnconstrainedMemory
from beeai_framework.tools import tool


def play(scenario, text, number, state):
    async def run():
        model = OpenAIChatModel(
            "stub-model",
            api_key="none",
            base_url=f"{STUB}/v1",
            parameters=ChatModelParameters(stream=scenario["stream"]),
            tool_choice_support={"auto", "none"},
        )
        agent = state.get("agent") or RequirementAgent(
            llm=model,
            memory=UnconstrainedMemory(),
            tools=[tool(one) for one in tools_of(scenario)],
            final_answer_as_tool=False,
            name="assistant",
        )
        state["agent"] = agent
        await asyncio.wait_for(agent.run(text, max_iterations=8), 60)

    return run()


capture(
    "openinference-beeai",
    play,
    packages=("beeai-framework", "openinference-instrumentation-beeai", "opentelemetry-sdk"),
    convention="OpenInference",
    names={"control": {"name": "final_answer", "arguments": {"response": "FINAL"}}},
)
