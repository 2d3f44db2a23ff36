"""An agent's loop of an application's own around a client of chat completions, for SDKs that trace the client and decorated functions."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from client import definitions_of


def converse(
    ask: Callable[..., Any],
    scenario: Mapping[str, Any],
    messages: list[dict[str, Any]],
    tools: Mapping[str, Callable[..., Any]],
) -> str:
    """Ask the model, by its client's function for chat completions, and run its calls until it answers with text."""
    offered = {tool["name"] for tool in scenario["tools"]}
    while True:
        made = ask(model="stub-model", messages=messages, tools=definitions_of(dict(scenario)))
        message = made.choices[0].message
        calls = [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls or ()]
        asked = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": given}}
            for call_id, name, given in calls
        ]
        messages.append({"role": "assistant", "content": message.content, **({"tool_calls": asked} if asked else {})})
        if not calls:
            return message.content or ""
        for call_id, name, given in calls:
            content = _called(name, given, tools, offered)
            messages.append({"role": "tool", "tool_call_id": call_id, "content": content})


def _called(name: str, given: str, tools: Mapping[str, Callable[..., Any]], offered: set[str]) -> str:
    if name not in offered:
        return f"Error: no tool called {name}"
    try:
        result = tools[name](**json.loads(given))
    except Exception as error:  # noqa: BLE001 - whatever it is, the model reads it
        return f"Error: {type(error).__name__}: {error}"
    return result if isinstance(result, str) else json.dumps(result)
