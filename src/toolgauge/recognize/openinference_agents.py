"""Reads OpenInference's spans of agents: runs, tasks, and calls of managed agents, by the name of the instrumentation."""

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from typing import Literal

from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, Recorded
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.literals import parse_repr
from toolgauge.model.names import stable_name
from toolgauge.model.observations import (
    AgentRun,
    CallExecuted,
    CodeExecuted,
    MessageSeen,
    Observation,
    ToolDefinition,
)
from toolgauge.model.records import Scope, Span
from toolgauge.recognize import langchain, values
from toolgauge.recognize.conventions import text_seen
from toolgauge.recognize.messages import Message, Messages, calls_of, read_messages
from toolgauge.recognize.openinference_tools import INPUT, OUTPUT, span_error
from toolgauge.recognize.provider_messages import haystack_messages

_SCOPE = re.compile(r"openinference[.-]instrumentation[.-]([a-z0-9_-]+)", re.IGNORECASE)

# These producers put OpenInference attributes on their own spans.
_OWN_SCOPES = {"gcp.vertex.agent": "google_adk", "pydantic-ai": "pydantic_ai"}

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
_TEXT_ROLES: tuple[Literal["system", "user", "assistant"], ...] = ("system", "user", "assistant")
_CHAINED = ("llama_index", "haystack", "dspy")

# A repr costs many times as much as JSON to read; this much of one conversation is read at most.
_MAX_REPRS = 250_000

_DESCRIBED_NAME = re.compile(r"Tool Name: ([^\n]{1,256})\n")
_TOOL_REPR = re.compile(r"name='([^'\\]{1,256})' ")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_QUOTES = re.compile(r"['\"]")
_NOT_WORD = re.compile(r"[^a-z0-9]+")

# The manager's task is put into this prompt before the agent runs.
_MANAGED = re.compile(r"You're a helpful agent named '([^'\n]{1,256})'\.\s")
_TOOLS_NAMES = "smolagents.tools_names"
_MANAGED_AGENTS = "smolagents.managed_agents."
_MAX_MANAGED = 1_000
# smolagents gives all managed agents this interface, and passes other keywords on to their run.
_MANAGED_PARAMETERS: JsonObject = {
    "type": "object",
    "properties": {"task": {"type": "string"}, "additional_args": {"type": "object"}},
    "required": ["task"],
    "additionalProperties": True,
}
# A step of smolagents' CodeAgent that ran its code, and the errors of one that did not.
_STEP = re.compile(r"Step \d{1,9}")
_CODE_RAN = "Execution logs:"
_CODE_FAILED = re.compile(r"(?:Code (?:execution|parsing)\b|Error in code parsing\b|Executing code yielded an error\b)")
_LOGGED = re.compile(r"\nExecuting code yielded an error:")
# The name by which smolagents records the code of a step as a call.
_CODE_NAME = "python_interpreter"
_MAX_LOGS = 20_000
_TASK = re.compile(r"\n---\nTask:\n(.*?)\n---\n", re.DOTALL)


# The envelope around a value depends on the instrumentation; without it a tool's own argument `kwargs` would be taken for one.
def instrumentation(scope: Scope) -> str:
    """Return the instrumentation's name in snake case, "" for any other producer."""
    found = _SCOPE.search(scope.name)
    if found is None:
        return _OWN_SCOPES.get(scope.name, "")
    return found[1].lower().replace("-", "_")


# LangChain labels everything as an agent whose name contains "agent": graph nodes would otherwise appear as agents.
def agent_run(span: Span, kind: str, instrumentation: str, metadata: JsonObject) -> AgentRun | None:
    """Return the agent run that the span is; the agent is `None` where a run has no name."""
    if instrumentation == "langchain":
        return langchain.agent_run(span.name, metadata, labelled=kind == "AGENT") if kind in _RUNS else None
    if instrumentation in _CHAINED and kind == "CHAIN" and (found := _METHOD_OF_CLASS.fullmatch(span.name)):
        class_name, method = found.groups()
        is_run = method in ("run", "run_async") and class_name.endswith(("Agent", "AgentWorkflow"))
        is_forward = method in ("forward", "aforward") and ("ReAct" in class_name or "CodeAct" in class_name)
        if is_run or is_forward:
            return AgentRun(agent=None)
    if kind != "AGENT" or (instrumentation == "beeai" and "agent.name" not in span.attributes):
        return None  # BeeAI makes spans of an agent's events
    given = [name for key in _NAME_KEYS if (name := values.as_str(span.attributes.get(key)))]
    named = next(filter(stable_name, given), None)
    named_by_id = named is None and bool(given)
    if named is None and instrumentation not in _NAMELESS:
        found = _BRACKETED.fullmatch(span.name)
        named = found[1] if found else _METHOD.sub("", span.name.removeprefix("invoke_agent ")) or None
    return AgentRun(agent=named, named_by_id=named_by_id)


# CrewAI and Haystack record no model calls. Refused calls and ids are only in the messages inside `output.value` of an agent's run,
# which sum up several model outputs: they complete tool spans, and stand alone where there are none.
def crew_history(output: Value, agent: str | None) -> Iterator[Observation]:
    """Read the messages of a CrewAI task."""
    messages = read_messages(values.decoded_object(output).get("messages"), "user")
    # The user's text is wrapped in CrewAI's prompt; the task's own description is reported instead.
    for seen in _history(messages, agent, frozenset()):
        if not isinstance(seen, MessageSeen) or seen.role != "user":
            yield seen


def haystack_history(given: Value, output: Value) -> Iterator[Observation]:
    """Read the messages that a Haystack agent added to those it was given."""
    earlier = [call.call_id for message in _chat_messages(given) for call in calls_of(message)]
    return _history(_chat_messages(output), None, frozenset(filter(None, earlier)))


def _history(messages: Messages, agent: str | None, earlier: Collection[str]) -> Iterator[Observation]:
    position = 0
    texts: dict[str, str] = {}
    for number, message in enumerate(messages):
        for call in calls_of(message):
            if call.call_id not in earlier:
                yield replace(call, position=position, agent=agent, output=number, by_provider=False)
                position += 1
        yield from message.answers()
        if message.text:
            texts[message.role] = message.text
    for role in _TEXT_ROLES:
        yield from text_seen(role, texts.get(role))


def _chat_messages(value: Value) -> list[Message]:
    room = _MAX_REPRS
    found: list[Json] = []
    for text in values.as_list(values.decoded_object(value).get("messages")):
        if isinstance(text, str) and len(text) <= room:
            room -= len(text)
            try:
                found.append(parse_repr(text))
            except ValueError:
                continue  # one message that cannot be read says nothing about the others
    return haystack_messages(found)


def called_name(title: str, description: Value) -> str:
    """Return the name by which a model calls the tool that a span shows by its title."""
    recorded = _DESCRIBED_NAME.match(description) if isinstance(description, str) else None
    if recorded is not None:
        return recorded[1]
    return model_name(title) if " " in title else title


def model_name(title: str) -> str:
    """Derive the name for a model as CrewAI does: `Delegate work to coworker` is `delegate_work_to_coworker`."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    return _NOT_WORD.sub("_", _QUOTES.sub("", _CAMEL.sub("_", plain).lower())).strip("_")


def offered_tools(given: Value) -> tuple[ToolDefinition, ...]:
    """Read the tools of a task, each by its title and by its name for a model: releases differ in what they call."""
    read = values.content(given)
    tools = values.as_list(values.as_object(read.value).get("tools")) if isinstance(read, Recorded) else []
    titles = [found[1] for tool in tools if isinstance(tool, str) and (found := _TOOL_REPR.match(tool))]
    if len(titles) < len(tools):
        return ()
    names = dict.fromkeys(name for title in titles for name in (model_name(title), title))
    return tuple(ToolDefinition(name=name) for name in names if name)


def task_texts(tasks: Value) -> Iterator[MessageSeen]:
    """Read the tasks of a crew, the nearest thing to a user's text that CrewAI records."""
    for task in values.as_list(values.decoded(tasks)):
        yield from text_seen("user", values.as_object(task).get("description"))


def offered_names(attributes: Mapping[str, Value]) -> tuple[ToolDefinition, ...]:
    """Read the offer of an agent: its tools, and the agents that it manages, which are called like tools."""
    names = values.as_list(values.decoded(attributes.get(_TOOLS_NAMES)))
    offered = {name: ToolDefinition(name=name) for name in names if isinstance(name, str) and name}
    for number in range(_MAX_MANAGED):
        managed = values.as_str(attributes.get(f"{_MANAGED_AGENTS}{number}.name"))
        if managed is None:
            break
        if managed:
            offered[managed] = ToolDefinition(name=managed, parameters=_MANAGED_PARAMETERS)
    return tuple(offered.values())


def managed_agent_call(span: Span) -> CallExecuted | None:
    """Return the call that the run of a managed agent is, `None` for any other run."""
    given = values.as_object(values.decoded(span.attributes.get(INPUT)))
    prompt = values.as_str(given.get("task")) or ""
    managed = _MANAGED.match(prompt)
    if managed is None:
        return None
    task = _TASK.search(prompt)
    # `additional_args` are recorded only where there are some.
    more: JsonObject = {"additional_args": given["additional_args"]} if given.get("additional_args") else {}
    arguments = NOT_RECORDED if task is None else Recorded({"task": task[1], **more})
    return CallExecuted(
        name=managed[1], arguments=arguments, result=values.result(span.attributes.get(OUTPUT)), error=span_error(span)
    )


# The step is a chain; its code is in the output of the model call beneath it. Calls in the code show only as tool spans.
def code_step(span: Span) -> CodeExecuted | None:
    """Return the step that ran code: its output holds execution logs, or its error is one of parsing or executing code."""
    if _STEP.fullmatch(span.name) is None:
        return None
    error = span_error(span)
    if error is None:
        output = span.attributes.get(OUTPUT)
        return CodeExecuted(name=_CODE_NAME) if isinstance(output, str) and output.startswith(_CODE_RAN) else None
    message = error.message
    # A status without an exception event begins with the class.
    own = message.partition(": ")[2] if message.startswith("Agent") else message
    has_run = _CODE_FAILED.match(own) is not None or _LOGGED.search(message, 0, _MAX_LOGS) is not None
    return CodeExecuted(name=_CODE_NAME, error=error) if has_run else None
