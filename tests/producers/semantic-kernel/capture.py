"""Semantic Kernel with its own spans, over chat completions; functions are called by the model by itself."""

import os
import sys
from pathlib import Path

os.environ["SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS"] = "true"
os.environ["SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE"] = "true"
sys.path.insert(0, str(Path(__file__).parents[1] / "stub"))
from client import STUB, capture, tools_of, traced

provider = traced("semantic-kernel-app")

from openai import AsyncOpenAI
from opentelemetry import trace
from semantic_kernel import Kernel
from semantic_kernel.connectors.ai.function_choice_behavior import FunctionChoiceBehavior
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion, OpenAIChatPromptExecutionSettings
from semantic_kernel.contents import ChatHistory
from semantic_kernel.functions import KernelFunctionFromMethod, KernelPlugin, kernel_function


async def play(scenario, text, number, state):
    client = AsyncOpenAI(api_key="none", base_url=f"{STUB}/v1")
    service = OpenAIChatCompletion(ai_model_id="stub-model", async_client=client)
    kernel = Kernel(services=[service])
    functions = [KernelFunctionFromMethod(kernel_function(tool), "shop") for tool in tools_of(scenario)]
    kernel.add_plugin(KernelPlugin(name="shop", functions=functions))
    history = state.setdefault("history", ChatHistory(system_message="Help the user."))
    history.add_user_message(text)
    settings = OpenAIChatPromptExecutionSettings(function_choice_behavior=FunctionChoiceBehavior.Auto())
    with trace.get_tracer("app").start_as_current_span("run"):
        if scenario["stream"]:
            async for _ in service.get_streaming_chat_message_content(history, settings, kernel=kernel):
                pass
        else:
            history.add_message(await service.get_chat_message_content(history, settings, kernel=kernel))


capture(
    "semantic-kernel",
    play,
    packages=("semantic-kernel", "opentelemetry-sdk"),
    convention="GenAI, events in logs",
    flush=provider.force_flush,
    scenarios=(
        *("one_call", "sequence3", "parallel", "tool_error", "mixed_error", "nested", "multi_turn"),
        *("unknown_tool", "bad_args", "bad_json", "no_tool", "stream"),
    ),
)
