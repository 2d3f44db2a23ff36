"""Reads the span of a tool's execution: name, id, arguments, result and error as the conventions write them."""

from collections.abc import Mapping
from typing import Literal

from toolgauge.model.json import Value
from toolgauge.model.observations import CallError, CallExecuted
from toolgauge.model.records import Span
from toolgauge.recognize import values
from toolgauge.recognize.conventions import names


def executed(span: Span, prefix: str, protocol: Literal["mcp"] | None) -> CallExecuted | None:
    """Read a tool span; `prefix` is what its name may begin with. `None` when the tool's name is nowhere."""
    attributes = span.attributes
    # Some MCP clients name the tool in the span name alone: `MCP send tools/call x`.
    name = values.as_str(attributes.get(names.TOOL_NAME)) or span.name.partition(prefix + " ")[2].strip()
    if not name:
        return None
    return CallExecuted(
        name=name,
        call_id=call_id(attributes),
        arguments=values.arguments(attributes.get(names.ARGUMENTS)),
        result=values.result(attributes.get(names.RESULT)),
        error=call_error(span),
        agent=values.as_str(attributes.get(names.AGENT)),
        protocol=protocol,
    )


def call_id(attributes: Mapping[str, Value]) -> str | None:
    """Read the call's id; a placeholder in brackets names no call: two failed calls would be taken for one."""
    found = values.identifier(attributes.get(names.CALL_ID))
    return None if found is not None and found.startswith("<") and found.endswith(">") else found


def call_error(span: Span) -> CallError | None:
    """Read why the call failed; `None` when it did not."""
    error_type = values.identifier(span.attributes.get(names.ERROR_TYPE))
    if span.status == "ok" and error_type is None:
        # Frameworks record exceptions that they mean (a hand-off) on spans that went well.
        return None
    exception = _exception(span) if span.events else None
    if span.status != "error" and error_type is None and exception is None:
        return None
    told: Mapping[str, Value] = exception if exception is not None else {}
    return CallError(
        kind=error_type or values.as_str(told.get("exception.type")) or "_OTHER",
        message=span.status_message or values.as_str(told.get("exception.message")) or "",
    )


def _exception(span: Span) -> Mapping[str, Value] | None:
    return next((event.attributes for event in span.events if event.name == "exception"), None)
