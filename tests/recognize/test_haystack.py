"""Haystack's own tracer, in the forms that haystack-ai 3 and the agents of 2 serialise."""

import json

from tests.recognize.support import observations, span
from tests.rows import each_row
from toolgauge.dialects.python_frameworks import Haystack
from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, Value
from toolgauge.model.observations import (
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
    MessageSeen,
    ModelCall,
    Observation,
)

TOOL = "haystack.agent.step.tool"
MODEL = "haystack.agent.step.llm"
COMPONENT = "haystack.component"
CALL: Json = {"tool_name": "add", "arguments": {"a": 1}, "id": "call_1", "extra": None}


def read(name: str, **attributes: Value) -> list[Observation]:
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
    return read(TOOL, **attributes)


def model(given: Json = None, output: Value = None, name: str = MODEL, prefix: str = MODEL) -> list[Observation]:
    attributes: dict[str, Value] = {f"{prefix}.input": json.dumps(given)} if given is not None else {}
    if output is not None:
        attributes[f"{prefix}.output"] = output
    return read(name, **attributes)


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


def test_a_failure_is_plainly_claimed_by_the_output_alone():
    assert tool({"a": 1}, '{"error": "code 51"}') == [
        CallExecuted(
            name="add",
            arguments=Recorded({"a": 1}),
            result=Recorded({"error": "code 51"}),
            error=CallError(kind="_OTHER", message="code 51"),
        )
    ]


def test_a_result_that_has_an_error_among_others_is_no_failure():
    assert tool({"a": 1}, '{"error": null, "sum": 3}') == [
        CallExecuted(name="add", arguments=Recorded({"a": 1}), result=Recorded({"error": None, "sum": 3}))
    ]


def test_a_question_to_a_person_about_a_call_is_no_call():
    found = read(
        "haystack.agent.hook.human_in_the_loop.strategy", haystack__tool__name="add", haystack__tool__call__id="1"
    )
    assert found == []


def test_one_span_for_all_calls_of_a_step_holds_their_answers():
    output = json.dumps({"tool_messages": [answer("3"), answer("no", error=True)], "state": {}})
    assert read(TOOL, **{f"{TOOL}.output": output}) == [
        CallAnswered(call_id="call_1", name="add", result=Recorded(3)),
        CallAnswered(call_id="call_1", name="add", result=Recorded("no"), error=CallError(kind="_OTHER", message="no")),
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
    assert read("haystack.component.run", haystack__component__output=answered) == [
        CallAnswered(call_id="call_1", name="add", result=Recorded(3))
    ]
