"""An agent of pydantic-ai, as it is in production: it knows nothing of tests, and writes its own spans."""

from pydantic_ai import Agent

Agent.instrument_all()
agent = Agent(
    "openai:gpt-5",
    name="shop_agent",
    instructions="Refund what customers paid for orders that arrived damaged.",
    defer_model_check=True,
)


@agent.tool_plain
def find_order(order_id: str) -> dict[str, object]:
    """Find an order."""
    return {"order_id": order_id, "total": 20.0, "status": "delivered"}


@agent.tool_plain
def refund_order(order_id: str, amount: float) -> dict[str, object]:
    """Refund an order."""
    return {"refund_id": f"R-{order_id}", "amount": amount}
