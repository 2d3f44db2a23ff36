"""Tool spans that deviate from the conventions: an attribute for each argument, and MCP's own key for the tool."""

import pytest

from tests.recognize.support import observations, self_metrics, span
from tests.rows import each_row
from toolgauge.dialects.genai import GenAI
from toolgauge.model.content import NOT_RECORDED, Content, Recorded
from toolgauge.model.json import Json, Value
from toolgauge.model.observations import CallError, CallExecuted
from toolgauge.recognize.recognizer import Recognizer

TOOL: dict[str, Value] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find_issue"}
MCP: dict[str, Value] = {"mcp.method.name": "tools/call", "mcp.tool.name": "kiwi__search_flight"}
ARGUMENT = "gen_ai.tool.call.arguments."


def executed(attributes: dict[str, Value], name: str = "span") -> CallExecuted:
    (found,) = observations(GenAI(), span(attributes, name=name))
    assert isinstance(found, CallExecuted)
    return found


@each_row(
    ("written", "arguments"),
    [
        # Sentry's MCP server.
        ({"organizationSlug": "acme", "limit": "10"}, Recorded({"organizationSlug": "acme", "limit": "10"})),
        (
            {"n": 10, "on": True, "ids": ["a", "b"], "q": {"x": 1}},
            Recorded({"n": 10, "on": True, "ids": ["a", "b"], "q": {"x": 1}}),
        ),
        ({"filter.status": "open", "body": '{"x": 1}'}, Recorded({"filter.status": "open", "body": '{"x": 1}'})),
        ({"size": 4, "q": "a"}, Recorded({"size": 4, "q": "a"})),
        ({"size": "4"}, Recorded({"size": "4"})),
        # Measures of arguments that were kept back.
        ({"size": 120, "truncated": False}, NOT_RECORDED),
        ({}, NOT_RECORDED),
    ],
)
def test_an_attribute_for_each_argument_is_read(written: dict[str, Value], arguments: Content):
    assert executed(TOOL | {ARGUMENT + key: value for key, value in written.items()}).arguments == arguments


def test_all_arguments_in_one_attribute_count_more():
    written: dict[str, Value] = {"gen_ai.tool.call.arguments": '{"q": "whole"}', ARGUMENT + "q": "one"}
    assert executed(TOOL | written).arguments == Recorded({"q": "whole"})


def test_the_mcp_integrations_of_sentry_write_json_text_for_each_argument():
    written: dict[str, Value] = {
        "mcp.request.argument.location": '"London"',
        "mcp.request.argument.days": "3",
        "mcp.request.argument.note": "no JSON",
    }
    assert executed(MCP | written).arguments == Recorded({"location": "London", "days": 3, "note": "no JSON"})


@each_row("whole", ["{}", "", {}])
def test_empty_arguments_in_one_attribute_hide_no_other(whole: Value):
    written: dict[str, Value] = {"gen_ai.tool.call.arguments": whole, "gen_ai.tool.call.result": "ok"}
    assert executed(TOOL | written).arguments == Recorded({})
    assert executed(TOOL | written | {ARGUMENT + "q": "one"}).arguments == Recorded({"q": "one"})
    assert executed(TOOL | written | {"mcp.request.argument.n": "3"}).arguments == Recorded({"n": 3})


def test_the_results_of_sentrys_mcp_integrations_are_read():
    # The Python SDK writes the blocks, the JavaScript SDK the text of one block, or of each under its number.
    result = "mcp.tool.result."
    blocks = '[{"type": "text", "text": "a"}]'
    assert executed(MCP | {result + "content": blocks}).result == Recorded([{"type": "text", "text": "a"}])
    assert executed(MCP | {result + "content": "found", result + "content_count": 1}).result == Recorded("found")
    numbered: dict[str, Value] = {result + "content_count": 2, result + "0.content": "a", result + "1.content": "b"}
    texts: Json = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert executed(MCP | numbered).result == Recorded(texts)
    assert executed(MCP | {result + "content_count": "0"}).result == NOT_RECORDED
    assert executed(MCP | {result + "content": "x", "gen_ai.tool.call.result": "y"}).result == Recorded("y")


@pytest.mark.parametrize("name", ["gen_ai.tool.name", "mcp.tool.name"])
def test_mcps_failure_flag_has_an_attribute_of_its_own(name: str):
    tool: dict[str, Value] = {"gen_ai.operation.name": "execute_tool", name: "find"}
    flag = "mcp.tool.result.is_error"
    assert executed(tool | {flag: True}).error == CallError(kind="_OTHER", message="")
    assert executed(tool | {flag: "true"}).error == CallError(kind="_OTHER", message="")
    assert executed(tool | {flag: False}).error is None
    assert executed(tool | {flag: True, "error.type": "timeout"}).error == CallError(kind="timeout", message="")


def test_a_span_that_names_an_mcp_tool_alone_is_a_call():
    found = span({"mcp.tool.name": "find", "mcp.session.id": "1"}, name="CallTool")
    assert GenAI().claims(found)
    assert observations(GenAI(), found) == [CallExecuted(name="find", protocol="mcp")]
    assert Recognizer([GenAI()], metrics=self_metrics()).read(found) is not None
    embedded = span({"mcp.tool.name": "find", "gen_ai.operation.name": "embeddings"})
    assert observations(GenAI(), embedded) == []


def test_keys_below_the_result_describe_it():
    assert executed(TOOL | {"gen_ai.tool.call.result.count": 3}).result == NOT_RECORDED


def test_mcp_has_a_key_of_its_own_for_the_tool():
    # Envoy's AI gateway, and a server whose span name has the tool too.
    assert executed(MCP, "CallTool") == CallExecuted(name="kiwi__search_flight", protocol="mcp")
    assert executed(MCP, "tools/call other").name == "kiwi__search_flight"
    assert executed(MCP | {"gen_ai.tool.name": "search"}).name == "search"
    listed: dict[str, Value] = {"mcp.method.name": "tools/list", "mcp.tool.name": "x"}
    assert observations(GenAI(), span(listed)) == []
