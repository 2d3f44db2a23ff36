"""An agent's loop of an application's own around a client of chat completions, for SDKs that trace the client and decorated functions."""

import json
from collections.abc import Callable, Mapping
from types import SimpleNamespace
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
            content = called(name, given, tools, offered)
            messages.append({"role": "tool", "tool_call_id": call_id, "content": content})


def called(name: str, given: str, tools: Mapping[str, Callable[..., Any]], offered: set[str]) -> str:
    """Run a call of the model, and return what the model is told."""
    if name not in offered:
        return f"Error: no tool called {name}"
    try:
        result = tools[name](**json.loads(given))
    except Exception as error:  # noqa: BLE001 - whatever it is, the model reads it
        return f"Error: {type(error).__name__}: {error}"
    return result if isinstance(result, str) else json.dumps(result)


def streamed(ask: Callable[..., Any]) -> Callable[..., Any]:
    """Ask with a stream, and put the whole answer together."""

    def whole(**asked: Any) -> Any:
        text, calls = "", dict[int, Any]()
        for chunk in ask(stream=True, **asked):
            for choice in chunk.choices:
                text += choice.delta.content or ""
                for call in choice.delta.tool_calls or ():
                    function = SimpleNamespace(name="", arguments="")
                    known = calls.setdefault(call.index, SimpleNamespace(id="", function=function))
                    known.id += call.id or ""
                    known.function.name += call.function.name or ""
                    known.function.arguments += call.function.arguments or ""
        message = SimpleNamespace(content=text or None, tool_calls=[*calls.values()])
        return SimpleNamespace(choices=[SimpleNamespace(message=message)])

    return whole
