"""Coding agents that KIND names (`claude-code`, `claude-code-logs`, `kilo`, `opencode`, `qwen-code`, `copilot-cli`), in an empty folder, with the scenario's tools from an MCP server.

`npm install` beside this file first. Scenarios come from the command line, else all that the agents can play.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from steps import STUB, end, post

KIND = os.environ["KIND"]
HERE = Path(__file__).resolve().parent
MODULES = Path(os.environ.get("MODULES", HERE / "node_modules"))
SERVER = HERE.parent / "stub" / "mcp_server.py"
SCENARIOS = (
    "one_call",
    "sequence3",
    "parallel",
    "tool_error",
    "retry",
    "nested",
    "multi_turn",
    "unknown_tool",
    "no_tool",
)


def opencode(home, name, package):
    """Kilo is a fork of opencode: their settings are the same."""
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{STUB}/v1", "apiKey": "none"},
        "models": {"stub-model": {"name": "stub", "tool_call": True}},
    }
    server = {"type": "local", "command": [sys.executable, str(SERVER)], "environment": server_env(home)}
    settings = {
        "model": "stub/stub-model",
        "small_model": "stub/stub-model",
        "autoupdate": False,
        "share": "disabled",
        "experimental": {"openTelemetry": True},
        "provider": {"stub": provider},
        "mcp": {"support_": server},
        "permission": {"*": "allow"},
    }
    (home / "work" / f"{name}.json").write_text(json.dumps(settings))
    upper = name.upper()
    env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": STUB,
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        f"{upper}_TELEMETRY_LEVEL": "off",
        f"{upper}_DISABLE_AUTOUPDATE": "1",
        f"{upper}_DISABLE_MODELS_FETCH": "1",
    }
    command = [str(MODULES / package / "bin" / name), "run"]
    return lambda text, turn: (command + (["--continue"] if turn else []) + [text], env)


def qwen(home):
    servers = {"support": {"command": sys.executable, "args": [str(SERVER)], "env": server_env(home), "trust": True}}
    telemetry = {"enabled": True, "target": "local", "otlpEndpoint": STUB, "otlpProtocol": "http", "logPrompts": True}
    settings = {
        "mcpServers": servers,
        "telemetry": telemetry,
        "security": {"auth": {"selectedType": "openai"}},
        "privacy": {"usageStatisticsEnabled": False},
    }
    (home / ".qwen").mkdir()
    (home / ".qwen" / "settings.json").write_text(json.dumps(settings))
    env = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{STUB}/v1", "OPENAI_MODEL": "stub-model"}
    command = [str(MODULES / ".bin" / "qwen"), "--yolo"]
    return lambda text, turn: (command + (["--continue"] if turn else []) + ["-p", text], env)


def copilot(home):
    server = {
        "type": "local",
        "command": sys.executable,
        "args": [str(SERVER)],
        "env": server_env(home),
        "tools": ["*"],
    }
    (home / ".copilot").mkdir()
    (home / ".copilot" / "mcp-config.json").write_text(json.dumps({"mcpServers": {"support": server}}))
    env = {
        "COPILOT_OFFLINE": "true",
        "COPILOT_PROVIDER_TYPE": "openai",
        "COPILOT_PROVIDER_BASE_URL": f"{STUB}/v1",
        "COPILOT_PROVIDER_API_KEY": "none",
        "COPILOT_MODEL": "gpt-4.1",
        "COPILOT_OTEL_ENABLED": "true",
        "OTEL_EXPORTER_OTLP_ENDPOINT": STUB,
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true",
    }
    offered = [f"support-{tool['name']}" for tool in json.loads((home / "tools.json").read_text())]
    command = [str(MODULES / ".bin" / "copilot"), "--allow-all-tools", "--no-color", "--disable-builtin-mcps"]
    command += [f"--available-tools={name}" for name in offered]
    return lambda text, turn: (command + (["--continue"] if turn else []) + ["-p", text], env)


def claude(home, traces):
    server = {"command": sys.executable, "args": [str(SERVER)], "env": server_env(home)}
    (home / "mcp.json").write_text(json.dumps({"mcpServers": {"support": server}}))
    env = {
        "ANTHROPIC_BASE_URL": STUB,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
        "OTEL_LOGS_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_ENDPOINT": STUB,
        "OTEL_LOG_USER_PROMPTS": "1",
        "OTEL_LOG_TOOL_DETAILS": "1",
        "OTEL_LOG_TOOL_CONTENT": "1",
        "OTEL_LOGS_EXPORT_INTERVAL": "500",
    }
    if traces:
        env |= {"CLAUDE_CODE_ENHANCED_TELEMETRY_BETA": "1", "OTEL_TRACES_EXPORTER": "otlp"}
    command = [str(MODULES / ".bin" / "claude"), "--mcp-config", str(home / "mcp.json"), "--strict-mcp-config"]
    command += ["--allowedTools", "mcp__support", "--model", "claude-sonnet-4-5"]
    return lambda text, turn: (command + (["--continue"] if turn else []) + ["-p", text], env)


def server_env(home):
    return {"STUB": STUB, "TOOLS": str(home / "tools.json")}


AGENTS = {
    "claude-code": (lambda home: claude(home, traces=True), "@anthropic-ai/claude-code", "mcp__support__"),
    "claude-code-logs": (lambda home: claude(home, traces=False), "@anthropic-ai/claude-code", "mcp__support__"),
    "kilo": (lambda home: opencode(home, "kilo", "@kilocode/cli-linux-x64"), "@kilocode/cli", "support__"),
    "opencode": (lambda home: opencode(home, "opencode", "opencode-linux-x64"), "opencode-ai", "support__"),
    "qwen-code": (qwen, "@qwen-code/qwen-code", "mcp__support__"),
    "copilot-cli": (copilot, "@github/copilot", "support-"),
}


def play(name):
    prepare, package, prefix = AGENTS[KIND]
    version = json.loads((MODULES / package / "package.json").read_text())["version"]
    about = {
        "producer": KIND,
        "scenario": name,
        "versions": {package: version, "node": "20"},
        "names": {"prefix": prefix},
    }
    scenario = post("begin", about)
    home = Path(tempfile.mkdtemp(prefix="home-"))
    (home / "work").mkdir()
    (home / "tools.json").write_text(json.dumps(scenario["tools"]))
    command = prepare(home)
    for turn, run in enumerate(scenario["runs"]):
        post("run")
        words, env = command(run["text"], turn)
        inherited = {key: os.environ[key] for key in ("PATH",)}
        done = subprocess.run(
            words,
            cwd=home / "work",
            env={**inherited, "HOME": str(home), **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        if done.returncode or os.environ.get("SHOW"):
            print(name, done.returncode, done.stdout[-1500:], done.stderr[-1500:])
        time.sleep(0.1)
    end(name)
    shutil.rmtree(home, ignore_errors=True)


# Qwen Code takes the address in the text of `sequence3` for a file.
played = tuple(name for name in SCENARIOS if (KIND, name) != ("qwen-code", "sequence3"))
for scenario in sys.argv[1:] or played:
    play(scenario)
