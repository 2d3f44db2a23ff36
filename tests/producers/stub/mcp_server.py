"""An MCP server over stdio with the tools of the scenario under way, for coding agents: each call runs at the stub.

It needs the standard library alone. `STUB` is the stub's address, `TOOLS` a file with the tools that `/stub/begin` described.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from steps import post


def _tools() -> list[dict[str, Any]]:
    return [
        {"name": tool["name"], "description": tool["description"], "inputSchema": tool["parameters"]}
        for tool in json.loads(Path(os.environ["TOOLS"]).read_text())
    ]


def _called(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if name not in {tool["name"] for tool in _tools()}:
        return {"content": [{"type": "text", "text": f"Unknown tool: {name}"}], "isError": True}
    answer = post(f"tools/{name}", arguments)
    if error := answer.get("error"):
        return {"content": [{"type": "text", "text": f"{error['type']}: {error['message']}"}], "isError": True}
    result = answer["result"]
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    return {"content": [{"type": "text", "text": text}]}


def _answered(method: str | None, params: dict[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            return {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "support", "version": "1.0.0"},
            }
        case "tools/list":
            return {"tools": _tools()}
        case "tools/call":
            return _called(params["name"], params.get("arguments") or {})
        case "ping":
            return {}
        case _:
            return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = _answered(message.get("method"), message.get("params") or {})
    body = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no such method"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}), flush=True)
