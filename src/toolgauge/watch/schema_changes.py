"""Compares two definitions of a tool: whether arguments that were valid before no longer are, and at which place.

A schema is first written canonically: references are resolved, and of common spellings of one meaning (the order of names, one
`const` or an `enum`, `nullable`, `null` as an alternative) only one is left. Then types, values, properties and required names
are compared, through properties and items. Any other keyword counts as breaking when it is added or changed.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias
from urllib.parse import unquote

from toolgauge.model.json import Json, JsonObject
from toolgauge.model.masks import is_mask
from toolgauge.model.metrics import short_hash
from toolgauge.model.observations import ToolDefinition

# By place, hashes of the texts there; several where alternatives have no name.
Words: TypeAlias = dict[str, list[str]]
Difference: TypeAlias = tuple[Literal["breaking", "additive", "wording"], str]

_ROOT = "$.parameters"
_MAX_DEPTH, _MAX_NODES, _MAX_REFERENCES = 32, 4000, 32
_ALL: frozenset[Json] = frozenset(("string", "integer", "number", "boolean", "object", "array", "null"))
# Keywords without an effect on what is valid.
_ANNOTATIONS = frozenset(
    ("description", "title", "default", "examples", "example", "format", "nullable", "deprecated", "readOnly", "writeOnly")
)  # fmt: skip
_DEFINITIONS = frozenset(("definitions", "components"))
_BY_NAME = ("properties", "patternProperties", "dependentSchemas")
_UPPER = frozenset(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"))
# Their values are schemas: `true` allows everything.
_OF_SCHEMAS = frozenset(("additionalProperties", "unevaluatedProperties", "unevaluatedItems", "items"))
_NESTED = ("items", "additionalProperties")
_COMPARED = frozenset(("type", "enum", "properties", "required", *_NESTED))
# The ends of texts that a producer has cut.
_CUT = ("...", "\u2026", "truncated]", "truncated>")


def canonical(definition: ToolDefinition) -> tuple[JsonObject | None, Words]:
    """Return the schema of a definition, `None` where it was not recorded, and its words."""
    writer = _Writer(definition.parameters)
    schema = None
    if definition.parameters is not None:
        schema = writer.schema(definition.parameters, _ROOT, 0)
        # Arguments are an object, whether the schema says so or not.
        if schema.get("type") == ["object"]:
            del schema["type"]
    writer.word("$.description", definition.description)
    return schema, {place: sorted(found) for place, found in sorted(writer.words.items())}


def difference(old: tuple[JsonObject | None, Words], new: tuple[JsonObject | None, Words]) -> Difference | None:
    """Return the gravest kind of change between two canonical definitions with the first place of it; `None` without any."""
    if old[0] is not None and new[0] is not None and old[0] != new[0]:
        found = list(_differences(old[0], new[0], _ROOT))
        if found:
            return next((one for one in found if one[0] == "breaking"), found[0])
    for place in sorted(old[1].keys() & new[1].keys()):
        before, after = set(old[1][place]), set(new[1][place])
        # A text that is missing on one side is no change.
        if not (before <= after or after <= before):
            return "wording", place
    return None


class _Writer:
    """Writes one schema canonically, and collects its words."""

    def __init__(self, root: Json) -> None:
        self.words: dict[str, set[str]] = {}
        self._root = root
        self._nodes = _MAX_NODES
        # Targets of references that are being written, by identity, with their places.
        self._open: dict[int, str] = {id(root): _ROOT}

    def word(self, place: str, text: Json) -> None:
        """Note a text; one that a producer cut or masked counts as missing."""
        if isinstance(text, str):
            bare = " ".join(text.split())
            if bare and not bare.endswith(_CUT) and not is_mask(bare):
                self.words.setdefault(place, set()).add(short_hash(bare)[:6])

    def schema(self, written: Json, place: str, depth: int) -> JsonObject:
        """Write a schema; beyond the bounds it allows everything."""
        self._nodes -= 1
        if written is False:
            return {"not": {}}
        if not isinstance(written, dict) or depth > _MAX_DEPTH or self._nodes < 0:
            return {}
        if isinstance(reference := written.get("$ref"), str):
            target = _target(self._root, reference)
            if target is None or id(target) in self._open:
                self.word(f"{place}.description", written.get("description"))
                return {"$ref": reference if target is None else self._open[id(target)]}
            self._open[id(target)] = place
            found = self.schema({**target, **{k: v for k, v in written.items() if k != "$ref"}}, place, depth + 1)
            del self._open[id(target)]
            return found
        for word in ("description", "format"):
            self.word(f"{place}.{word}", written.get(word))
        found: JsonObject = {}
        for key, value in written.items():
            if key in _ANNOTATIONS or key in _DEFINITIONS or key[0:1] == "$":
                continue
            if key in _BY_NAME and isinstance(value, dict):
                found[key] = {name: self.schema(one, f"{place}.{key}.{name}", depth + 1) for name, one in value.items()}
            elif key in {"anyOf", "oneOf", "allOf", "prefixItems"} and isinstance(value, list):
                found[key] = [self.schema(one, f"{place}.{key}", depth + 1) for one in value]
            elif isinstance(value, dict):
                found[key] = self.schema(value, f"{place}.{key}", depth + 1)
            else:
                found[key] = int(value) if isinstance(value, float) and value.is_integer() else value
        return _in_one_spelling(found, nullable=written.get("nullable") is True)


def _in_one_spelling(found: JsonObject, *, nullable: bool) -> JsonObject:
    """Write types, values and alternatives in one way, and leave out keywords that allow everything."""
    alternatives = found.pop("oneOf", None) or found.pop("anyOf", None)
    if isinstance(alternatives, list):
        others = [one for one in alternatives if one != {"type": ["null"]}]
        nullable = nullable or len(others) < len(alternatives)
        if len(others) == 1 and isinstance(only := others[0], dict):
            found = {**found, **only}
        elif keys := _only_keyword(others):
            found[keys] = [value for one in others for value in _list(_object(one).get(keys))]
        elif others:
            found["anyOf"] = _sorted(alternatives)
    every = found.get("allOf")
    if isinstance(every, list) and len(every) == 1 and isinstance(only := every[0], dict):
        del found["allOf"]
        found = {**found, **only}
    if "const" in found:
        found["enum"] = [found.pop("const")]
    types = [one.lower() for one in _list(found.pop("type", None)) if isinstance(one, str)]
    if values := _list(found.get("enum")):
        found["enum"] = _sorted([*values, *([None] if nullable else [])])
    elif types and "any" not in types:
        redundant = {"integer"} if "number" in types else set[str]()
        found["type"] = _sorted([*(set(types) - redundant), *(["null"] if nullable else [])])
    if required := _list(found.get("required")):
        found["required"] = _sorted(required)
    return {key: value for key, value in found.items() if key == "not" or _restricts(key, value)}


def _only_keyword(alternatives: list[Json]) -> str | None:
    """Return the keyword, types or values, that is all that each alternative has."""
    keys = {tuple(one) for one in alternatives if isinstance(one, dict)}
    return next((key for key in ("type", "enum") if keys == {(key,)}), None)


def _restricts(key: str, value: Json) -> bool:
    """Return whether a keyword with this value can refuse anything."""
    if isinstance(value, bool):
        return value is (key not in _OF_SCHEMAS)
    return (
        value is not None and value not in ([], {}) and not (value == 0 and key.startswith("min") and key != "minimum")
    )


def _target(root: Json, reference: str) -> JsonObject | None:
    """Follow a reference into the schema itself."""
    node = root
    if reference != "#" and not reference.startswith("#/"):
        return None
    for step in reference.split("/")[1:_MAX_REFERENCES]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if not isinstance(node, dict):
            return None
        node = node.get(name)
    return node if isinstance(node, dict) else None


def _differences(old: JsonObject, new: JsonObject, place: str) -> Iterator[Difference]:
    """Yield how the new schema accepts less (`breaking`) or more."""
    # Places of recursive references depend on the spelling.
    if "$ref" in old or "$ref" in new:
        return
    yield from _differences_of_values(old, new, place)
    for key in sorted((old.keys() | new.keys()) - _COMPARED):
        was, now = old.get(key), new.get(key)
        if was != now:
            looser = isinstance(was, int | float) and isinstance(now, int | float) and (now > was) is (key in _UPPER)
            yield "breaking" if key in new and not looser else "additive", f"{place}.{key}"
    names, others = ({one for one in _list(each.get("required")) if isinstance(one, str)} for each in (old, new))
    for name in sorted(names ^ others):
        yield "breaking" if name in others else "additive", f"{place}.required.{name}"
    known, offered = _object(old.get("properties")), _object(new.get("properties"))
    for name in sorted(known.keys() | offered.keys()):
        at = f"{place}.properties.{name}"
        if name not in offered or name not in known:
            # Names that a schema does not declare are unknown arguments.
            yield "breaking" if name in known else "additive", at
        elif known[name] != offered[name]:
            yield from _differences(_object(known[name]), _object(offered[name]), at)
    for key in _NESTED:
        was, now = old.get(key, {}), new.get(key, {})
        if isinstance(was, dict) and isinstance(now, dict) and was != now:
            yield from _differences(was, now, f"{place}.{key}")
        elif was != now:
            yield "breaking" if now is False else "additive", f"{place}.{key}"


def _differences_of_values(old: JsonObject, new: JsonObject, place: str) -> Iterator[Difference]:
    before, after = _list(old.get("enum")), _list(new.get("enum"))
    accepted, wanted = _accepted(new), _accepted(old)
    if after:
        if not before or {*map(_written, before)} - {*map(_written, after)}:
            yield "breaking", f"{place}.enum"
        elif before != after:
            yield "additive", f"{place}.enum"
    elif before:
        yield "additive", f"{place}.enum"
    elif wanted - accepted:
        yield "breaking", f"{place}.type"
    elif accepted != wanted:
        yield "additive", f"{place}.type"


def _accepted(schema: JsonObject) -> set[Json]:
    types = set(_list(schema.get("type"))) or set(_ALL)
    return types | {"integer"} if "number" in types else types


def _written(value: Json) -> str:
    return json.dumps(value, sort_keys=True)


def _sorted(values: Iterable[Json]) -> list[Json]:
    """Return each value once, in one order."""
    by_text = {_written(value): value for value in values}
    return [by_text[text] for text in sorted(by_text)]


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}
