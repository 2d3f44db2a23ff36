"""Pydantic AI under OpenInference's span processor, over chat completions."""

from client import STUB, capture, tools_of, traced

provider = traced("pydantic-app")
# Before the exporter's: it rewrites spans in place.
from openinference.instrumentation.pydantic_ai import OpenInferenceSpanProcessor

provider._active_span_processor._span_processors = (
    OpenInferenceSpanProcessor(),
    *provider._active_span_processor._span_processors,
)

from openai import AsyncOpenAI
from pydantic_ai import Agent, InstrumentationSettings
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))


async def play(scenario, text, number, state):
    # A client belongs to the event loop of its run.
    async with AsyncOpenAI(api_key="none", base_url=f"{STUB}/v1", max_retries=0) as client:
        agent = Agent(
            OpenAIChatModel("stub-model", provider=OpenAIProvider(openai_client=client)),
            name="assistant",
            instructions="Help the user.",
            tools=tools_of(scenario),
        )
        history = {"message_history": state.get("messages"), "conversation_id": scenario["conversation_id"]}
        if scenario["stream"]:
            async with agent.run_stream(text, **history) as answer:
                await answer.get_output()
        else:
            answer = await agent.run(text, **history)
        state["messages"] = answer.all_messages()


capture(
    "openinference-pydantic-ai",
    play,
    packages=("pydantic-ai-slim", "openinference-instrumentation-pydantic-ai", "opentelemetry-sdk"),
    convention="OpenInference",
)
