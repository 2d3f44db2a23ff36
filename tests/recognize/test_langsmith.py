"""LangSmith's OTel mode, in the forms that langsmith 0.14 and langchain-core 1.7 serialise."""

import json

import pytest

from tests.recognize.support import event, log, observations, span
from tests.rows import each_row
from toolgauge.dialects.tracing_services import LangSmith
from toolgauge.model.content import Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import (
    AgentRun,
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    ModelCall,
    Observation,
)

MESSAGE: Json = {
    "content": "18 degrees",
    "additional_kwargs": {},
    "response_metadata": {},
    "type": "tool",
    "name": "get_weather",
    "tool_call_id": "call_1",
    "status": "success",
}


def read(
    kind: str,
    prompt: Json = None,
    completion: Json = None,
    *,
    name: str = "add",
    raised: str | None = None,
    **more: Value,
) -> list[Observation]:
    attributes: dict[str, Value] = {"langsmith.span.kind": kind}
    attributes |= {key.replace("__", "."): value for key, value in more.items()}
    if prompt is not None:
        attributes["gen_ai.prompt"] = json.dumps(prompt)
    if completion is not None:
        attributes["gen_ai.completion"] = json.dumps(completion)
    # The exporter says OK before it knows; after that the status cannot be changed.
    told = {"exception.type": "Exception", "exception.message": raised or ""}
    events = [event("exception", told)] if raised is not None else []
    return observations(LangSmith(), span(attributes, name=name, status="ok", events=events, scope="langsmith"))


def serialised(kind: str, **fields: Json) -> Json:
    return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", kind], "kwargs": dict(fields)}


def generated(**fields: Json) -> Json:
    message = serialised("AIMessage", type="ai", **fields)
    return {"generations": [[{"text": "", "type": "ChatGeneration", "message": message}]], "llm_output": None}


# -- which spans


def test_only_spans_with_a_kind_of_run_are_claimed():
    assert LangSmith().claims(span({"langsmith.span.kind": "tool"})) is True
    assert LangSmith().claims(span({"langsmith.trace.name": "x", "gen_ai.operation.name": "chat"})) is False
    assert LangSmith().claims(log("langsmith.span.kind")) is False


# -- tool runs


def test_without_a_tool_name_the_run_names_the_tool():
    assert read("tool", {}, {"output": 5}, name="span", langsmith__trace__name="add") == [
        CallExecuted(name="add", arguments=Recorded({}), result=Recorded(5))
    ]
    assert read("TOOL", {}, {"output": None}) == [
        CallExecuted(name="add", arguments=Recorded({}), result=Recorded(None))
    ]


def test_the_id_may_be_in_the_result_alone():
    assert read("tool", {}, {"output": serialised("ToolMessage", content='{"a": 1}', tool_call_id="call_1")}) == [
        CallExecuted(name="add", call_id="call_1", arguments=Recorded({}), result=Recorded({"a": 1}))
    ]


@each_row("value", ["Paris", "{unfinished", 5, {"a": 1}])
def test_a_tool_may_have_one_argument_called_input(value: Json):
    assert read("tool", {"input": value}, {"output": 3}) == [
        CallExecuted(name="add", arguments=Recorded({"input": value}), result=Recorded(3))
    ]


def test_a_tool_may_return_an_object_without_an_envelope():
    assert read("tool", {"a": 1}, {"output": {"sum": 3}, "unit": "m"}) == [
        CallExecuted(name="add", arguments=Recorded({"a": 1}), result=Recorded({"output": {"sum": 3}, "unit": "m"}))
    ]


@each_row(
    ("text", "error"),
    [
        ("KeyError('a')Traceback (most recent call last):", CallError(kind="KeyError", message="a")),
        ("my.Error(code=5)", CallError(kind="my.Error", message="code=5")),
        ("it broke", CallError(kind="_OTHER", message="it broke")),
        ("", CallError(kind="_OTHER", message="")),
        ("ParentCommand(Command(goto='refunds'))", None),
    ],
)
def test_errors_of_other_forms(text: str, error: CallError | None):
    assert read("tool", {"a": 1}, {"output": 1}, raised=text) == [
        CallExecuted(name="add", arguments=Recorded({"a": 1}), result=Recorded(1), error=error)
    ]


def test_a_message_of_status_error_is_a_failure():
    failed: Json = {"content": "bad city", "type": "tool", "tool_call_id": "call_1", "status": "error"}
    assert read("tool", {}, {"output": failed}) == [
        CallExecuted(
            name="add",
            call_id="call_1",
            arguments=Recorded({}),
            result=Recorded("bad city"),
            error=CallError(kind="_OTHER", message="bad city"),
        )
    ]


def test_a_hand_off_answers_with_a_command():
    update: Json = {"messages": [{"type": "human", "content": "hi"}, {**_object(MESSAGE), "content": "Transferred"}]}
    command: Json = {"graph": "__parent__", "update": update, "goto": "refunds"}
    assert read("tool", {}, {"output": command}, name="transfer") == [
        CallExecuted(name="transfer", call_id="call_1", arguments=Recorded({}), result=Recorded("Transferred"))
    ]


def _object(value: Json) -> JsonObject:
    assert isinstance(value, dict)
    return value


# -- model runs


def test_what_the_model_asked_for_is_in_langchains_result():
    calls: Json = [
        {"name": "add", "args": {"a": 1}, "id": "call_1", "type": "tool_call"},
        {"name": "add", "args": {"a": 2}, "id": "call_2", "type": "tool_call"},
    ]
    invalid: Json = [{"name": "add", "args": '{"a": ', "id": "call_3", "error": None, "type": "invalid_tool_call"}]
    found = read("llm", completion=generated(content="", tool_calls=calls, invalid_tool_calls=invalid))
    assert found == [
        ModelCall(),
        CallRequested(position=0, name="add", call_id="call_1", arguments=Recorded({"a": 1})),
        CallRequested(position=1, name="add", call_id="call_2", arguments=Recorded({"a": 2})),
        CallRequested(position=2, name="add", call_id="call_3", arguments=Unparsed('{"a": '), usable=False),
    ]


# -- chains


def run(name: str, **metadata: str) -> list[Observation]:
    attributes: dict[str, Value] = {f"langsmith.metadata.{key}": value for key, value in metadata.items()}
    return observations(LangSmith(), span({"langsmith.span.kind": "chain", **attributes}, name=name))


def test_the_run_of_a_graph_is_an_agents_run_and_its_nodes_are_not():
    assert run("shop", lc_agent_name="shop") == [AgentRun(agent="shop")]
    assert run("LangGraph", lc_agent_name="shop") == [AgentRun(agent="shop")]
    assert run("any", lc_agent_name="shop", ls_integration="langchain_create_agent") == [AgentRun(agent="shop")]
    assert run("model", lc_agent_name="shop", langgraph_node="model") == []
    assert run("shop", lc_agent_name="shop", langgraph_node="call_shop") == [AgentRun(agent="shop")]
    assert run("LangGraph") == [AgentRun(agent=None)]
    assert run("RunnableSequence") == []


@pytest.mark.parametrize("wrapped", [False, True])
def test_the_tool_node_answers_a_call_that_was_refused(wrapped: bool):  # noqa: FBT001 - both forms
    call: Json = {"name": "ad", "args": {}, "id": "call_1", "type": "tool_call"}
    message: Json = {
        "content": "no such tool",
        "type": "tool",
        "name": "ad",
        "tool_call_id": "call_1",
        "status": "error",
    }
    prompt: Json = {"input": [call]} if wrapped else {"__type": "tool_call_with_context", "tool_call": call}
    completion: Json = {"output": [message]} if wrapped else {"messages": [message]}
    assert read("chain", prompt, completion, name="tools") == [
        CallAnswered(
            call_id="call_1",
            name="ad",
            result=Recorded("no such tool"),
            error=CallError(kind="_OTHER", message="no such tool"),
        )
    ]


def test_a_thread_is_a_conversation_and_a_project_is_not():
    assert read("chain", langsmith__trace__session_name="project", langsmith__trace__session_id="p-1") == []
    assert read("chain", langsmith__metadata__thread_id="t-1") == [ConversationSeen(conversation_id="t-1", rank=2)]
    assert read("chain", langsmith__metadata__thread_id="t-1", gen_ai__conversation__id="c-1") == [
        ConversationSeen(conversation_id="c-1", rank=0)
    ]


def test_a_wanted_attribute_may_be_in_the_metadata():
    record = span({"langsmith.span.kind": "chain", "langsmith.metadata.eval.case.id": "c-1"})
    assert LangSmith().attribute(record, "eval.case.id") == "c-1"
    assert LangSmith().attribute(record, "other") is None
