"""Clients of Anthropic and Gemini in a loop of an agent's own, each under OpenInference and another instrumentation.

KIND is one of `openinference-anthropic`, `traceloop-anthropic`, `genai-anthropic`, `openinference-google-genai`, `otel-google-genai`.
"""

import json
import os

from client import STUB, capture, run_tool, traced, without

KIND = os.environ["KIND"]
provider = traced("model-client")
os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_ONLY"
os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"

from opentelemetry import trace

if "anthropic" in KIND:
    import anthropic
else:
    from google import genai
    from google.genai import types

if KIND == "openinference-anthropic":
    from openinference.instrumentation.anthropic import AnthropicInstrumentor as Instrumentor
elif KIND == "traceloop-anthropic":
    from opentelemetry.instrumentation.anthropic import AnthropicInstrumentor as Instrumentor
elif KIND == "genai-anthropic":
    from opentelemetry.instrumentation.genai.anthropic import AnthropicInstrumentor as Instrumentor
elif KIND == "openinference-google-genai":
    from openinference.instrumentation.google_genai import GoogleGenAIInstrumentor as Instrumentor
else:
    from opentelemetry.instrumentation.google_genai import GoogleGenAiSdkInstrumentor as Instrumentor
Instrumentor().instrument(tracer_provider=provider)


def called(scenario, name, given):
    if name not in {tool["name"] for tool in scenario["tools"]}:
        return f"Error: no tool {name}", True
    try:
        return json.dumps(run_tool(name, given)), False
    except Exception as error:
        return f"Error: {type(error).__name__}: {error}", True


def ask_anthropic(scenario, text, state):
    client = anthropic.Anthropic(api_key="none", base_url=STUB)
    messages = state.setdefault("messages", [])
    messages.append({"role": "user", "content": text})
    tools = [
        {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
        for tool in scenario["tools"]
    ]
    while True:
        options = {"model": "stub-model", "max_tokens": 500, "messages": messages, "tools": tools, "system": "Help."}
        if scenario["stream"]:
            with client.messages.stream(**options) as stream:
                answer = stream.get_final_message()
        else:
            answer = client.messages.create(**options)
        messages.append({"role": "assistant", "content": [block.model_dump() for block in answer.content]})
        asked = [block for block in answer.content if block.type == "tool_use"]
        if not asked:
            return
        results = []
        for block in asked:
            content, failed = called(scenario, block.name, block.input)
            results.append({"type": "tool_result", "tool_use_id": block.id, "content": content, "is_error": failed})
        messages.append({"role": "user", "content": results})


def ask_gemini(scenario, text, state):
    client = genai.Client(api_key="none", http_options=types.HttpOptions(base_url=STUB))
    contents = state.setdefault("contents", [])
    contents.append(types.Content(role="user", parts=[types.Part(text=text)]))
    declared = [
        types.FunctionDeclaration(
            name=tool["name"], description=tool["description"], parameters_json_schema=tool["parameters"]
        )
        for tool in scenario["tools"]
    ]
    config = types.GenerateContentConfig(
        system_instruction="Help.", tools=[types.Tool(function_declarations=declared)] if declared else None
    )
    while True:
        options = {"model": "stub-model", "contents": list(contents), "config": config}
        if scenario["stream"]:
            parts = [
                part
                for chunk in client.models.generate_content_stream(**options)
                for part in chunk.candidates[0].content.parts or ()
            ]
        else:
            parts = client.models.generate_content(**options).candidates[0].content.parts
        contents.append(types.Content(role="model", parts=parts))
        asked = [part.function_call for part in parts if part.function_call]
        if not asked:
            return
        answers = []
        for call in asked:
            content, failed = called(scenario, call.name, call.args)
            answer = {"error": content} if failed else {"result": json.loads(content)}
            answers.append(
                types.Part(function_response=types.FunctionResponse(id=call.id, name=call.name, response=answer))
            )
        contents.append(types.Content(role="user", parts=answers))


def play(scenario, text, number, state):
    with trace.get_tracer("agent").start_as_current_span("agent"):
        (ask_anthropic if "anthropic" in KIND else ask_gemini)(scenario, text, state)


PACKAGES = {
    "openinference-anthropic": ("anthropic", "openinference-instrumentation-anthropic"),
    "traceloop-anthropic": ("anthropic", "opentelemetry-instrumentation-anthropic"),
    "genai-anthropic": ("anthropic", "opentelemetry-instrumentation-genai-anthropic"),
    "openinference-google-genai": ("google-genai", "openinference-instrumentation-google-genai"),
    "otel-google-genai": ("google-genai", "opentelemetry-instrumentation-google-genai"),
}
capture(
    KIND,
    play,
    packages=PACKAGES[KIND],
    convention="OpenInference" if KIND.startswith("openinference") else "GenAI",
    scenarios=without("retry", "bad_json", "stream_parallel"),
)
