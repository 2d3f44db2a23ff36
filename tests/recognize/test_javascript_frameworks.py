"""The Vercel AI SDK (older forms than the captures have), Mastra and VoltAgent."""

import json

import pytest

from tests.recognize.support import observations, other_error, span
from tests.rows import each_row
from toolgauge.dialects.javascript_and_java import Mastra, Vercel, VoltAgent
from toolgauge.model.content import NOT_RECORDED, Recorded, Unparsed
from toolgauge.model.json import Json, Value
from toolgauge.model.observations import (
    AgentRun,
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    MessageSeen,
    ModelCall,
    Observation,
    ToolDefinition,
    ToolsOffered,
)

# -- Vercel AI SDK, older forms from its documentation and source


def model(operation: str = "ai.generateText.doGenerate", **attributes: Value) -> list[Observation]:
    found = observations(Vercel(), span({"ai.operationId": operation, **attributes}, name=operation, scope="ai"))
    assert found[0] == ModelCall(agent=None)
    return found[1:]


def tool(**attributes: Value) -> CallExecuted:
    given: dict[str, Value] = {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "f", **attributes}
    found = observations(Vercel(), span(given, name="ai.toolCall", scope="ai"))
    assert len(found) == 1
    assert isinstance(found[0], CallExecuted)
    return found[0]


@pytest.mark.parametrize(
    "key", ["sessionId", "session_id", "session.id", "threadId", "thread_id", "conversationId", "chatId", "chat_id"]
)
@pytest.mark.parametrize("prefix", ["ai.telemetry.metadata.", "ai.settings.context."])
def test_applications_name_their_conversations_in_many_ways(prefix: str, key: str):
    found = observations(Vercel(), span({"ai.operationId": "ai.embed", prefix + key: "c-1"}, scope="ai"))
    assert found == [ConversationSeen(conversation_id="c-1", rank=2)]


def test_the_conventions_form_is_read_with_the_context_beside_it():
    attributes: dict[str, Value] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "f",
        "gen_ai.tool.call.arguments": '{"a":1}',
        "ai.settings.context.sessionId": "s-1",
    }
    assert observations(Vercel(), span(attributes, scope="gen_ai")) == [
        ConversationSeen(conversation_id="s-1", rank=2),
        CallExecuted(name="f", arguments=Recorded({"a": 1})),
    ]
    del attributes["ai.settings.context.sessionId"]
    assert not Vercel().claims(span(attributes, scope="gen_ai"))


def test_older_versions_say_args_and_result():
    calls: Json = [
        {"toolCallType": "function", "toolCallId": "c1", "toolName": "f", "args": '{"a":1}'},
        {"toolCallType": "function", "toolCallId": "c2", "toolName": "f", "args": {"a": 2}},
        {"toolCallType": "function", "toolCallId": "c3", "toolName": "f", "args": '{"a":'},
    ]
    assert model(**{"ai.result.toolCalls": json.dumps(calls), "ai.result.text": "So."}) == [
        CallRequested(position=0, name="f", call_id="c1", arguments=Recorded({"a": 1})),
        CallRequested(position=1, name="f", call_id="c2", arguments=Recorded({"a": 2})),
        CallRequested(position=2, name="f", call_id="c3", arguments=Unparsed('{"a":')),
        MessageSeen(role="assistant", text="So."),
    ]


def test_streams_are_model_calls_and_runs_like_others():
    calls: Json = [{"toolCallId": "c1", "toolName": "f", "input": {}}]
    assert model("ai.streamText.doStream", **{"ai.response.toolCalls": json.dumps(calls)}) == [
        CallRequested(position=0, name="f", call_id="c1", arguments=Recorded({}))
    ]
    attributes: dict[str, Value] = {
        "operation.name": "ai.streamText chat-route",
        "ai.telemetry.functionId": "chat-route",
        "ai.prompt": '{"system":"Be brief.","prompt":"Hi"}',
        "ai.response.text": "Hello.",
        "ai.response.toolCalls": json.dumps(calls),
        "ai.operationId": "ai.streamText",
    }
    assert observations(Vercel(), span(attributes, name="ai.streamText", scope="ai")) == [
        AgentRun(agent="chat-route"),
        MessageSeen(role="system", text="Be brief."),
        MessageSeen(role="user", text="Hi"),
        MessageSeen(role="assistant", text="Hello."),
    ]


def test_the_operation_may_be_told_in_its_older_attribute_alone():
    attributes: dict[str, Value] = {"operation.name": "ai.toolCall my-agent", "ai.toolCall.name": "f"}
    assert observations(Vercel(), span(attributes, name="tool", scope="mine")) == [CallExecuted(name="f")]


@each_row(
    ("part", "result", "error"),
    [
        ({"output": {"type": "text", "value": "20"}}, Recorded(20), None),
        (
            {"output": {"type": "content", "value": [{"type": "text", "text": "x"}]}},
            Recorded([{"type": "text", "text": "x"}]),
            None,
        ),
        ({"output": {"type": "error-text", "value": "no"}}, NOT_RECORDED, other_error("no")),
        ({"output": {"type": "error-json", "value": {"a": 1}}}, NOT_RECORDED, other_error('{"a":1}')),
        (
            {"output": {"type": "execution-denied", "reason": "no"}},
            NOT_RECORDED,
            CallError(kind="refused", message="no"),
        ),
        ({"result": {"type": "box"}}, Recorded({"type": "box"}), None),
        ({"result": "broken", "isError": True}, NOT_RECORDED, other_error("broken")),
        ({"type": "tool-error", "error": "broken"}, NOT_RECORDED, other_error("broken")),
    ],
)
def test_answers_of_all_versions_are_opened(part: dict[str, Json], result: object, error: CallError | None):
    answer: Json = {"type": "tool-result", "toolCallId": "c1", "toolName": "f", **part}
    messages: Json = [{"role": "tool", "content": [answer]}]
    assert model(**{"ai.prompt.messages": json.dumps(messages)}) == [
        CallAnswered(call_id="c1", name="f", result=result, error=error)  # pyright: ignore[reportArgumentType] - contents of all kinds
    ]


def test_other_operations_are_neither_runs_nor_model_calls():
    for operation in ("ai.embed", "ai.embedMany.doEmbed", "ai.generateObject", "ai.rerank"):
        assert observations(Vercel(), span({"ai.operationId": operation}, scope="ai")) == []


def test_attributes_are_looked_up_where_the_sdk_puts_them():
    record = span({"ai.operationId": "ai.embed", "ai.telemetry.metadata.eval.case.id": "case-7", "own": 1})
    assert Vercel().attribute(record, "eval.case.id") == "case-7"
    assert Vercel().attribute(record, "own") == 1
    assert Vercel().attribute(record, "absent") is None


# -- Mastra: the conventions with what the conventions' attributes lack beside them


def mastra(kind: str, **attributes: Value) -> list[Observation]:
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    return observations(Mastra(), span({"mastra.span.type": kind, **named}, scope="@mastra/otel-exporter"))


def step(*calls: Json, body: Json = None) -> list[Observation]:
    return mastra(
        "model_step",
        mastra__model_step__output=json.dumps({"text": "", "toolCalls": list(calls)}),
        mastra__metadata__body=json.dumps(body),
    )


def called(given: Json) -> Json:
    return {"toolCallId": "c1", "toolName": "add", "args": given}


def test_a_step_has_what_the_model_asked_for():
    assert step(called({"a": 1}), called({})) == [
        CallRequested(position=0, name="add", call_id="c1", arguments=Recorded({"a": 1})),
        CallRequested(position=1, name="add", call_id="c1", arguments=Recorded({})),
    ]


def test_a_tools_own_answer_of_an_error_is_its_result():
    answer = {"error": True, "message": "sold out"}
    assert mastra("tool_call", gen_ai__tool__name="add", gen_ai__tool__call__result=json.dumps(answer)) == [
        CallExecuted(name="add", result=Recorded({"error": True, "message": "sold out"}))
    ]


# -- VoltAgent


def volt_agent(name: str, **attributes: Value) -> list[Observation]:
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    return observations(VoltAgent(), span({"entity.type": "agent", **named}, name=name, scope="@voltagent/core"))


def test_a_run_below_has_the_name_of_its_span():
    assert volt_agent("subagent:flights", entity__name="coordinator")[0] == AgentRun(agent="flights")


def test_a_model_has_its_tokens_and_the_names_on_offer():
    assert volt_agent("llm:generateText", span__type="llm", llm__tools="add, find", llm__usage__prompt_tokens=40) == [
        ModelCall(input_tokens=40),
        ToolsOffered(tools=(ToolDefinition(name="add"), ToolDefinition(name="find"))),
    ]


def test_steps_of_memory_and_workflows_are_no_runs():
    assert volt_agent("memory.read", span__type="memory", input="{}") == []
    assert volt_agent("step", span__type="workflow-step", entity__type="workflow") == []
