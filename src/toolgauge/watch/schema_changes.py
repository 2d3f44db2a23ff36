"""Compares two definitions of a tool: whether arguments that were valid before no longer are, and at which place.

A definition is first written canonically: references are resolved, and of two spellings of one meaning (the order of names and
alternatives, `type: [x]`, one `const` or a single `enum`, `nullable`, empty keywords) only one is left. What a draft of JSON Schema
cannot decide by looking at keywords one by one counts as breaking when it is added or changed.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
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
_MAX_DEPTH, _MAX_NODES, _MAX_STEPS = 32, 4000, 5000
_MAX_REFERENCES = _MAX_MERGED = 32
_ALL = frozenset(("string", "integer", "number", "boolean", "object", "array", "null"))
_TYPES: Mapping[type, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    dict: "object",
    list: "array",
}
_LOWER = ("minimum", "minLength", "minItems", "minProperties", "minContains")
_UPPER = ("maximum", "maxLength", "maxItems", "maxProperties", "maxContains")
_EXCLUSIVE: Mapping[str, str] = {"minimum": "exclusiveMinimum", "maximum": "exclusiveMaximum"}
_LIMITS = frozenset((*_LOWER, *_UPPER, *_EXCLUSIVE.values()))
# Of these, 0 is no limit.
_COUNTS = frozenset(_LOWER[1:])
_OF_ONE = ("not", "if", "then", "else", "contains", "propertyNames", "unevaluatedProperties", "unevaluatedItems")
_OF_NAMES = ("patternProperties", "dependentSchemas")
# Equal, or nothing is known about them: a change of one may refuse something.
_UNDECIDED = ("$ref", "allOf", "anyOf", "pattern", "multipleOf", "uniqueItems", "prefixItems", "dependentRequired")
_UNDECIDED_ALL = (*_UNDECIDED, *_OF_ONE, *_OF_NAMES)
# What a producer ends a text with that it has cut.
_CUT = ("...", "\u2026", "truncated]", "truncated>")


def canonical(definition: ToolDefinition) -> tuple[JsonObject | None, Words]:
    """Return the schema of a definition, `None` where it was not recorded, and its words."""
    writer = _Writer(definition.parameters)
    schema = None
    if definition.parameters is not None:
        schema = writer.schema(definition.parameters, _ROOT, 0)
        # Arguments are an object, whether the schema says so or not.
        if schema.get("type") == "object":
            del schema["type"]
    writer.word("$.description", definition.description)
    return schema, {place: sorted(found) for place, found in sorted(writer.words.items())}


def difference(old: tuple[JsonObject | None, Words], new: tuple[JsonObject | None, Words]) -> Difference | None:
    """Return the gravest kind of change between two canonical definitions with the first place of it; `None` without any."""
    if old[0] is not None and new[0] is not None and old[0] != new[0]:
        found: dict[str, str] = {}
        for kind, place in _Comparison(old[0], new[0]).differences(old[0], new[0], _ROOT):
            found.setdefault(kind, place)
            if kind == "breaking":
                return kind, place
        if found:
            return "additive", found["additive"]
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
        written = _renamed(written)
        if isinstance(reference := written.get("$ref"), str):
            target = _target(self._root, reference)
            if target is None or id(target) in self._open:
                self.word(f"{place}.description", written.get("description"))
                return {"$ref": reference if target is None else self._open[id(target)]}
            self._open[id(target)] = place
            beside = {key: value for key, value in written.items() if key != "$ref"}
            found = self.schema({**target, **beside}, place, depth + 1)
            del self._open[id(target)]
            return found
        for word in ("description", "format"):
            self.word(f"{place}.{word}", written.get(word))
        found = self._of_values(written)
        self._of_objects(found, written, place, depth)
        self._nested(found, written, place, depth)
        return found

    def _of_values(self, written: JsonObject) -> JsonObject:
        found: JsonObject = {}
        types, allowed = _types(written), written.get("enum")
        if "const" in written:
            allowed = [written["const"]]
        if written.get("nullable") is True and types:
            types.add("null")
        if isinstance(allowed, list) and allowed:
            values = [*allowed, None] if written.get("nullable") is True else allowed
            fitting = [one for one in map(_plain, values) if not types or _kind(one) in _with_integers(types)]
            found["enum"] = _sorted(fitting or values)
        elif types:
            found["type"] = _joined_types(types)
        for key in _LIMITS.intersection(written):
            limit = written[key]
            if isinstance(limit, int | float) and not isinstance(limit, bool) and (limit or key not in _COUNTS):
                found[key] = _plain(limit)
        # OpenAPI 3.0 has the number in one keyword and a truth value in the other.
        for limit, exclusive in _EXCLUSIVE.items():
            if written.get(exclusive) is True and limit in found:
                found[exclusive] = found.pop(limit)
        for key in ("pattern", "multipleOf", "dependentRequired", "uniqueItems"):
            if written.get(key):
                found[key] = _plain(written[key])
        return found

    def _of_objects(self, found: JsonObject, written: JsonObject, place: str, depth: int) -> None:
        properties = written.get("properties")
        if isinstance(properties, dict) and properties:
            found["properties"] = {
                name: self.schema(inner, f"{place}.properties.{name}", depth + 1) for name, inner in properties.items()
            }
        required = written.get("required")
        if isinstance(required, list) and required:
            found["required"] = _sorted({name for name in required if isinstance(name, str)})
        others = written.get("additionalProperties")
        if others is False:
            found["additionalProperties"] = False
        elif isinstance(others, dict) and (inner := self.schema(others, f"{place}.additionalProperties", depth + 1)):
            found["additionalProperties"] = inner

    def _nested(self, found: JsonObject, written: JsonObject, place: str, depth: int) -> None:
        items = written.get("items")
        first = items if isinstance(items, list) else written.get("prefixItems")
        if isinstance(first, list) and first:
            found["prefixItems"] = [self.schema(one, f"{place}.prefixItems", depth + 1) for one in first]
        if isinstance(items, dict | bool) and (inner := self.schema(items, f"{place}.items", depth + 1)):
            found["items"] = inner
        for key in _OF_ONE:
            if key in written and written[key] is not None:
                found[key] = self.schema(written[key], f"{place}.{key}", depth + 1)
        for key in _OF_NAMES:
            named = written.get(key)
            if isinstance(named, dict) and named:
                found[key] = {name: self.schema(one, f"{place}.{key}.{name}", depth + 1) for name, one in named.items()}
        kept: list[Json] = []
        for key in ("anyOf", "oneOf"):
            if isinstance(several := written.get(key), list) and several:
                alternatives = _alternatives([self.schema(one, f"{place}.anyOf", depth + 1) for one in several])
                part: JsonObject = alternatives[0] if len(alternatives) == 1 else {"anyOf": [*alternatives]}
                if not _merge(found, part):
                    kept.append(part)
        if isinstance(every := written.get("allOf"), list):
            for index, one in enumerate(every):
                part = self.schema(one, place, depth + 1)
                # Each one that is merged is a copy of those before it.
                if index >= _MAX_MERGED or not _merge(found, part):
                    kept.append(part)
        if kept:
            found["allOf"] = _sorted(kept)


def _renamed(schema: JsonObject) -> JsonObject:
    """Divide the keyword that drafts before 2019-09 have for two."""
    if not isinstance(older := schema.get("dependencies"), dict):
        return schema
    lists: JsonObject = {name: one for name, one in older.items() if isinstance(one, list)}
    schemas: JsonObject = {name: one for name, one in older.items() if name not in lists}
    return {"dependentRequired": lists, "dependentSchemas": schemas, **schema}


def _target(root: Json, reference: str) -> JsonObject | None:
    """Follow a reference into the schema itself."""
    node = root
    if reference != "#" and not reference.startswith("#/"):
        return None
    for step in reference.split("/")[1:_MAX_REFERENCES]:
        name = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict):
            node = node.get(name)
        elif isinstance(node, list) and name.isascii() and name.isdecimal() and int(name[:6]) < len(node):
            node = node[int(name[:6])]
        else:
            return None
    return node if isinstance(node, dict) else None


def _types(schema: JsonObject) -> set[str]:
    """Return the types that a schema names, none for any."""
    named = schema.get("type")
    types = {one.lower() for one in (named if isinstance(named, list) else [named]) if isinstance(one, str)}
    return set() if "any" in types else types


def _joined_types(types: Iterable[str]) -> Json:
    names: list[Json] = [*sorted(set(types) - ({"integer"} if "number" in types else set()))]
    return names[0] if len(names) == 1 else names


def _with_integers(types: set[str]) -> set[str]:
    return types | {"integer"} if "number" in types else types


def _kind(value: Json) -> str:
    return _TYPES.get(type(value), "null")


def _plain(value: Json) -> Json:
    """Write a number in one way."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _written(value: Json) -> str:
    return json.dumps(value, sort_keys=True)


def _sorted(values: Iterable[Json]) -> list[Json]:
    """Return each value once, in one order."""
    by_text = {_written(value): value for value in values}
    return [by_text[text] for text in sorted(by_text)]


def _alternatives(written: Iterable[JsonObject]) -> list[JsonObject]:
    """Join alternatives that are one: plain types, lists of values, and null beside a type. Without any, all is allowed."""
    types: set[str] = set()
    values: list[Json] = []
    others: list[JsonObject] = []
    flat: list[JsonObject] = []
    for one in written:
        inner = one["anyOf"] if one.keys() == {"anyOf"} else None
        flat += [each for each in inner if isinstance(each, dict)] if isinstance(inner, list) else [one]
    for one in flat:
        if not one:
            return [{}]
        if one.keys() == {"type"}:
            types |= _types(one)
        elif one.keys() == {"enum"} and isinstance(one["enum"], list):
            values += one["enum"]
        else:
            others.append(one)
    if types == {"null"} and values:
        values, types = [*values, None], set()
    elif types == {"null"} and len(others) == 1 and "type" in others[0]:
        others, types = [{**others[0], "type": _joined_types(_types(others[0]) | types)}], set()
    found: list[Json] = [*others]
    if types:
        found.append({"type": _joined_types(types)})
    if values:
        found.append({"enum": _sorted(values)})
    return [one for one in _sorted(found) if isinstance(one, dict)]


def _merge(found: JsonObject, part: JsonObject) -> bool:
    """Add the keywords of another schema that must hold too; False where both have one keyword."""
    both = {key for key in found.keys() & part.keys() if found[key] != part[key]}
    old, new = found.get("properties"), part.get("properties")
    if not both <= {"properties", "required"}:
        return False
    if "properties" in both and isinstance(old, dict) and isinstance(new, dict):
        if any(old[name] != new[name] for name in old.keys() & new.keys()):
            return False
        part = {**part, "properties": {**old, **new}}
    if (
        "required" in both
        and isinstance(mine := found["required"], list)
        and isinstance(other := part["required"], list)
    ):
        part = {**part, "required": _sorted([*mine, *other])}
    found.update(part)
    return True


class _Comparison:
    """Compares two canonical schemas, within a bound."""

    def __init__(self, old: JsonObject, new: JsonObject) -> None:
        # `canonical` leaves this type out, and references lead to the root.
        self._roots: tuple[JsonObject, JsonObject] = ({"type": "object", **old}, {"type": "object", **new})
        self._left = _MAX_STEPS
        # Pairs of schemas that references led to: a recursive schema is compared once.
        self._followed: set[tuple[int, int]] = set()

    def differences(self, old: JsonObject, new: JsonObject, place: str) -> Iterator[Difference]:
        """Yield how the new schema accepts less (`breaking`) or more."""
        self._left -= 1
        if old == new:
            return
        if self._left < 0:
            yield "breaking", place
            return
        if old.keys() == {"$ref"} or new.keys() == {"$ref"}:
            old, new = _at(self._roots[0], old), _at(self._roots[1], new)
            if (id(old), id(new)) in self._followed:
                return
            self._followed.add((id(old), id(new)))
        before, after = _each(old), _each(new)
        if len(before) == len(after) == 1:
            yield from self._of_one(before[0], after[0], place)
            return
        unmet = [one for one in before if one not in after and not any(self._covers(other, one) for other in after)]
        known = {*map(_written, before)}
        added = [one for one in after if _written(one) not in known]
        if len(unmet) == len(added) == 1:
            yield from self._of_one(unmet[0], added[0], place)
        elif unmet:
            yield "breaking", f"{place}.anyOf"
        elif added:
            yield "additive", f"{place}.anyOf"

    def _covers(self, new: JsonObject, old: JsonObject) -> bool:
        self._left -= 1 + len(_values(old)) + len(_values(new))
        return self._left > 0 and all(kind != "breaking" for kind, _ in self._of_one(old, new, ""))

    def _of_one(self, old: JsonObject, new: JsonObject, place: str) -> Iterator[Difference]:
        yield from _of_types(old, new, place)
        for key in (*_LOWER, *_UPPER):
            before, after = _bound(old, key), _bound(new, key)
            if before[:2] != after[:2]:
                yield "breaking" if after > before else "additive", f"{place}.{after[2] or before[2]}"
        for key in _UNDECIDED_ALL:
            if old.get(key) != new.get(key):
                yield "breaking" if key in new else "additive", f"{place}.{key}"
        yield from self._of_properties(old, new, place)
        if "items" in old or "items" in new:
            yield from self.differences(_object(old.get("items")), _object(new.get("items")), f"{place}.items")

    def _of_properties(self, old: JsonObject, new: JsonObject, place: str) -> Iterator[Difference]:
        before, after = _object(old.get("properties")), _object(new.get("properties"))
        others, other = old.get("additionalProperties"), new.get("additionalProperties")
        for name in sorted(_names(new) - _names(old)):
            yield "breaking", f"{place}.required.{name}"
        for name in sorted(before.keys() | after.keys()):
            at = f"{place}.properties.{name}"
            if name not in after:
                # Names that a schema does not declare are unknown arguments, unless it describes them.
                if isinstance(other, dict):
                    yield from self.differences(_object(before[name]), other, at)
                else:
                    yield "breaking", at
            elif name not in before:
                yield "additive", at
            else:
                yield from self.differences(_object(before[name]), _object(after[name]), at)
        for name in sorted(_names(old) - _names(new)):
            yield "additive", f"{place}.required.{name}"
        if others != other:
            at = f"{place}.additionalProperties"
            if isinstance(others, dict) and isinstance(other, dict):
                yield from self.differences(others, other, at)
            else:
                yield "additive" if other is None or others is False else "breaking", at


def _bound(schema: JsonObject, key: str) -> tuple[float, bool, str]:
    """Return the bound of a keyword, the higher the tighter, whether it is not allowed itself, and the keyword that has it."""
    limits = [(name, schema.get(name)) for name in (key, _EXCLUSIVE.get(key, ""))]
    found = [
        (limit if key in _LOWER else -limit, name != key, name)
        for name, limit in limits
        if isinstance(limit, int | float)
    ]
    return max(found, default=(-inf, False, ""))


def _values(schema: JsonObject) -> Sequence[Json]:
    values = schema.get("enum")
    return values if isinstance(values, list) else ()


def _of_types(old: JsonObject, new: JsonObject, place: str) -> Iterator[Difference]:
    before, after = old.get("enum"), new.get("enum")
    if isinstance(after, list):
        if not isinstance(before, list) or {*map(_written, before)} - {*map(_written, after)}:
            yield "breaking", f"{place}.enum"
        elif before != after:
            yield "additive", f"{place}.enum"
        return
    accepted, wanted = _accepted(new), _accepted(old)
    if wanted - accepted:
        yield "breaking", f"{place}.type"
    elif isinstance(before, list):
        yield "additive", f"{place}.enum"
    elif accepted != wanted:
        yield "additive", f"{place}.type"


def _accepted(schema: JsonObject) -> set[str]:
    values = schema.get("enum")
    return {*map(_kind, values)} if isinstance(values, list) else _with_integers(_types(schema) or set(_ALL))


def _each(schema: JsonObject) -> Sequence[JsonObject]:
    """Return the alternatives of a schema with what all of them share."""
    several = schema.get("anyOf")
    if not isinstance(several, list):
        return (schema,)
    base = {key: value for key, value in schema.items() if key != "anyOf"}
    found: list[JsonObject] = []
    for one in several:
        whole = {**base}
        found.append(whole if isinstance(one, dict) and _merge(whole, one) else {**base, "allOf": [one]})
    return found


def _at(root: JsonObject, schema: JsonObject) -> JsonObject:
    """Follow the place of a recursive reference."""
    place = schema.get("$ref")
    if not isinstance(place, str) or not place.startswith(_ROOT):
        return schema
    node: Json = root
    for step in place.removeprefix(_ROOT).split(".")[1:]:
        node = node.get(step) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else schema


def _names(schema: JsonObject) -> set[str]:
    names = schema.get("required")
    return {name for name in names if isinstance(name, str)} if isinstance(names, list) else set()


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}
