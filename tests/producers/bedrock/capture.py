"""Bedrock's Converse in a loop of an agent's own, under OpenTelemetry's instrumentation of botocore, whose content is in log events.

`KIND=traceloop-bedrock` is under Traceloop's instrumentation.
"""

import os

from client import STUB, capture, logged, run_tool, traced, without

os.environ |= {
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true",
    "AWS_ACCESS_KEY_ID": "none",
    "AWS_SECRET_ACCESS_KEY": "none",
    "AWS_DEFAULT_REGION": "us-east-1",
}
import boto3
from opentelemetry import trace

KIND = os.environ.get("KIND", "genai-bedrock")
provider = traced("bedrock-app")
logged("bedrock-app")
if KIND == "traceloop-bedrock":
    from opentelemetry.instrumentation.bedrock import BedrockInstrumentor as Instrumentor
else:
    from opentelemetry.instrumentation.botocore import BotocoreInstrumentor as Instrumentor
Instrumentor().instrument(tracer_provider=provider)
client = boto3.client("bedrock-runtime", endpoint_url=STUB)


def called(scenario, use):
    tool = next((tool for tool in scenario["tools"] if tool["name"] == use["name"]), None)
    if tool is None:
        return "error", {"text": f"Error: unknown tool {use['name']}"}
    missing = [key for key in tool["parameters"]["required"] if key not in use["input"]]
    if missing:
        return "error", {
            "text": f"{len(missing)} validation errors: " + str([{"loc": [key], "type": "missing"} for key in missing])
        }
    try:
        result = run_tool(use["name"], use["input"])
    except Exception as error:
        return "error", {"text": f"Error: {type(error).__name__}: {error}"}
    return "success", {"json": result} if isinstance(result, dict) else {"text": result}


def play(scenario, text, number, state):
    messages = state.setdefault("messages", [])
    messages.append({"role": "user", "content": [{"text": text}]})
    tools = [
        {
            "toolSpec": {
                "name": tool["name"],
                "description": tool["description"],
                "inputSchema": {"json": tool["parameters"]},
            }
        }
        for tool in scenario["tools"]
    ]
    with trace.get_tracer("agent").start_as_current_span("agent"):
        while True:
            answer = client.converse(modelId="stub-model", messages=messages, toolConfig={"tools": tools})
            message = answer["output"]["message"]
            messages.append(message)
            uses = [block["toolUse"] for block in message["content"] if "toolUse" in block]
            if not uses:
                return
            results = []
            for use in uses:
                status, block = called(scenario, use)
                results.append({"toolResult": {"toolUseId": use["toolUseId"], "content": [block], "status": status}})
            messages.append({"role": "user", "content": results})


capture(
    KIND,
    play,
    packages=(
        "boto3",
        "opentelemetry-instrumentation-bedrock"
        if KIND.startswith("traceloop")
        else "opentelemetry-instrumentation-botocore",
        "opentelemetry-sdk",
    ),
    convention="Traceloop" if KIND.startswith("traceloop") else "OpenTelemetry GenAI",
    scenarios=without("sequence3", "bad_json", "stream"),
)
