"""Pydantic AI: format 2 as 2.68.0 writes it, and what the releases before it wrote."""

import json

from tests.recognize.support import observations, recorded, span
from toolgauge.dialects.python_frameworks import PydanticAI
from toolgauge.model.content import Recorded, Unparsed
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

SCOPE = "pydantic-ai"


def read(attributes: dict[str, Value], name: str = "span", status: StatusCode = "unset") -> list[Observation]:
    return observations(PydanticAI(), span(attributes, name=name, scope=SCOPE, status=status))


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
    assert read(
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
    assert read({"agent_name": "a"}, name="agent run") == [AgentRun(agent="a")]
    assert read({"gen_ai.tool.name": "f", "tool_arguments": '{"a": '}, name="running tool") == [
        CallExecuted(name="f", arguments=Unparsed('{"a": '))
    ]


def test_a_failed_call_keeps_what_the_model_was_told():
    told: dict[str, Value] = {"gen_ai.tool.name": "f", "tool_arguments": "{}", "tool_response": "Fix it."}
    assert read(told, name="running tool", status="error") == [
        CallExecuted(
            name="f",
            arguments=Recorded({}),
            result=Recorded("Fix it."),
            error=CallError(kind="_OTHER", message=""),
        )
    ]
