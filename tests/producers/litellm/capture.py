"""LiteLLM in a loop of an agent's own: its `otel` callback, or (`litellm-openinference`) OpenInference."""

import contextlib
import os
import time

from chat_loop import converse
from client import STUB, TOOLS, capture, traced

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


def play(scenario, text, number, state):
    conversation, stream = scenario["conversation_id"], scenario["stream"]

    def ask(**asked):
        own = {"metadata": {"session_id": conversation}} if conversation and KIND == "litellm" else {}
        asked["model"] = "openai/stub-model"
        made = litellm.completion(api_key="none", api_base=f"{STUB}/v1", stream=stream, **asked, **own)
        return litellm.stream_chunk_builder(list(made), messages=asked["messages"]) if stream else made

    messages = state.setdefault("messages", [{"role": "system", "content": "Help the user."}])
    messages.append({"role": "user", "content": text})
    with contextlib.ExitStack() as around:
        if conversation and KIND != "litellm":
            around.enter_context(using_session(conversation))
        around.enter_context(trace.get_tracer("agent").start_as_current_span("agent"))
        converse(ask, scenario, messages, TOOLS)
    # The callbacks of LiteLLM run in a thread of their own.
    time.sleep(0.5)


capture(
    KIND,
    play,
    packages=(
        "litellm",
        "opentelemetry-sdk",
        *(("openinference-instrumentation-litellm",) if KIND != "litellm" else ()),
    ),
    convention="LiteLLM's callback" if KIND == "litellm" else "OpenInference",
)
