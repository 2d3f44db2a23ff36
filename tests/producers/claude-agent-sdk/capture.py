"""The Claude Agent SDK under OpenInference, with the tools in an in-process MCP server and MCP's own instrumentation beside it."""

import json
import os
import tempfile

from client import STUB, capture, run_tool, traced, without
from openinference.instrumentation.claude_agent_sdk import ClaudeAgentSDKInstrumentor

provider = traced("claude-agent-app")
ClaudeAgentSDKInstrumentor().instrument(tracer_provider=provider)

from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, query, tool

os.environ |= {
    "ANTHROPIC_BASE_URL": STUB,
    "ANTHROPIC_API_KEY": "none",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "IS_SANDBOX": "1",
}
SERVER = "support"


def made(described):
    @tool(described["name"], described["description"], described["parameters"])
    async def run(arguments):
        result = run_tool(described["name"], arguments)
        return {"content": [{"type": "text", "text": result if isinstance(result, str) else json.dumps(result)}]}

    return run


async def play(scenario, text, number, state):
    server = create_sdk_mcp_server(SERVER, tools=[made(one) for one in scenario["tools"]])
    options = ClaudeAgentOptions(
        mcp_servers={SERVER: server},
        allowed_tools=[f"mcp__{SERVER}__{one['name']}" for one in scenario["tools"]],
        tools=[],
        system_prompt="Help the user.",
        cwd=tempfile.mkdtemp(),
        model="claude-sonnet-4-5",
        setting_sources=[],
        continue_conversation=False,
        resume=state.get("session"),
    )
    async for message in query(prompt=text, options=options):
        state["session"] = getattr(message, "session_id", None) or state.get("session")


capture(
    os.environ.get("KIND", "openinference-claude-agent-sdk"),
    play,
    packages=("claude-agent-sdk", "openinference-instrumentation-claude-agent-sdk", "opentelemetry-sdk"),
    convention="OpenInference",
    names={"prefix": f"mcp__{SERVER}__"},
    scenarios=without("bad_json", "stream"),
)
