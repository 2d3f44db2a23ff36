"""Reads Traceloop's tool spans: the call's arguments, its result, its id and whether it failed.

Each integration wraps arguments and result in an envelope of its own; they are opened here, one function an envelope,
chosen by scope. Opening an envelope that the integration does not use would change what a tool was really called with.
"""

from collections.abc import Callable, Mapping

from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.json import JsonObject, Value
from toolgauge.model.observations import OTHER_ERROR, CallError, CallExecuted
from toolgauge.model.records import Span
from toolgauge.recognize import conventions, values
from toolgauge.recognize.langchain import Answer, is_control_flow, tool_answer

ENTITY_NAME = "traceloop.entity.name"
ENTITY_INPUT = "traceloop.entity.input"
ENTITY_OUTPUT = "traceloop.entity.output"
ASSOCIATION = "traceloop.association.properties."
# LangChain's own name for the agent, which the instrumentation copies from a run's metadata.
LANGCHAIN_AGENT = ASSOCIATION + "lc_agent_name"

_SUFFIX = ".tool"

TOOL_NAME = "tool.name"
ARGUMENTS = "tool.arguments"


def executed(span: Span, integration: str) -> CallExecuted | None:
    """Read a tool span; `None` when the tool's name is nowhere."""
    attributes = span.attributes
    name = (
        values.as_str(attributes.get(conventions.TOOL_NAME))
        or values.as_str(attributes.get(ENTITY_NAME))
        or span.name.removeprefix(conventions.EXECUTE + " ").removesuffix(_SUFFIX)
    )
    if not name:
        return None
    arguments, call_id = _arguments(_first(attributes, conventions.ARGUMENTS, ENTITY_INPUT), integration)
    recorded = _RESULTS.get(integration, _plain)(_first(attributes, conventions.RESULT, ENTITY_OUTPUT))
    agent = _first(attributes, conventions.AGENT, LANGCHAIN_AGENT)
    call = CallExecuted(
        name=name,
        call_id=conventions.call_id(attributes) or call_id or recorded.call_id,
        arguments=arguments,
        result=recorded.result,
        error=_error(span) or recorded.error,
        agent=values.as_str(agent),
        protocol="mcp" if integration == "mcp" else None,
    )
    # The SDK opens the span of a tool before it asks a person.
    return conventions.ended_without_result(call) if integration == "openai_agents" else call


def _error(span: Span) -> CallError | None:
    error = conventions.call_error(span)
    return None if error is not None and is_control_flow(error.kind) else error


def _first(attributes: Mapping[str, Value], *keys: str) -> Value:
    return next((value for key in keys if (value := attributes.get(key)) is not None), None)


# -- arguments


def _arguments(value: Value, integration: str) -> tuple[Content, str | None]:
    """Read the arguments, and the call's id where the envelope has it."""
    read = values.arguments(value)
    opening = _ENVELOPES.get(integration)
    if opening is None or not isinstance(read, Recorded) or not isinstance(read.value, dict):
        return read, None
    return opening(read.value, read)


def _decorator_envelope(envelope: JsonObject, whole: Content) -> tuple[Content, str | None]:
    """Open `{"args": [...], "kwargs": {...}}`; the names of positional arguments are not recorded."""
    named, positional = envelope.get("kwargs"), envelope.get("args")
    if not envelope.keys() <= {"args", "kwargs"} or not isinstance(named, dict):
        return whole, None
    return (Unparsed(values.dump(envelope)) if positional else Recorded(named)), None


def _langchain_envelope(envelope: JsonObject, whole: Content) -> tuple[Content, str | None]:
    """Open `{"input_str": "{'city': 'Paris'}", "inputs": {...}, "kwargs": {"tool_call_id": ...}}`.

    Newer releases add `inputs`, the same as JSON; what is no object in either is a text without an argument's name.
    """
    written = envelope.get("input_str")
    if not isinstance(written, str) or envelope.keys().isdisjoint(("tags", "metadata", "inputs", "kwargs")):
        return whole, None
    call_id = values.as_str(values.as_object(envelope.get("kwargs")).get("tool_call_id"))
    given = envelope.get("inputs")
    return (Recorded(given) if isinstance(given, dict) else values.arguments(written)), call_id


def _mcp_envelope(envelope: JsonObject, whole: Content) -> tuple[Content, str | None]:
    """Open `{"tool_name": .., "arguments": {..}}`."""
    if "tool_name" not in envelope:
        return whole, None
    given = envelope.get("arguments")
    # The protocol sends no arguments as nothing at all.
    return (Recorded({}) if given is None else values.arguments(given)), None


_ENVELOPES: Mapping[str, Callable[[JsonObject, Content], tuple[Content, str | None]]] = {
    "decorator": _decorator_envelope,
    "langchain": _langchain_envelope,
    "mcp": _mcp_envelope,
}


# -- results


def _plain(value: Value) -> Answer:
    return Answer(result=values.result(value))


def _langchain_result(value: Value) -> Answer:
    """Open `{"output": <tool message or command>, "kwargs": {..}}`."""
    opened = values.decoded(value)
    if isinstance(opened, dict) and "output" in opened and opened.keys() <= {"output", "kwargs"}:
        output = opened["output"]
        return Answer(result=Recorded(None)) if output is None else tool_answer(output)
    return tool_answer(value)


def _mcp_result(value: Value) -> Answer:
    """Open `{"result": .., "is_error": true}` of a client, or the content blocks of a server."""
    opened = values.as_object(values.decoded(value))
    if "result" not in opened or not opened.keys() <= {"result", "is_error"}:
        return _plain(value)
    returned = opened["result"]
    message = returned if isinstance(returned, str) else ""
    error = CallError(kind=OTHER_ERROR, message=message) if opened.get("is_error") is True else None
    return Answer(result=values.result(returned) if returned is not None else NOT_RECORDED, error=error)


_RESULTS: Mapping[str, Callable[[Value], Answer]] = {"langchain": _langchain_result, "mcp": _mcp_result}


# Reads LlamaIndex's steps: no span is labelled as a tool, and the model's calls are lost with spans that ended too soon.
#
# Arrives: a task. Leaves: the call that the agent's step made, or that the tool itself was, which is within that step.


def llamaindex_call(span: Span) -> CallExecuted | None:
    """Read the call; `None` when the task is none."""
    attributes = span.attributes
    named = values.as_str(attributes.get(TOOL_NAME))
    output = _object(attributes, ENTITY_OUTPUT) if named or _may_be_tool(attributes.get(ENTITY_OUTPUT)) else {}
    inner = values.as_object(output.get("tool_output"))
    recorded = inner or output
    name = named or values.as_str(output.get("tool_name"))
    if name is None or not (named or inner or "raw_input" in output):
        return None
    return CallExecuted(
        name=name,
        call_id=values.as_str(output.get("tool_id")),
        arguments=_llamaindex_arguments(attributes, output, recorded),
        result=_llamaindex_result(recorded),
        error=conventions.call_error(span)
        or (
            CallError(kind=OTHER_ERROR, message=_llamaindex_text(recorded))
            if recorded.get("is_error") is True
            else None
        ),
    )


def _may_be_tool(value: Value) -> bool:
    return isinstance(value, str) and '"tool_name"' in value


def _object(attributes: Mapping[str, Value], key: str) -> JsonObject:
    return values.as_object(values.decoded(attributes.get(key)))


def _llamaindex_arguments(attributes: Mapping[str, Value], output: JsonObject, recorded: JsonObject) -> Content:
    if ARGUMENTS in attributes:
        return values.arguments(attributes[ARGUMENTS])
    given = (
        output.get("tool_kwargs"),
        values.as_object(recorded.get("raw_input")).get("kwargs"),
        _object(attributes, ENTITY_INPUT).get("kwargs"),
    )
    return next((Recorded(value) for value in given if isinstance(value, dict)), NOT_RECORDED)


def _llamaindex_result(recorded: JsonObject) -> Content:
    if recorded.get("raw_output") is not None:
        raw = recorded["raw_output"]
        return values.returned(raw)
    text = _llamaindex_text(recorded)
    return values.result(text) if text else NOT_RECORDED


def _llamaindex_text(recorded: JsonObject) -> str:
    texts = [values.as_str(values.as_object(block).get("text")) for block in values.as_list(recorded.get("blocks"))]
    return "\n".join(text for text in texts if text) or values.as_str(recorded.get("content")) or ""
