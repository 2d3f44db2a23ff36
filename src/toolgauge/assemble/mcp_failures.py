"""Finds the failures that MCP servers report inside results, where frameworks leave the span without an error."""

from msgspec.structs import replace

from toolgauge.model.content import Content, Recorded
from toolgauge.model.mcp_results import failed_mcp_result, mcp_result
from toolgauge.model.observations import OTHER_ERROR, CallError


def mcp_failure(result: Content) -> CallError | None:
    """Return the failure that a result reports by its flag; its message is the text of the content blocks.

    A failure flag beside content blocks is a failure, in any wrapper of a framework and with any status of the span. A flag
    or an error without them is a value that the tool returned.
    """
    found = failed_mcp_result(result.value) if isinstance(result, Recorded) else None
    return None if found is None else CallError(kind=OTHER_ERROR, message=found.text)


def with_message(error: CallError, result: Content) -> CallError:
    """Return the error with the text of the result's content blocks where its producer gave it no message."""
    found = mcp_result(result.value) if not error.message and isinstance(result, Recorded) else None
    return error if found is None else replace(error, message=found.text)
