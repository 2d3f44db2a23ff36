"""Opens the content blocks of MCP servers, so that evaluators compare the values in results and not their wrapping."""

from toolgauge.model.json import Json
from toolgauge.model.mcp_results import McpResult, block_value, mcp_result


def result_value(result: Json) -> Json:
    """Return the value in a result: structured content, else the value of a single block, else the list of the values."""
    found = mcp_result(result)
    if found is None:
        return result
    values = _values(found)
    content = values[0] if len(values) == 1 else values
    structured = found.structured
    if structured is None or structured == content:
        return content
    # Rule: FastMCP's `{"result": ...}` is a wrapper around a value that is not an object, or is in the blocks too.
    inner = structured["result"] if isinstance(structured, dict) and list(structured) == ["result"] else structured
    return inner if not isinstance(inner, dict) or inner == content else structured


def result_parts(result: Json) -> tuple[Json, ...]:
    """Return all values in a result, to be searched one by one; a result without content blocks is its own part."""
    found = mcp_result(result)
    if found is None:
        return (result,)
    values = _values(found)
    return tuple(values) if found.structured is None or found.structured in values else (*values, found.structured)


def _values(found: McpResult) -> list[Json]:
    return [block_value(block) for block in found.blocks]
