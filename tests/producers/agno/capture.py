"""Agno under OpenInference, over chat completions."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "stub"))
from client import STUB, capture, tools_of, traced
from openinference.instrumentation.agno import AgnoInstrumentor

provider = traced("agno-app")
AgnoInstrumentor().instrument(tracer_provider=provider)

from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.models.openai import OpenAIChat


def application(scenario):
    return Agent(
        model=OpenAIChat(id="stub-model", api_key="none", base_url=f"{STUB}/v1"),
        name="assistant",
        instructions="Help the user.",
        tools=tools_of(scenario),
        db=InMemoryDb(),
        add_history_to_context=True,
        session_id=scenario["conversation_id"],
        telemetry=False,
    )


def play(scenario, text, number, state):
    agent = state["agent"] if number else state.setdefault("agent", application(scenario))
    if scenario["stream"]:
        for _ in agent.run(text, stream=True):
            pass
    else:
        agent.run(text)


capture(
    "openinference-agno",
    play,
    packages=("agno", "openinference-instrumentation-agno", "opentelemetry-sdk"),
    convention="OpenInference",
    flush=provider.force_flush,
)
