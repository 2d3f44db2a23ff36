"""A pydantic-ai agent that is scored inside its own process.

    pip install toolgauge pydantic-ai-slim
    python agent.py                         # a stand-in for a model
    MODEL=openai:gpt-5 python agent.py      # a real one; pip install "pydantic-ai-slim[openai]"

Spans and scorecards go to OTEL_EXPORTER_OTLP_ENDPOINT (http://localhost:4318 without it).
"""

import os
from pathlib import Path

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from pydantic_ai import Agent
from pydantic_ai.models.instrumented import InstrumentationSettings

from toolgauge.in_process import ToolgaugeSpanExporter
from toolgauge.model.outcomes import Scorecard, outcome_word


def show(scorecard: Scorecard) -> None:
    """Print what has been scored."""
    for result in scorecard.results:
        target = "the run" if result.call is None else result.call.name
        print(f"{outcome_word(result.outcome)}: {result.criterion} of {target}")


exporter = ToolgaugeSpanExporter(
    OTLPSpanExporter(), criteria=Path(__file__).with_name("criteria.yaml"), on_scorecard=show
)
provider = TracerProvider(resource=Resource.create({"service.name": "shop-assistant"}))
provider.add_span_processor(BatchSpanProcessor(exporter))
Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))

agent = Agent(os.environ.get("MODEL", "test"), name="shop_agent", instructions="Answer questions about orders.")


@agent.tool_plain
def find_order(order_id: str) -> dict[str, str]:
    """Find an order."""
    return {"order_id": order_id, "status": "shipped"}


print(agent.run_sync("Where is order A-17?").output)
# A run is scored some seconds after its end; at its own end the process need not wait for that.
provider.shutdown()
