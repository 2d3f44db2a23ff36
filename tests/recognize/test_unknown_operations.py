"""Spans of operations that are not known as a model's: those with an output are model calls, however they are read."""

import json

from tests.recognize.support import observations, span
from tests.rows import each_row
from toolgauge.dialects.genai import GenAI
from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, Value
from toolgauge.model.observations import CallRequested, ModelCall
from toolgauge.testing.dialects import check_dialect

ASKED: Json = [
    {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "find", "arguments": {"q": 1}}]}
]
OUTPUT: dict[str, Value] = {"gen_ai.output.messages": json.dumps(ASKED)}
CALL = CallRequested(position=0, name="find", call_id="c1", arguments=Recorded({"q": 1}))


@each_row(
    "operation",
    [
        "plan",
        "fetch_response",
        "live",
        "realtime.session",
        "generate",
        "stream_message",
        "retrieve_response",
        "plan_task",
        "evaluatePlan",
        "chain_of_thought",
        "photograph",
    ],
)
def test_an_operation_with_an_output_is_a_model_call(operation: str):
    found = span(OUTPUT | {"gen_ai.operation.name": operation})
    genai = GenAI()
    assert observations(genai, found) == [ModelCall(may_repeat=True), CALL]
    check_dialect(genai, [found])


def test_a_span_without_an_operation_is_known_by_its_output_and_name():
    assert observations(GenAI(), span(OUTPUT, name="live session")) == [ModelCall(may_repeat=True), CALL]
    assert observations(GenAI(), span(OUTPUT, name="agent run")) == []


@each_row(
    "operation",
    [
        "create_agent",
        "invoke_workflow",
        "embeddings",
        "retrieval",
        "search_memory",
        "evaluation",
        "evaluate",
        "run_tool",
        "tool_call",
        "execute_event_loop_cycle",
        "execute_task",
        "chain",
        "handoff",
        "callAgent",
        "retrieve",
        "task",
        "runTask",
        "langgraph",
        "crewai.kickoff",
        "MultiAgent.step",
    ],
)
def test_operations_that_repeat_messages_of_models_are_none(operation: str):
    found = span(OUTPUT | {"gen_ai.operation.name": operation})
    assert observations(GenAI(), found) == []


def test_a_tools_attributes_tell_that_a_span_is_a_tools():
    tool: dict[str, Value] = {"gen_ai.operation.name": "plan", "gen_ai.tool.name": "find"}
    assert observations(GenAI(), span(OUTPUT | tool)) == []


def test_an_unknown_operation_without_an_output_is_not_read():
    assert observations(GenAI(), span({"gen_ai.operation.name": "plan"})) == []
