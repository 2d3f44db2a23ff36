"""CAMEL's chat agent with OpenAI's client under OpenInference's instrumentation: its tools have no spans."""

from client import STUB, capture, tools_of, traced

provider = traced("camel-app")
from openinference.instrumentation.openai import OpenAIInstrumentor

OpenAIInstrumentor().instrument(tracer_provider=provider)

from camel.agents import ChatAgent
from camel.models import ModelFactory
from camel.toolkits import FunctionTool
from camel.types import ModelPlatformType
from camel.utils import BaseTokenCounter
from opentelemetry import trace


class Characters(BaseTokenCounter):
    """Counts tokens without a table from the internet."""

    def count_tokens_from_messages(self, messages):
        return len(str(messages)) // 4

    def encode(self, text):
        return [*text.encode()]

    def decode(self, token_ids):
        return bytes(token_ids).decode()


def application(scenario):
    model = ModelFactory.create(
        model_platform=ModelPlatformType.OPENAI_COMPATIBLE_MODEL,
        model_type="stub-model",
        url=f"{STUB}/v1",
        api_key="none",
        token_counter=Characters(),
        model_config_dict={"stream": True} if scenario["stream"] else None,
    )
    return ChatAgent("Help the user.", model=model, tools=[FunctionTool(tool) for tool in tools_of(scenario)])


def play(scenario, text, number, state):
    agent = state["agent"] if number else state.setdefault("agent", application(scenario))
    with trace.get_tracer("camel-app").start_as_current_span("request"):
        answer = agent.step(text)
        if scenario["stream"]:
            for _ in answer:
                pass


capture(
    "openinference-camel",
    play,
    packages=("camel-ai", "openai", "openinference-instrumentation-openai", "opentelemetry-sdk"),
    convention="OpenInference",
)
