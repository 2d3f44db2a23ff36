"""Mirascope's calls with tools, in a loop of an agent's own, under its own tracing."""

import contextlib

from client import STUB, capture, tools_of, traced
from mirascope import llm, ops

provider = traced("mirascope-app")
ops.configure(tracer_provider=provider)
ops.instrument_llm()
llm.register_provider("openai:completions", scope="openai/", base_url=f"{STUB}/v1", api_key="none")


@ops.trace
def answer(scenario, messages):
    model = llm.Model("openai/stub-model:completions")
    tools = [llm.tool(ops.trace(tool)) for tool in tools_of(scenario)]
    response = model.stream(messages, tools=tools) if scenario["stream"] else model.call(messages, tools=tools)
    while True:
        if scenario["stream"]:
            for _ in response.chunk_stream():
                pass
        if not response.tool_calls:
            return response
        response = response.resume(response.execute_tools())


def play(scenario, text, number, state):
    messages = [*state.get("messages", [llm.messages.system("Help the user.")]), llm.messages.user(text)]
    session = ops.session(id=scenario["conversation_id"]) if scenario["conversation_id"] else contextlib.nullcontext()
    with session:
        response = answer(scenario, messages)
    state["messages"] = response.messages


capture("mirascope", play, packages=("mirascope", "openai", "opentelemetry-sdk"), convention="OpenTelemetry GenAI")
