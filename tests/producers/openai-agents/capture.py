"""OpenAI's Agents SDK under OpenLIT, over chat completions."""

import openlit
from client import SCENARIOS, STUB, capture, tools_of

openlit.init(disable_metrics=True, disabled_instrumentors=["urllib"], otlp_endpoint=STUB, application_name="agents-app")

import agents
from agents import Agent, Runner, SQLiteSession, function_tool
from openai import AsyncOpenAI

agents.set_default_openai_api("chat_completions")


def application(scenario):
    base = {"model": "stub-model", "instructions": "Help the user."}
    tools = {tool.__name__: function_tool(tool, strict_mode=False) for tool in tools_of(scenario)}
    if scenario["name"] == "handoff":
        return Agent(
            name="triage_agent", handoffs=[Agent(name="refund_agent", tools=[tools["refund_order"]], **base)], **base
        )
    if scenario["name"] == "subagent":
        flights = Agent(name="flight_agent", tools=[tools.pop("search_flights")], **base)
        inner = flights.as_tool(tool_name="flight_agent", tool_description="Finds flights")
        return Agent(name="coordinator", tools=[inner, *tools.values()], **base)
    return Agent(name="assistant", tools=[*tools.values()], **base)


async def play(scenario, text, number, state):
    agent = state["agent"] if number else state.setdefault("agent", application(scenario))
    identifier = scenario["conversation_id"]
    session = state.setdefault("session", SQLiteSession(identifier) if identifier else None)
    # A client belongs to the event loop of its run.
    async with AsyncOpenAI(api_key="none", base_url=f"{STUB}/v1", max_retries=0) as client:
        agents.set_default_openai_client(client, use_for_tracing=False)
        if not scenario["stream"]:
            await Runner.run(agent, text, session=session)
            return
        async for _ in Runner.run_streamed(agent, text, session=session).stream_events():
            pass


capture(
    "openlit-openai-agents",
    play,
    packages=("openai-agents", "openlit", "opentelemetry-sdk"),
    convention="OpenLIT",
    scenarios=(*SCENARIOS, "subagent", "handoff"),
)
