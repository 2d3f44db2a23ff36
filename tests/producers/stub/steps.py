"""The steps of a capture for programs without OpenTelemetry's packages: the standard library alone."""

import json
import os
import urllib.request
from typing import Any

STUB = os.environ.get("STUB", "http://127.0.0.1:21500")
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def ask(path: str, body: object) -> Any:
    """Post JSON to the stub."""
    data = json.dumps(body).encode()
    request = urllib.request.Request(f"{STUB}/{path}", data=data, method="POST")  # noqa: S310 - loopback
    with _OPENER.open(request) as answer:
        return json.load(answer)


def post(route: str, body: object = None) -> Any:
    """Take one step at the stub."""
    return ask(f"stub/{route}", body)


def end(name: str) -> None:
    """End the scenario, and print what ran in each of its traces."""
    for one in post("end").get("traces", []):
        calls = [
            call["name"] + ("" if call["executed"] else "!") + ("?" if call["error"] else "")
            for call in one["tool_calls"]
        ]
        print(name, one["trace_id"][:8], len(one.get("other_trace_ids", ())), *calls)
