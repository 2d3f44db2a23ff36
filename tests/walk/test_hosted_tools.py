"""Calls of tools that the model's provider runs, in the ways in which producers mark them; offers that grow; tools that take text."""

import json

import pytest

from tests.walk.shapes import asked, call_of, chat, evaluated, run, span, tool, trajectory_of
from toolgauge.model.content import NOT_RECORDED, Recorded, Unparsed
from toolgauge.model.json import Json

OFFER: list[Json] = [{"type": "function", "name": "book", "parameters": {"type": "object"}}]
OI_OPENAI, OI_ANTHROPIC = "openinference.instrumentation.openai", "openinference.instrumentation.anthropic"


def openinference(response: Json, *calls: tuple[str, str, Json], scope: str):
    """Return a model's span with the flattened calls and the provider's response."""
    attributes: dict[str, Json] = {"openinference.span.kind": "LLM", "output.value": json.dumps(response)}
    for number, (call_id, name, arguments) in enumerate(calls):
        prefix = f"llm.output_messages.0.message.tool_calls.{number}.tool_call."
        attributes[prefix + "id"], attributes[prefix + "function.name"] = call_id, name
        attributes[prefix + "function.arguments"] = json.dumps(arguments)
    attributes["llm.tools.0.tool.json_schema"] = json.dumps(OFFER[0])
    return span("llm", attributes, id="llm", scope=scope)


SHAPES = {
    "conventions": chat(
        {"type": "server_tool_call", "id": "s1", "name": "web_search", "server_tool_call": {"type": "x", "query": "q"}},
        {"type": "server_tool_call_response", "id": "s1", "server_tool_call_response": {"found": 1}},
        tools=OFFER,
    ),
    "pydantic ai": chat(
        {**asked("s1", "web_search", {"query": "q"}), "builtin": True},
        {"type": "tool_call_response", "id": "s1", "result": {"found": 1}, "builtin": True},
        tools=OFFER,
    ),
    "anthropic through openinference": openinference(
        {
            "role": "assistant",
            "content": [
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
                {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": {"found": 1}},
            ],
        },
        ("srvtoolu_1", "web_search", {"query": "q"}),
        scope=OI_ANTHROPIC,
    ),
    "openai through openinference": openinference(
        {
            "output": [
                {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["q"], "results": [1]},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]},
            ]
        },
        ("fs_1", "file_search_call", {}),
        scope=OI_OPENAI,
    ),
    "hosted mcp": openinference(
        {
            "output": [
                {"type": "mcp_list_tools", "id": "mcpl_1", "server_label": "crm", "tools": []},
                {"type": "mcp_call", "id": "mcp_1", "name": "find", "arguments": '{"id": 1}', "output": '{"found": 1}'},
            ]
        },
        scope=OI_OPENAI,
    ),
    "langchain through traceloop": chat(
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": {"found": 1}},
        tools=OFFER,
        scope="opentelemetry.instrumentation.anthropic",
    ),
    "only its id tells": chat(asked("srvtoolu_1", "web_search", {"query": "q"}), tools=OFFER),
}


# What was asked and found, where it is recorded.
SEARCHED: dict[str, tuple[Json, Json]] = {
    **dict.fromkeys(SHAPES, ({"query": "q"}, {"found": 1})),
    "openai through openinference": ({"queries": ["q"]}, [1]),
    "hosted mcp": ({"id": 1}, {"found": 1}),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_call_that_the_provider_ran_is_executed_and_no_invention(shape: str):
    # Another tool has a span, so that one without a span would be taken for one that never ran.
    (one,) = evaluated(run(), SHAPES[shape], tool("book", {}, call="b", result="ok", at=5))
    hosted, _ = one.trajectory.calls
    assert (hosted.state, hosted.by_provider, hosted.error) == ("executed", True, None)
    assert not [result for result in one.results if result.outcome == "fail"]
    asked_for, found = SEARCHED[shape]
    assert hosted.arguments == Recorded(asked_for)
    assert hosted.result == (NOT_RECORDED if shape == "only its id tells" else Recorded(found))


def test_an_error_in_place_of_a_hosted_result_is_a_failure():
    error: Json = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
    call = call_of(
        run(),
        chat(
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": error},
        ),
    )
    assert call.error is not None
    assert (call.state, call.error.kind) == ("executed", "unavailable")


@pytest.mark.parametrize(
    "given",
    [
        asked("c1", "apply_patch", "*** Begin Patch"),
        {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": '{"not": json'},
    ],
)
def test_free_text_of_a_custom_tool_is_no_broken_json(given: Json):
    custom: list[Json] = [{"type": "custom", "name": "apply_patch", "format": {"type": "text"}}]
    (one,) = evaluated(run(), chat(given, tools=custom))
    (call,) = one.trajectory.calls
    assert (call.state, isinstance(call.arguments, (Recorded, Unparsed))) == ("requested_only", True)
    reasons = {result.criterion: result.reason for result in one.results if result.call is not None}
    assert reasons["default.arguments_schema"] == "no_schema"
    assert reasons["default.tool_success"] == "results_not_recorded"


@pytest.mark.parametrize("scope", ["my.agent", "opentelemetry.instrumentation.anthropic"])
def test_two_json_values_in_a_row_are_calls_that_the_recorder_joined(scope: str):
    (one,) = evaluated(run(), chat(asked("c1", "get_time", '{"city": "Graz"}{"zone": "CET"}'), scope=scope))
    (call,) = one.trajectory.calls
    assert (call.state, call.arguments) == ("requested_only", Unparsed('{"city": "Graz"}{"zone": "CET"}'))
    reasons = {result.criterion: result.reason for result in one.results if result.call is not None}
    assert reasons["default.arguments_schema"] == "unparsable"


def test_joined_calls_are_told_apart_by_the_spans_of_their_tools():
    trajectory = trajectory_of(
        run(),
        chat(asked("c2", "get_time", '{"city": "Graz"}{"zone": "CET"}')),
        tool("get_weather", {"city": "Graz"}, call="c1", result=1, at=2),
        tool("get_time", {"zone": "CET"}, call="c2", result=2, at=3),
    )
    assert {call.name: call.arguments for call in trajectory.calls} == {
        "get_weather": Recorded({"city": "Graz"}),
        "get_time": Recorded({"zone": "CET"}),
    }
