"""LiveKit Agents in text, under its own tracing; `KIND=livekit-content-off` keeps content off the attributes of the conventions."""

import functools
import os

from client import STUB, capture, tools_of, traced, without

KIND = os.environ.get("KIND", "livekit")
os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = str(KIND == "livekit")

from livekit.agents import Agent, AgentSession, function_tool
from livekit.agents.telemetry import set_tracer_provider
from livekit.plugins import openai

provider = traced("livekit-app")


def on_provider(conversation_id):
    metadata = {"session.id": conversation_id} if conversation_id else None
    set_tracer_provider(provider, metadata=metadata, allow_pii=True)


def made(tool):
    @functools.wraps(tool)
    async def run(*values, **named):
        return tool(*values, **named)

    return function_tool(run)


async def play(scenario, text, number, state):
    if not number:
        on_provider(scenario["conversation_id"])
    async with AgentSession(llm=openai.LLM(model="stub-model", base_url=f"{STUB}/v1", api_key="none")) as session:
        tools = [made(tool) for tool in tools_of(scenario)]
        await session.start(Agent(instructions="Help the user.", tools=tools, chat_ctx=state.get("history")))
        await session.run(user_input=text)
        state["history"] = session.history.copy(exclude_instructions=True)


capture(
    KIND,
    play,
    packages=("livekit-agents", "livekit-plugins-openai", "opentelemetry-sdk"),
    convention="OpenTelemetry GenAI and LiveKit",
    # LiveKit completes arguments that break off: `bad_json` would show nothing.
    scenarios=without("bad_json", "stream"),
)
