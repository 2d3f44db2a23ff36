"""An MCP server over stdio with the tools of the scenario under way, for coding agents: each call runs at the stub.

It needs the standard library alone. `STUB` is the stub's address, `TOOLS` a file with the tools that `/stub/begin` described.
"""

import json
import os
import sys
import urllib.request
from pathlib import Path

STUB = os.environ.get("STUB", "http://127.0.0.1:21500")
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _tools():
    return [
        {"name": tool["name"], "description": tool["description"], "inputSchema": tool["parameters"]}
        for tool in json.loads(Path(os.environ["TOOLS"]).read_text())
    ]


def _called(name, arguments):
    if name not in {tool["name"] for tool in _tools()}:
        return {"content": [{"type": "text", "text": f"Unknown tool: {name}"}], "isError": True}
    request = urllib.request.Request(f"{STUB}/stub/tools/{name}", data=json.dumps(arguments).encode(), method="POST")
    with _OPENER.open(request) as response:
        answer = json.load(response)
    if error := answer.get("error"):
        return {"content": [{"type": "text", "text": f"{error['type']}: {error['message']}"}], "isError": True}
    result = answer["result"]
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    return {"content": [{"type": "text", "text": text}]}


def _answered(method, params):
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
