"""Genkit's own spans, in the forms of its JavaScript and its Go package."""

import json
from collections.abc import Mapping

from tests.recognize.support import event, observations, span
from toolgauge.dialects.google import Genkit
from toolgauge.model.content import Recorded
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
from toolgauge.model.records import StatusCode

SCHEMA: Json = {"type": "object", "properties": {"city": {"type": "string"}}}


def read(**attributes: Value) -> list[Observation]:
    return read_failed("unset", "", attributes)


def read_failed(status: StatusCode, message: str, attributes: Mapping[str, Value]) -> list[Observation]:
    named = {f"genkit:{key.replace('__', ':')}": value for key, value in attributes.items()}
    failed = [event("exception", {"exception.type": "TimeoutError", "exception.message": message})] if message else []
    made = span(named, name="get_weather", scope="genkit-tracer", status=status, status_message=message, events=failed)
    return observations(Genkit(), made)


def model(given: Json, output: Json) -> list[Observation]:
    return read(type="action", metadata__subtype="model", name="m", input=json.dumps(given), output=json.dumps(output))


def request(name: str, ref: str | None, **given: Json) -> Json:
    made: dict[str, Json] = {"name": name, "input": given}
    return {"toolRequest": made | ({"ref": ref} if ref else {})}


def written(*parts: Json) -> Json:
    return {"role": "model", "content": list(parts)}


def test_the_result_of_a_multipart_tool_is_inside_its_output():
    attributes: dict[str, Value] = {"type": "action", "metadata__subtype": "tool.v2", "name": "add", "input": "{}"}
    assert read(**attributes, output='{"output":{"sum":3}}') == [
        CallExecuted(name="add", arguments=Recorded({}), result=Recorded({"sum": 3}))
    ]
    assert read(**attributes, output='{"output":3,"rest":1}') == [
        CallExecuted(name="add", arguments=Recorded({}), result=Recorded({"output": 3, "rest": 1}))
    ]


def test_a_tool_that_raised_has_its_error():
    attributes: dict[str, Value] = {"type": "action", "metadata__subtype": "tool", "name": "add", "state": "error"}
    raised = CallExecuted(name="add", error=CallError(kind="TimeoutError", message="no answer"))
    assert read_failed("error", "no answer", attributes) == [raised]
    # Not every exporter keeps status and events.
    assert read(**attributes) == [CallExecuted(name="add", error=CallError(kind="_OTHER", message=""))]


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
        CallRequested(position=0, name="get_weather", arguments=Recorded({"city": "Rome"})),
        CallRequested(position=1, name="add", call_id="c3", arguments=Recorded({})),
        MessageSeen(role="assistant", text="Let me look."),
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
    ]


def test_the_first_candidate_of_early_releases_is_the_output():
    read_calls = model({}, {"candidates": [{"message": written(request("add", None, a=1))}, {"message": written()}]})
    assert read_calls[1:] == [CallRequested(position=0, name="add", arguments=Recorded({"a": 1}))]


def test_a_flow_is_a_run_and_its_text_is_the_users():
    assert read(type="action", metadata__subtype="flow", name="support", input='"Help me"', sessionId="s1") == [
        ConversationSeen(conversation_id="s1", rank=2),
        AgentRun(agent="support"),
        MessageSeen(role="user", text="Help me"),
    ]


def test_generate_is_a_run_where_it_is_no_turn_of_one():
    def generate(path: str) -> list[Observation]:
        return read(type="util", name="generate", path=path, output='{"message":{"content":[]}}')

    assert generate("/{generate,t:util}") == [AgentRun(agent=None)]
    assert generate("/{generate,t:util}/{generate,t:util}") == []
    assert generate("/{support,t:flow}/{generate,t:util}") == []
    assert generate("/{support,t:flow}/{generate,t:util}/{flights,t:action}/{generate,t:util}") == [
        AgentRun(agent="flights")
    ]
