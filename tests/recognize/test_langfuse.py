"""Langfuse as SDK 5.0.4 wrote it (`tests/corpus/langfuse-langgraph`), and forms of its other integrations by hand."""

import json
from pathlib import Path

from tests.recognize.support import event, observations, recorded, seen, span
from toolgauge.dialects.tracing_services import Langfuse
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
    Reading,
)

PREFIX = "langfuse.observation."
FOLDER = "langfuse-langgraph"
CASES = Path(__file__).parent / "cases" / "langfuse"


def readings(scenario: str) -> list[Reading]:
    return recorded(Langfuse(), f"{FOLDER}/{scenario}.otlp.pb")


def read(kind: str, name: str = "add", **attributes: Value) -> list[Observation]:
    return observations(
        Langfuse(),
        span({f"{PREFIX}type": kind} | {PREFIX + key: value for key, value in attributes.items()}, name=name),
    )


def requested(name: str, call_id: str, arguments: Json, agent: str | None = "shop_agent") -> CallRequested:
    return CallRequested(position=0, name=name, call_id=call_id, arguments=Recorded(arguments), agent=agent)


# -- by hand


def test_observed_functions_have_an_envelope_around_their_keywords():
    assert read("tool", input='{"args": [], "kwargs": {"a": 1}}', output="3") == [
        CallExecuted(name="add", arguments=Recorded({"a": 1}), result=Recorded(3))
    ]


def test_positional_arguments_of_a_function_have_no_names():
    assert read("tool", input='{"args": [1], "kwargs": {}}') == [
        CallExecuted(name="add", arguments=Unparsed('{"args":[1],"kwargs":{}}'))
    ]


def test_a_tool_of_langchain_may_have_arguments_called_args_and_kwargs():
    arguments = '{"args": [1], "kwargs": {}}'
    found = read("tool", input=arguments, **{"metadata.tool_call_id": '"call_1"'})
    assert found == [
        CallExecuted(name="add", call_id="call_1", arguments=Recorded({"args": [1], "kwargs": {}})),
    ]


def test_a_hand_off_by_exception_is_no_failure():
    parent = event("exception", {"exception.type": "langgraph.errors.ParentCommand"})
    told = {f"{PREFIX}type": "tool", f"{PREFIX}level": "DEFAULT", f"{PREFIX}status_message": "Command(...)"}
    assert observations(Langfuse(), span(told, name="hand_over", status="error", events=[parent])) == [
        CallExecuted(name="hand_over")
    ]


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
    assert read("generation", output=output) == [
        ModelCall(),
        requested("add", "toolu_1", {"a": 1}, agent=None),
        MessageSeen(role="assistant", text="Adding."),
    ]


def test_plain_text_is_what_the_user_and_the_model_said():
    assert read("generation", input="1 + 2?", output="3, I think") == [
        ModelCall(),
        MessageSeen(role="user", text="1 + 2?"),
        MessageSeen(role="assistant", text="3, I think"),
    ]


def test_the_session_is_the_conversation_and_a_thread_stands_in_for_it():
    kind: dict[str, Value] = {f"{PREFIX}type": "span"}
    thread = {f"{PREFIX}metadata.thread_id": '"thread-1"'}
    assert observations(Langfuse(), span({**kind, **thread, "session.id": "s-1"})) == [
        ConversationSeen(conversation_id="s-1", rank=1)
    ]
    assert observations(Langfuse(), span({**kind, **thread})) == [ConversationSeen(conversation_id="thread-1", rank=2)]


def test_a_wanted_attribute_may_be_in_the_metadata():
    record = span({f"{PREFIX}type": "span", "langfuse.trace.metadata.eval.case.id": '"case-1"'})
    assert Langfuse().attribute(record, "eval.case.id") == "case-1"
    assert Langfuse().attribute(record, "other") is None


# -- LangChain with SDK 3.15.0 (`cases/langfuse`)


def test_recorded_call_that_langchain_could_not_parse_is_read_from_its_node():
    path = CASES / "langchain-3.15.0-bad-json.otlp.pb"
    assert seen(recorded(Langfuse(), str(path)), CallRequested) == [
        CallRequested(
            position=0,
            name="lookup_order",
            call_id="call_bad001909",
            arguments=Unparsed('{"order_id": "F-1'),
            usable=False,
        )
    ]


def test_recorded_stand_in_for_a_tool_that_does_not_exist_is_the_failed_call_itself():
    path = CASES / "langchain-3.15.0-agent-executor-unknown-tool.otlp.pb"
    readings = recorded(Langfuse(), str(path))
    text = (
        "book_flight is not a valid tool, try one of "
        "[lookup_order, list_items, refund_amount, charge_card, charge_flaky, plan_trip]."
    )
    assert seen(readings, CallExecuted) == [
        CallExecuted(name="book_flight", result=Recorded(text), error=CallError(kind="_OTHER", message=text)),
        CallExecuted(
            name="lookup_order",
            arguments=Recorded({"order_id": "E-1"}),
            result=Recorded({"order": "E-1", "state": "shipped"}),
        ),
    ]


def test_parts_of_chains_are_no_agents():
    path = CASES / "langchain-3.15.0-agent-executor-unknown-tool.otlp.pb"
    names = {run.agent for run in seen(recorded(Langfuse(), str(path)), AgentRun) if isinstance(run, AgentRun)}
    assert names == {"clerk", "AgentExecutor"}


def test_own_tool_called_invalid_tool_stays():
    attributes: dict[str, Value] = {PREFIX + "type": "tool", PREFIX + "input": '{"requested_tool_name": "x"}'}
    assert observations(Langfuse(), span(attributes, name="invalid_tool")) == [
        CallExecuted(name="invalid_tool", arguments=Recorded({"requested_tool_name": "x"}))
    ]
