"""Converts JSON Schemas as producers write them to draft 2020-12, and corrects their errors.

A schema comes in a span and is as little to be trusted as any other value: the result has known keywords only, each of the
right form, patterns that run in linear time, and references only into the schema itself. A schema that no checker could use
raises `SchemaError`; other spellings are read for their meaning (`nullable`, lists as `items`, limits that are a truth value
as in OpenAPI 3.0, null where a keyword could be left out, null for a property that is not required).
"""

import json
from collections.abc import Callable, Mapping
from typing import TypeAlias, cast
from urllib.parse import unquote

import msgspec

from toolgauge import on_demand
from toolgauge.model.errors import SchemaError
from toolgauge.model.json import Json, JsonObject

_MAX_SCHEMA_BYTES = 256 * 1024
_TYPES = frozenset(("string", "integer", "number", "boolean", "null", "array", "object"))
_NOT_NULL: JsonObject = {"not": {"type": "null"}}
# A compiled pattern may take this much memory; real ones take a tenth.
PATTERN_BYTES = 128 * 1024
_MAX_PATTERNS = 32
_Read: TypeAlias = Callable[["SchemaReader", Json, str], Json]


def schema_text(written: JsonObject) -> str:
    """Write a schema as text; raise `SchemaError` for one that is too large to check against."""
    try:
        text = msgspec.json.encode(written).decode()
    except UnicodeEncodeError:  # a lone surrogate
        text = json.dumps(written)
    except RecursionError:
        raise SchemaError("it is nested too deeply") from None
    if len(text) > _MAX_SCHEMA_BYTES:
        raise SchemaError(f"it is larger than {_MAX_SCHEMA_BYTES // 1024} KiB")
    return text


def compiled(schema: JsonObject) -> "on_demand.jsonschema_rs.Draft202012Validator":
    """Compile a schema; raise a `ValueError` where that fails: `ValidationError` for a wrong schema."""
    library = on_demand.jsonschema_rs
    options = library.RegexOptions(size_limit=PATTERN_BYTES)
    return library.Draft202012Validator(schema, validate_formats=False, offline=True, pattern_options=options)


class SchemaReader:
    """Reads one schema into `root`; `targets` are the schemas that its references lead to."""

    def __init__(self, written: JsonObject) -> None:
        """Read it, or raise `SchemaError`."""
        self.nodes = self.patterns = 0
        # Patterns with look-around, which takes exponential time, and those beyond the limit: they are not checked.
        self.skipped_patterns = 0
        self.targets: dict[str, JsonObject] = {}
        self._references: list[tuple[JsonObject, str]] = []
        self._schemas: dict[int, JsonObject] = {}
        self._optional: set[int] = set()
        self.root = self.schema(written, "")
        for holder, reference in self._references:
            self._resolve(holder, reference)

    def schema(self, written: Json, where: str) -> JsonObject:
        """Read a schema at any depth. True and null (where one could be left out) allow everything."""
        self.nodes += 1
        schema: JsonObject = {}
        self._schemas[id(schema)] = schema
        if written is True or written is None:
            return schema
        if written is False:
            schema["not"] = {}
            return schema
        if not isinstance(written, dict):
            raise SchemaError(f"{where} is no schema")
        for keyword, value in written.items():
            read = _KEYWORDS.get(keyword)
            if read is not None and (value is not None or keyword in ("const", "enum")):
                found = read(self, value, f"{where}/{keyword}")
                if found is not None or keyword == "const":
                    schema[keyword] = found
        if "$ref" in schema:
            self._references.append((schema, str(schema["$ref"])))
        _modernize(schema, written)
        if schema.get("additionalProperties") == {"not": {}}:
            # Strict modes write this for an object with any keys: by the letter, only an empty one would be allowed.
            if where and not schema.get("properties") and not schema.get("patternProperties"):
                del schema["additionalProperties"]
            else:
                schema["additionalProperties"] = False
        properties, required = schema.get("properties"), schema.get("required")
        if isinstance(properties, dict):
            for name in properties.keys() - set(cast("list[str]", required or ())):
                # Models mean a null for an argument that they leave out.
                properties[name] = {"if": _NOT_NULL, "then": properties[name]}
                self._optional.add(id(properties[name]))
        return schema

    def _resolve(self, holder: JsonObject, reference: str) -> None:
        node: Json = self.root
        place = "#"
        for step in reference.split("/")[1:]:
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict):
                node = node.get(name)
            elif isinstance(node, list) and name.isascii() and name.isdecimal() and int(name[:6]) < len(node):
                node = node[int(name[:6])]
            else:
                node = None
            place = f"{place}/{step}"
            if isinstance(node, dict) and id(node) in self._optional:
                node, place = node["then"], f"{place}/then"
        if not isinstance(node, dict) or id(node) not in self._schemas:
            raise SchemaError("it refers to something that it does not hold")
        holder["$ref"] = place
        self.targets[place] = node

    def schemas(self, written: Json, where: str) -> Json:
        """Read schemas by name."""
        if not isinstance(written, dict):
            raise SchemaError(f"{where} is no object")
        return {name: self.schema(value, f"{where}/{name}") for name, value in written.items()}

    def list_of_schemas(self, written: Json, where: str) -> Json:
        """Read alternatives."""
        if not isinstance(written, list) or not written:
            raise SchemaError(f"{where} is no list of schemas")
        return [self.schema(value, f"{where}/{number}") for number, value in enumerate(written)]

    def items(self, written: Json, where: str) -> Json:
        """Read `items`, a list before `prefixItems` took its place."""
        if isinstance(written, list):
            return [self.schema(value, f"{where}/{number}") for number, value in enumerate(written)]
        return self.schema(written, where)

    def by_pattern(self, written: Json, where: str) -> Json:
        """Read `patternProperties`; a pattern that cannot be used allows every name."""
        found: JsonObject = {}
        for text, schema in cast("JsonObject", self.schemas(written, where)).items():
            usable = self.pattern(text, where)
            found["" if usable is None else text] = {} if usable is None else schema
        return found

    def pattern(self, written: Json, where: str) -> Json:
        """Return a pattern that can be checked."""
        if not isinstance(written, str):
            raise SchemaError(f"{where} is no text")
        self.patterns += 1
        if self.patterns <= _MAX_PATTERNS:
            try:
                compiled({"pattern": written})
            except (on_demand.jsonschema_rs.ValidationError, UnicodeEncodeError):
                pass  # counted below
            else:
                return written
        self.skipped_patterns += 1
        return None


def _types(_reader: SchemaReader, written: Json, where: str) -> Json:
    # Gemini writes them in capitals.
    names = [
        name.lower() if isinstance(name, str) else "" for name in (written if isinstance(written, list) else [written])
    ]
    if "any" in names:
        return None
    if not names or not _TYPES.issuperset(names):
        raise SchemaError(f"{where} names no type that JSON has")
    return names[0] if len(names) == 1 else [*dict.fromkeys(names)]


def _kept(is_right: Callable[[Json], bool], words: str) -> _Read:
    def read(_reader: SchemaReader, written: Json, where: str) -> Json:
        if not is_right(written):
            raise SchemaError(f"{where} {words}")
        return written

    return read


def _is_above(number: Json, least: float) -> bool:
    return isinstance(number, int | float) and not isinstance(number, bool) and least < number < float("inf")


# One that leads out of the schema is never followed.
_REFERENCE = _kept(lambda written: isinstance(written, str) and f"{written}/"[:2] == "#/", "leads out of the schema")
_LIMIT = _kept(lambda written: isinstance(written, int | float), "is no number")
_COUNT = _kept(lambda written: _is_above(written, 0) or (written == 0 and written is not False), "is no count")


def _names(_reader: SchemaReader, written: Json, where: str) -> Json:
    if isinstance(written, bool):
        return None  # Swagger and the third draft mark the property itself
    if not isinstance(written, list) or not all(isinstance(name, str) for name in written):
        raise SchemaError(f"{where} is no list of names")
    return [*dict.fromkeys(cast("list[str]", written))]


def _names_by_name(reader: SchemaReader, written: Json, where: str) -> Json:
    if not isinstance(written, dict):
        raise SchemaError(f"{where} is no object")
    return {name: _names(reader, value, f"{where}/{name}") or [] for name, value in written.items()}


# Everything else is a remark, or is left unchecked: `format` and `unevaluated*` among it.
_KEYWORDS: Mapping[str, _Read] = {
    **dict.fromkeys(("$defs", "definitions", "properties", "dependentSchemas"), SchemaReader.schemas),
    **dict.fromkeys(
        ("additionalProperties", "propertyNames", "additionalItems", "contains", "not", "if", "then", "else"),
        SchemaReader.schema,
    ),
    **dict.fromkeys(("prefixItems", "allOf", "anyOf", "oneOf"), SchemaReader.list_of_schemas),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _LIMIT),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minContains", "maxContains"), _COUNT),
    **dict.fromkeys(("minProperties", "maxProperties"), _COUNT),
    "$ref": _REFERENCE,
    "patternProperties": SchemaReader.by_pattern,
    "items": SchemaReader.items,
    "pattern": SchemaReader.pattern,
    "type": _types,
    "enum": _kept(lambda written: isinstance(written, list | None), "is no list"),
    "const": lambda _reader, written, _where: written,
    "required": _names,
    "dependentRequired": _names_by_name,
    "multipleOf": _kept(lambda written: _is_above(written, 0), "is no number above 0"),
    "uniqueItems": _kept(lambda written: isinstance(written, bool), "is neither true nor false"),
}


def _modernize(schema: JsonObject, written: JsonObject) -> None:
    """Write keywords of older drafts and OpenAPI 3.0 as in draft 2020-12."""
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        # OpenAPI 3.0 has the number in one and a truth value in the other.
        if isinstance(schema.get(exclusive), bool) and schema.pop(exclusive) and limit in schema:
            schema[exclusive] = schema.pop(limit)
    beyond = schema.pop("additionalItems", None)
    if isinstance(schema.get("items"), list):
        schema["prefixItems"] = schema.pop("items")
        if not schema["prefixItems"]:
            del schema["prefixItems"]
        if beyond is not None:
            schema["items"] = beyond
    is_nullable = written.get("nullable") is True
    types, allowed = schema.get("type"), schema.get("enum")
    if is_nullable and types is not None:
        names: list[Json] = types if isinstance(types, list) else [types]
        schema["type"] = names if "null" in names else [*names, "null"]
    if allowed == []:
        del schema["enum"]
    elif isinstance(allowed, list):
        # A default is allowed, also where the values were listed without it.
        defaults = [written["default"]] if "default" in written else []
        nulls: list[Json] = [None] if is_nullable else []
        schema["enum"] = [*allowed, *defaults, *nulls]
    dependent = schema.pop("dependentRequired", None)
    if isinstance(dependent, dict):
        for name, others in dependent.items():
            given: JsonObject = {"required": [name], "properties": {name: _NOT_NULL}}
            rule: JsonObject = {"if": given, "then": {"required": others}}
            schema["allOf"] = [*cast("list[Json]", schema.get("allOf", [])), rule]
