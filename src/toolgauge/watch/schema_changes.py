"""Compares two definitions of a tool: the arguments, which of them are required, and the types and values of each.

Of common spellings of one meaning (the order of names, one `const` or an `enum`, `nullable`) only one is kept. A difference anywhere
else is a change whose effect is not known.
"""

import json
from collections.abc import Iterator
from typing import Literal, TypeAlias

from toolgauge.model.json import Json, JsonObject
from toolgauge.model.masks import is_mask
from toolgauge.model.metrics import short_hash
from toolgauge.model.observations import ToolDefinition

# By place, hashes of the texts there; several where alternatives have no name.
Words: TypeAlias = dict[str, list[str]]
Difference: TypeAlias = tuple[Literal["breaking", "changed", "additive", "wording"], str]

_ROOT = "$.parameters"
_MAX_DEPTH = 32
_GRAVEST = ("breaking", "changed", "additive")
_ALL: frozenset[Json] = frozenset(("string", "integer", "number", "boolean", "object", "array", "null"))
# Keywords without an effect on what is valid.
_ANNOTATIONS = frozenset(
    ("description", "title", "default", "examples", "example", "format", "nullable", "deprecated", "readOnly", "writeOnly")
) | {"$schema", "$id"}  # fmt: skip
_BY_NAME = frozenset(("properties", "patternProperties", "dependentSchemas", "$defs", "definitions"))
_DEFINITIONS = ("$defs", "definitions")
# The ends of texts that a producer has cut.
_CUT = ("...", "\u2026", "truncated]", "truncated>")


def canonical(definition: ToolDefinition) -> tuple[JsonObject | None, Words]:
    """Return the schema of a definition, `None` where it was not recorded, and its words."""
    words: dict[str, set[str]] = {}
    schema = None
    if definition.parameters is not None:
        schema = _written(definition.parameters, _ROOT, words, 0)
        # Arguments are an object, whether the schema says so or not.
        if schema.get("type") == ["object"]:
            del schema["type"]
    _note(words, "$.description", definition.description)
    return schema, {place: sorted(found) for place, found in sorted(words.items())}


def difference(old: tuple[JsonObject | None, Words], new: tuple[JsonObject | None, Words]) -> Difference | None:
    """Return the gravest kind of change between two canonical definitions with the first place of it; `None` without any."""
    if old[0] is not None and new[0] is not None and old[0] != new[0]:
        found = sorted(_differences(old[0], new[0]), key=lambda one: _GRAVEST.index(one[0]))
        if found:
            return found[0]
    for place in sorted(old[1].keys() & new[1].keys()):
        before, after = set(old[1][place]), set(new[1][place])
        # A text that is missing on one side is no change.
        if not (before <= after or after <= before):
            return "wording", place
    return None


def _note(words: dict[str, set[str]], place: str, text: Json) -> None:
    """Note a text; one that a producer cut or masked counts as missing."""
    bare = " ".join(text.split()) if isinstance(text, str) else ""
    if bare and not bare.endswith(_CUT) and not is_mask(bare):
        words.setdefault(place, set()).add(short_hash(bare)[:6])


def _written(schema: JsonObject, place: str, words: dict[str, set[str]], depth: int) -> JsonObject:
    """Write a schema in one spelling, and collect its words; beyond the bounds it allows everything."""
    found: JsonObject = {}
    for word in ("description", "format"):
        _note(words, f"{place}.{word}", schema.get(word))
    for key, value in schema.items() if depth <= _MAX_DEPTH else ():
        if key in _ANNOTATIONS:
            continue
        at = f"{place}.{key}"
        if key in _BY_NAME and isinstance(value, dict):
            members = {name: one for name, one in value.items() if isinstance(one, dict)}
            found[key] = {**value, **{name: _written(one, f"{at}.{name}", words, depth + 1) for name, one in members.items()}}  # fmt: skip
        elif isinstance(value, dict):
            found[key] = _written(value, at, words, depth + 1)
        elif isinstance(value, list) and key not in ("enum", "required", "type"):
            found[key] = [_written(one, at, words, depth + 1) if isinstance(one, dict) else one for one in value]
        else:
            found[key] = int(value) if isinstance(value, float) and value.is_integer() else value
    if "const" in found:
        found["enum"] = [found.pop("const")]
    is_nullable = schema.get("nullable") is True
    types = [one.lower() for one in _list(found.pop("type", None)) if isinstance(one, str)]
    if values := _list(found.get("enum")):
        found["enum"] = _sorted([*values, *([None] if is_nullable else [])])
    elif types:
        found["type"] = _sorted([*types, *(["null"] if is_nullable else [])])
    found["required"] = _sorted(_list(found.get("required")))
    everything = {"additionalProperties": True, "uniqueItems": False}
    return {key: one for key, one in found.items() if one not in (None, [], {}) and everything.get(key) is not one}


def _differences(old: JsonObject, new: JsonObject) -> Iterator[Difference]:
    """Yield how the new schema accepts less (`breaking`) or more, and where it differs otherwise (`changed`)."""
    names, others = ({one for one in _list(each.get("required")) if isinstance(one, str)} for each in (old, new))
    for name in sorted(names ^ others):
        yield "breaking" if name in others else "additive", f"{_ROOT}.required.{name}"
    known, offered = _object(old.get("properties")), _object(new.get("properties"))
    for name in sorted(known.keys() | offered.keys()):
        place = f"{_ROOT}.properties.{name}"
        if name not in offered or name not in known:
            # Names that a schema does not declare are unknown arguments.
            yield "breaking" if name in known else "additive", place
            continue
        was, now = _argument(known[name], old), _argument(offered[name], new)
        yield from _differences_of_values(was, now, place)
        if {**was, "type": 0, "enum": 0} != {**now, "type": 0, "enum": 0}:
            yield "changed", place
    for key in sorted((old.keys() | new.keys()) - {"required", "properties"}):
        if old.get(key) != new.get(key):
            yield "changed", f"{_ROOT}.{key}"


def _argument(schema: Json, root: JsonObject) -> JsonObject:
    """Return the schema of an argument, or the definition that it refers to."""
    found = _object(schema)
    reference = found.get("$ref")
    for key in _DEFINITIONS if isinstance(reference, str) else ():
        found = _object(_object(root.get(key)).get(str(reference).removeprefix(f"#/{key}/"))) or found
    return found


def _differences_of_values(old: JsonObject, new: JsonObject, place: str) -> Iterator[Difference]:
    before, after = _list(old.get("enum")), _list(new.get("enum"))
    accepted, wanted = _accepted(new), _accepted(old)
    if before != after:
        is_narrower = after and (not before or {*map(_text, before)} - {*map(_text, after)})
        yield "breaking" if is_narrower else "additive", f"{place}.enum"
    elif accepted != wanted:
        yield "breaking" if wanted - accepted else "additive", f"{place}.type"


def _accepted(schema: JsonObject) -> set[Json]:
    types = set(_list(schema.get("type"))) or set(_ALL)
    return types | {"integer"} if "number" in types else types


def _text(value: Json) -> str:
    return json.dumps(value, sort_keys=True)


def _sorted(values: list[Json]) -> list[Json]:
    """Return each value once, in one order."""
    by_text = {_text(value): value for value in values}
    return [by_text[text] for text in sorted(by_text)]


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}
