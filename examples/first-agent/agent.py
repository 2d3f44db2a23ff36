"""A first agent to look at: pydantic-ai with a script in place of a model, so that it needs no key.

    toolgauge serve --config toolgauge.yaml
    pip install pydantic-ai-slim opentelemetry-exporter-otlp-proto-http
    python agent.py

It refunds the whole order where half of it was agreed: the criterion in `toolgauge.yaml` notices. Spans go to
OTEL_EXPORTER_OTLP_ENDPOINT (http://localhost:4318 without it). With a real model, `Agent("openai:gpt-5", ...)`, the rest stays.
"""

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.instrumented import InstrumentationSettings

SCRIPT = (
    ToolCallPart("find_order", {"order_id": "A-17"}),
    ToolCallPart("refund_order", {"order_id": "A-17", "amount": 40.0}),
    TextPart("You get 40.00 back."),
)


def scripted(messages: list[ModelMessage], _info: AgentInfo) -> ModelResponse:
    """Answer with the next part of the script."""
    return ModelResponse(parts=[SCRIPT[sum(isinstance(message, ModelResponse) for message in messages)]])


provider = TracerProvider(resource=Resource.create({"service.name": "my-agent", "service.version": "1.0"}))
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))

agent = Agent(FunctionModel(scripted), name="refunds")


@agent.tool_plain
def find_order(order_id: str) -> dict[str, str | float]:
    """Find an order."""
    return {"order_id": order_id, "total": 40.0}


@agent.tool_plain
def refund_order(order_id: str, amount: float) -> str:
    """Pay money back."""
    return f"{amount:.2f} paid back for {order_id}"


print(agent.run_sync("Order A-17 came damaged. Half of it back, as agreed?").output)
provider.shutdown()
