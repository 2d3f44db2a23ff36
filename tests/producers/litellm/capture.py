"""LiteLLM in a loop of an agent's own: its `otel` callback, or (`litellm-openinference`) OpenInference."""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "stub"))
from client import STUB, capture, definitions_of, run_tool, traced

KIND = os.environ.get("KIND", "litellm")
provider = traced("litellm-app")

import litellm
from opentelemetry import trace

if KIND == "litellm":
    from litellm.integrations.opentelemetry import OpenTelemetry, OpenTelemetryConfig

    litellm.callbacks = [OpenTelemetry(config=OpenTelemetryConfig(exporter="otlp_http", endpoint=STUB))]
else:
    from openinference.instrumentation.litellm import LiteLLMInstrumentor

    LiteLLMInstrumentor().instrument(tracer_provider=provider)

    from openinference.instrumentation import using_session


def asked(scenario, messages):
    answer = litellm.completion(
        model="openai/stub-model",
        api_key="none",
        api_base=f"{STUB}/v1",
        messages=messages,
        tools=definitions_of(scenario),
        stream=scenario["stream"],
        metadata={"session_id": scenario["conversation_id"]}
        if scenario["conversation_id"] and KIND == "litellm"
        else {},
    )
    if scenario["stream"]:
        answer = litellm.stream_chunk_builder(list(answer), messages=messages)
    return answer.choices[0].message


def called(call):
    try:
        return json.dumps(run_tool(call.function.name, json.loads(call.function.arguments)))
    except Exception as error:
        return f"Error: {type(error).__name__}: {error}"


def play(scenario, text, number, state):
    if KIND == "litellm" or not scenario["conversation_id"]:
        return run(scenario, text, state)
    with using_session(scenario["conversation_id"]):
        return run(scenario, text, state)


def run(scenario, text, state):
    messages = state.setdefault("messages", [{"role": "system", "content": "Help the user."}])
    messages.append({"role": "user", "content": text})
    offered = {tool["name"] for tool in scenario["tools"]}
    with trace.get_tracer("agent").start_as_current_span("agent"):
        while True:
            message = asked(scenario, messages)
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return
            for call in message.tool_calls:
                name = call.function.name
                content = called(call) if name in offered else f"Error: no tool {name}"
                messages.append({"role": "tool", "tool_call_id": call.id, "content": content})


def flush():
    import time

    time.sleep(0.5)
    trace.get_tracer_provider().force_flush()


capture(
    KIND,
    play,
    packages=(
        "litellm",
        "opentelemetry-sdk",
        *(("openinference-instrumentation-litellm",) if KIND != "litellm" else ()),
    ),
    convention="LiteLLM's callback" if KIND == "litellm" else "OpenInference",
    flush=flush,
)
