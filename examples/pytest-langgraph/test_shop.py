"""Tests of an agent of LangGraph, with a script in place of its model.

pip install toolgauge pytest langgraph openinference-instrumentation-langchain
pytest
"""

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from shop import build_agent

pytestmark = pytest.mark.toolgauge("criteria.yaml")


def scripted(*answers):
    """Answer with a text, or with the call of a tool: its name and arguments."""
    messages = [
        AIMessage(answer)
        if isinstance(answer, str)
        else AIMessage("", tool_calls=[{"name": answer[0], "args": answer[1], "id": f"call-{turn}"}])
        for turn, answer in enumerate(answers)
    ]
    return GenericFakeChatModel(messages=iter(messages))


def test_damaged_order_is_refunded(scored):
    agent = build_agent(
        scripted(
            ("find_order", {"order_id": "A-17"}),
            ("refund_order", {"order_id": "A-17", "amount": 20}),
            "You get 20 back.",
        )
    )
    agent.invoke({"messages": [("user", "Order A-17 arrived damaged, I want my money back.")]})
    scored.assert_passes("refund-order", "looked-before-refunding")
    scored.assert_passes("default.tool_success", "default.grounded_arguments")


def test_question_changes_nothing(scored):
    agent = build_agent(scripted(("find_order", {"order_id": "A-17"}), "It was delivered."))
    agent.invoke({"messages": [("user", "Where is order A-17?")]})
    scored.assert_passes("changed-nothing")
    assert [call.name for call in scored.calls] == ["find_order"]
