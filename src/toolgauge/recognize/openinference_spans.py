"""Reads OpenInference's spans of tools and agents, by the name of the instrumentation.

Each instrumentation wraps `input.value` and `output.value` in an envelope of its own. Opening another's envelope would change the
recorded arguments of a user's tool.
"""

import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Literal

from msgspec.structs import replace

from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.names import stable_name
from toolgauge.model.observations import (
    OTHER_ERROR,
    AgentRun,
    CallAnswered,
    CallError,
    CallExecuted,
    CallRequested,
    CodeExecuted,
    MessageSeen,
    Observation,
    ToolDefinition,
)
from toolgauge.model.records import Span
from toolgauge.recognize import langchain, values
from toolgauge.recognize.conventions import own_message, pause, text_seen
from toolgauge.recognize.definitions import PARAMETERS, is_schema
from toolgauge.recognize.langchain import Answer
from toolgauge.recognize.messages import Message, Messages, calls_of, messages_of, read_messages
from toolgauge.recognize.provider_messages import given, haystack_messages

INPUT = "input.value"
# On spans of the AI SDK up to 6, and the tracer of 7.
AI_SDK, _AI_SDK_SCOPE = "ai.operationId", "gen_ai"
OUTPUT = "output.value"
SYNTHESIZED = "tool.synthesized"
# Instrumentations that wrap arguments in `args` and `kwargs`.
_KEYWORDS = ("dspy", "llama_index", "smolagents")
_HISTORY = "automatic_function_calling_history"
_AG2 = "ag2"
_PAIR = 2
_AG2_ARGUMENTS = "tool_call.function.arguments"


def call_arguments(span: Span, instrumentation: str) -> Content:
    """Read the arguments that the tool was called with."""
    value = span.attributes.get(INPUT)
    if instrumentation == _AG2:
        value = span.attributes.get(_AG2_ARGUMENTS, value)
    if value is None:
        # Some producers fill `tool.parameters` with the arguments and others with their schema.
        read = values.arguments(span.attributes.get(PARAMETERS))
        is_known = isinstance(read, Recorded) and not is_schema(values.as_object(read.value))
        return read if is_known else NOT_RECORDED
    read = values.arguments_beside(value, span.attributes.get(OUTPUT))
    envelope = values.as_object(read.value) if isinstance(read, Recorded) else {}
    if instrumentation == "beeai" and "options" in envelope and isinstance(envelope.get("input"), dict):
        return Recorded(envelope["input"])
    if instrumentation in _KEYWORDS and (
        isinstance(envelope.get("kwargs"), dict) or isinstance(envelope.get("args"), list)
    ):
        # Open `{"args": [...], "kwargs": {...}}`; names of positional arguments come from the schema.
        named = dict(values.as_object(envelope.get("kwargs")))
        positional = values.as_list(envelope.get("args"))
        if not positional:
            return Recorded(named)
        schema = values.decoded_object(span.attributes.get(PARAMETERS))
        properties = schema.get("properties")
        names = [name for name in (properties if isinstance(properties, dict) else schema) if name not in named]
        if len(names) < len(positional):
            return Unparsed(values.text_of(values.plain(span.attributes.get(INPUT))))
        return Recorded(dict(zip(names, positional, strict=False)) | named)
    return read


def call_answer(span: Span, instrumentation: str) -> Answer:
    """Read the result, and the call's id and the failure in it where the status is OK."""
    value = span.attributes.get(OUTPUT)
    answer = Answer() if value is None else _answer(value, instrumentation)
    error = span_error(span)
    if instrumentation == _AG2 and answer.error is not None:
        return answer
    return answer if error is None else Answer(result=answer.result, call_id=answer.call_id, error=error)


def _answer(value: Value, instrumentation: str) -> Answer:
    """Open the envelope of an instrumentation; any other value is the result."""
    if instrumentation == "langchain":
        return langchain.tool_answer(value)
    if instrumentation == "llama_index":
        opened = values.decoded_object(value)
        if "tool_name" in opened and "raw_input" in opened:
            answer = langchain.llamaindex_answer(opened)
            # `null` is the result itself; other producers leave a missing one out as `null`.
            is_null = "raw_output" in opened and opened["raw_output"] is None
            return replace(answer, result=Recorded(None)) if is_null else answer
    elif instrumentation == "google_adk":
        opened = values.decoded_object(value)
        response = opened.get("response")
        if isinstance(response, dict) and "name" in opened:
            # The framework wraps all values but objects.
            returned = response["result"] if list(response) == ["result"] else response
            return Answer(result=values.returned(returned), call_id=values.as_str(opened.get("id")))
    elif instrumentation == _AG2:
        # Whether the call succeeded, and the message that the model got.
        pair = values.as_list(values.decoded(value))
        message = values.as_object(pair[1]) if len(pair) == _PAIR else {}
        if isinstance(pair[0] if message else None, bool) and "content" in message:
            result = values.result_inside(message["content"])
            failed = (
                CallError(kind=OTHER_ERROR, message=values.text_of(message["content"])) if pair[0] is False else None
            )
            return Answer(result=result, error=failed)
    elif instrumentation in ("autogen", "autogen_agentchat") and isinstance(value, str) and value.startswith("Error:"):
        # The text that the model got: a failed call shows only there, behind status OK.
        return Answer(result=values.result(value), error=CallError(kind=OTHER_ERROR, message=value))
    return Answer(result=values.result(value))


def span_error(span: Span) -> CallError | None:
    """Read the failure from status and exception event; an exception event alone proves nothing, unless it is a pause."""
    if span.status != "error":
        return pause(span) if span.events else None
    attributes = span.attributes
    raised = [event.attributes for event in span.events if event.name == "exception"]
    # The AI SDK's processor may copy the status of an earlier call, which has the exception event.
    is_ai_sdk = AI_SDK in attributes or span.scope.name == _AI_SDK_SCOPE
    if is_ai_sdk and not raised and OUTPUT in attributes and attributes[OUTPUT] != span.status_message:
        return None
    kind, message = OTHER_ERROR, span.status_message
    for exception in raised:
        kind = values.as_str(exception.get("exception.type")) or kind
        message = values.as_str(exception.get("exception.message")) or message
    return None if langchain.is_control_flow(kind) else CallError(kind=kind, message=own_message(message))


def is_synthesized(span: Span) -> bool:
    """Return whether UiPath made the span up for a tool that was not called."""
    value = span.attributes.get(SYNTHESIZED)
    return value is True or (isinstance(value, str) and value.lower() == "true")


# The span's own output is only the text after the calls that Google's SDK made by itself.
def made_by_itself(raw: Value) -> Iterator[CallRequested | CallAnswered]:
    """Yield the calls since the newest user's text, with their answers."""
    if not isinstance(raw, str) or _HISTORY not in raw:
        return
    history = messages_of(given(values.decoded_object(raw).get(_HISTORY)), "")
    newest = max((place + 1 for place, one in enumerate(history) if one.role == "user" and one.text), default=0)
    position = 0
    for output, message in enumerate(history[newest:]):
        for call in calls_of(message):
            yield replace(call, position=position, output=output)
            position += 1
        for answer in message.answers():
            match answer.result:
                # The SDK wraps the value that a function returns, and the text of its exception.
                case Recorded({"error": str() as failed, **rest}) if not rest:
                    yield replace(answer, error=CallError(kind=OTHER_ERROR, message=failed))
                case _:
                    yield google_answer(answer)


def google_answer(answer: CallAnswered) -> CallAnswered:
    """Open the object that Google's API wants around the value that a function returned."""
    match answer.result:
        case Recorded({"result": value, **rest} | {"output": value, **rest}) if not rest:
            return replace(answer, result=values.returned(value))
        case _:
            return answer


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
# These call an agent's run a chain; its class does not name the agent.
_METHOD_OF_CLASS = re.compile(r"(\w++)\.(\w++)")
_RUNS = ("AGENT", "CHAIN")
_TEXT_ROLES: tuple[Literal["system", "user", "assistant"], ...] = ("system", "user", "assistant")
_CHAINED = ("llama_index", "haystack", "dspy")

# A repr costs many times as much as JSON to read; this much of one conversation is read at most.
_MAX_REPRS = 250_000

DESCRIBED_NAME = re.compile(r"Tool Name: ([^\n]{1,256})\n")
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
@lru_cache(128)
def instrumentation(scope: str) -> str:
    """Return the instrumentation's name in snake case, "" for any other producer."""
    found = _SCOPE.search(scope)
    if found is None:
        return _OWN_SCOPES.get(scope, "")
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
# which sum up several model outputs: they complete tool spans, or replace missing ones.
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
            # One message that cannot be read says nothing about the others.
            found.append(values.from_repr(text))
    return haystack_messages(found)


def model_name(title: str) -> str:
    """Derive the name for a model as CrewAI does: `Delegate work to coworker` is `delegate_work_to_coworker`."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    return _NOT_WORD.sub("_", _QUOTES.sub("", _CAMEL.sub("_", plain).lower())).strip("_")


def offered_tools(given: Value) -> tuple[ToolDefinition, ...]:
    """Read the tools of a task, each by its title and by its name for a model: releases differ in the name that they call."""
    read = values.content(given)
    tools = values.as_list(values.as_object(read.value).get("tools")) if isinstance(read, Recorded) else []
    titles = [found[1] for tool in tools if isinstance(tool, str) and (found := _TOOL_REPR.match(tool))]
    if len(titles) < len(tools):
        return ()
    names = dict.fromkeys(name for title in titles for name in (model_name(title), title))
    return tuple(ToolDefinition(name=name) for name in names if name)


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
