"""Pydantic AI with its own instrumentation, and its OpenAI model."""

from client import STUB, capture, tools_of, traced
from openai import AsyncOpenAI
from pydantic_ai import Agent, InstrumentationSettings
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

provider = traced("pydantic-ai-app")
Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))


async def play(scenario, text, number, state):
    client = AsyncOpenAI(base_url=f"{STUB}/v1", api_key="none")
    model = OpenAIChatModel("stub-model", provider=OpenAIProvider(openai_client=client))
    agent = Agent(model, name="assistant", tools=tools_of(scenario))
    history = state.get("messages", [])
    played = await agent.run(text, message_history=history, conversation_id=scenario["conversation_id"])
    state["messages"] = played.all_messages()


capture(
    "pydantic-ai",
    play,
    packages=("pydantic-ai-slim", "openai", "opentelemetry-sdk"),
    convention="gen_ai semconv",
    scenarios=("conformance",),
)
