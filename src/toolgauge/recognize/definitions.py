"""Reads the tools that a model was offered, in any provider's form: a definition that is missed makes a tool look invented."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import TypeAlias, TypeVar

from cachetools import FIFOCache
from msgspec.structs import replace

from toolgauge.model.content import Recorded
from toolgauge.model.json import Json, JsonObject, Value
from toolgauge.model.observations import NO_TOOLS, ToolDefinition, Tools
from toolgauge.model.records import Span
from toolgauge.recognize import values

TOOLS = "llm.tools."
INVOCATION_PARAMETERS = "llm.invocation_parameters"
PARAMETERS = "tool.parameters"
_INPUT = "input.value"
_REQUESTED = re.compile(r'"(?:tools|functions)": ?\[(?:\{|"\w{0,40}Tool\()')
_NAMES = ("name", "tool_name", "toolName")
_SCHEMA_KEYS = ("parameters", "inputSchema", "input_schema", "parameters_json_schema", "parametersJsonSchema")
# Types of definitions that name no tool by themselves; `object` is the type of a schema.
_NO_TOOLS = ("function", "custom", "object", "extension")
# Gemini writes the types of JSON Schema in capitals.
# A tuple, not a set: the value looked up may be an unhashable list or object.
_CAPITAL_TYPES = ("OBJECT", "ARRAY", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "NULL")
# What a schema without properties may have beside its type.
_BESIDE = frozenset(("type", "title", "description", "required", "additionalProperties", "$schema", "$defs"))
# Types of smolagents.
_NO_JSON_TYPES = ("any", "audio", "image")

_GOOGLE_KEYS = {
    "any_of": "anyOf",
    "min_items": "minItems",
    "max_items": "maxItems",
    "min_length": "minLength",
    "max_length": "maxLength",
    "min_properties": "minProperties",
    "max_properties": "maxProperties",
    "additional_properties": "additionalProperties",
}
_GOOGLE_COUNTS = frozenset(("minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"))
# Schemas of tools are a few levels deep; a deeper one is cut off, and is then only less strict.
_MAX_DEPTH = 20

# Characters of all remembered texts, and of one text.
_MOST_CHARACTERS, _MOST_OF_ONE = 2 << 20, 1 << 20

# An attribute's value, or several with their keys.
_Written: TypeAlias = Value | tuple[tuple[str, Value], ...]
_Read = TypeVar("_Read", Value, tuple[tuple[str, Value], ...])


class DefinitionReader:
    """Reads the tools on offer, each text once: agents repeat them with each model call, and reading them each time costs 30 % more CPU."""

    def __init__(self) -> None:
        self._known = FIFOCache[tuple[object, _Written], tuple[Tools, int]](_MOST_CHARACTERS, itemgetter(1))

    def read(self, value: Value) -> Tools:
        """Read the value of a definitions attribute: a list, plain or as JSON text."""
        return self._once(value, _listed)

    def flattened(self, attributes: Mapping[str, Value]) -> Tools:
        """Read OpenInference's offer: `llm.tools.<n>`, else the tools of the invocation, else those of the whole request."""
        # Most spans repeat the whole offer: looked up tool by tool, it would be another object each time.
        found = NO_TOOLS
        if TOOLS in " ".join(attributes):
            written = tuple([(key, attributes.get(key)) for key in attributes if key.startswith(TOOLS)])
            found = self._once(written, self._grouped)
        if found := found or self._once(attributes.get(INVOCATION_PARAMETERS), _invoked):
            return found
        # Some producers record the tools nowhere else.
        request = attributes.get(_INPUT)
        items = _requested(request) if isinstance(request, str) and _REQUESTED.search(request) else ()
        shown: list[ToolDefinition] = []
        for item in items:
            shown += self._once(item, _shown) if isinstance(item, str) else definitions(values.as_object(item))
        return Tools(shown)

    def _grouped(self, written: Iterable[tuple[str, Value]]) -> Iterator[ToolDefinition]:
        for numbered in values.numbered(dict(written), TOOLS):
            fields = {name.removeprefix("tool."): value for name, value in numbered.items()}
            recorded = self._once(fields.get("json_schema"), _listed)
            name = values.as_str(fields.get("name"))
            if name is None:
                yield from recorded
                continue
            description = fields.get("description")
            description = description if isinstance(description, str) else None
            if recorded:
                yield replace(recorded[0], name=name, description=description or recorded[0].description)
            else:
                bare = values.decoded_object(fields.get("json_schema"))
                parameters = _json_schema(bare) if bare else None
                yield ToolDefinition(name=name, description=description, parameters=parameters)

    def called(self, span: Span, name: str, instrumentation: str) -> ToolDefinition | None:
        """Return the definition that a tool's own span has in `tool.parameters`, `None` where that holds arguments."""
        written = span.attributes.get(PARAMETERS)
        if not isinstance(written, str) or written == span.attributes.get(_INPUT):
            return None
        is_smolagents = instrumentation == "smolagents"
        # Arguments would fill the memory of definitions.
        if not is_smolagents and '"type"' not in written:
            return None
        found = self._once(written, _inputs if is_smolagents else _described)
        return ToolDefinition(name=name, parameters=found[0].parameters) if found else None

    def _once(self, value: _Read, read: Callable[[_Read], Iterable[ToolDefinition]]) -> Tools:
        if value is None:
            return NO_TOOLS
        try:
            written = value if isinstance(value, (str, tuple)) else json.dumps(value)
            known = self._known.get((read, written))
        except TypeError:
            return Tools(read(value))
        if known is None:
            known = Tools(read(value)), len(str(written))
            if known[1] <= _MOST_OF_ONE:
                self._known[read, written] = known
        return known[0]


def definitions(item: JsonObject, *, is_google: bool = False) -> Iterator[ToolDefinition]:
    """Read one item of a provider's list; one of Google's holds several tools."""
    for several in ("function_declarations", "functionDeclarations"):
        for inner in values.as_list(item.get(several)):
            yield from definitions(values.as_object(inner), is_google=True)
    wrapped = (values.as_object(item.get(key)) for key in ("function", "custom", "toolSpec"))
    source = next(filter(None, wrapped), item)
    # A tool of the provider has a type and no name: `{"type": "web_search"}`.
    kind = values.as_str(item.get("type"))
    hosted = None if kind in _NO_TOOLS else kind
    name = next((name for key in _NAMES if (name := values.as_str(source.get(key)))), hosted)
    if name is None:
        return
    key = next((key for key in _SCHEMA_KEYS if source.get(key) is not None), "")
    read = values.arguments_inside(source.get(key))
    parameters = read.value if isinstance(read, Recorded) and isinstance(read.value, dict) else None
    if parameters is not None and isinstance(inner := parameters.get("json"), dict):  # Bedrock
        parameters = inner
    if parameters is not None and is_google and key == _SCHEMA_KEYS[0]:
        parameters = _google_schema(parameters)
    yield ToolDefinition(
        name=name,
        description=values.as_str(source.get("description")),
        parameters=None if parameters is None else _json_schema(parameters),
        takes_text=item.get("type") == "custom" and parameters is None,
        is_repeatable=is_repeatable(source),
    )


def is_repeatable(tool: JsonObject) -> bool:
    """Return whether a tool only reads by MCP's hints, or another equal call of it changes nothing more."""
    hints = values.as_object(tool.get("annotations"))
    return hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True


def _listed(value: Value) -> Iterator[ToolDefinition]:
    for item in values.objects(value, ""):
        yield from definitions(item)


def _invoked(value: Value) -> Iterator[ToolDefinition]:
    for item in _requested(value):
        yield from definitions(values.as_object(item))


def _requested(value: Value) -> Iterator[Json]:
    request = values.decoded_object(value)
    # Portkey keeps what its signature does not name apart.
    for source in (request, values.as_object(request.get("kwargs"))):
        for key in ("tools", "functions"):
            yield from values.as_list(source.get(key))


def _shown(value: Value) -> Iterator[ToolDefinition]:
    """Read a tool of Haystack, an object as Python shows it."""
    yield from definitions(values.as_object(values.from_repr(str(value))))


def _described(recorded: Value) -> Iterator[ToolDefinition]:
    """Read a schema, or the properties alone."""
    written = values.decoded_object(recorded)
    if not is_schema(written) or (
        "properties" not in written and written.get("type") == "object" and written.keys() - _BESIDE
    ):
        return
    if all(isinstance(item, dict) and isinstance(item.get("type"), str | list) for item in written.values()):
        yield from _inputs(written)
    else:
        yield ToolDefinition(name="", parameters=_json_schema(written))


def _inputs(value: Value) -> Iterator[ToolDefinition]:
    """Read the inputs of a smolagents tool: properties, optional where nullable or with a default."""
    recorded = values.decoded(value)
    if not isinstance(recorded, dict):
        return
    # A type that JSON does not have is dropped: any value may be recorded.
    properties: dict[str, JsonObject] = {
        name: {key: value for key, value in item.items() if key != "type" or value not in _NO_JSON_TYPES}
        for name, item in recorded.items()
        if isinstance(item, dict)
    }
    if len(properties) < len(recorded):
        yield from _described(recorded)
        return
    required: list[Json] = [
        name for name, item in properties.items() if item.get("nullable") is not True and "default" not in item
    ]
    yield ToolDefinition(name="", parameters={"type": "object", "properties": {**properties}, "required": required})


def is_schema(value: JsonObject) -> bool:
    """Return whether `tool.parameters` holds a schema, and not arguments."""
    if value.get("type") == "object" or isinstance(value.get("properties"), dict):
        return True
    # smolagents writes the properties alone: {"city": {"type": "string", "description": "..."}}
    return bool(value) and all(isinstance(item, dict) and "type" in item for item in value.values())


def _json_schema(value: JsonObject) -> JsonObject:
    return _google_schema(value) if value.get("type") in _CAPITAL_TYPES else value


def _google_schema(value: Json, room: int = _MAX_DEPTH) -> JsonObject:
    """Turn Google's dialect of OpenAPI (types in capitals, snake case, `nullable`) into JSON Schema."""
    if not isinstance(value, dict) or room == 0:
        return {}
    schema: JsonObject = {}
    for key, item in value.items():
        name = _GOOGLE_KEYS.get(key, key)
        if name == "type":
            schema[name] = item.lower() if isinstance(item, str) else item
        elif name == "properties":
            schema[name] = {inner: _google_schema(found, room - 1) for inner, found in values.as_object(item).items()}
        elif name == "items" or (name == "additionalProperties" and isinstance(item, dict)):
            schema[name] = _google_schema(item, room - 1)
        elif name == "anyOf":
            schema[name] = [_google_schema(found, room - 1) for found in values.as_list(item)]
        elif name in _GOOGLE_COUNTS:
            # 64-bit integers are text in Google's JSON.
            is_number = isinstance(item, str) and item.isascii() and item.isdigit() and len(item) < 19
            schema[name] = int(item) if isinstance(item, str) and is_number else item
        elif name not in ("nullable", "property_ordering", "propertyOrdering", "example"):
            schema[name] = item
    if value.get("nullable") is True:
        if isinstance(kind := schema.get("type"), str):
            schema["type"] = [kind, "null"]
        if isinstance(several := schema.get("enum"), list):
            schema["enum"] = [*several, None]
    return schema
