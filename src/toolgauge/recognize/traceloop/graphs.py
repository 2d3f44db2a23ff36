"""Tells which LangGraph tasks are runs of an agent: a graph that runs inside a node or a tool of another.

Only the outermost graph is labelled by the producer; without the others all calls would be the outermost agent's.
"""

from collections.abc import Iterator, Mapping

from toolgauge.model.json import JsonObject, Value
from toolgauge.model.observations import AgentRun
from toolgauge.recognize.langchain.runs import agent_run
from toolgauge.recognize.traceloop.names import ASSOCIATION, ENTITY_NAME
from toolgauge.recognize.values import as_str, plain

# What LangChain calls a graph or chain that the application did not name.
_UNNAMED = ("LangGraph", "AgentExecutor", "CompiledStateGraph", "Runnable")
_NODE = "langgraph_node"
_CHECKPOINT = "checkpoint_ns"
_NODE_CHECKPOINT = "langgraph_checkpoint_ns"
_METADATA = ("lc_agent_name", _NODE, _CHECKPOINT, _NODE_CHECKPOINT)


def graph_name(name: str | None) -> str | None:
    """Return the name that somebody gave to a graph, `None` for those that LangChain makes up."""
    return None if name is None or name.startswith(_UNNAMED) else name


def graph_run(attributes: Mapping[str, Value]) -> Iterator[AgentRun]:
    """Read the run of a graph inside another one."""
    name = as_str(attributes.get(ENTITY_NAME))
    metadata: JsonObject = {
        key: plain(value) for key in _METADATA if (value := attributes.get(ASSOCIATION + key)) is not None
    }
    if name is None or _NODE not in metadata:
        return
    # The node and the graph in it have one name; only the graph has a checkpoint of its own.
    is_graph = name == metadata[_NODE] and metadata.get(_CHECKPOINT) == metadata.get(_NODE_CHECKPOINT)
    run = agent_run(name, metadata, labelled=is_graph)
    if run is not None:
        yield run
