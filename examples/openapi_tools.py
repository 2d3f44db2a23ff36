#!/usr/bin/env python3
"""OpenAPI 3 document -> list of tools for `tool_definitions`: one an operation, with flat arguments, as FastMCP makes them.

    python3 examples/openapi_tools.py shop.openapi.json > tools/shop.json

An operation becomes a tool of the name of its `operationId` (else method and path), with `_` for what a name must not have. Its
arguments are the path, query and header parameters and the properties of its request body; a parameter that shares its
name is called `<name>__<in>`. A body that is no object with properties is the argument `body`. Where your converter names
tools differently, write its own list of tools (MCP's `tools/list`) to a file instead.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = Any
JsonObject = dict[str, Any]

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_COMPONENTS = "#/components/"
_SCHEMAS = "#/components/schemas/"
_NOT_OF_NAMES = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST_NAME = 64
_MAX_HOPS = 32
_IN = frozenset(("path", "query", "header"))
# OpenAPI describes these elsewhere, and no model is asked for them.
_HEADERS = frozenset(("accept", "authorization", "content-type"))


def openapi_tools(document: JsonObject) -> Iterator[JsonObject]:
    """Yield the tools. Raises `ValueError` for a document that is not OpenAPI 3."""
    if not str(document.get("openapi", "")).startswith("3."):
        raise ValueError("not an OpenAPI 3 document")
    references = _References(document)
    for path, written in _object(document.get("paths")).items():
        item = references.resolved(written)
        for method in _METHODS:
            operation = references.resolved(item.get(method))
            if operation:
                yield _tool(path, method, item, operation, references)


def _tool(path: str, method: str, item: JsonObject, operation: JsonObject, references: "_References") -> JsonObject:
    arguments = _Arguments()
    body = _Body.of(operation, references)
    parameters = _parameters(item, operation, references)
    names = [*body.properties, *(name for name, _ in parameters)]
    for (name, where), parameter in parameters.items():
        argument = f"{name}__{where}" if names.count(name) > 1 else name
        arguments.add(argument, _schema_of(parameter), required=where == "path" or parameter.get("required") is True)
    for name, schema in body.properties.items():
        arguments.add(name, schema, required=name in body.required)
    parameters_schema: JsonObject = {
        "type": "object",
        "properties": arguments.properties,
        "required": arguments.required,
    }
    if body.additional is not None:
        parameters_schema["additionalProperties"] = body.additional
    return {
        "name": _name(operation, method, path),
        "description": _text(operation.get("description")) or _text(operation.get("summary")),
        "parameters": references.alone(parameters_schema),
    }


@dataclass(slots=True)
class _Arguments:
    properties: JsonObject = field(default_factory=dict)
    required: list = field(default_factory=list)

    def add(self, name: str, schema: Json, *, required: bool) -> None:
        """Add one."""
        self.properties[name] = schema
        if required:
            self.required.append(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Body:
    """The request body as arguments. `additional` is what the schema has about properties that it does not name."""

    properties: JsonObject = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    additional: Json = None

    @classmethod
    def of(cls, operation: JsonObject, references: "_References") -> "_Body":
        """Read the body of an operation; an operation may have none."""
        body = references.resolved(operation.get("requestBody"))
        content = _object(body.get("content"))
        if not content:
            return cls()
        is_needed = body.get("required") is True
        # JSON is what tools send; of other types the first one counts.
        media_type = min(content, key=lambda name: "json" not in name)
        schema = _object(content[media_type]).get("schema")
        found = references.members(schema)
        if not found.properties:
            return cls(properties={"body": schema}, required=frozenset(("body",) if is_needed else ()))
        return found if is_needed else cls(properties=found.properties, additional=found.additional)


class _References:
    """What a document refers to in itself. Nothing outside of it is read."""

    def __init__(self, document: JsonObject) -> None:
        self._components = _object(document.get("components"))
        # Each schema of the document, with its references turned, and which others it refers to.
        self._turned: dict[str, tuple[Json, frozenset[str]]] = {}

    def resolved(self, value: Json) -> JsonObject:
        """Follow references to components; an object that is none leads to itself, everything else to nothing."""
        for _ in range(_MAX_HOPS):
            reference = _object(value).get("$ref")
            if not isinstance(reference, str):
                break
            kind, _, name = reference.removeprefix(_COMPONENTS).partition("/")
            value = _object(self._components.get(kind)).get(_unescaped(name)) if _is_local(reference) else None
        return _object(value)

    def members(self, schema: Json, depth: int = 0) -> _Body:
        """Collect the properties of an object, also where it is made of several (`allOf`)."""
        found = self.resolved(schema)
        properties = dict(_object(found.get("properties")))
        required = {name for name in _list(found.get("required")) if isinstance(name, str)}
        additional = found.get("additionalProperties")
        for part in _list(found.get("allOf")) if depth < _MAX_HOPS else ():
            below = self.members(part, depth + 1)
            properties = {**below.properties, **properties}
            required |= below.required
        # What the server alone fills in is required of its answers.
        required -= {name for name, value in properties.items() if _object(value).get("readOnly") is True}
        return _Body(properties=properties, required=frozenset(required), additional=additional)

    def alone(self, schema: JsonObject) -> JsonObject:
        """Make a schema that holds all it refers to."""
        turned, left = _turned(schema)
        definitions: JsonObject = {}
        waiting = list(left)
        while waiting:
            name = waiting.pop()
            if name not in definitions:
                definitions[name], more = self._definition(name)
                waiting.extend(more)
        whole = _object(turned)
        return {**whole, "$defs": definitions} if definitions else whole

    def _definition(self, name: str) -> tuple[Json, frozenset[str]]:
        known = self._turned.get(name)
        if known is None:
            schemas = _object(self._components.get("schemas"))
            if name not in schemas:
                raise ValueError(f"refers to `{_SCHEMAS}{name[:80]}`, which it does not hold")
            known = self._turned[name] = _turned(schemas[name])
        return known


def _turned(value: Json) -> tuple[Json, frozenset[str]]:
    """Let references to schemas of the document lead to `$defs`; name the schemas."""
    names: set[str] = set()

    def turn(value: Json) -> Json:
        match value:
            case dict():
                return {key: refer(item) if key == "$ref" else turn(item) for key, item in value.items()}
            case list():
                return [turn(item) for item in value]
            case _:
                return value

    def refer(reference: Json) -> Json:
        if not isinstance(reference, str) or not reference.startswith(_SCHEMAS):
            return turn(reference)
        written, slash, inside = reference.removeprefix(_SCHEMAS).partition("/")
        names.add(_unescaped(written))
        return f"#/$defs/{written}{slash}{inside}"

    return turn(value), frozenset(names)


def _parameters(
    item: JsonObject, operation: JsonObject, references: _References
) -> Mapping[tuple[str, str], JsonObject]:
    """Return the parameters by name and place; those of the operation replace those of its path."""
    found: dict[tuple[str, str], JsonObject] = {}
    for written in (*_list(item.get("parameters")), *_list(operation.get("parameters"))):
        parameter = references.resolved(written)
        name, where = parameter.get("name"), parameter.get("in")
        if not isinstance(name, str) or not isinstance(where, str) or where not in _IN:
            continue
        if where != "header" or name.lower() not in _HEADERS:
            found[name, where] = parameter
    return found


def _schema_of(parameter: JsonObject) -> Json:
    if "schema" in parameter:
        return parameter["schema"]
    contents = list(_object(parameter.get("content")).values())
    return _object(contents[0]).get("schema") if contents else None


def _name(operation: JsonObject, method: str, path: str) -> str:
    written = _text(operation.get("operationId")) or f"{method}_{path.strip('/')}"
    return _NOT_OF_NAMES.sub("_", written).strip("_")[:_LONGEST_NAME] or method


def _is_local(reference: str) -> bool:
    return reference.startswith(_COMPONENTS)


def _unescaped(name: str) -> str:
    return name.replace("~1", "/").replace("~0", "~")


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _list(value: Json) -> Sequence[Json]:
    return value if isinstance(value, list) else ()


def _text(value: Json) -> str | None:
    return value if isinstance(value, str) and value else None


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(json.dumps([*openapi_tools(json.loads(Path(sys.argv[1]).read_text("utf-8")))], indent=2))
