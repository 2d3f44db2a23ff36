"""Google's ADK for Python under OpenInference, over Gemini's API."""

import os

from client import SCENARIOS, STUB, capture, tools_of, traced

os.environ |= {"GOOGLE_GEMINI_BASE_URL": STUB, "GOOGLE_API_KEY": "none"}
provider = traced("adk-app")
from openinference.instrumentation.google_adk import GoogleADKInstrumentor

GoogleADKInstrumentor().instrument(tracer_provider=provider)

from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.runners import InMemoryRunner
from google.genai import types


def application(scenario):
    base = {"model": "gemini-stub", "instruction": "Help the user."}
    tools = {tool.__name__: tool for tool in tools_of(scenario)}
    if scenario["name"] == "handoff":
        refund = LlmAgent(name="refund_agent", description="Refunds", tools=[tools["refund_order"]], **base)
        return LlmAgent(name="triage_agent", sub_agents=[refund], **base)
    return LlmAgent(name="assistant", tools=[*tools.values()], **base)


async def play(scenario, text, number, state):
    runner = (
        state["runner"]
        if number
        else state.setdefault("runner", InMemoryRunner(application(scenario), app_name="adk-app"))
    )
    identifier = scenario["conversation_id"]
    if not number:
        session = await runner.session_service.create_session(app_name="adk-app", user_id="user", session_id=identifier)
        state["session"] = session.id
    mode = StreamingMode.SSE if scenario["stream"] else StreamingMode.NONE
    message = types.Content(role="user", parts=[types.Part(text=text)])
    async for _ in runner.run_async(
        user_id="user", session_id=state["session"], new_message=message, run_config=RunConfig(streaming_mode=mode)
    ):
        pass


capture(
    "openinference-google-adk",
    play,
    packages=("google-adk", "openinference-instrumentation-google-adk", "opentelemetry-sdk"),
    convention="OpenInference",
    names={"handoff": "transfer_to_agent", "handoff_arguments": {"agent_name": "refund_agent"}},
    # Gemini writes no JSON of arguments.
    scenarios=(*(name for name in SCENARIOS if name != "bad_json"), "handoff"),
)
