"""Pydantic AI before format 3, and Haystack's own tracer, in the forms that haystack-ai 3 and the agents of 2 serialise."""

import json

from tests.recognize.support import observations, other_error, recorded, span
from tests.rows import each_row
from toolgauge.dialects.python_frameworks import Haystack, PydanticAI
from toolgauge.model.content import Recorded, Unparsed
from toolgauge.model.json import Json, Value
from toolgauge.model.observations import (
    AgentRun,
    CallAnswered,
    CallExecuted,
    CallRequested,
    MessageSeen,
    ModelCall,
    Observation,
    ToolDefinition,
    ToolsOffered,
)
from toolgauge.model.records import StatusCode

# -- Pydantic AI

PYDANTIC_AI = "pydantic-ai"


def pydantic_ai(attributes: dict[str, Value], name: str = "span", status: StatusCode = "unset") -> list[Observation]:
    return observations(PydanticAI(), span(attributes, name=name, scope=PYDANTIC_AI, status=status))


def test_later_formats_are_left_to_the_conventions():
    assert recorded(PydanticAI(), "pydantic-ai/one_call.otlp.pb") == []


def test_a_model_span_of_format_1_has_its_events_in_one_attribute():
    call: Json = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    events: list[Json] = [
        {"event.name": "gen_ai.system.message", "content": "Be kind.", "role": "system"},
        {"event.name": "gen_ai.user.message", "content": "Hello", "role": "user"},
        {"event.name": "gen_ai.assistant.message", "role": "assistant", "tool_calls": [{**call, "id": "0"}]},
        {"event.name": "gen_ai.tool.message", "role": "tool", "id": "0", "name": "f", "content": "done"},
        {"event.name": "gen_ai.choice", "index": 0, "message": {"role": "assistant", "tool_calls": [call]}},
    ]
    offer: Json = {"function_tools": [{"name": "f", "description": "F.", "parameters_json_schema": {"type": "object"}}]}
    assert pydantic_ai(
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.agent.name": "a",
            "events": json.dumps(events),
            "model_request_parameters": json.dumps(offer),
        }
    ) == [
        ModelCall(agent="a"),
        ToolsOffered(tools=(ToolDefinition(name="f", description="F.", parameters={"type": "object"}),)),
        MessageSeen(role="system", text="Be kind."),
        MessageSeen(role="user", text="Hello"),
        CallAnswered(call_id="0", name="f", result=Recorded("done")),
        CallRequested(position=0, name="f", call_id="1", arguments=Recorded({"a": 1}), agent="a"),
    ]


def test_the_oldest_releases_name_no_operation():
    assert pydantic_ai({"agent_name": "a"}, name="agent run") == [AgentRun(agent="a")]
    assert pydantic_ai({"gen_ai.tool.name": "f", "tool_arguments": '{"a": '}, name="running tool") == [
        CallExecuted(name="f", arguments=Unparsed('{"a": '))
    ]


def test_a_failed_call_keeps_what_the_model_was_told():
    told: dict[str, Value] = {"gen_ai.tool.name": "f", "tool_arguments": "{}", "tool_response": "Fix it."}
    assert pydantic_ai(told, name="running tool", status="error") == [
        CallExecuted(name="f", arguments=Recorded({}), result=Recorded("Fix it."), error=other_error(""))
    ]


# -- Haystack

TOOL = "haystack.agent.step.tool"
MODEL = "haystack.agent.step.llm"
COMPONENT = "haystack.component"
CALL: Json = {"tool_name": "add", "arguments": {"a": 1}, "id": "call_1", "extra": None}


def haystack(name: str, **attributes: Value) -> list[Observation]:
    told = {key.replace("__", "."): value for key, value in attributes.items()}
    return observations(Haystack(), span(told, name=name, scope="haystack"))


def message(role: str, *parts: Json) -> Json:
    return {"role": role, "meta": {}, "name": None, "content": list(parts)}


def answer(result: Json, *, error: bool = False) -> Json:
    return message("tool", {"tool_call_result": {"result": result, "origin": CALL, "error": error}})


def tool(given: Json = None, output: Value = None, **more: Value) -> list[Observation]:
    attributes: dict[str, Value] = {"haystack__tool__name": "add", **more}
    if given is not None:
        attributes[f"{TOOL}.input"] = json.dumps(given)
    if output is not None:
        attributes[f"{TOOL}.output"] = output
    return haystack(TOOL, **attributes)


def model(given: Json = None, output: Value = None, name: str = MODEL, prefix: str = MODEL) -> list[Observation]:
    attributes: dict[str, Value] = {f"{prefix}.input": json.dumps(given)} if given is not None else {}
    if output is not None:
        attributes[f"{prefix}.output"] = output
    return haystack(name, **attributes)


# -- which spans


@each_row(
    ("name", "attributes", "claimed"),
    [
        (TOOL, {"haystack.tool.name": "add"}, True),
        ("haystack.pipeline.run", {}, True),
        (TOOL, {"gen_ai.operation.name": "execute_tool"}, False),
        ("pipeline.run", {"haystack.tool.name": "add"}, False),
    ],
)
def test_claims(name: str, attributes: dict[str, Value], claimed: bool):  # noqa: FBT001 - a column of the table
    assert Haystack().claims(span(attributes, name=name)) is claimed


# -- tools


def test_a_result_that_has_an_error_among_others_is_no_failure():
    assert tool({"a": 1}, '{"error": null, "sum": 3}') == [
        CallExecuted(name="add", arguments=Recorded({"a": 1}), result=Recorded({"error": None, "sum": 3}))
    ]


def test_a_question_to_a_person_about_a_call_is_no_call():
    found = haystack(
        "haystack.agent.hook.human_in_the_loop.strategy", haystack__tool__name="add", haystack__tool__call__id="1"
    )
    assert found == []


def test_one_span_for_all_calls_of_a_step_holds_their_answers():
    output = json.dumps({"tool_messages": [answer("3"), answer("no", error=True)], "state": {}})
    assert haystack(TOOL, **{f"{TOOL}.output": output}) == [
        CallAnswered(call_id="call_1", name="add", result=Recorded(3)),
        CallAnswered(call_id="call_1", name="add", result=Recorded("no"), error=other_error("no")),
    ]


# -- models


def test_content_that_was_no_json_is_a_repr_of_all_of_it():
    output = (
        "{'replies': [ChatMessage(_role=<ChatRole.ASSISTANT: 'assistant'>, _content=[TextContent(text='Adding.'), "
        "ToolCall(tool_name='add', arguments={'a': 1}, id='call_1', extra=None)], _name=None, "
        "_meta={'usage': <object object at 0x7f>})]}"
    )
    assert model(output=output) == [
        ModelCall(),
        CallRequested(position=0, name="add", call_id="call_1", arguments=Recorded({"a": 1})),
        MessageSeen(role="assistant", text="Adding."),
    ]


def test_the_agents_of_release_two_are_made_of_components():
    output = json.dumps({"replies": [message("assistant", {"tool_call": CALL})]})
    assert model(output=output, name="haystack.component.run", prefix=COMPONENT) == [
        ModelCall(),
        CallRequested(position=0, name="add", call_id="call_1", arguments=Recorded({"a": 1})),
    ]
    answered = json.dumps({"tool_messages": [answer("3")]})
    assert haystack("haystack.component.run", haystack__component__output=answered) == [
        CallAnswered(call_id="call_1", name="add", result=Recorded(3))
    ]
