"""The schemas of tools, each read once: a quick answer for arguments that plainly fit, all violations for the others."""
# A prepared schema has values of every type.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from types import NoneType
from typing import Literal, Protocol, TypeAlias, cast

from msgspec import Struct

from toolgauge import plugins
from toolgauge.model.errors import SchemaError
from toolgauge.model.json import Json, JsonObject
from toolgauge.score.schemas.schema_reader import (
    NOTHING,
    PATTERN_BYTES,
    Prepared,
    SchemaReader,
    Target,
    Types,
    schema_text,
)
from toolgauge.score.schemas.violations import TESTS, Steps, Violation

# What arguments that the schema does not name are, where it leaves open whether there may be any.
UnknownArguments: TypeAlias = Literal["fail", "allow"]

_MAX_CACHE_BYTES = 32 * 2**20
# A schema that was read takes this much more memory than its text.
_MEMORY_PER_BYTE = 16
_ALL_TYPES: frozenset[type] = frozenset((str, int, float, bool, NoneType, list, dict))
_OBJECT: frozenset[type] = frozenset((dict,))
_LIST: frozenset[type] = frozenset((list,))
_NULL: frozenset[type] = frozenset((NoneType,))
_NOT_CHECKED = frozenset(("$defs", "definitions"))


class _Validator(Protocol):
    """Finds what breaks a schema; the entry point `arguments` of `toolgauge.validators` is of this type."""

    def __call__(self, schema: Prepared, arguments: JsonObject, steps: Steps) -> Iterator[Violation]:
        """Raise `SchemaError` when that takes too long."""
        ...


class ToolSchema:
    """One schema, ready to check arguments against."""

    def __init__(self, written: JsonObject, unknown: UnknownArguments) -> None:
        """Read it, or raise `SchemaError`."""
        reader = SchemaReader(written)
        self.skipped_patterns = reader.skipped_patterns
        self.pattern_bytes = reader.patterns * PATTERN_BYTES
        self._root = reader.root
        # The names of all arguments where others count as unknown although the schema does not forbid them.
        self._declared = _declared(reader.root) if unknown == "fail" else None
        self.fits_plainly: Callable[[JsonObject], bool] = (
            _plain_object(reader.root, is_open=self._declared is None) or _never
        )

    def violations(self, arguments: JsonObject, steps: Steps) -> Iterator[Violation]:
        """Yield the violations. Raises `SchemaError` when finding out takes too long."""
        if self._declared is not None:
            for name, value in arguments.items():
                if name not in self._declared:
                    yield Violation((name,), "unknown_arguments", "additionalProperties", None, value, is_missing=False)
        yield from _validator()(self._root, arguments, steps)


@lru_cache(maxsize=1)
def _validator() -> _Validator:
    return cast("_Validator", plugins.load(plugins.VALIDATORS, "arguments"))  # our own entry point


class ToolSchemas:
    """Schemas by their text: of the same few tools, trace after trace has the same. Bounded, as they come from producers."""

    def __init__(self, unknown: UnknownArguments) -> None:
        self._unknown: UnknownArguments = unknown
        self._known: dict[str, ToolSchema | SchemaError] = {}
        self._size_bytes = 0

    def of(self, written: JsonObject) -> ToolSchema:
        """Return the schema, or raise `SchemaError`."""
        text = schema_text(written)
        known = self._known.get(text)
        if known is None:
            known = self._read(written, text)
        if isinstance(known, SchemaError):
            raise SchemaError(*known.args)
        return known

    def _read(self, written: JsonObject, text: str) -> ToolSchema | SchemaError:
        size_bytes = len(text) * _MEMORY_PER_BYTE
        try:
            read = ToolSchema(written, self._unknown)
            size_bytes += read.pattern_bytes
        except SchemaError as error:
            read = SchemaError(*error.args)
        except RecursionError:
            read = SchemaError("it is nested too deeply")
        if self._size_bytes + size_bytes > _MAX_CACHE_BYTES:
            self._known.clear()
            self._size_bytes = 0
        self._known[text] = read
        self._size_bytes += size_bytes
        return read


# -- unknown arguments --------------------------------------------------------------------------------------------

_OPEN = ("additionalProperties", "patternProperties", "propertyNames")
_IN_PLACE = ("allOf", "anyOf", "oneOf")
_IN_PLACE_ALONE = ("if", "then", "else")


def _declared(root: Prepared) -> frozenset[str] | None:
    """Return the names that any part of the schema has for arguments; `None` where the schema itself decides about others."""
    names: set[str] = set()
    seen: set[int] = set()
    left = [root]
    has_names = False
    while left:
        schema = left.pop()
        if id(schema) in seen:
            continue
        seen.add(id(schema))
        if any(keyword in schema for keyword in _OPEN):
            return None
        if "properties" in schema:
            has_names = True
            names.update(cast("Mapping[str, Prepared]", schema["properties"]))
        left.extend(_in_place(schema))
    return frozenset(names) if has_names else None


def _in_place(schema: Prepared) -> Iterator[Prepared]:
    """Yield the schemas that are about the same value."""
    for keyword in _IN_PLACE:
        yield from cast("list[Prepared]", schema.get(keyword, ()))
    for keyword in _IN_PLACE_ALONE:
        if keyword in schema:
            yield cast("Prepared", schema[keyword])
    if "dependentSchemas" in schema:
        yield from cast("Mapping[str, Prepared]", schema["dependentSchemas"]).values()
    if "$ref" in schema:
        yield cast("Target", schema["$ref"]).schema


# -- arguments that plainly fit -----------------------------------------------------------------------------------
# Nearly all arguments are valid, and nearly all schemas are made of few keywords: without this the check of a call takes
# 67 microseconds, ten times as much as all other evaluators together.

_Check: TypeAlias = Callable[[Json], bool]


def _never(_arguments: JsonObject) -> bool:
    return False


class _Plain(Struct, frozen=True):
    """The type that a value must have, and the check of one that is not null."""

    types: frozenset[type]
    check: _Check | None


def _plain(schema: Prepared) -> _Plain | None:
    """Make the quick check of a value; `None` where the schema has other keywords than the most common ones."""
    if schema.keys() == {"anyOf"}:
        return _plain_union(cast("list[Prepared]", schema["anyOf"]))
    declared = schema.get("type")
    types = declared.python if isinstance(declared, Types) else _ALL_TYPES
    checks: list[_Check] = []
    rest = set(schema) - {"type"} - _NOT_CHECKED
    if rest & {"properties", "required", "additionalProperties"}:
        of_object = _plain_object(schema, is_open=True)
        if of_object is None or types - {NoneType} != _OBJECT:
            return None
        return _Plain(types, cast("_Check", of_object))
    if "items" in rest:
        rest.remove("items")
        of_items = _plain(cast("Prepared", schema["items"]))
        if of_items is None or types - {NoneType} != _LIST:
            return None
        checks.append(_all_items(of_items))
    if not rest <= TESTS.keys() or (NoneType in types and rest & {"enum", "const"}):
        return None
    checks += [_tested(name, schema[name]) for name in schema if name in rest]
    return _Plain(types, _joined(checks))


def _plain_union(alternatives: list[Prepared]) -> _Plain | None:
    """Join alternatives of which at most one is about more than the type, as for an optional argument in Python."""
    found = [_plain(alternative) for alternative in alternatives]
    if any(plain is None for plain in found):
        return None
    plains = [plain for plain in found if plain is not None]
    checked = [plain for plain in plains if plain.check is not None]
    if not checked:
        return _Plain(frozenset().union(*(plain.types for plain in plains)), None)
    if len(checked) == 1 and all(plain.types == _NULL for plain in plains if plain.check is None):
        return _Plain(checked[0].types | {NoneType}, checked[0].check)
    return None


def _plain_object(schema: Prepared, *, is_open: bool) -> Callable[[JsonObject], bool] | None:
    """Make the quick check of an object; `is_open` where names that the schema does not have are allowed by default."""
    if not schema.keys() <= {"type", "properties", "required", "additionalProperties", *_NOT_CHECKED}:
        return None
    declared, others = schema.get("type"), schema.get("additionalProperties")
    if (isinstance(declared, Types) and dict not in declared.python) or others not in (None, {}, NOTHING):
        return None
    properties = cast("Mapping[str, Prepared]", schema.get("properties", {}))
    required = frozenset(cast("tuple[str, ...]", schema.get("required", ())))
    plains = {name: plain for name, subschema in properties.items() if (plain := _plain(subschema)) is not None}
    if len(plains) < len(properties):
        return None
    optional = {name: plain.types | {NoneType} for name, plain in plains.items() if name not in required}
    types = {**{name: plain.types for name, plain in plains.items()}, **optional}
    checks = {name: plain.check for name, plain in plains.items() if plain.check is not None}
    types_of_others = _ALL_TYPES if is_open and others != NOTHING else frozenset[type]()

    def fits(arguments: JsonObject) -> bool:
        for name, value in arguments.items():
            if type(value) not in types.get(name, types_of_others):
                return False
        for name, check in checks.items():
            value = arguments.get(name)
            if value is not None and not check(value):
                return False
        return required <= arguments.keys()

    return fits


def _all_items(plain: _Plain) -> _Check:
    types, check = plain.types, plain.check

    def fit(items: Json) -> bool:
        return all(
            type(item) in types and (check is None or item is None or check(item)) for item in cast("list[Json]", items)
        )

    return fit


def _tested(name: str, limit: object) -> _Check:
    test = TESTS[name]
    return lambda value: test(limit, value)


def _joined(checks: list[_Check]) -> _Check | None:
    if len(checks) <= 1:
        return checks[0] if checks else None
    return lambda value: all(check(value) for check in checks)
