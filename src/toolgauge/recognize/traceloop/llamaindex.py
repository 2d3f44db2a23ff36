"""Reads LlamaIndex's steps: no span is labelled as a tool, and the model's calls are lost with spans that ended too soon.

Arrives: a task. Leaves: the call that the agent's step made, or that the tool itself was, which is within that step.
"""

from collections.abc import Mapping

from toolgauge.model.content import NOT_RECORDED, Content, Recorded
from toolgauge.model.json import JsonObject, Value
from toolgauge.model.observations import CallError, CallExecuted
from toolgauge.model.records import Span
from toolgauge.recognize import values
from toolgauge.recognize.conventions import tools
from toolgauge.recognize.langchain.answers import OTHER_ERROR
from toolgauge.recognize.traceloop.names import ENTITY_INPUT, ENTITY_OUTPUT

TOOL_NAME = "tool.name"
ARGUMENTS = "tool.arguments"


def tool_call(span: Span) -> CallExecuted | None:
    """Read the call; `None` when the task is none."""
    attributes = span.attributes
    named = values.as_str(attributes.get(TOOL_NAME))
    output = _object(attributes, ENTITY_OUTPUT) if named or _may_be_tool(attributes.get(ENTITY_OUTPUT)) else {}
    inner = values.as_object(output.get("tool_output"))
    told = inner or output
    name = named or values.as_str(output.get("tool_name"))
    if name is None or not (named or inner or "raw_input" in output):
        return None
    return CallExecuted(
        name=name,
        call_id=values.as_str(output.get("tool_id")),
        arguments=_arguments(attributes, output, told),
        result=_result(told),
        error=tools.call_error(span) or _error(told),
    )


def _may_be_tool(value: Value) -> bool:
    return isinstance(value, str) and '"tool_name"' in value


def _object(attributes: Mapping[str, Value], key: str) -> JsonObject:
    read = values.content(attributes.get(key))
    return values.as_object(read.value) if isinstance(read, Recorded) else {}


def _arguments(attributes: Mapping[str, Value], output: JsonObject, told: JsonObject) -> Content:
    if ARGUMENTS in attributes:
        return values.arguments(attributes[ARGUMENTS])
    given = (
        output.get("tool_kwargs"),
        values.as_object(told.get("raw_input")).get("kwargs"),
        _object(attributes, ENTITY_INPUT).get("kwargs"),
    )
    return next((Recorded(value) for value in given if isinstance(value, dict)), NOT_RECORDED)


def _result(told: JsonObject) -> Content:
    if told.get("raw_output") is not None:
        raw = told["raw_output"]
        return values.result(raw) if isinstance(raw, str) else Recorded(raw)
    text = _text(told)
    return values.result(text) if text else NOT_RECORDED


def _error(told: JsonObject) -> CallError | None:
    return CallError(kind=OTHER_ERROR, message=_text(told)) if told.get("is_error") is True else None


def _text(told: JsonObject) -> str:
    texts = [values.as_str(values.as_object(block).get("text")) for block in values.as_list(told.get("blocks"))]
    return "\n".join(text for text in texts if text) or values.as_str(told.get("content")) or ""
