"""VoltAgent's own spans."""

from tests.recognize.support import observations, span
from toolgauge.dialects.javascript_frameworks import VoltAgent
from toolgauge.model.json import Value
from toolgauge.model.observations import (
    AgentRun,
    ModelCall,
    Observation,
    ToolDefinition,
    ToolsOffered,
)


def read(name: str, **attributes: Value) -> list[Observation]:
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    return observations(VoltAgent(), span({"entity.type": "agent", **named}, name=name, scope="@voltagent/core"))


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
