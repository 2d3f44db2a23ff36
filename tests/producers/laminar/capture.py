"""Laminar over the OpenAI client, or (`KIND=laminar-anthropic`) Anthropic's, with tools under `@observe(span_type="TOOL")`."""

import json
import os

from chat_loop import called, converse, streamed
from client import SCENARIOS, STUB, TOOLS, capture
from lmnr import Laminar, observe

KIND = os.environ.get("KIND", "laminar")
IS_OPENAI = KIND != "laminar-anthropic"
os.environ |= {"OTEL_EXPORTER_OTLP_ENDPOINT": STUB, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}
Laminar.initialize(
    project_api_key="none", base_url="http://127.0.0.1", http_port=int(STUB.rpartition(":")[2]), force_http=True
)

import anthropic
import openai

OBSERVED = {name: observe(name=name, span_type="TOOL")(tool) for name, tool in TOOLS.items()}
CHAT = openai.OpenAI(base_url=f"{STUB}/v1", api_key="none", max_retries=0)
CLAUDE = anthropic.Anthropic(base_url=STUB, api_key="none", max_retries=0)


def asked_anthropic(scenario, messages):
    tools = [
        {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
        for tool in scenario["tools"]
    ]
    offered = {
        "model": "stub-model",
        "max_tokens": 1000,
        "messages": messages,
        "tools": tools,
        "system": "Help the user.",
    }
    if scenario["stream"]:
        blocks = {}
        for event in CLAUDE.messages.create(**offered, stream=True):
            if event.type == "content_block_start":
                blocks[event.index] = event.content_block.model_dump(exclude_none=True) | {"input": ""}
            elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                blocks[event.index]["input"] += event.delta.partial_json
        made = [
            block | {"input": json.loads(block["input"])} for block in blocks.values() if block["type"] == "tool_use"
        ]
    else:
        made = [block.model_dump(exclude_none=True) for block in CLAUDE.messages.create(**offered).content]
    messages.append({"role": "assistant", "content": made})
    return [(block["id"], block["name"], json.dumps(block["input"])) for block in made if block["type"] == "tool_use"]


@observe(name="support-agent")
def answer(scenario, messages):
    if scenario["conversation_id"]:
        Laminar.set_trace_session_id(session_id=scenario["conversation_id"])
    if IS_OPENAI:
        ask = CHAT.chat.completions.create
        return converse(streamed(ask) if scenario["stream"] else ask, scenario, messages, OBSERVED)
    offered = {tool["name"] for tool in scenario["tools"]}
    while calls := asked_anthropic(scenario, messages):
        answers = [(call_id, called(name, arguments, OBSERVED, offered)) for call_id, name, arguments in calls]
        blocks = [
            {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": text.startswith("Error:")}
            for call_id, text in answers
        ]
        messages.append({"role": "user", "content": blocks})
    return "Done."


def play(scenario, text, number, state):
    messages = state.setdefault("messages", [])
    messages.append({"role": "user", "content": text})
    answer(scenario, messages)


capture(
    KIND,
    play,
    packages=("lmnr", "openai" if IS_OPENAI else "anthropic", "opentelemetry-sdk"),
    convention="Laminar",
    flush=Laminar.force_flush,
    scenarios=tuple(name for name in SCENARIOS if IS_OPENAI or name != "bad_json"),
)
