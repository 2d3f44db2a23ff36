"""OpenLIT 1.45.0 on LangGraph: spans, and log records with structured values."""

import json

from tests.recognize.support import log, observations, span
from tests.rows import each_row
from toolgauge.dialects.genai import OpenLit
from toolgauge.model.content import NOT_RECORDED, Recorded, Unparsed
from toolgauge.model.json import JsonObject, Value
from toolgauge.model.observations import AgentRun, CallExecuted, CallRequested, ModelCall

LANGCHAIN = "openlit.instrumentation.langchain"
RUN_ID = "01a1fbd1-f830-73a0-8a71-b1f875b3eec4"
TOOL: dict[str, Value] = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "f"}
INVOKE: dict[str, Value] = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"}


def test_history_tells_the_newest_turn_and_what_langchain_could_not_parse():
    invalid = "[{'name': 'f', 'args': '{\"a\": ', 'id': 'c%d', 'error': 'x', 'type': 'invalid_tool_call'}]"
    written = "content='' response_metadata={'a': 1} tool_calls=[] invalid_tool_calls="
    messages = [
        "content='first' additional_kwargs={} response_metadata={} id='1'",
        written + invalid % 1,
        "content='second' additional_kwargs={} response_metadata={} id='2'",
        written + invalid % 2,
        written + invalid % 3,
    ]
    record = span({**INVOKE, "gen_ai.workflow.output": json.dumps({"messages": messages})}, scope=LANGCHAIN)
    assert observations(OpenLit(), record) == [
        AgentRun(agent="shop"),
        CallRequested(position=0, name="f", call_id="c2", arguments=Unparsed('{"a": '), usable=False),
        CallRequested(position=1, name="f", call_id="c3", arguments=Unparsed('{"a": '), usable=False),
    ]


@each_row(
    ("scope", "status", "attributes", "expected"),
    [
        (LANGCHAIN, "error", {"gen_ai.tool.call.id": RUN_ID}, None),
        (LANGCHAIN, "error", {"gen_ai.tool.call.id": "call_1"}, "call_1"),
        # Some models' ids are of this form as well; nothing says that this one is not.
        (LANGCHAIN, "ok", {"gen_ai.tool.call.id": RUN_ID}, RUN_ID),
        (LANGCHAIN, "ok", {"gen_ai.tool.call.id": RUN_ID, "gen_ai.tool.call.result": "plain"}, None),
        ("openlit.instrumentation.crewai", "error", {"gen_ai.tool.call.id": RUN_ID}, RUN_ID),
    ],
)
def test_run_id_is_plainly_claimed_from_a_call_id(
    scope: str, status: str, attributes: dict[str, Value], expected: str | None
):
    record = span({**TOOL, **attributes}, scope=scope, status="error" if status == "error" else "ok")
    (call,) = observations(OpenLit(), record)
    assert isinstance(call, CallExecuted)
    assert call.call_id == expected


def test_names_of_earlier_releases_are_read():
    record = span(
        {**TOOL, "gen_ai.tool.args": "{'a': 1}", "gen_ai.tool.output": "done"}, scope="openlit.instrumentation.agno"
    )
    assert observations(OpenLit(), record) == [
        CallExecuted(name="f", arguments=Recorded({"a": 1}), result=Recorded("done"))
    ]


def test_without_messages_the_names_of_the_requested_calls_are_left():
    chat: dict[str, Value] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.tool.name": "f, g",
        "gen_ai.tool.call.id": "c1, c2",
        "gen_ai.tool.call.arguments": '{"a": 1}, {}',
    }
    assert observations(OpenLit(), span(chat, scope=LANGCHAIN)) == [
        ModelCall(),
        CallRequested(position=0, name="f", call_id="c1", arguments=NOT_RECORDED),
        CallRequested(position=1, name="g", call_id="c2", arguments=NOT_RECORDED),
    ]


def test_only_records_of_openlit_are_claimed():
    assert not OpenLit().claims(span(TOOL, scope="pydantic-ai"))
    assert OpenLit().claims(span({**TOOL, "telemetry.sdk.name": "openlit"}, scope="app"))
    assert not OpenLit().claims(span({"http.method": "GET"}, scope=LANGCHAIN))
    assert OpenLit().claims(log("gen_ai.client.inference.operation.details", scope=LANGCHAIN))
    assert not OpenLit().claims(log("gen_ai.client.inference.operation.details", scope="other"))


@each_row(("name", "expected"), [("shop", "shop"), ("LangGraph", None), (None, None), (3, None)])
def test_workflow_is_a_run_of_the_agent_that_somebody_named(name: Value, expected: str | None):
    record = span(
        {"gen_ai.operation.name": "invoke_workflow", "gen_ai.workflow.name": name},
        name="invoke_workflow",
        scope=LANGCHAIN,
    )
    assert observations(OpenLit(), record) == [AgentRun(agent=expected)]


def test_graph_that_failed_has_a_span_without_attributes():
    record = span({}, name="invoke_workflow shop", scope="openlit.instrumentation.langgraph", status="error")
    assert observations(OpenLit(), record) == [AgentRun(agent="shop")]


@each_row("arguments", [{"raw": "text"}, {"raw": '{"a": 1}'}, {"raw": "{", "more": 1}, {"raw": 1}])
def test_argument_that_is_really_called_raw_stays(arguments: JsonObject):
    message = {"role": "assistant", "parts": [{"type": "tool_call", "id": "c1", "name": "f", "arguments": arguments}]}
    attributes: dict[str, Value] = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps([message])}
    found = observations(OpenLit(), span(attributes, scope="openlit.instrumentation.openai"))
    assert CallRequested(position=0, name="f", call_id="c1", arguments=Recorded(arguments)) in found
