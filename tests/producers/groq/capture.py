"""Groq's client in a loop of an agent's own, under OpenInference or (`KIND=traceloop-groq`) Traceloop."""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "stub"))
from client import STUB, capture, definitions_of, run_tool, traced

KIND = os.environ.get("KIND", "openinference-groq")
provider = traced("groq-app")

if KIND == "traceloop-groq":
    from opentelemetry.instrumentation.groq import GroqInstrumentor
else:
    from openinference.instrumentation.groq import GroqInstrumentor
GroqInstrumentor().instrument(tracer_provider=provider)

from groq import Groq
from opentelemetry import trace

client = Groq(api_key="none", base_url=STUB)


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
            answer = client.chat.completions.create(
                model="stub-model", messages=messages, tools=definitions_of(scenario)
            )
            message = answer.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return
            for call in message.tool_calls:
                name = call.function.name
                content = called(call) if name in offered else f"Error: no tool {name}"
                messages.append({"role": "tool", "tool_call_id": call.id, "content": content})


capture(
    KIND,
    play,
    packages=(
        "groq",
        "openinference-instrumentation-groq" if KIND != "traceloop-groq" else "opentelemetry-instrumentation-groq",
        "opentelemetry-sdk",
    ),
    convention=KIND.partition("-")[0],
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
