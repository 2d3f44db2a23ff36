"""Langfuse by hand and as SDK 3.15.0 wrote it, and LangSmith's OTel mode, in the forms of langsmith 0.14."""

import json

from tests.recognize.support import event, log, observations, other_error, span
from tests.rows import each_row
from toolgauge.dialects.tracing_services import Langfuse, LangSmith
from toolgauge.model.content import Recorded, Unparsed
from toolgauge.model.json import Json, Value
from toolgauge.model.observations import (
    AgentRun,
    CallError,
    CallExecuted,
    CallRequested,
    ConversationSeen,
    MessageSeen,
    ModelCall,
    Observation,
)

# -- Langfuse

PREFIX = "langfuse.observation."


def langfuse(kind: str, name: str = "add", **attributes: Value) -> list[Observation]:
    return observations(
        Langfuse(),
        span({f"{PREFIX}type": kind} | {PREFIX + key: value for key, value in attributes.items()}, name=name),
    )


def asked_for(name: str, call_id: str, arguments: Json, agent: str | None = "shop_agent") -> CallRequested:
    return CallRequested(position=0, name=name, call_id=call_id, arguments=Recorded(arguments), agent=agent)


# -- by hand


def test_observed_functions_have_an_envelope_around_their_keywords():
    assert langfuse("tool", input='{"args": [], "kwargs": {"a": 1}}', output="3") == [
        CallExecuted(name="add", arguments=Recorded({"a": 1}), result=Recorded(3))
    ]


def test_positional_arguments_of_a_function_have_no_names():
    assert langfuse("tool", input='{"args": [1], "kwargs": {}}') == [
        CallExecuted(name="add", arguments=Unparsed('{"args":[1],"kwargs":{}}'))
    ]


def test_a_tool_of_langchain_may_have_arguments_called_args_and_kwargs():
    arguments = '{"args": [1], "kwargs": {}}'
    found = langfuse("tool", input=arguments, **{"metadata.tool_call_id": '"call_1"'})
    assert found == [CallExecuted(name="add", call_id="call_1", arguments=Recorded({"args": [1], "kwargs": {}}))]


def test_an_error_without_level_counts_by_its_status_and_exception():
    raised = event("exception", {"exception.type": "KeyError", "exception.message": "'x'"})
    record = span({f"{PREFIX}type": "tool"}, name="add", status="error", status_message="bad key", events=[raised])
    assert observations(Langfuse(), record) == [
        CallExecuted(name="add", error=CallError(kind="KeyError", message="bad key"))
    ]


def test_a_call_that_anthropic_repeats_in_its_content_counts_once():
    block: Json = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1}}
    output = json.dumps(
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "Adding."}, block],
            "tool_calls": [{"name": "add", "args": {"a": 1}, "id": "toolu_1", "type": "tool_call"}],
        }
    )
    assert langfuse("generation", output=output) == [
        ModelCall(),
        asked_for("add", "toolu_1", {"a": 1}, agent=None),
        MessageSeen(role="assistant", text="Adding."),
    ]


def test_the_session_is_the_conversation_and_a_thread_stands_in_for_it():
    kind: dict[str, Value] = {f"{PREFIX}type": "span"}
    thread = {f"{PREFIX}metadata.thread_id": '"thread-1"'}
    assert observations(Langfuse(), span({**kind, **thread, "session.id": "s-1"})) == [
        ConversationSeen(conversation_id="s-1", rank=1)
    ]
    assert observations(Langfuse(), span({**kind, **thread})) == [ConversationSeen(conversation_id="thread-1", rank=2)]


# -- LangChain with SDK 3.15.0 (`cases/langfuse`)


def test_own_tool_called_invalid_tool_stays():
    attributes: dict[str, Value] = {PREFIX + "type": "tool", PREFIX + "input": '{"requested_tool_name": "x"}'}
    assert observations(Langfuse(), span(attributes, name="invalid_tool")) == [
        CallExecuted(name="invalid_tool", arguments=Recorded({"requested_tool_name": "x"}))
    ]


# -- LangSmith


def langsmith(
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
    assert langsmith("tool", {}, {"output": 5}, name="span", langsmith__trace__name="add") == [
        CallExecuted(name="add", arguments=Recorded({}), result=Recorded(5))
    ]
    assert langsmith("TOOL", {}, {"output": None}) == [
        CallExecuted(name="add", arguments=Recorded({}), result=Recorded(None))
    ]


@each_row("value", ["Paris", "{unfinished", 5, {"a": 1}])
def test_a_tool_may_have_one_argument_called_input(value: Json):
    assert langsmith("tool", {"input": value}, {"output": 3}) == [
        CallExecuted(name="add", arguments=Recorded({"input": value}), result=Recorded(3))
    ]


def test_a_tool_may_return_an_object_without_an_envelope():
    assert langsmith("tool", {"a": 1}, {"output": {"sum": 3}, "unit": "m"}) == [
        CallExecuted(name="add", arguments=Recorded({"a": 1}), result=Recorded({"output": {"sum": 3}, "unit": "m"}))
    ]


@each_row(
    ("text", "error"),
    [
        ("KeyError('a')Traceback (most recent call last):", CallError(kind="KeyError", message="a")),
        ("my.Error(code=5)", CallError(kind="my.Error", message="code=5")),
        ("it broke", other_error("it broke")),
        ("", other_error("")),
        ("ParentCommand(Command(goto='refunds'))", None),
    ],
)
def test_errors_of_other_forms(text: str, error: CallError | None):
    assert langsmith("tool", {"a": 1}, {"output": 1}, raised=text) == [
        CallExecuted(name="add", arguments=Recorded({"a": 1}), result=Recorded(1), error=error)
    ]


# -- model runs


def test_what_the_model_asked_for_is_in_langchains_result():
    calls: Json = [
        {"name": "add", "args": {"a": 1}, "id": "call_1", "type": "tool_call"},
        {"name": "add", "args": {"a": 2}, "id": "call_2", "type": "tool_call"},
    ]
    invalid: Json = [{"name": "add", "args": '{"a": ', "id": "call_3", "error": None, "type": "invalid_tool_call"}]
    found = langsmith("llm", completion=generated(content="", tool_calls=calls, invalid_tool_calls=invalid))
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


def test_a_thread_is_a_conversation_and_a_project_is_not():
    assert langsmith("chain", langsmith__trace__session_name="project", langsmith__trace__session_id="p-1") == []
    assert langsmith("chain", langsmith__metadata__thread_id="t-1") == [ConversationSeen(conversation_id="t-1", rank=2)]
    assert langsmith("chain", langsmith__metadata__thread_id="t-1", gen_ai__conversation__id="c-1") == [
        ConversationSeen(conversation_id="c-1", rank=0)
    ]


def test_a_wanted_attribute_may_be_in_the_metadata():
    record = span({f"{PREFIX}type": "span", "langfuse.trace.metadata.eval.case.id": '"case-1"'})
    assert (Langfuse().attribute(record, "eval.case.id"), Langfuse().attribute(record, "other")) == ("case-1", None)
    record = span({"langsmith.span.kind": "chain", "langsmith.metadata.eval.case.id": "c-1"})
    assert (LangSmith().attribute(record, "eval.case.id"), LangSmith().attribute(record, "other")) == ("c-1", None)
