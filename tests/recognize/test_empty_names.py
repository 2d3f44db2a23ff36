"""A model may ask for a tool with an empty name: a call, in whatever shape its producer writes it."""

import json
from collections.abc import Mapping

from tests.recognize.support import self_metrics, span
from tests.rows import each_row
from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, Value
from toolgauge.model.observations import CallRequested
from toolgauge.plugins import dialects
from toolgauge.recognize.recognizer import Recognizer

RECOGNIZER = Recognizer(dialects(), metrics=self_metrics())


def openai(**call: Json) -> Json:
    return {"role": "assistant", "content": None, "tool_calls": [{"type": "function", **call}]}


def requests(attributes: Mapping[str, Value], scope: str) -> list[CallRequested]:
    reading = RECOGNIZER.read(span(attributes, scope=scope))
    assert reading is not None
    return [seen for seen in reading.observations if isinstance(seen, CallRequested)]


def genai(message: Json) -> dict[str, Value]:
    return {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps([message])}


EMPTY: dict[str, Json] = {"id": "1", "function": {"name": "", "arguments": "{}"}}
SHAPES: dict[str, tuple[dict[str, Value], str]] = {
    "the conventions": (
        genai({"role": "assistant", "parts": [{"type": "tool_call", "id": "1", "name": "", "arguments": {}}]}),
        "my_agent",
    ),
    "OpenAI's messages": (genai(openai(**EMPTY)), "my_agent"),
    "Anthropic's blocks": (
        genai({"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "", "input": {}}]}),
        "my_agent",
    ),
    "Langfuse": (
        {"langfuse.observation.type": "generation", "langfuse.observation.output": json.dumps(openai(**EMPTY))},
        "langfuse-sdk",
    ),
    "Traceloop": (
        {
            "llm.request.type": "chat",
            "gen_ai.completion.0.role": "assistant",
            "gen_ai.completion.0.tool_calls.0.id": "1",
            "gen_ai.completion.0.tool_calls.0.name": "",
            "gen_ai.completion.0.tool_calls.0.arguments": "{}",
        },
        "opentelemetry.instrumentation.openai.v1",
    ),
    "OpenInference": (
        {
            "openinference.span.kind": "LLM",
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.tool_calls.0.tool_call.id": "1",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": "{}",
        },
        "openinference.instrumentation.openai",
    ),
    "the AI SDK": (
        {
            "ai.operationId": "ai.streamText.doStream",
            "operation.name": "ai.streamText.doStream",
            "ai.response.toolCalls": json.dumps([{"toolCallId": "1", "toolName": "", "input": "{}"}]),
        },
        "ai",
    ),
}


@each_row("shape", SHAPES)
def test_a_call_with_an_empty_name_is_a_call(shape: str):
    (call,) = requests(*SHAPES[shape])
    assert (call.name, call.call_id, call.arguments) == ("", "1", Recorded({}))


def test_a_part_of_a_stream_without_name_and_id_is_none():
    assert requests(genai(openai(function={"name": "", "arguments": '{"k'})), "my_agent") == []
    assert requests(genai(openai(id="1", function={"arguments": "{}"})), "my_agent") == []
