"""Reads the tools that a model was offered, in whichever provider's form they were sent.

Arrives: `llm.tools.<n>.tool.json_schema` or the `tools` inside `llm.invocation_parameters`. Leaves: definitions. A
definition that is missed makes a tool look invented, so every known form is read.
"""

from collections.abc import Iterator, Mapping

from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import ToolDefinition
from toolgauge.recognize.values import as_list, as_object, as_str, content

TOOLS = "llm.tools."
INVOCATION_PARAMETERS = "llm.invocation_parameters"

_SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema", "parameters_json_schema", "parametersJsonSchema")
# Gemini writes the types of JSON Schema in capitals.
_CAPITAL_TYPES = frozenset({"OBJECT", "ARRAY", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "NULL"})


def offered_tools(attributes: Mapping[str, Value]) -> tuple[ToolDefinition, ...]:
    """Read the tools on offer; empty when the span does not tell."""
    flat = tuple(_flattened(attributes))
    return flat or tuple(_invoked(attributes.get(INVOCATION_PARAMETERS)))


def _flattened(attributes: Mapping[str, Value]) -> Iterator[ToolDefinition]:
    grouped: dict[int, dict[str, Value]] = {}
    for key in attributes:
        if key.startswith(TOOLS):
            index, _, name = key[len(TOOLS) :].partition(".")
            if index.isascii() and index.isdigit() and len(index) < 6:
                grouped.setdefault(int(index), {})[name.removeprefix("tool.")] = attributes[key]
    for index in sorted(grouped):
        yield from _from_fields(grouped[index])


def _from_fields(fields: Mapping[str, Value]) -> Iterator[ToolDefinition]:
    read = content(fields.get("json_schema"))
    written: Json = read.value if isinstance(read, Recorded) else None
    name = fields.get("name")
    if not isinstance(name, str) or not name:
        yield from _definitions(written)
        return
    described = fields.get("description")
    inner = next(_definitions(written), None)
    yield ToolDefinition(
        name=name,
        description=described if isinstance(described, str) else inner.description if inner else None,
        parameters=inner.parameters if inner else _schema(as_object(written) or None),
    )


def _invoked(value: Value) -> Iterator[ToolDefinition]:
    read = content(value)
    told = as_object(read.value) if isinstance(read, Recorded) else {}
    for key in ("tools", "functions"):
        for item in as_list(told.get(key)):
            yield from _definitions(item)


def _definitions(value: Json) -> Iterator[ToolDefinition]:
    """Read one item of a provider's list; a Gemini item holds several tools."""
    item = as_object(value)
    for several in ("function_declarations", "functionDeclarations"):
        for inner in as_list(item.get(several)):
            yield from _definitions(inner)
    for wrapper in ("function", "toolSpec"):
        if isinstance(inner := item.get(wrapper), dict):
            item = inner
    name = as_str(item.get("name"))
    if name is None:
        return
    schema = next((item[key] for key in _SCHEMA_KEYS if item.get(key) is not None), None)
    if isinstance(schema, dict) and isinstance(inner := schema.get("json"), dict):  # Bedrock
        schema = inner
    yield ToolDefinition(name=name, description=as_str(item.get("description")), parameters=_schema(schema))


def _schema(value: Json) -> JsonObject | None:
    if not isinstance(value, dict):
        return None
    if value.get("type") in _CAPITAL_TYPES:
        return as_object(_with_small_types(value))
    return value


def _with_small_types(value: Json) -> Json:
    match value:
        case dict():
            return {
                key: item.lower()
                if key == "type" and isinstance(item, str) and item in _CAPITAL_TYPES
                else _with_small_types(item)
                for key, item in value.items()
            }
        case list():
            return [_with_small_types(item) for item in value]
        case _:
            return value
