"""Tests of an agent of pydantic-ai, with a script in place of its model.

pip install toolgauge pytest "pydantic-ai-slim[openai]"
pytest
"""

import pytest
from pydantic_ai import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from shop import agent

pytestmark = pytest.mark.toolgauge("criteria.yaml")


def scripted(*parts):
    """Answer with one part a turn."""
    turns = iter(parts)
    return FunctionModel(lambda _messages, _info: ModelResponse(parts=[next(turns)]))


def test_damaged_order_is_refunded(scored):
    model = scripted(
        ToolCallPart("find_order", {"order_id": "A-17"}),
        ToolCallPart("refund_order", {"order_id": "A-17", "amount": 20}),
        TextPart("You get 20 back."),
    )
    agent.run_sync("Order A-17 arrived damaged, I want my money back.", model=model)
    scored.assert_passes("refund-order", "looked-before-refunding")
    scored.assert_passes("default.tool_success", "default.grounded_arguments")


def test_question_changes_nothing(scored):
    model = scripted(ToolCallPart("find_order", {"order_id": "A-17"}), TextPart("It was delivered."))
    agent.run_sync("Where is order A-17?", model=model)
    scored.assert_passes("changed-nothing")
    assert [call.name for call in scored.calls] == ["find_order"]
