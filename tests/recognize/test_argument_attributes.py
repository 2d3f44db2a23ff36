"""Tool spans that deviate from the conventions: an attribute for each argument, and MCP's own key for the tool."""

import pytest

from tests.recognize.support import observations, span
from toolgauge.dialects.genai import GenAI
from toolgauge.model.content import NOT_RECORDED, Content, Recorded
from toolgauge.model.json import Value
from toolgauge.model.observations import CallExecuted

TOOL: dict[str, Value] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find_issue"}
MCP: dict[str, Value] = {"mcp.method.name": "tools/call", "mcp.tool.name": "kiwi__search_flight"}
ARGUMENT = "gen_ai.tool.call.arguments."


def executed(attributes: dict[str, Value], name: str = "span") -> CallExecuted:
    (found,) = observations(GenAI(), span(attributes, name=name))
    assert isinstance(found, CallExecuted)
    return found


@pytest.mark.parametrize(
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


def test_keys_below_the_result_describe_it():
    assert executed(TOOL | {"gen_ai.tool.call.result.count": 3}).result == NOT_RECORDED


def test_mcp_has_a_key_of_its_own_for_the_tool():
    # Envoy's AI gateway, and a server whose span name has the tool too.
    assert executed(MCP, "CallTool") == CallExecuted(name="kiwi__search_flight", protocol="mcp")
    assert executed(MCP, "tools/call other").name == "kiwi__search_flight"
    assert executed(MCP | {"gen_ai.tool.name": "search"}).name == "search"
    listed: dict[str, Value] = {"mcp.method.name": "tools/list", "mcp.tool.name": "x"}
    assert observations(GenAI(), span(listed)) == []
