"""Reads Traceloop's tool spans: the call's arguments, its result, its id and whether it failed.

Each integration wraps arguments and result in an envelope of its own; they are opened here, one function an envelope,
chosen by scope. Opening an envelope that the integration does not use would change what a tool was really called with.
"""

from collections.abc import Mapping

from toolgauge.model.content import NOT_RECORDED, Content, Recorded, Unparsed
from toolgauge.model.json import Value
from toolgauge.model.observations import OTHER_ERROR, CallError, CallExecuted
from toolgauge.model.records import Span
from toolgauge.recognize import conventions, values
from toolgauge.recognize.langchain import Answer, is_control_flow, llamaindex_answer, tool_answer

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
    arguments, call_id = _opened(values.arguments(_first(attributes, conventions.ARGUMENTS, ENTITY_INPUT)), integration)
    recorded = _answer(_first(attributes, conventions.RESULT, ENTITY_OUTPUT), integration)
    error = conventions.call_error(span)
    if error is not None and is_control_flow(error.kind):
        error = None
    agent = _first(attributes, conventions.AGENT, LANGCHAIN_AGENT)
    call = CallExecuted(
        name=name,
        call_id=conventions.call_id(attributes) or call_id or recorded.call_id,
        arguments=arguments,
        result=recorded.result,
        error=error or recorded.error,
        agent=values.as_str(agent),
        protocol="mcp" if integration == "mcp" else None,
    )
    # The SDK opens the span of a tool before it asks a person.
    return conventions.ended_without_result(call) if integration == "openai_agents" else call


def _first(attributes: Mapping[str, Value], *keys: str) -> Value:
    return next((value for key in keys if (value := attributes.get(key)) is not None), None)


def _opened(read: Content, integration: str) -> tuple[Content, str | None]:
    """Open the envelope of an integration around the arguments; it may have the call's id."""
    envelope = values.as_object(read.value) if isinstance(read, Recorded) else {}
    if integration == "decorator" and envelope.keys() <= {"args", "kwargs"} and "kwargs" in envelope:
        named = envelope["kwargs"]
        if isinstance(named, dict):
            # The names of positional arguments are not recorded.
            return (Unparsed(values.dump(envelope)) if envelope.get("args") else Recorded(named)), None
    elif integration == "langchain" and not envelope.keys().isdisjoint(("tags", "metadata", "inputs", "kwargs")):
        written, given = envelope.get("input_str"), envelope.get("inputs")
        if isinstance(written, str):
            call_id = values.as_str(values.as_object(envelope.get("kwargs")).get("tool_call_id"))
            # Newer releases add `inputs`, the same as JSON; what is no object in either is a text without an argument's name.
            return (Recorded(given) if isinstance(given, dict) else values.arguments(written)), call_id
    elif integration == "mcp" and "tool_name" in envelope:
        given = envelope.get("arguments")
        # The protocol sends no arguments as nothing at all.
        return (Recorded({}) if given is None else values.arguments(given)), None
    return read, None


def _answer(value: Value, integration: str) -> Answer:
    """Open the envelope of an integration around the result."""
    if integration not in ("langchain", "mcp"):
        return Answer(result=values.result(value))
    opened = values.as_object(values.decoded(value))
    if integration == "langchain":
        # A tool message or a command in `output`.
        is_envelope = "output" in opened and opened.keys() <= {"output", "kwargs"}
        if is_envelope and opened["output"] is None:
            return Answer(result=Recorded(None))
        return tool_answer(opened["output"] if is_envelope else value)
    if "result" not in opened or not opened.keys() <= {"result", "is_error"}:
        # The content blocks of a server.
        return Answer(result=values.result(value))
    returned, failed = opened["result"], opened.get("is_error") is True
    error = CallError(kind=OTHER_ERROR, message=values.text_of(returned)) if failed else None
    return Answer(result=values.result(returned) if returned is not None else NOT_RECORDED, error=error)


def llamaindex_call(span: Span) -> CallExecuted | None:
    """Read LlamaIndex's call; `None` when the task is none.

    No span is labelled as a tool, and the model's calls are lost with spans that ended too soon. The task is the agent's step that
    made the call, or the tool itself within that step.
    """
    attributes = span.attributes
    named, written = values.as_str(attributes.get(TOOL_NAME)), attributes.get(ENTITY_OUTPUT)
    is_tool = named is not None or (isinstance(written, str) and '"tool_name"' in written)
    output = values.as_object(values.decoded(written)) if is_tool else {}
    inner = values.as_object(output.get("tool_output"))
    recorded = inner or output
    name = named or values.as_str(output.get("tool_name"))
    if name is None or not (named or inner or "raw_input" in output):
        return None
    answer = llamaindex_answer(recorded)
    given = (
        output.get("tool_kwargs"),
        values.as_object(recorded.get("raw_input")).get("kwargs"),
        values.as_object(values.decoded(attributes.get(ENTITY_INPUT))).get("kwargs"),
    )
    arguments: Content = next((Recorded(value) for value in given if isinstance(value, dict)), NOT_RECORDED)
    return CallExecuted(
        name=name,
        call_id=values.as_str(output.get("tool_id")),
        arguments=values.arguments(attributes[ARGUMENTS]) if ARGUMENTS in attributes else arguments,
        result=answer.result,
        error=conventions.call_error(span) or answer.error,
    )
