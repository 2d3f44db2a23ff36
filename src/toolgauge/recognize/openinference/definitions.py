"""Reads the tools that a model was offered, in whichever provider's form they were sent.

Arrives: `llm.tools.<n>.tool.json_schema` or the `tools` inside `llm.invocation_parameters`. Leaves: definitions. A
definition that is missed makes a tool look invented, so every known form is read.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import ToolDefinition
from toolgauge.recognize.known_tools import KnownTools
from toolgauge.recognize.values import as_list, as_object, as_str, content

TOOLS = "llm.tools."
INVOCATION_PARAMETERS = "llm.invocation_parameters"

_INPUT = "input.value"
_REQUESTED = re.compile(r'"(?:tools|functions)": ?\[\{')
_SCHEMA_KEYS = ("parameters", "input_schema", "inputSchema", "parameters_json_schema", "parametersJsonSchema")
_MAX_INDEX_DIGITS = 6
_MAX_KNOWN = 256
_MAX_KNOWN_TEXT = 16_384
# Gemini writes the types of JSON Schema in capitals.
# A tuple: what is looked for in it may be a list or an object, which no set can be asked for.
_CAPITAL_TYPES = ("OBJECT", "ARRAY", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "NULL")

_Reader: TypeAlias = Callable[[Json], Iterator[ToolDefinition]]


class DefinitionReader:
    """Reads the tools on offer from a model span.

    Agents send the same tools with each model call. Reading a text once saves most of the cost of such a span, and
    the definitions of all calls of a run are then the same objects in memory.
    """

    def __init__(self) -> None:
        self._known = KnownTools(_MAX_KNOWN)

    def read(self, attributes: Mapping[str, Value]) -> tuple[ToolDefinition, ...]:
        """Return the tools on offer; empty when the span does not tell."""
        flat = tuple(tool for fields in _flattened(attributes) for tool in self._from_fields(fields))
        return flat or self._from_text(attributes.get(INVOCATION_PARAMETERS), _invoked) or self._requested(attributes)

    def _requested(self, attributes: Mapping[str, Value]) -> tuple[ToolDefinition, ...]:
        """Read the whole request, for producers that tell the tools nowhere else."""
        request = attributes.get(_INPUT)
        if not isinstance(request, str) or _REQUESTED.search(request) is None:
            return ()
        return tuple(_invoked(_decoded(request)))

    def _from_fields(self, fields: Mapping[str, Value]) -> Iterator[ToolDefinition]:
        written = fields.get("json_schema")
        told = self._from_text(written, _definitions)
        name = fields.get("name")
        if not isinstance(name, str) or not name:
            yield from told
            return
        described = fields.get("description")
        description = described if isinstance(described, str) else None
        if told:
            yield ToolDefinition(
                name=name, description=description or told[0].description, parameters=told[0].parameters
            )
            return
        bare = as_object(_decoded(written))
        yield ToolDefinition(name=name, description=description, parameters=_schema(bare) if bare else None)

    def _from_text(self, value: Value, read: _Reader) -> tuple[ToolDefinition, ...]:
        if not isinstance(value, str) or len(value) > _MAX_KNOWN_TEXT:
            return tuple(read(_decoded(value)))
        known = self._known.get((read, value))
        if known is None:
            known = tuple(read(_decoded(value)))
            self._known.keep((read, value), value, known)
        return known


def _decoded(value: Value) -> Json:
    read = content(value)
    return read.value if isinstance(read, Recorded) else None


def _flattened(attributes: Mapping[str, Value]) -> list[dict[str, Value]]:
    grouped: dict[int, dict[str, Value]] = {}
    for key in attributes:
        if key.startswith(TOOLS):
            index, _, name = key[len(TOOLS) :].partition(".")
            if index.isascii() and index.isdigit() and len(index) < _MAX_INDEX_DIGITS:
                grouped.setdefault(int(index), {})[name.removeprefix("tool.")] = attributes[key]
    return [grouped[index] for index in sorted(grouped)]


def _invoked(told: Json) -> Iterator[ToolDefinition]:
    request = as_object(told)
    # Portkey keeps what its signature does not name apart.
    for source in (request, as_object(request.get("kwargs"))):
        for key in ("tools", "functions"):
            for item in as_list(source.get(key)):
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
