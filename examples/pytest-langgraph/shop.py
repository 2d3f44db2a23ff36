"""An agent of LangGraph, traced by OpenInference: it knows nothing of tests."""

from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from openinference.instrumentation.langchain import LangChainInstrumentor

LangChainInstrumentor().instrument()


@tool
def find_order(order_id: str) -> dict:
    """Find an order."""
    return {"order_id": order_id, "total": 20.0, "status": "delivered"}


@tool
def refund_order(order_id: str, amount: float) -> dict:
    """Refund an order."""
    return {"refund_id": f"R-{order_id}", "amount": amount}


TOOLS = [find_order, refund_order]


def build_agent(model):
    """Make the agent with any chat model, in production `ChatOpenAI(model="gpt-5").bind_tools(TOOLS)`."""
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode(TOOLS))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(name="shop_agent")
