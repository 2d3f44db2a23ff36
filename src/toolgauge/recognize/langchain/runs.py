"""Tells which LangChain runs are runs of an agent, by the metadata that LangChain gives to each run.

Arrives: a run's name and metadata. Leaves: the agent run, or nothing. A graph's nodes look like agents where a producer
goes by names, and their end would be taken for the end of the run.
"""

import re

from toolgauge.model.json import JsonObject
from toolgauge.model.observations import AgentRun
from toolgauge.recognize.values import as_str

# Names that LangChain gives to runs that the application did not name.
_UNNAMED_RUNS = ("LangGraph", "AgentExecutor", "CompiledStateGraph")
# What LangChain calls the parts of a chain, after their class and the keys they fill.
_PART = re.compile(r"(?:Runnable|Channel|Branch)\w*(?:<.*>)?|\w*OutputParser", re.DOTALL)
_GRAPH_INTEGRATIONS = ("langgraph", "langchain_create_agent")


def agent_name(metadata: JsonObject) -> str | None:
    """Return the agent that LangChain says a run belongs to."""
    return as_str(metadata.get("lc_agent_name"))


def agent_run(name: str, metadata: JsonObject, *, labelled: bool) -> AgentRun | None:
    """Return the agent run that a chain's run is; `labelled` says that the producer calls it an agent."""
    agent = agent_name(metadata)
    if agent is not None and agent == name:
        return AgentRun(agent=agent)
    if "langgraph_node" not in metadata:
        return _outermost_run(name, metadata, labelled=labelled)
    # A node that runs a graph of its own: the graph's run has the node's checkpoint, its nodes have theirs.
    inside = metadata.get("checkpoint_ns")
    if labelled and agent is None and inside is not None and inside == metadata.get("langgraph_checkpoint_ns", inside):
        return AgentRun(agent=name)
    return None


def _outermost_run(name: str, metadata: JsonObject, *, labelled: bool) -> AgentRun | None:
    if labelled and name not in _UNNAMED_RUNS and _PART.fullmatch(name) is None:
        return AgentRun(agent=name)
    if name in _UNNAMED_RUNS or metadata.get("ls_integration") in _GRAPH_INTEGRATIONS:
        return AgentRun(agent=agent_name(metadata))
    return None
