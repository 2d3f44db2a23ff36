"""smolagents' ToolCallingAgent with OpenTelemetry's own instrumentation of smolagents and of OpenAI's client."""

import os

from client import STUB, capture, run_tool, traced, without

os.environ["OTEL_SEMCONV_STABILITY_OPT_IN"] = "gen_ai_latest_experimental"
os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_ONLY"
provider = traced("smolagents-app")
from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor
from opentelemetry.instrumentation.genai.smolagents import SmolagentsInstrumentor

SmolagentsInstrumentor().instrument(tracer_provider=provider)
OpenAIInstrumentor().instrument(tracer_provider=provider)
from smolagents import OpenAIServerModel, Tool, ToolCallingAgent


def made(described):
    """Make a tool of the scenario."""
    properties, required = described["parameters"]["properties"], described["parameters"]["required"]
    inputs = {
        name: {"type": one["type"], "description": name, **({} if name in required else {"nullable": True})}
        for name, one in properties.items()
    }

    class Made(Tool):
        name = described["name"]
        description = described["description"]
        output_type = "any"
        skip_forward_signature_validation = True

        def forward(self, **given):
            return run_tool(self.name, given)

    Made.inputs = inputs
    return Made()


class StubModel(OpenAIServerModel):
    """Lets a text without calls end the run, as a call of `final_answer`."""

    def generate(self, *given, **options):
        message = super().generate(*given, **options)
        if not message.tool_calls:
            from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction

            final = ChatMessageToolCallFunction(name="final_answer", arguments={"answer": message.content})
            message.tool_calls = [ChatMessageToolCall(id="call_final", type="function", function=final)]
        return message


def play(scenario, text, number, state):
    if not number:
        model = StubModel(model_id="stub-model", api_base=f"{STUB}/v1", api_key="none")
        state["agent"] = ToolCallingAgent(
            tools=[made(one) for one in scenario["tools"]], model=model, max_steps=8, name="assistant"
        )
    state["agent"].run(text, reset=not number)


capture(
    "genai-smolagents",
    play,
    packages=("smolagents", "opentelemetry-instrumentation-genai-smolagents"),
    convention="GenAI",
    scenarios=without("tool_error", "mixed_error", "retry", "unknown_tool", "bad_args", "bad_json", "stream"),
)
