"""Compares two definitions of a tool: the arguments, which of them are required, and the types and values of each.

A difference anywhere else is a change whose effect is not known.
"""

import json
from collections.abc import Iterator
from typing import Literal, TypeAlias

from toolgauge.model.json import Json, JsonObject
from toolgauge.model.masks import is_mask
from toolgauge.model.metrics import short_hash
from toolgauge.model.observations import ToolDefinition

# Hashes of texts by their place.
Words: TypeAlias = dict[str, str]
Difference: TypeAlias = tuple[Literal["breaking", "changed", "additive", "wording"], str]

_ROOT = "$.parameters"
_MAX_DEPTH = 64
_GRAVEST = ("breaking", "changed", "additive")
_ALL: frozenset[str] = frozenset(("string", "integer", "number", "boolean", "object", "array", "null"))
# Keywords without an effect on what is valid.
_ANNOTATIONS = frozenset(
    ("description", "title", "default", "examples", "example", "format", "deprecated", "readOnly", "writeOnly")
) | {"$schema", "$id"}  # fmt: skip
_BY_NAME = frozenset(("properties", "patternProperties", "dependentSchemas", "$defs", "definitions"))
# The ends of texts that a producer has cut.
_CUT = ("...", "\u2026", "truncated]", "truncated>")


def canonical(definition: ToolDefinition) -> tuple[JsonObject | None, Words]:
    """Return the schema of a definition without annotations, `None` where it was not recorded, and its words."""
    words: Words = {}
    schema = None if definition.parameters is None else _object(_bare(definition.parameters, _ROOT, words, 0))
    _note(words, "$.description", definition.description)
    return schema, words


def difference(old: tuple[JsonObject | None, Words], new: tuple[JsonObject | None, Words]) -> Difference | None:
    """Return the gravest kind of change between two canonical definitions with the first place of it; `None` without any."""
    if old[0] is not None and new[0] is not None and old[0] != new[0]:
        found = sorted(_differences(old[0], new[0]), key=lambda one: _GRAVEST.index(one[0]))
        if found:
            return found[0]
    # A text that is missing on one side is no change.
    places = (place for place in sorted(old[1].keys() & new[1].keys()) if old[1][place] != new[1][place])
    return next((("wording", place) for place in places), None)


def _note(words: Words, place: str, text: Json) -> None:
    """Note a text; one that a producer cut or masked counts as missing."""
    bare = " ".join(text.split()) if isinstance(text, str) else ""
    if bare and not bare.endswith(_CUT) and not is_mask(bare):
        words[place] = short_hash(bare)[:6]


def _bare(value: Json, place: str, words: Words, depth: int, *, are_names: bool = False) -> Json:
    """Leave out annotations, collect the texts among them, and sort values that have no order."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(value, list):
        items = [_bare(one, f"{place}.{number}", words, depth + 1) for number, one in enumerate(value)]
        has_order = any(isinstance(one, dict | list) for one in items)
        return items if has_order else sorted(items, key=_text)
    if not isinstance(value, dict):
        return value
    found: JsonObject = {}
    for key, one in value.items():
        if are_names or key not in _ANNOTATIONS:
            # A single type is a list of one.
            written: Json = [one] if key == "type" and isinstance(one, str) and not are_names else one
            are_members = key in _BY_NAME and not are_names
            found[key] = _bare(written, f"{place}.{key}", words, depth + 1, are_names=are_members)
        elif key in ("description", "format"):
            _note(words, f"{place}.{key}", one)
    return found


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
        was, now = _object(known[name]), _object(offered[name])
        before, after = ({*map(_text, _list(each.get("enum")))} for each in (was, now))
        accepted, wanted = _accepted(now), _accepted(was)
        if before != after:
            yield "breaking" if after and (not before or before - after) else "additive", f"{place}.enum"
        elif accepted != wanted:
            yield "breaking" if wanted - accepted else "additive", f"{place}.type"
        if {**was, "type": 0, "enum": 0} != {**now, "type": 0, "enum": 0}:
            yield "changed", place
    for key in sorted((old.keys() | new.keys()) - {"required", "properties"}):
        if old.get(key) != new.get(key):
            yield "changed", f"{_ROOT}.{key}"


def _accepted(schema: JsonObject) -> set[str]:
    types = {one for one in _list(schema.get("type")) if isinstance(one, str)} or set(_ALL)
    return types | {"integer"} if "number" in types else types


def _text(value: Json) -> str:
    return json.dumps(value, sort_keys=True)


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _object(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}
