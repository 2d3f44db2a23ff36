"""Compiles each tool's schema once, finds violations in arguments with `jsonschema-rs`, and writes them down.

It runs in C, cannot be interrupted and follows a recursive schema as often as it is written: a walk over schema and arguments
first counts the work that would take too long.
"""

import json
import re
from collections.abc import Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Literal, TypeAlias, TypeVar, cast

from cachetools import LRUCache
from msgspec import Struct

from toolgauge import on_demand
from toolgauge.model.errors import SchemaError
from toolgauge.model.json import Json, JsonObject, leaves, values_within
from toolgauge.model.masks import is_digest, is_mask
from toolgauge.model.outcomes import Difference, Side
from toolgauge.score.compare import path
from toolgauge.score.schema_reader import PATTERN_BYTES, SchemaReader, compiled, schema_text
from toolgauge.score.selection import shown

_J = TypeVar("_J", bound=Json)
_Error: TypeAlias = "on_demand.jsonschema_rs.ValidationError"
Kind: TypeAlias = Literal["unknown_arguments", "missing_required", "wrong_type", "enum", "range", "other"]

# Rules that judge a list or an object as a whole: with it, nothing in it is right.
_OF_THE_WHOLE = frozenset(("additionalProperties", "type", "enum", "const", "not"))
# Rules that compare all values inside a list or an object.
_OF_ALL_INSIDE = frozenset(("enum", "const", "not", "oneOf", "uniqueItems", "contains"))
_NUMBERS: frozenset[Json] = frozenset(("integer", "number", "boolean", "null"))
_FORMATS: frozenset[Json] = frozenset(("email", "idn-email", "date", "date-time", "time", "ipv4", "ipv6"))
# Parts of a pattern that take no letters, and parts that may take some.
_WITHOUT_LETTERS = re.compile(r"\\[ds.]")
_MAY_TAKE_LETTERS = re.compile(r"[A-Za-z.]|\[\^")


class Violation(Struct, frozen=True):
    """One rule that is broken. `path` leads to the value, or to where it is missing (`is_missing`)."""

    path: tuple[str | int, ...]
    kind: Kind
    rule: str
    allowed: Json
    actual: Json
    is_missing: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether nothing in the value is right."""
        return not self.is_missing and (not isinstance(self.actual, (dict, list)) or self.rule in _OF_THE_WHOLE)


def valid_share(arguments: JsonObject, found: Sequence[Violation]) -> float:
    """Return the share of leaves that are valid: a missing value counts as one, and so does a rule about a list or an object."""
    wholes = {violation.path: violation for violation in found if violation.is_whole}
    others = len({(violation.path, violation.rule) for violation in found if not violation.is_whole})
    wrong = others + sum(
        _leaf_count(violation.actual)
        for path, violation in wholes.items()
        if not any(path[:length] in wholes for length in range(len(path)))
    )
    total = max(wrong, 1, others + sum(map(_leaf_count, arguments.values())))
    return (total - wrong) / total


def _leaf_count(value: Json) -> int:
    """Count the values that hold no others; empty lists and objects are such."""
    left, count = [value], 0
    while left:
        node = left.pop()
        members = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        count += not members
        left.extend(members)
    return count


def is_masked(violation: Violation, arguments: Json) -> bool:
    """Return whether a mask replaces the value or name that breaks the rule, or a value that the rule compares."""
    if violation.is_missing:
        # A masked name may be the missing one.
        holder = value_at(arguments, violation.path[:-1])
        return isinstance(holder, dict) and any(map(is_mask, holder))
    if violation.kind == "unknown_arguments":
        return bool(violation.path) and is_mask(str(violation.path[-1]))
    actual = violation.actual
    if isinstance(actual, str):
        return is_mask(actual) or (is_digest(actual) and takes_no_id({violation.rule: violation.allowed}))
    return violation.rule in _OF_ALL_INSIDE and any(isinstance(one, str) and is_mask(one) for one in leaves(actual))


def takes_no_id(schema: JsonObject) -> bool:
    """Return whether a schema takes nothing that is like an id: only numbers, or text in the form of a number or an e-mail address."""
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(alternatives, list):
        return all(isinstance(one, dict) and takes_no_id(one) for one in alternatives)
    types, pattern = schema.get("type"), schema.get("pattern")
    if types is not None and _NUMBERS.issuperset(types if isinstance(types, list) else [types]):
        return True
    if isinstance(pattern, str):
        return "@" in pattern or _MAY_TAKE_LETTERS.search(_WITHOUT_LETTERS.sub("", pattern)) is None
    return isinstance(schema.get("format"), str) and schema["format"] in _FORMATS


def schema_at(schema: Json, steps: Sequence[str | int]) -> JsonObject:
    """Return the schema of a value by the plain way down to it, else an empty one."""
    for step in steps:
        schema = value_at(schema, ["items"] if isinstance(step, int) else ["properties", step])
    return schema if isinstance(schema, dict) else {}


def value_at(value: Json, path: Sequence[str | int]) -> Json:
    """Return the value that a path leads to, `None` where it leads nowhere."""
    for step in path:
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


# Judges arguments that the schema does not name, where it leaves open whether there may be any.
UnknownArguments: TypeAlias = Literal["fail", "allow"]

_MAX_CACHE_BYTES = 32 * 2**20
_MAX_NEWEST, _MAX_NEWEST_BYTES = 64, 512 * 1024
# A compiled schema takes this much more memory than its text.
_MEMORY_PER_BYTE = 16
# Deeper values would overflow the stack of `jsonschema-rs`.
_MAX_DEPTH = 200
# So many pairs of a schema and a value take about a millisecond.
_LIGHT_PAIRS = 20_000
_STEPS_PER_PAIR = 8
_KINDS: Mapping[str, Kind] = {
    "required": "missing_required",
    "type": "wrong_type",
    **dict.fromkeys(("enum", "const"), "enum"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "range"),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), "range"),
}
_CONTAINER_TYPES = frozenset((dict, list))
_OPEN = ("additionalProperties", "patternProperties", "propertyNames")


class Steps(Struct):
    """The work that checking may still take."""

    left: int

    def take(self, steps: int) -> None:
        """Count, and raise `SchemaError` when no step is left."""
        self.left -= steps
        if self.left < 0:
            raise SchemaError("it takes too long to check against")


# The schemas inside a schema: about the value itself, its properties by name, all its members, its first items, and all items.
_Inner: TypeAlias = list[JsonObject]
_Parts: TypeAlias = tuple[_Inner, dict[str, JsonObject], _Inner, _Inner, _Inner]


class ToolSchema:
    """One schema, ready to check arguments against."""

    def __init__(self, written: JsonObject, unknown: UnknownArguments) -> None:
        """Compile it, or raise `SchemaError`."""
        reader = SchemaReader(written)
        self.skipped_patterns = reader.skipped_patterns
        self.pattern_bytes = reader.patterns * PATTERN_BYTES
        self._parts: dict[int, _Parts] = {}
        self._root, self._targets, self._nodes = reader.root, reader.targets, reader.nodes
        try:
            self._validator = compiled(_encodable(self._root))
        except on_demand.jsonschema_rs.ValidationError:
            raise SchemaError("it is no JSON Schema") from None
        except ValueError:
            raise SchemaError("it is nested too deeply") from None
        # The names of all arguments where others count as unknown although the schema does not forbid them.
        self._declared = self._declared_names() if unknown == "fail" else None

    def violations(self, arguments: Json, steps: Steps) -> list[Violation]:
        """Return the violations. Raises `SchemaError` when finding out takes too long."""
        found: list[Violation] = []
        if self._declared is not None and isinstance(arguments, dict) and not arguments.keys() <= self._declared:
            for name, value in arguments.items():
                if name not in self._declared:
                    found.append(Violation((name,), "unknown_arguments", "additionalProperties", None, value))
        is_heavy = bool(self._targets) or self._nodes * _size(arguments) > _LIGHT_PAIRS
        try:
            if is_heavy:
                self._count(self._root, arguments, steps)
            try:
                if self._validator.is_valid(arguments):
                    return found
            except UnicodeEncodeError:  # a lone surrogate
                arguments = _encodable(arguments)
            if not is_heavy:
                self._count(self._root, arguments, steps)
            broken = self._violations([*self._validator.iter_errors(arguments)], arguments)
            return [*found, *sorted(broken, key=lambda violation: violation.is_missing)]
        except (RecursionError, ValueError):
            raise SchemaError("it is nested too deeply to check against") from None

    def __deepcopy__(self, _memo: object) -> "ToolSchema":
        return self  # it never changes

    def _count(self, schema: JsonObject, value: Json, steps: Steps) -> None:
        """Count the pairs of a schema and a value that a check may look at."""
        is_nested = isinstance(value, (dict, list)) and bool(value)
        steps.take(_STEPS_PER_PAIR + (_leaf_count(value) if is_nested else 0))
        parts = self._parts.get(id(schema))
        if parts is None:
            parts = self._parts[id(schema)] = (
                [*self._in_place(schema), *_inner(schema, "not")],
                cast("dict[str, JsonObject]", schema.get("properties", {})),
                _inner(schema, "additionalProperties", "propertyNames", "patternProperties"),
                _inner(schema, "prefixItems"),
                _inner(schema, "items", "contains"),
            )
        in_place, properties, members, first_items, items = parts
        for same in in_place:
            self._count(same, value, steps)
        if not is_nested:
            return
        pairs: list[tuple[JsonObject, Json]] = []
        if isinstance(value, dict):
            pairs += [(inner, value[name]) for name, inner in properties.items() if name in value]
            pairs += [(inner, member) for inner in members for member in value.values()]
        elif isinstance(value, list):
            pairs += [*zip(first_items, value, strict=False)]
            pairs += [(inner, member) for inner in items for member in value]
        for inner, member in pairs:
            self._count(inner, member, steps)

    def _in_place(self, schema: JsonObject) -> list[JsonObject]:
        found = _inner(schema, "allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas")
        return [*found, self._targets[str(schema["$ref"])]] if "$ref" in schema else found

    def _declared_names(self) -> frozenset[str] | None:
        """Return the names that any part of the schema has for arguments; `None` where the schema itself decides about others."""
        names: set[str] = set()
        seen: dict[int, JsonObject] = {}
        left = [self._root]
        has_names = False
        while left:
            schema = left.pop()
            if id(schema) in seen:
                continue
            seen[id(schema)] = schema
            if not schema.keys().isdisjoint(_OPEN):
                return None
            if "properties" in schema:
                has_names = True
                names.update(cast("JsonObject", schema["properties"]))
            left.extend(self._in_place(schema))
        return frozenset(names) if has_names else None

    def _violations(self, errors: Sequence[_Error], arguments: Json) -> list[Violation]:
        kinds = on_demand.jsonschema_rs.ValidationErrorKind
        found: list[Violation] = []
        typed = {(*error.schema_path[:-1], *error.instance_path) for error in errors if error.kind.name == "type"}
        for error in errors:
            path, rule = tuple(error.instance_path), error.kind.name
            match error.kind:
                case kinds.AdditionalProperties(unexpected=names):
                    holder = cast("JsonObject", value_at(arguments, path))
                    found += [Violation((*path, one), "unknown_arguments", rule, None, holder[one]) for one in names]
                case kinds.Required(property=name):
                    found.append(Violation((*path, name), "missing_required", rule, None, None, is_missing=True))
                case kinds.AnyOf(context=failures) | kinds.OneOfNotValid(context=failures):
                    found += self._closest(failures, path, arguments)
                case kinds.PropertyNames(error=inner):
                    allowed = self._allowed(inner)
                    kind = _KINDS.get(inner.kind.name, "other")
                    found.append(Violation(path, kind, inner.kind.name, allowed, cast("str", inner.instance)))
                case kinds.Enum() if (*error.schema_path[:-1], *path) in typed:
                    pass  # one complaint of a value is enough
                case _:
                    actual = value_at(arguments, path)
                    found.append(Violation(path, _KINDS.get(rule, "other"), rule, self._allowed(error), actual))
        return found

    def _closest(
        self, failures: Sequence[Sequence[_Error]], path: tuple[str | int, ...], arguments: Json
    ) -> list[Violation]:
        """Return the violations of the alternative that was meant: of the right type and constants, else with the fewest."""
        alternatives = [self._violations(errors, arguments) for errors in failures]

        def distance(found: Sequence[Violation]) -> tuple[bool, int, int]:
            is_other_type = any(violation.rule == "type" and violation.path == path for violation in found)
            return is_other_type, sum(violation.rule == "const" for violation in found), len(found)

        closest = min(alternatives, key=distance)
        if not distance(closest)[0]:
            return closest
        names: list[Json] = []
        for violation in chain.from_iterable(alternatives):
            if violation.rule == "type" and violation.path == path:
                names += violation.allowed if isinstance(violation.allowed, list) else [violation.allowed]
        allowed = list(dict.fromkeys(cast("list[str]", names)))
        shown = allowed[0] if len(allowed) == 1 else cast("list[Json]", allowed)
        return [Violation(path, "wrong_type", "type", shown, value_at(arguments, path))]

    def _allowed(self, error: _Error) -> Json:
        """Return what a keyword allows as the schema has it, as far as that fits on a line."""
        allowed = value_at(self._root, error.schema_path)
        if error.kind.name == "const":
            return [allowed]
        return allowed if error.kind.name in ("type", "enum") or not isinstance(allowed, (dict, list)) else None


class ToolSchemas:
    """Schemas by their text: of the same few tools, trace after trace has the same. Bounded, as they come from producers."""

    def __init__(self, unknown: UnknownArguments) -> None:
        self._unknown: UnknownArguments = unknown
        self._known: LRUCache[str, tuple[ToolSchema | SchemaError, int]] = LRUCache(_MAX_CACHE_BYTES, itemgetter(1))
        # By identity of the written schema, which is kept so that nothing else can take its place in memory:
        # offers repeat the same objects. Without it: a fifth more for the evaluator.
        self._newest: dict[int, tuple[JsonObject, ToolSchema]] = {}

    def of(self, written: JsonObject) -> ToolSchema:
        """Return the schema, or raise `SchemaError`."""
        newest = self._newest.get(id(written))
        if newest is not None:
            return newest[1]
        text = schema_text(written)
        if text not in self._known:
            size_bytes = len(text) * _MEMORY_PER_BYTE
            try:
                schema = ToolSchema(written, self._unknown)
                size_bytes += schema.pattern_bytes
            except SchemaError as error:
                schema = error
            except RecursionError:
                schema = SchemaError("it is nested too deeply")
            self._known[text] = schema, size_bytes
        known, size_bytes = self._known[text]
        if isinstance(known, SchemaError):
            raise SchemaError(*known.args)
        if size_bytes <= _MAX_NEWEST_BYTES:
            if len(self._newest) >= _MAX_NEWEST:
                self._newest.clear()
            self._newest[id(written)] = written, known
        return known


def _inner(schema: JsonObject, *keywords: str) -> list[JsonObject]:
    """Return the schemas under some keywords, each of which holds a schema, a list, or schemas by name."""
    found: list[Json] = []
    for keyword in keywords:
        rule = schema.get(keyword)
        if isinstance(rule, dict):
            found += rule.values() if keyword in ("dependentSchemas", "patternProperties") else (rule,)
        elif isinstance(rule, list):
            found += rule
    return cast("list[JsonObject]", found)


def _size(value: Json) -> int:
    """Count the values in it, empty containers included; raise `SchemaError` for one that is nested too deeply."""
    if isinstance(value, dict) and _CONTAINER_TYPES.isdisjoint(map(type, value.values())):
        return len(value)
    count = values_within(value, _MAX_DEPTH)
    if count is None:
        raise SchemaError("it is nested too deeply to check against")
    return count


def _encodable(value: _J) -> _J:
    """Replace lone surrogates, which cannot be written as UTF-8."""
    written = json.dumps(value, ensure_ascii=False)
    return value if written.isascii() else json.loads(written.encode("utf-8", "replace"))


_WORDS: Mapping[Kind, str] = {
    "unknown_arguments": "is not an argument of the tool",
    "missing_required": "is missing",
    "wrong_type": "has the wrong type",
    "enum": "is not among the allowed values",
    "range": "is out of range",
    "other": "breaks the rule",
}

# The expectation by keyword, in words without any value of the schema.
_ALLOWED: Mapping[str, str] = {
    "maximum": "a number not above the maximum",
    "exclusiveMaximum": "a number below the maximum",
    "minimum": "a number not below the minimum",
    "exclusiveMinimum": "a number above the minimum",
    "maxLength": "shorter text",
    "minLength": "longer text",
    "maxItems": "a list of fewer items",
    "minItems": "a list of more items",
    "pattern": "text that matches the pattern",
}


def complaint(violation: Violation) -> str:
    """Write a violation for an explanation, without values."""
    rule = f" `{violation.rule}`" if violation.kind == "other" else ""
    return f"{shown(where_in('', violation))} {_WORDS[violation.kind]}{rule}"


def difference(name: str, violation: Violation) -> Difference:
    """Return a violation as a difference; `name` is that of the tool."""
    return Difference(
        where=where_in(f"{name}:", violation),
        rule=violation.rule,
        expected=_allowed(violation),
        actual=None if violation.is_missing else Side(value=violation.actual),
    )


def _allowed(violation: Violation) -> Side | None:
    allowed, rule = violation.allowed, violation.rule
    words = _ALLOWED.get(rule, f"what `{rule}` allows")
    if rule == "type":
        words = " or ".join(map(str, allowed if isinstance(allowed, list) else (allowed,)))
    elif isinstance(allowed, list) and violation.kind == "enum":
        words = f"one of the {len(allowed)} allowed values" if len(allowed) > 1 else "the only allowed value"
    return None if allowed is None else Side(value=allowed, words=words)


def where_in(start: str, violation: Violation) -> str:
    """Write the place of a violation."""
    where = start
    for step in violation.path:
        where = f"{where}[{step}]" if isinstance(step, int) else path(where, step)
    return where or "the whole"
