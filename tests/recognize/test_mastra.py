"""Mastra's spans: the conventions with what the conventions' attributes lack beside them."""

import json

from tests.recognize.support import observations, span
from toolgauge.dialects.javascript_frameworks import Mastra
from toolgauge.model.content import NOT_RECORDED, Recorded, Unparsed
from toolgauge.model.json import Json, Value
from toolgauge.model.observations import (
    CallError,
    CallExecuted,
    CallRequested,
    Observation,
)


def read(kind: str, **attributes: Value) -> list[Observation]:
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    return observations(Mastra(), span({"mastra.span.type": kind, **named}, scope="@mastra/otel-exporter"))


def step(*calls: Json, body: Json = None) -> list[Observation]:
    return read(
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


def test_arguments_that_could_not_be_parsed_are_taken_from_the_providers_answer():
    body: Json = {"choices": [{"message": {"tool_calls": [{"id": "c1", "function": {"arguments": '{"a": '}}]}}]}
    assert step(called({}), body=body) == [
        CallRequested(position=0, name="add", call_id="c1", arguments=Unparsed('{"a": '))
    ]


def test_arguments_that_the_schema_does_not_allow_never_reached_the_tool():
    refused: Json = {
        "error": True,
        "message": "Tool input validation failed for add.",
        "validationErrors": {"errors": []},
    }
    attributes: dict[str, Value] = {
        "gen_ai__tool__name": "add",
        "gen_ai__tool__call__arguments": '{"b":1}',
        "gen_ai__tool__call__result": json.dumps(refused),
    }
    error = CallError(kind="invalid_arguments", message="Tool input validation failed for add.")
    result = Recorded({"error": True, "message": error.message, "validationErrors": {"errors": []}})
    assert read("tool_call", **attributes) == [
        CallExecuted(name="add", arguments=Recorded({"b": 1}), result=result, error=error)
    ]
    attributes["gen_ai__tool__call__arguments"] = "{}"
    assert read("tool_call", **attributes) == [
        CallExecuted(name="add", arguments=NOT_RECORDED, result=result, error=error)
    ]


def test_a_tools_own_answer_of_an_error_is_its_result():
    answer = {"error": True, "message": "sold out"}
    assert read("tool_call", gen_ai__tool__name="add", gen_ai__tool__call__result=json.dumps(answer)) == [
        CallExecuted(name="add", result=Recorded({"error": True, "message": "sold out"}))
    ]
