"""A LangGraph agent, traced by OpenInference.

toolgauge serve --set "criteria_files=[criteria.yaml]"
pip install langchain langgraph langchain-openai openinference-instrumentation-langchain opentelemetry-exporter-otlp
OPENAI_API_KEY=... OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 python agent.py
"""

import os

from langchain.agents import create_agent
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider(resource=Resource.create({"service.name": "shop-assistant"}))
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
LangChainInstrumentor().instrument(tracer_provider=provider)


@tool
def find_customer(email: str) -> dict:
    """Find a customer by e-mail address."""
    return {"customer_id": 7731, "name": "Zoë Müller", "email": email}


@tool
def list_orders(customer_id: int, limit: int = 10) -> list[dict]:
    """List a customer's newest orders."""
    return [{"order_id": "A-1001", "customer_id": customer_id, "total": 42.5}][:limit]


@tool
def refund_order(order_id: str, amount: float, reason: str) -> dict:
    """Refund an order."""
    return {"refund_id": f"R-{order_id}", "amount": amount, "reason": reason}


agent = create_agent(
    ChatOpenAI(model=os.environ.get("MODEL", "gpt-5")), [find_customer, list_orders, refund_order], name="shop_agent"
)
answer = agent.invoke(
    {"messages": [("user", "Refund the last order of zoe@example.com, it arrived damaged.")]},
    # The conversation: criteria with `scope: conversation` look at all its traces together.
    {"metadata": {"session_id": "conversation-1"}},
)
print(answer["messages"][-1].content)
provider.shutdown()
