"""Tells which spans are runs of an agent, and the agent's name.

Arrives: a span that is no tool span. Leaves: the run, or nothing. LangChain labels everything as an agent whose name
contains "agent": its graph nodes would otherwise appear as agents of their own, or their end as the end of the run.
"""

import re
from collections.abc import Mapping

from toolgauge.model.json import JsonObject, Value
from toolgauge.model.observations import AgentRun
from toolgauge.model.records import Span
from toolgauge.recognize.langchain import runs

_NAME_KEYS = ("agent.name", "gen_ai.agent.name", "agent_name", "graph.node.id")
_BRACKETED = re.compile(r"(?:agent_run|invocation) \[([^\]]{1,256})\]")
_METHOD = re.compile(
    r"\.(?:a?run|a?run_stream|run_sync|a?invoke|a?stream|a?chat|_?execute_core|kickoff|on_messages(?:_stream)?)$"
)
# An agent span of these without an agent's name is a whole workflow or query, or is named after a class.
_NAMELESS = ("openai_agents", "claude_agent_sdk", "llama_index")
# These call an agent's run a chain; the class is no agent's name.
_METHOD_OF_CLASS = re.compile(r"(\w++)\.(\w++)")
_RUNS = ("AGENT", "CHAIN")
_CHAINED = ("llama_index", "haystack", "dspy")


def agent_run(span: Span, kind: str, instrumentation: str, metadata: JsonObject) -> AgentRun | None:
    """Return the agent run that the span is; the agent is `None` where a run has no name."""
    if instrumentation == "langchain":
        return runs.agent_run(span.name, metadata, labelled=kind == "AGENT") if kind in _RUNS else None
    if instrumentation in _CHAINED and kind == "CHAIN" and _is_class_run(span.name):
        return AgentRun(agent=None)
    if kind != "AGENT" or (instrumentation == "beeai" and "agent.name" not in span.attributes):
        return None  # BeeAI makes spans of an agent's events
    if instrumentation in _NAMELESS:
        return AgentRun(agent=_named(span.attributes))
    return AgentRun(agent=_named(span.attributes) or _name_from(span.name))


def _is_class_run(span_name: str) -> bool:
    found = _METHOD_OF_CLASS.fullmatch(span_name)
    if found is None:
        return False
    class_name, method = found.groups()
    if method in ("run", "run_async"):
        return class_name.endswith(("Agent", "AgentWorkflow"))
    return method in ("forward", "aforward") and ("ReAct" in class_name or "CodeAct" in class_name)


def _named(attributes: Mapping[str, Value]) -> str | None:
    for key in _NAME_KEYS:
        value = attributes.get(key)
        if isinstance(value, str) and value:
            return value
    return None


def _name_from(span_name: str) -> str | None:
    found = _BRACKETED.fullmatch(span_name)
    if found:
        return found[1]
    return _METHOD.sub("", span_name.removeprefix("invoke_agent ")) or None
