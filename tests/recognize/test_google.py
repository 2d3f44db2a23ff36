"""Google ADK and what older versions of it wrote, and Genkit in the forms of its JavaScript and its Go package."""

import json
from collections.abc import Mapping

import pytest

from tests.recognize.support import event, log, observations, other_error, span
from tests.rows import each_row
from toolgauge.dialects.cloud_vendors import Genkit, GoogleAdk
from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.json import Json, Value
from toolgauge.model.observations import (
    AgentRun,
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
    MessageSeen,
    ModelCall,
    Observation,
    ToolDefinition,
    ToolsOffered,
)
from toolgauge.model.records import StatusCode

# -- Google ADK

ADK = "gcp.vertex.agent"
TOOL: dict[str, Value] = {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "get_weather",
    "gen_ai.tool.call.id": "call_1",
}


def tool(**attributes: Value) -> CallExecuted:
    found = observations(GoogleAdk(), span({**TOOL, **attributes}, name="execute_tool get_weather", scope=ADK))
    assert len(found) == 1
    assert isinstance(found[0], CallExecuted)
    return found[0]


def llm(request: Json = None, response: Json = None) -> list[Observation]:
    attributes: dict[str, Value] = {"gcp.vertex.agent.event_id": "e"}
    if request is not None:
        attributes["gcp.vertex.agent.llm_request"] = json.dumps(request)
    if response is not None:
        attributes["gcp.vertex.agent.llm_response"] = json.dumps(response)
    return observations(GoogleAdk(), span(attributes, name="call_llm", scope=ADK))


@each_row(
    ("arguments", "result", "read"),
    [
        ('{"city": "Lima"}', '{"result": 7}', (Recorded({"city": "Lima"}), Recorded({"result": 7}))),
        ("{}", '{"ok": true}', (Recorded({}), Recorded({"ok": True}))),
        # Content switched off: both are empty objects, and nothing is known.
        ("{}", "{}", (NOT_RECORDED, NOT_RECORDED)),
        ("N/A", "<not serializable>", (NOT_RECORDED, NOT_RECORDED)),
        ('{"city": ', '{"result": "<not specified>"}', (Unparsed('{"city": '), NOT_RECORDED)),
        (None, None, (NOT_RECORDED, NOT_RECORDED)),
    ],
)
def test_placeholders_are_no_values(arguments: str | None, result: str | None, read: tuple[Content, Content]):
    attributes: dict[str, Value] = {}
    if arguments is not None:
        attributes["gcp.vertex.agent.tool_call_args"] = arguments
    if result is not None:
        attributes["gcp.vertex.agent.tool_response"] = result
    found = tool(**attributes)
    assert (found.arguments, found.result) == read


@pytest.mark.parametrize("key", ["gcp.vertex.agent.tool_response", "gen_ai.tool.call.result"])
def test_an_error_in_place_of_a_result_is_a_failure_though_the_span_went_well(key: str):
    message = "Invoking `get_weather()` failed as the following mandatory input parameters are not present:\ncity"
    found = tool(**{key: json.dumps({"error": message})})
    assert found.error == other_error(message)
    assert tool(**{key: '{"error": "", "city": "Lima"}'}).error is None
    assert tool(**{key: '{"error": null}'}).error is None


def test_a_call_without_args_has_no_arguments_and_thoughts_are_no_text():
    parts: Json = [{"text": "hm", "thought": True}, {"function_call": {"name": "now"}}, {"text": "Wait."}]
    assert llm(response={"content": {"role": "model", "parts": parts}})[1:] == [
        CallRequested(position=0, name="now", arguments=Recorded({})),
        MessageSeen(role="assistant", text="Wait."),
    ]


def test_googles_schemas_become_json_schema():
    declared: Json = {
        "name": "book",
        "parameters": {
            "type": "OBJECT",
            "properties": {
                "when": {"type": "STRING", "nullable": True, "max_length": "10"},
                "who": {"type": "ARRAY", "items": {"any_of": [{"type": "STRING"}, {"type": "INTEGER"}]}},
            },
            "required": ["when"],
            "property_ordering": ["when", "who"],
        },
    }
    tools: Json = [{"function_declarations": [declared]}, {"google_search": {}}]
    assert llm(request={"config": {"tools": tools}})[1:] == [
        ToolsOffered(
            tools=(
                ToolDefinition(
                    name="book",
                    parameters={
                        "type": "object",
                        "properties": {
                            "when": {"type": ["string", "null"], "maxLength": 10},
                            "who": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
                        },
                        "required": ["when"],
                    },
                ),
            )
        )
    ]


def test_log_events_with_googles_contents_are_read():
    call: Json = {"function_call": {"id": "c1", "name": "get_user", "args": {"user_id": 7}}}
    choice = log("gen_ai.choice", body={"index": 0, "content": {"role": "model", "parts": [call]}}, scope=ADK)
    assert observations(GoogleAdk(), choice) == [
        CallRequested(position=0, name="get_user", call_id="c1", arguments=Recorded({"user_id": 7}))
    ]
    answer: Json = {"function_response": {"id": "c1", "name": "get_user", "response": {"name": "Zoë"}}}
    history = log("gen_ai.user.message", body={"content": {"role": "user", "parts": [answer]}}, scope=ADK)
    assert observations(GoogleAdk(), history) == [
        CallAnswered(call_id="c1", name="get_user", result=Recorded({"name": "Zoë"}))
    ]


def test_an_agents_run_was_a_name_alone_once():
    assert observations(GoogleAdk(), span({}, name="agent_run [weather_agent]", scope=ADK)) == [
        AgentRun(agent="weather_agent")
    ]


def test_a_schema_without_end_is_cut_off():
    schema: Json = {"type": "OBJECT"}
    for _ in range(40):
        schema = {"type": "OBJECT", "properties": {"x": schema}}
    found = llm(request={"config": {"tools": [{"function_declarations": [{"name": "f", "parameters": schema}]}]}})
    assert isinstance(found[1], ToolsOffered)
    assert json.dumps(found[1].tools[0].parameters).count("properties") == 20


# -- Genkit

SCHEMA: Json = {"type": "object", "properties": {"city": {"type": "string"}}}


def genkit(**attributes: Value) -> list[Observation]:
    return failed_genkit("unset", "", attributes)


def failed_genkit(status: StatusCode, message: str, attributes: Mapping[str, Value]) -> list[Observation]:
    named = {f"genkit:{key.replace('__', ':')}": value for key, value in attributes.items()}
    failed = [event("exception", {"exception.type": "TimeoutError", "exception.message": message})] if message else []
    made = span(named, name="get_weather", scope="genkit-tracer", status=status, status_message=message, events=failed)
    return observations(Genkit(), made)


def model(given: Json, output: Json) -> list[Observation]:
    return genkit(
        type="action", metadata__subtype="model", name="m", input=json.dumps(given), output=json.dumps(output)
    )


def request(name: str, ref: str | None, **given: Json) -> Json:
    made: dict[str, Json] = {"name": name, "input": given}
    return {"toolRequest": made | ({"ref": ref} if ref else {})}


def written(*parts: Json) -> Json:
    return {"role": "model", "content": list(parts)}


def test_the_result_of_a_multipart_tool_is_inside_its_output():
    attributes: dict[str, Value] = {"type": "action", "metadata__subtype": "tool.v2", "name": "add", "input": "{}"}
    assert genkit(**attributes, output='{"output":{"sum":3}}') == [
        CallExecuted(name="add", arguments=Recorded({}), result=Recorded({"sum": 3}))
    ]
    assert genkit(**attributes, output='{"output":3,"rest":1}') == [
        CallExecuted(name="add", arguments=Recorded({}), result=Recorded({"output": 3, "rest": 1}))
    ]


def test_a_tool_that_raised_has_its_error():
    attributes: dict[str, Value] = {"type": "action", "metadata__subtype": "tool", "name": "add", "state": "error"}
    raised = CallExecuted(name="add", error=CallError(kind="TimeoutError", message="no answer"))
    assert failed_genkit("error", "no answer", attributes) == [raised]
    # Not every exporter keeps status and events.
    assert genkit(**attributes) == [CallExecuted(name="add", error=other_error(""))]


def test_a_models_calls_offers_and_messages_are_read():
    given: Json = {
        "messages": [
            {"role": "system", "content": [{"text": "Be brief."}]},
            {"role": "user", "content": [{"text": "Hello"}]},
            written(request("get_weather", "c1", city="Oslo")),
            {"role": "tool", "content": [{"toolResponse": {"name": "get_weather", "ref": "c1", "output": {"t": 3}}}]},
            {"role": "user", "content": [{"text": "And Rome?"}, {"media": {"url": "data:"}}]},
        ],
        "tools": [{"name": "get_weather", "description": "Weather", "inputSchema": SCHEMA, "outputSchema": {}}],
    }
    output: Json = {
        "message": written({"text": "Let me look."}, request("get_weather", None, city="Rome"), request("add", "c3")),
        "usage": {"inputTokens": 40, "outputTokens": 12, "inputCharacters": 99},
    }
    assert model(given, output) == [
        ModelCall(stopped_for_tools=True, input_tokens=40, output_tokens=12),
        ToolsOffered(
            tools=(
                ToolDefinition(
                    name="get_weather",
                    description="Weather",
                    parameters={"type": "object", "properties": {"city": {"type": "string"}}},
                ),
            )
        ),
        MessageSeen(role="system", text="Be brief."),
        CallAnswered(call_id="c1", name="get_weather", result=Recorded({"t": 3})),
        MessageSeen(role="user", text="And Rome?", follows=True, has_media=True),
        CallRequested(position=0, name="get_weather", arguments=Recorded({"city": "Rome"})),
        CallRequested(position=1, name="add", call_id="c3", arguments=Recorded({})),
        MessageSeen(role="assistant", text="Let me look."),
    ]


def test_the_first_candidate_of_early_releases_is_the_output():
    read_calls = model({}, {"candidates": [{"message": written(request("add", None, a=1))}, {"message": written()}]})
    assert read_calls[1:] == [CallRequested(position=0, name="add", arguments=Recorded({"a": 1}))]


def test_generate_is_a_run_where_it_is_no_turn_of_one():
    def generate(path: str) -> list[Observation]:
        return genkit(type="util", name="generate", path=path, output='{"message":{"content":[]}}')

    assert generate("/{generate,t:util}") == [AgentRun(agent=None)]
    assert generate("/{generate,t:util}/{generate,t:util}") == []
    assert generate("/{support,t:flow}/{generate,t:util}") == []
    assert generate("/{support,t:flow}/{generate,t:util}/{flights,t:action}/{generate,t:util}") == [
        AgentRun(agent="flights")
    ]
