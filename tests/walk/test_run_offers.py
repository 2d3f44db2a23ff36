"""Each agent run is judged by its own offer, in every dialect: a manager never by that of its worker."""

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans

from tests.walk.shapes import ERROR, Attributes, asked, chat, evaluated, span, tool
from toolgauge.model.json import Json, JsonObject

SMOLAGENTS = "openinference.instrumentation.smolagents"
ANY: JsonObject = {"answer": {"type": "any", "description": "The final answer"}}


def outcomes(criterion: str, *spans: ScopeSpans) -> list[tuple[str, str, str | None]]:
    (one,) = evaluated(*spans)
    results = one.of(f"default.{criterion}")
    return [("" if each.call is None else each.call.name, each.outcome, each.reason) for each in results]


# -- smolagents


def agent(id: str, *tools: str, managed: tuple[str, ...] = (), parent: str | None = None, name: str = "CodeAgent.run"):
    task = f"You're a helpful agent named '{id}'.\nYou have been submitted this task by your manager.\n---\nTask:\nfind\n---\n"
    attributes: dict[str, Json] = {
        "openinference.span.kind": "AGENT",
        "input.value": {"task": "go" if parent is None else task},
        "output.value": "done",
    }
    if tools:
        attributes["smolagents.tools_names"] = list(tools)
    attributes |= {f"smolagents.managed_agents.{number}.name": each for number, each in enumerate(managed)}
    return span(name, attributes, id=id, scope=SMOLAGENTS, parent=parent, at=0 if parent is None else 2, seconds=50)


def ran(name: str, arguments: Json, parameters: Json, *, parent: str, at: float, result: str | None = "ok"):
    attributes: dict[str, Json] = {
        "openinference.span.kind": "TOOL",
        "tool.name": name,
        "tool.parameters": parameters,
        "input.value": {"args": [], "kwargs": arguments},
    }
    if result is None:
        raised = ("TypeError", "no")
        return span(
            name, attributes, id=f"{name}{at}", scope=SMOLAGENTS, parent=parent, at=at, status=ERROR, exception=raised
        )
    return span(name, {**attributes, "output.value": result}, id=f"{name}{at}", scope=SMOLAGENTS, parent=parent, at=at)


def model(*tools: Json, parent: str, at: float):
    attributes: dict[str, Json] = {f"llm.tools.{n}.tool.json_schema": tool for n, tool in enumerate(tools)}
    attributes["openinference.span.kind"] = "LLM"
    return span("LiteLLMModel.__call__", attributes, id=f"llm{parent}{at}", scope=SMOLAGENTS, parent=parent, at=at)


def function(name: str, properties: JsonObject) -> JsonObject:
    schema: JsonObject = {"type": "object", "properties": properties, "required": list(properties)}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


FINAL_TEXT = function("final_answer", {"answer": {"type": "string"}})
WORKER = (
    agent("search_agent", "web_search", "final_answer", parent="boss", name="ToolCallingAgent.run"),
    model(FINAL_TEXT, parent="search_agent", at=3),
    ran("web_search", {"query": "q"}, {"query": {"type": "string"}}, parent="search_agent", at=4),
)


def test_a_manager_and_its_worker_each_have_their_own_offer():
    boss = agent("boss", "inspect_file", "final_answer", managed=("search_agent",))
    missing = ran("web_search", {"query": "q"}, {"query": {"type": "string"}}, parent="boss", at=60, result=None)
    final = ran("final_answer", {"answer": 185}, ANY, parent="boss", at=70)
    assert outcomes("known_tool", boss, *WORKER, missing, final) == [
        ("search_agent", "pass", None),
        ("web_search", "pass", None),
        ("web_search", "fail", None),
        ("final_answer", "pass", None),
    ]


@pytest.mark.parametrize("answer", [185, "185", [1, 2], {"a": None}, None, True])
def test_the_tools_own_span_decides_about_any_answer(answer: Json):
    final = ran("final_answer", {"answer": answer}, ANY, parent="boss", at=70)
    judged = outcomes("arguments_schema", agent("boss", "final_answer"), *WORKER, final)
    assert judged[-1] == ("final_answer", "pass", None)


def test_a_call_is_never_judged_by_the_schema_of_another_run():
    final = ran("final_answer", {"answer": 185}, "", parent="boss", at=70)
    judged = outcomes("arguments_schema", agent("boss", "final_answer"), *WORKER, final)
    assert judged[-1] == ("final_answer", "not_evaluated", "no_schema")


# -- the conventions


def invoke(agent: str | None, id: str, *, parent: str | None, at: float = 0, tools: Json = None) -> ScopeSpans:
    attributes: dict[str, Json] = {"gen_ai.operation.name": "invoke_agent"}
    if agent is not None:
        attributes["gen_ai.agent.name"] = agent
    if tools is not None:
        attributes["gen_ai.tool.definitions"] = tools
    return span("invoke_agent", attributes, id=id, parent=parent, at=at, seconds=60 - at)


def execute(name: str, call: str, *, parent: str | None, at: float) -> ScopeSpans:
    failed: Attributes = {"error.type": "ToolError"}
    return tool(name, call=call, id=call, parent=parent, at=at, seconds=50 - at, status=ERROR, more=failed)


FIND: list[Json] = [{"type": "function", "name": "find"}]


def test_a_manager_without_a_span_of_its_own_is_not_judged_by_the_agent_that_its_tool_runs():
    judged = outcomes(
        "known_tool",
        chat(asked("c1", "ask_helper"), id="m1", parent=None, at=1),
        execute("ask_helper", "c1", parent=None, at=2),
        invoke("helper", "sub", parent="c1", at=3),
        chat(asked("c3", "find"), id="m2", parent="sub", at=4, tools=FIND),
    )
    assert judged == [("ask_helper", "not_evaluated", "no_tool_offer"), ("find", "pass", None)]
