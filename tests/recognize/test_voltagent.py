"""VoltAgent's own spans."""

from tests.recognize.support import observations, recorded, seen, span
from toolgauge.dialects.javascript_frameworks import VoltAgent
from toolgauge.model.content import Recorded
from toolgauge.model.json import Value
from toolgauge.model.observations import (
    AgentRun,
    CallError,
    CallExecuted,
    ConversationSeen,
    MessageSeen,
    ModelCall,
    Observation,
    ToolDefinition,
    ToolsOffered,
)


def read(name: str, **attributes: Value) -> list[Observation]:
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    return observations(VoltAgent(), span({"entity.type": "agent", **named}, name=name, scope="@voltagent/core"))


def test_a_run_has_agent_conversation_texts_and_tools():
    assert read(
        "support",
        entity__name="support",
        conversation__id="c1",
        input="Hello",
        output="Hi!",
        agent__messages='[{"role":"system","content":"Be brief."},{"role":"user","content":"Hello"}]',
        agent__stateSnapshot='{"tools":[{"name":"add","description":"Adds","parameters":{"def":{}}},{"id":"x"}]}',
    ) == [
        ConversationSeen(conversation_id="c1", rank=2),
        AgentRun(agent="support"),
        MessageSeen(role="system", text="Be brief."),
        MessageSeen(role="user", text="Hello"),
        MessageSeen(role="assistant", text="Hi!"),
        ToolsOffered(tools=(ToolDefinition(name="add", description="Adds"),)),
    ]


def test_a_run_below_has_the_name_of_its_span():
    assert read("subagent:flights", entity__name="coordinator")[0] == AgentRun(agent="flights")


def test_a_model_has_its_tokens_and_the_names_on_offer():
    assert read("llm:generateText", span__type="llm", llm__tools="add, find", llm__usage__prompt_tokens=40) == [
        ModelCall(input_tokens=40),
        ToolsOffered(tools=(ToolDefinition(name="add"), ToolDefinition(name="find"))),
    ]


def test_steps_of_memory_and_workflows_are_no_runs():
    assert read("memory.read", span__type="memory", input="{}") == []
    assert read("step", span__type="workflow-step", entity__type="workflow") == []


def test_a_tool_has_id_arguments_result_and_error():
    by_order = {
        (one.error.message if one.error else None, str(one.result))
        for one in seen(recorded(VoltAgent(), "voltagent/mixed_error.otlp.pb"), CallExecuted)
        if isinstance(one, CallExecuted) and one.name == "fetch_report"
    }
    assert {message for message, _ in by_order} == {None, "the archive did not answer"}
    assert read("tool.execution:add", span__type="tool", tool__name="add", tool__call__id="c1", input='{"a":1}') == [
        CallExecuted(name="add", call_id="c1", arguments=Recorded({"a": 1}))
    ]
    failed = read("tool.execution:add", span__type="tool", tool__name="add", error__type="VoltAgentError")
    assert failed == [CallExecuted(name="add", error=CallError(kind="VoltAgentError", message=""))]
