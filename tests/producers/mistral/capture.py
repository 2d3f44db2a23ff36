"""Mistral's client in a loop of an agent's own."""

from chat_loop import converse
from client import STUB, TOOLS, capture, traced, without

provider = traced("mistral-app")

from openinference.instrumentation.mistralai import MistralAIInstrumentor

MistralAIInstrumentor().instrument(tracer_provider=provider)

from mistralai.client import Mistral
from opentelemetry import trace

client = Mistral(api_key="none", server_url=STUB)


def play(scenario, text, number, state):
    messages = state.setdefault("messages", [{"role": "system", "content": "Help the user."}])
    messages.append({"role": "user", "content": text})
    with trace.get_tracer("agent").start_as_current_span("agent"):
        converse(client.chat.complete, scenario, messages, TOOLS)


capture(
    "openinference-mistral",
    play,
    packages=("mistralai", "openinference-instrumentation-mistralai", "opentelemetry-sdk"),
    convention="OpenInference",
    scenarios=without("stream"),
)
