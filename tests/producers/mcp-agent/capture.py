"""mcp-agent with its own spans; the scenario's tools come from an MCP server."""

import json
import os
import sys
import tempfile
from pathlib import Path

from client import STUB, capture, traced, without
from mcp_agent.agents.agent import Agent
from mcp_agent.app import MCPApp
from mcp_agent.config import (
    LoggerSettings,
    MCPServerSettings,
    MCPSettings,
    OpenAISettings,
    OpenTelemetrySettings,
    Settings,
)
from mcp_agent.workflows.llm.augmented_llm import RequestParams
from mcp_agent.workflows.llm.augmented_llm_openai import OpenAIAugmentedLLM

provider = traced("mcp-agent-app")
SERVER = Path(__file__).parents[1] / "stub" / "mcp_server.py"
OFFERED = Path(tempfile.mkdtemp()) / "tools.json"


def play(scenario, text, number, state):
    OFFERED.write_text(json.dumps(scenario["tools"]))
    server = MCPServerSettings(
        command=sys.executable,
        args=[str(SERVER)],
        env={"STUB": STUB, "TOOLS": str(OFFERED), "PATH": os.environ["PATH"]},
    )
    settings = Settings(
        execution_engine="asyncio",
        logger=LoggerSettings(transports=["none"], progress_display=False),
        mcp=MCPSettings(servers={"support_": server}),
        openai=OpenAISettings(api_key="none", base_url=f"{STUB}/v1", default_model="gpt-4o"),
        otel=OpenTelemetrySettings(
            enabled=True, exporters=[{"otlp": {"endpoint": f"{STUB}/v1/traces"}}], service_name="mcp-agent-app"
        ),
    )

    async def run():
        async with MCPApp(name="support", settings=settings).run():
            agent = Agent(name="assistant", instruction="Help the user.", server_names=["support_"])
            async with agent:
                llm = await agent.attach_llm(OpenAIAugmentedLLM)
                llm.history.extend(state.setdefault("history", []))
                await llm.generate_str(text, RequestParams(model="gpt-4o", max_iterations=6))
                state["history"] = llm.history.get()

    return run()


capture(
    "mcp-agent",
    play,
    packages=("mcp-agent", "mcp"),
    convention="mcp-agent's own spans",
    names={"prefix": "support__"},
    scenarios=without("mixed_error", "bad_args", "bad_json", "stream"),
)
