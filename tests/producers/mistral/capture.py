"""Mistral's client in a loop of an agent's own."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "stub"))
from client import STUB, capture, definitions_of, run_tool, traced

provider = traced("mistral-app")

from openinference.instrumentation.mistralai import MistralAIInstrumentor

MistralAIInstrumentor().instrument(tracer_provider=provider)

from mistralai.client import Mistral
from opentelemetry import trace

client = Mistral(api_key="none", server_url=STUB)


def called(call):
    try:
        return json.dumps(run_tool(call.function.name, json.loads(call.function.arguments)))
    except Exception as error:
        return f"Error: {type(error).__name__}: {error}"


def play(scenario, text, number, state):
    messages = state.setdefault("messages", [{"role": "system", "content": "Help the user."}])
    messages.append({"role": "user", "content": text})
    offered = {tool["name"] for tool in scenario["tools"]}
    with trace.get_tracer("agent").start_as_current_span("agent"):
        while True:
            answer = client.chat.complete(model="stub-model", messages=messages, tools=definitions_of(scenario))
            message = answer.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return
            for call in message.tool_calls:
                name = call.function.name
                content = called(call) if name in offered else f"Error: no tool {name}"
                messages.append({"role": "tool", "tool_call_id": call.id, "content": content})


capture(
    "openinference-mistral",
    play,
    packages=("mistralai", "openinference-instrumentation-mistralai", "opentelemetry-sdk"),
    convention="OpenInference",
    flush=provider.force_flush,
    scenarios=(
        "one_call",
        "sequence3",
        "parallel",
        "tool_error",
        "mixed_error",
        "retry",
        "nested",
        "multi_turn",
        "unknown_tool",
        "bad_args",
        "bad_json",
        "no_tool",
    ),
)
