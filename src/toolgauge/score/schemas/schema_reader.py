"""JSON Schemas as producers write them -> schemas that can be checked against, with their oddities put right.

A schema comes in a span and is as little to be trusted as any other value: what leaves has known keywords only, each of the
form that it must have, patterns compiled by RE2, and references to nothing but itself. What no checker could make sense
of is a `SchemaError`; what merely looks different is read for what it means (`nullable`, lists as `items`, limits
that are a truth value as in OpenAPI 3.0, null where a keyword could be left out).
"""

# What is read has values of every type: pyright sees `object` in it.
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownMemberType=false

import json
from collections.abc import Callable, Mapping
from types import NoneType
from typing import TypeAlias
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from toolgauge.model.errors import ConfigError, SchemaError
from toolgauge.model.json import Json, JsonObject
from toolgauge.score.equality import Key, canonical
from toolgauge.score.patterns import Pattern

_MAX_SCHEMA_BYTES = 256 * 1024

_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (NoneType,),
    "array": (list,),
    "object": (dict,),
}
_ANY = "any"
# What false stands for.
NOTHING: Mapping[str, object] = {"not": {}}
# A compiled pattern may take this much memory; real ones take a tenth.
PATTERN_BYTES = 128 * 1024
_MAX_PATTERNS = 32


class Types(Struct, frozen=True):
    """The types that a value may have: those of Python, and the words that the schema has for them."""

    words: tuple[str, ...]
    python: frozenset[type]

    def match(self, value: object) -> bool:
        """Return whether the value has one of these types; 1.0 is an integer, and a truth value is none."""
        if type(value) in self.python:
            return True
        return type(value) is float and int in self.python and value.is_integer()


class Allowed(Struct, frozen=True):
    """The values of `enum` or `const`."""

    values: tuple[Json, ...]
    keys: frozenset[Key]
    texts: frozenset[str]

    def match(self, value: Json) -> bool:
        """Return whether the value is one of them."""
        return value in self.texts if isinstance(value, str) else canonical(value) in self.keys


class Prepared(dict[str, object]):
    """What a schema becomes: the value of a keyword is a schema, schemas by name or in a list, a plain value, or of a type of ours."""

    __slots__ = ()


class Target(Struct):
    """What a reference leads to, filled in once all of the schema is read."""

    schema: Prepared


_Read: TypeAlias = Callable[["SchemaReader", Json, str], object]


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


class SchemaReader:
    """Reads one schema; `root` is what it became."""

    def __init__(self, written: JsonObject) -> None:
        """Read it, or raise `SchemaError`."""
        self.patterns = 0
        # Of the patterns that RE2 does not have or that are too many: these are not checked.
        self.skipped_patterns = 0
        self._targets: dict[str, Target] = {}
        self.root = self.schema(written, "")
        for reference, target in self._targets.items():
            target.schema = _found(self.root, reference)

    def schema(self, written: Json, where: str) -> Prepared:
        """Read a schema at any depth. True and null (where one could be left out) allow everything."""
        if written is True or written is None:
            return Prepared()
        if written is False:
            return Prepared({"not": Prepared()})
        if not isinstance(written, dict):
            raise SchemaError(f"{where} is no schema")
        prepared = Prepared()
        for keyword, value in written.items():
            read = _KEYWORDS.get(keyword)
            if read is None or (value is None and keyword not in ("const", "enum")):
                continue
            found = read(self, value, f"{where}/{keyword}")
            if found is not None:
                prepared[keyword] = found
        _put_right(prepared, written)
        names_some = prepared.get("properties") or prepared.get("patternProperties")
        if where and not names_some and prepared.get("additionalProperties") == NOTHING:
            # What strict modes make of an object with any keys: by the letter, only an empty one would be allowed.
            del prepared["additionalProperties"]
        return prepared

    def schemas(self, written: Json, where: str) -> dict[str, Prepared]:
        """Read schemas by name."""
        if not isinstance(written, dict):
            raise SchemaError(f"{where} is no object")
        return {name: self.schema(value, f"{where}/{name}") for name, value in written.items()}

    def list_of_schemas(self, written: Json, where: str) -> list[Prepared]:
        """Read alternatives."""
        if not isinstance(written, list) or not written:
            raise SchemaError(f"{where} is no list of schemas")
        return [self.schema(value, f"{where}/{number}") for number, value in enumerate(written)]

    def schema_or_list(self, written: Json, where: str) -> Prepared | list[Prepared]:
        """Read `items`, which was a list before `prefixItems` was."""
        if isinstance(written, list):
            return [self.schema(value, f"{where}/{number}") for number, value in enumerate(written)]
        return self.schema(written, where)

    def by_pattern(self, written: Json, where: str) -> dict[Pattern, Prepared]:
        """Read `patternProperties`; a pattern that cannot be used allows every name."""
        found: dict[Pattern, Prepared] = {}
        for text, schema in self.schemas(written, where).items():
            pattern = self.pattern(text, where)
            found[pattern or Pattern("")] = Prepared() if pattern is None else schema
        return found

    def pattern(self, written: Json, where: str) -> Pattern | None:
        """Compile a pattern."""
        if not isinstance(written, str):
            raise SchemaError(f"{where} is no text")
        self.patterns += 1
        try:
            if self.patterns <= _MAX_PATTERNS:
                return Pattern(written, max_bytes=PATTERN_BYTES)
        except ConfigError:
            pass  # counted below: the dialect of JSON Schema has look-around, which takes exponential time
        self.skipped_patterns += 1
        return None

    def reference(self, written: Json, where: str) -> Target:
        """Read a reference; one that leads out of the schema is never followed."""
        if not isinstance(written, str) or (written != "#" and not written.startswith("#/")):
            raise SchemaError(f"{where} leads out of the schema")
        return self._targets.setdefault(written, Target(Prepared()))


def _types(_reader: SchemaReader, written: Json, where: str) -> Types | None:
    words = written if isinstance(written, list) else [written]
    # Gemini writes them in capitals.
    names = [word.lower() if isinstance(word, str) else "" for word in words]
    if _ANY in names:
        return None
    if not names or not all(name in _KINDS for name in names):
        raise SchemaError(f"{where} names no type that JSON has")
    return _types_of(tuple(dict.fromkeys(names)))


def _types_of(words: tuple[str, ...]) -> Types:
    return Types(words, frozenset(kind for word in words for kind in _KINDS[word]))


def _enum(_reader: SchemaReader, written: Json, where: str) -> Allowed | None:
    if written is None or written == []:
        return None
    if not isinstance(written, list):
        raise SchemaError(f"{where} is no list")
    return _allowed(written)


def _const(_reader: SchemaReader, written: Json, _where: str) -> Allowed:
    return _allowed([written])


def _allowed(values: list[Json]) -> Allowed:
    texts = frozenset(value for value in values if isinstance(value, str))
    return Allowed(tuple(values), frozenset(map(canonical, values)), texts)


def _limit(_reader: SchemaReader, written: Json, where: str) -> float | bool:
    if not isinstance(written, int | float):
        raise SchemaError(f"{where} is no number")
    return written


def _divisor(_reader: SchemaReader, written: Json, where: str) -> float:
    if isinstance(written, bool) or not isinstance(written, int | float) or not 0 < written < float("inf"):
        raise SchemaError(f"{where} is no number above 0")
    return written


def _count(_reader: SchemaReader, written: Json, where: str) -> float:
    if isinstance(written, bool) or not isinstance(written, int | float) or not written >= 0:
        raise SchemaError(f"{where} is no count")
    return written


def _flag(_reader: SchemaReader, written: Json, where: str) -> bool:
    if not isinstance(written, bool):
        raise SchemaError(f"{where} is neither true nor false")
    return written


def _names(_reader: SchemaReader, written: Json, where: str) -> tuple[str, ...] | None:
    if isinstance(written, bool):
        # Swagger and the third draft mark the property itself.
        return None
    if not isinstance(written, list):
        raise SchemaError(f"{where} is no list of names")
    names = tuple(name for name in written if isinstance(name, str))
    if len(names) != len(written):
        raise SchemaError(f"{where} is no list of names")
    return tuple(dict.fromkeys(names))


def _names_by_name(reader: SchemaReader, written: Json, where: str) -> dict[str, tuple[str, ...]]:
    if not isinstance(written, dict):
        raise SchemaError(f"{where} is no object")
    return {name: _names(reader, value, f"{where}/{name}") or () for name, value in written.items()}


# Everything else is a remark, or is left unchecked: `format` and `unevaluated*` among it.
_KEYWORDS: Mapping[str, _Read] = {
    "$ref": SchemaReader.reference,
    "$defs": SchemaReader.schemas,
    "definitions": SchemaReader.schemas,
    "properties": SchemaReader.schemas,
    "dependentSchemas": SchemaReader.schemas,
    "patternProperties": SchemaReader.by_pattern,
    "additionalProperties": SchemaReader.schema,
    "propertyNames": SchemaReader.schema,
    "items": SchemaReader.schema_or_list,
    "additionalItems": SchemaReader.schema,
    "contains": SchemaReader.schema,
    "not": SchemaReader.schema,
    "if": SchemaReader.schema,
    "then": SchemaReader.schema,
    "else": SchemaReader.schema,
    "prefixItems": SchemaReader.list_of_schemas,
    "allOf": SchemaReader.list_of_schemas,
    "anyOf": SchemaReader.list_of_schemas,
    "oneOf": SchemaReader.list_of_schemas,
    "pattern": SchemaReader.pattern,
    "type": _types,
    "enum": _enum,
    "const": _const,
    "required": _names,
    "dependentRequired": _names_by_name,
    "minimum": _limit,
    "maximum": _limit,
    "exclusiveMinimum": _limit,
    "exclusiveMaximum": _limit,
    "multipleOf": _divisor,
    "minLength": _count,
    "maxLength": _count,
    "minItems": _count,
    "maxItems": _count,
    "minContains": _count,
    "maxContains": _count,
    "minProperties": _count,
    "maxProperties": _count,
    "uniqueItems": _flag,
}


def _put_right(prepared: Prepared, written: JsonObject) -> None:
    """Read what older drafts and OpenAPI 3.0 write differently for what it means."""
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        # OpenAPI 3.0 has the number in one and a truth value in the other.
        if isinstance(prepared.get(exclusive), bool) and prepared.pop(exclusive) and limit in prepared:
            prepared[exclusive] = prepared.pop(limit)
    beyond = prepared.pop("additionalItems", None)
    if isinstance(prepared.get("items"), list):
        prepared["prefixItems"] = prepared.pop("items")
        if beyond is not None:
            prepared["items"] = beyond
    is_nullable = written.get("nullable") is True
    types, allowed = prepared.get("type"), prepared.get("enum")
    if is_nullable and isinstance(types, Types):
        prepared["type"] = _types_of((*types.words, "null"))
    if isinstance(allowed, Allowed):
        # A default is allowed, also where the values were listed without it.
        defaults = [written["default"]] if "default" in written else []
        nulls: list[Json] = [None] if is_nullable else []
        prepared["enum"] = _allowed([*allowed.values, *defaults, *nulls])


def _found(root: Prepared, reference: str) -> Prepared:
    node: object = root
    for step in reference.split("/")[1:]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict):
            node = node.get(name)
        elif isinstance(node, list) and name.isascii() and name.isdecimal() and len(name) < 6 and int(name) < len(node):
            node = node[int(name)]
        else:
            node = None
    if not isinstance(node, Prepared):
        raise SchemaError("it refers to something that it does not hold")
    return node
