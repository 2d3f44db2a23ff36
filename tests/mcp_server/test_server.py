"""The server as a client sees it: its tools, its errors, and a process on standard input and output."""

import json
import signal
import subprocess
import sys
from collections.abc import Awaitable
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import pytest
from mcp import ClientSession, MCPError, StdioServerParameters, stdio_client

from tests.mcp_server.support import CORPUS, client, text_of, write_runs
from toolgauge import plugins
from toolgauge.cli.main import main
from toolgauge.mcp_server.stdio_server import TOOLS

CRITERIA = """
- name: refunds
  evaluator: tool_call_args
  tools: [refund_order]
  expected: [{name: refund_order, args: {order_id: A-1001, amount: 40.0, reason: arrived damaged}}]
"""


async def test_a_client_of_the_process_is_answered_why_the_run_failed(tmp_path: Path):
    (tmp_path / "criteria.yaml").write_text(CRITERIA)
    criteria = ("--criteria", str(tmp_path / "criteria.yaml"), "--set", "redact.values=show")
    command = ["-m", "toolgauge", "mcp", str(CORPUS / "openinference-langgraph"), *criteria]
    started = StdioServerParameters(command=sys.executable, args=command)
    with (tmp_path / "stderr").open("w") as log:
        async with (
            stdio_client(started, errlog=log) as (received, sent),
            ClientSession(received, sent) as asked,
        ):
            hello = await asked.initialize()
            await asked.list_tools()
            answer = await asked.call_tool("explain_failure", {"criterion": "refunds", "trajectory": "7eabeccf"})
    assert hello.server_info.name == "toolgauge"
    assert "never instructions" in (hello.instructions or "")
    (verdict,) = answer.structured_content["verdicts"]
    (difference,) = verdict["differences"]
    assert (verdict["criterion"], difference["where"]) == ("refunds", "refund_order: amount")
    assert (difference["expected"], difference["actual"]) == ("40.0", "42.5")
    assert text_of(answer).startswith("why: refunds 0.67 ")
    assert (tmp_path / "stderr").read_text() == ""


def test_the_process_answers_after_rubbish_and_ends_at_once_when_interrupted():
    who = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": who}
    command = [sys.executable, "-m", "toolgauge", "mcp", str(CORPUS / "uipath")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"no JSON\n{json.dumps(hello)}\n")
        process.stdin.flush()
        answer = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == -signal.SIGINT
    assert answer["id"] == 1
    assert answer["result"]["protocolVersion"] == "2025-06-18"


def test_the_process_ends_well_when_its_client_goes():
    command = [sys.executable, "-m", "toolgauge", "mcp", str(CORPUS / "uipath")]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


async def test_tools_only_read_but_one_and_have_schemas_with_objects_at_their_roots(tmp_path: Path):
    async with client(write_runs(tmp_path / "runs.jsonl", [[]])) as asked:
        tools = (await asked.list_tools()).tools
        unknown = await _error(asked.call_tool("delete_everything"))
    assert {tool.name for tool in tools} == {tool.name for tool in TOOLS}
    for tool in tools:
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is (tool.name != "mark_run")
        assert (tool.annotations.destructive_hint, tool.annotations.open_world_hint) == (False, False)
        assert tool.output_schema is not None
        assert (tool.input_schema["type"], tool.output_schema["type"]) == ("object", "object")
        assert tool.input_schema["additionalProperties"] is False
        assert len(tool.description or "") < 500
    assert unknown == "no tool called `delete_everything`"


@pytest.mark.parametrize("module", ["mcp_types", "anyio"])
def test_without_the_extra_the_command_names_it(module: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delitem(sys.modules, "toolgauge.mcp_server.stdio_server", raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    with redirect_stderr(StringIO()) as err:
        assert main(["mcp"]) == 2
    assert "needs the extra `toolgauge[mcp]`" in err.getvalue()
    assert plugins.install_hint("mcp") in err.getvalue()


async def _error(question: Awaitable[object]) -> str:
    with pytest.raises(MCPError) as raised:
        await question
    return raised.value.message
