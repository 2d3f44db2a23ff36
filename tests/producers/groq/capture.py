"""Groq's client in a loop of an agent's own, under OpenInference or (`KIND=traceloop-groq`) Traceloop."""

import os

from chat_loop import converse
from client import STUB, TOOLS, capture, traced, without

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


def play(scenario, text, number, state):
    messages = state.setdefault("messages", [{"role": "system", "content": "Help the user."}])
    messages.append({"role": "user", "content": text})
    with trace.get_tracer("agent").start_as_current_span("agent"):
        converse(client.chat.completions.create, scenario, messages, TOOLS)


capture(
    KIND,
    play,
    packages=(
        "groq",
        "openinference-instrumentation-groq" if KIND != "traceloop-groq" else "opentelemetry-instrumentation-groq",
        "opentelemetry-sdk",
    ),
    convention=KIND.partition("-")[0],
    scenarios=without("stream"),
)
