"""Traceloop (OpenLLMetry) 0.62.4 and 0.40.14: LangGraph, OpenAI, OpenAI Agents, decorators, MCP."""

import json

import pytest

from tests.recognize.support import log, observations, other_error, span
from tests.rows import each_row
from toolgauge.dialects.traceloop import Traceloop
from toolgauge.model.content import Content, Recorded, Unparsed
from toolgauge.model.json import Value
from toolgauge.model.observations import (
    AgentRun,
    CallAnswered,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    MessageSeen,
    ModelCall,
    ToolDefinition,
    ToolsOffered,
)

LANGCHAIN = "opentelemetry.instrumentation.langchain"
DECORATOR = "traceloop.tracer"
MCP = "opentelemetry.instrumentation.mcp"


def executed(scope: str, attributes: dict[str, Value]) -> CallExecuted:
    (found,) = observations(
        Traceloop(),
        span({"traceloop.span.kind": "tool", "traceloop.entity.name": "f", **attributes}, name="f.tool", scope=scope),
    )
    assert isinstance(found, CallExecuted)
    return found


# -- LangGraph


@each_row("name", ["LangGraph", "RunnableSequence", "AgentExecutor"])
def test_graph_without_a_name_of_its_own_is_a_run_without_a_name(name: str):
    record = span({"traceloop.span.kind": "workflow", "traceloop.entity.name": name}, scope=LANGCHAIN)
    assert observations(Traceloop(), record) == [AgentRun(agent=None)]


@each_row(
    ("envelope", "expected"),
    [
        ({"input_str": "{'a': None}", "tags": []}, Recorded({"a": None})),
        # The names of arguments are lost where a tool takes one text; the model's request has them.
        ({"input_str": "zoe@example.com", "tags": [], "inputs": None}, Unparsed("zoe@example.com")),
        ({"input_str": "{'input_str': 'x'}", "tags": [], "inputs": {"input_str": "x"}}, Recorded({"input_str": "x"})),
        # No envelope: a tool may really have an argument of this name.
        ({"input_str": "x"}, Recorded({"input_str": "x"})),
        ({"input_str": 1, "tags": []}, Recorded({"input_str": 1, "tags": []})),
    ],
)
def test_langchain_envelope_is_opened_only_where_it_is_one(envelope: dict[str, object], expected: Content):
    assert executed(LANGCHAIN, {"traceloop.entity.input": json.dumps(envelope)}).arguments == expected


def test_graph_in_a_node_of_an_older_release_has_a_checkpoint_of_its_own():
    node: dict[str, Value] = {
        "traceloop.span.kind": "task",
        "traceloop.entity.name": "refund_agent",
        "traceloop.association.properties.langgraph_node": "refund_agent",
        "traceloop.association.properties.langgraph_checkpoint_ns": "refund_agent:1",
    }
    graph: dict[str, Value] = {**node, "traceloop.association.properties.checkpoint_ns": "refund_agent:1"}
    assert observations(Traceloop(), span(node, scope=LANGCHAIN)) == []
    assert observations(Traceloop(), span(graph, scope=LANGCHAIN)) == [AgentRun(agent="refund_agent")]


# -- LlamaIndex


# -- OpenAI, decorators


@each_row(
    ("given", "expected"),
    [
        ({"args": [], "kwargs": {}}, Recorded({})),
        ({"args": [], "kwargs": {"kwargs": {"a": 1}}}, Recorded({"kwargs": {"a": 1}})),
        # The names of positional arguments are nowhere.
        ({"args": ["Paris"], "kwargs": {"unit": "c"}}, Unparsed('{"args":["Paris"],"kwargs":{"unit":"c"}}')),
        ({"args": [], "kwargs": {}, "more": 1}, Recorded({"args": [], "kwargs": {}, "more": 1})),
        ({"args": [], "kwargs": "x"}, Recorded({"args": [], "kwargs": "x"})),
    ],
)
def test_decorator_envelope(given: dict[str, object], expected: Content):
    assert executed(DECORATOR, {"traceloop.entity.input": json.dumps(given)}).arguments == expected


def test_tenth_index_comes_after_the_second():
    attributes: dict[str, Value] = {"llm.request.type": "chat"}
    for number in (10, 2, 0):
        attributes[f"gen_ai.completion.0.tool_calls.{number}.name"] = f"f{number}"
        attributes[f"gen_ai.prompt.{number}.role"] = "user"
        attributes[f"gen_ai.prompt.{number}.content"] = f"text {number}"
    attributes["llm.request.functions.10.name"] = "f10"
    attributes["llm.request.functions.9.name"] = "f9"
    found = observations(Traceloop(), span(attributes))
    assert [one.name for one in found if isinstance(one, CallRequested)] == ["f0", "f2", "f10"]
    assert MessageSeen(role="user", text="text 10", follows=True) in found
    assert ToolsOffered(tools=(ToolDefinition(name="f9"), ToolDefinition(name="f10"))) in found


def test_first_form_of_function_calling_has_no_ids():
    attributes: dict[str, Value] = {
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.function_call.name": "f",
        "gen_ai.completion.0.function_call.arguments": '{"a": 1}',
    }
    assert observations(Traceloop(), span(attributes)) == [
        ModelCall(),
        CallRequested(position=0, name="f", arguments=Recorded({"a": 1})),
    ]


@each_row(
    "key",
    [
        "gen_ai.prompt.99999999999.role",
        "gen_ai.prompt.-1.role",
        "gen_ai.prompt.0.tool_calls.x.name",
        "gen_ai.completion.0.tool_calls.0.type",
        "gen_ai.prompt.0",
        "llm.request.functions.0.strict",
    ],
)
def test_keys_of_another_shape_are_no_messages(key: str):
    found = observations(Traceloop(), span({"llm.request.type": "chat", key: "x"}, scope=DECORATOR))
    assert found == [ModelCall()]


# -- OpenAI Agents


def test_hand_off_that_names_its_target_is_the_call_that_the_model_made():
    attributes: dict[str, Value] = {
        "traceloop.span.kind": "handoff",
        "gen_ai.handoff.from_agent": "triage_agent",
        "gen_ai.handoff.to_agent": "Refund Agent",
    }
    assert observations(Traceloop(), span(attributes)) == [
        CallExecuted(name="transfer_to_refund_agent", agent="triage_agent")
    ]
    assert observations(Traceloop(), span({**attributes, "gen_ai.handoff.to_agent": "unknown"})) == []


# -- MCP


def test_mcp_call_is_a_view_of_the_tool_above_it():
    call = executed(
        MCP,
        {
            "traceloop.entity.input": '{"tool_name": "f", "arguments": {"a": 1}}',
            "traceloop.entity.output": '{"result": "no such city", "is_error": true}',
        },
    )
    assert call == CallExecuted(
        name="f",
        arguments=Recorded({"a": 1}),
        result=Recorded("no such city"),
        error=other_error("no such city"),
        protocol="mcp",
    )
    assert executed(MCP, {"traceloop.entity.input": '{"tool_name": "f", "arguments": null}'}).arguments == Recorded({})


# -- what is whose


def test_spans_of_other_producers_that_the_sdk_only_touched_are_not_claimed():
    touched: dict[str, Value] = {
        "traceloop.workflow.name": "w",
        "traceloop.association.properties.session_id": "s",
        "gen_ai.operation.name": "execute_tool",
    }
    assert not Traceloop().claims(span(touched, scope="pydantic-ai"))
    assert not Traceloop().claims(span({"http.method": "GET"}, scope="opentelemetry.instrumentation.openai.v1"))
    assert not Traceloop().claims(span({"gen_ai.system": "x"}, scope="opentelemetry.instrumentation.openai_v2"))
    assert Traceloop().claims(span({"gen_ai.system": "x"}, scope="opentelemetry.instrumentation.openai.v1"))
    assert not Traceloop().claims(log("gen_ai.choice", scope=LANGCHAIN))


@each_row(
    ("attributes", "name", "claimed"),
    [
        ({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 3}, "chat m", False),
        ({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f"}, "execute_tool f", False),
        ({"gen_ai.operation.name": "chat", "gen_ai.usage.total_tokens": 3}, "chat m", True),
        ({"gen_ai.operation.name": "chat"}, "openai.chat", True),
        ({"llm.request.type": "chat"}, "chat m", True),
    ],
)
@pytest.mark.parametrize("package", ["openai", "agno", "anthropic", "langchain"])
def test_the_name_of_a_scope_that_other_packages_share_is_no_evidence(
    package: str,
    attributes: dict[str, Value],
    name: str,
    claimed: bool,  # noqa: FBT001 - a column of the table
):
    record = span(attributes, name=name, scope=f"opentelemetry.instrumentation.{package}")
    assert Traceloop().claims(record) is claimed


@each_row("key", ["conversation_id", "session_id", "thread_id", "chat_id"])
def test_associated_properties_name_the_conversation_and_answer_criteria(key: str):
    record = span({"traceloop.entity.name": "x", f"traceloop.association.properties.{key}": "c-1"})
    assert observations(Traceloop(), record) == [ConversationSeen(conversation_id="c-1", rank=2)]
    assert Traceloop().attribute(record, key) == "c-1"
    assert Traceloop().attribute(record, "other") is None


# -- OpenAI's Responses


def test_answers_that_are_fewer_than_their_calls_keep_their_ids():
    parts = [{"type": "tool_call", "id": f"fc_{number}", "name": "f", "arguments": "{}"} for number in (1, 2)]
    history = [
        {"role": "assistant", "parts": parts},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_2", "response": "done"}]},
    ]
    attributes: dict[str, Value] = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(history)}
    found = observations(Traceloop(), span(attributes, scope="opentelemetry.instrumentation.openai.v1"))
    assert [one.call_id for one in found if isinstance(one, CallAnswered)] == ["call_2"]
