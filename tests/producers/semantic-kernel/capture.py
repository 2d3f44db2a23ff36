"""An agent of Semantic Kernel with a plugin, under the library's own diagnostics: spans, and messages as log records."""

import logging
import os

os.environ["SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE"] = "true"
from client import STUB, capture, logged, tools_of, traced

traced("kernel-app")
logs = logged("kernel-app")

from openai import AsyncOpenAI
from opentelemetry.sdk._logs import LoggingHandler
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.functions import KernelPlugin, kernel_function

logger = logging.getLogger("semantic_kernel")
logger.setLevel(logging.INFO)
logger.addHandler(LoggingHandler(logger_provider=logs))


async def play(scenario, text, number, state):
    # A client belongs to the event loop of its run.
    async with AsyncOpenAI(api_key="none", base_url=f"{STUB}/v1", max_retries=0) as client:
        tools = [kernel_function(tool) for tool in tools_of(scenario)]
        agent = ChatCompletionAgent(
            name="assistant",
            instructions="Help the user.",
            service=OpenAIChatCompletion(ai_model_id="stub-model", async_client=client),
            plugins=[KernelPlugin(name="support", functions=tools)] if tools else [],
        )
        if scenario["stream"]:
            async for _ in agent.invoke_stream(text):
                pass
            return
        answer = await agent.get_response(text, thread=state.get("thread"))
        state["thread"] = answer.thread


capture(
    "semantic-kernel",
    play,
    packages=("semantic-kernel", "openai", "opentelemetry-sdk"),
    convention="OpenTelemetry GenAI",
    names={"prefix": "support-"},
)
