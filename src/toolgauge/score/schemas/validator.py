"""What of some arguments breaks the schema of their tool: `jsonschema` walks both, with keywords made for hostile values.

Its own keywords write the value into every message, look for patterns with `re`, compare lists by the square of their length
and have no bound. Here a keyword yields where and which rule, patterns run in RE2, and all that is done counts towards
`Steps`: when these run out, the check ends with `SchemaError`. A null for a property that is not required is read as one
that was left out, as models mean it.

An entry point of `toolgauge.validators`: nearly all arguments plainly fit, and until some do not, `jsonschema` is not loaded.
"""
# jsonschema has few annotations, and a prepared schema has values of every type.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias, cast

from jsonschema import Draft202012Validator, FormatChecker, ValidationError
from jsonschema.validators import extend
from referencing.jsonschema import EMPTY_REGISTRY

from toolgauge.model.errors import SchemaError
from toolgauge.model.json import Json, JsonObject
from toolgauge.score.patterns import Pattern
from toolgauge.score.schemas.schema_reader import NOTHING, Allowed, Prepared, Target, Types
from toolgauge.score.schemas.violations import TESTS, Kind, Steps, Test, Violation, leaves

_KINDS: Mapping[str, Kind] = {
    "additionalProperties": "unknown_arguments",
    "required": "missing_required",
    "dependentRequired": "missing_required",
    "type": "wrong_type",
    "enum": "enum",
    "const": "enum",
    "minimum": "range",
    "maximum": "range",
    "exclusiveMinimum": "range",
    "exclusiveMaximum": "range",
    "multipleOf": "range",
    "minLength": "range",
    "maxLength": "range",
    "minItems": "range",
    "maxItems": "range",
    "minProperties": "range",
    "maxProperties": "range",
}
# What one violation takes, in steps.
_STEPS_PER_VIOLATION = 8
# So many characters are read in the time of one step.
_CHARACTERS_PER_STEP = 64

# Tests that look at all there is inside a list or an object.
_DEEP = frozenset(("enum", "const", "uniqueItems"))


class _Bound(FormatChecker):
    """Carries the steps: `format_checker` is the one thing that a validator passes on to those below it."""

    def __init__(self, steps: Steps) -> None:
        super().__init__(formats=())
        self.take = steps.take


class _Validator(Protocol):
    """What keywords use of a validator of `jsonschema`."""

    @property
    def format_checker(self) -> _Bound: ...

    def descend(
        self, instance: Json, schema: object, path: str | int | None = None, schema_path: str | int | None = None
    ) -> Iterable[ValidationError]: ...

    def evolve(self, *, schema: object) -> "_Validator": ...

    def is_valid(self, instance: Json) -> bool: ...

    def iter_errors(self, instance: Json) -> Iterable[ValidationError]: ...


_Errors: TypeAlias = Iterable[ValidationError] | None
_Keyword: TypeAlias = Callable[[_Validator, object, Json, Prepared], _Errors]


def violations(schema: Prepared, arguments: JsonObject, steps: Steps) -> Iterator[Violation]:
    """Yield what breaks the schema. Raises `SchemaError` when that takes too long."""
    # Its own registry: without one, the validator would fetch what a schema refers to.
    validator = cast("_Validator", _CHECKER(schema, registry=EMPTY_REGISTRY, format_checker=_Bound(steps)))
    try:
        for error in validator.iter_errors(arguments):
            steps.take(_STEPS_PER_VIOLATION)
            yield _violation(error)
    except RecursionError:
        raise SchemaError("it is nested too deeply to check against") from None


def _violation(error: ValidationError) -> Violation:
    rule = str(error.validator)
    kind = _KINDS.get(rule, "other")
    is_missing = kind == "missing_required"
    actual = None if is_missing else cast("Json", error.instance)
    return Violation(tuple(error.path), kind, rule, _written(error.validator_value), actual, is_missing)


def _written(value: object) -> Json:
    """Write what a keyword allows as the schema had it, as far as that fits on a line."""
    match value:
        case Types():
            return value.words[0] if len(value.words) == 1 else list(value.words)
        case Allowed():
            return list(value.values)
        case Pattern():
            return value.text
        case bool() | int() | float() | str():
            return value
        case _:
            return None


# -- keywords -----------------------------------------------------------------------------------------------------


def _tested(name: str, test: Test) -> _Keyword:
    def keyword(validator: _Validator, value: object, instance: Json, schema: Prepared) -> Iterator[ValidationError]:
        types = schema.get("type")
        if name == "enum" and isinstance(types, Types) and not types.match(instance):
            return  # one complaint of a value is enough
        if name in _DEEP and isinstance(instance, (dict, list)):
            validator.format_checker.take(leaves(instance))
        if not test(value, instance):
            yield ValidationError("")

    return keyword


def _properties(validator: _Validator, value: object, instance: Json, schema: Prepared) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    required = cast("Sequence[str]", schema.get("required", ()))
    for name, subschema in cast("Mapping[str, Prepared]", value).items():
        if name in instance and (instance[name] is not None or name in required):
            yield from validator.descend(instance[name], subschema, path=name)


def _additional(validator: _Validator, value: object, instance: Json, schema: Prepared) -> Iterator[ValidationError]:
    if not isinstance(instance, dict):
        return
    properties = cast("Mapping[str, Prepared]", schema.get("properties", {}))
    patterns = cast("Mapping[Pattern, Prepared]", schema.get("patternProperties", {}))
    for name, member in instance.items():
        if name in properties or _matching(validator, patterns, name):
            continue
        if value == NOTHING:
            yield ValidationError("", path=(name,), instance=member)
        else:
            yield from validator.descend(member, value, path=name)


def _by_pattern(validator: _Validator, value: object, instance: Json, _schema: Prepared) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for name, member in instance.items():
            for subschema in _matching(validator, cast("Mapping[Pattern, Prepared]", value), name):
                yield from validator.descend(member, subschema, path=name)


def _matching(validator: _Validator, patterns: Mapping[Pattern, Prepared], name: str) -> list[Prepared]:
    validator.format_checker.take(len(patterns) * (1 + len(name) // _CHARACTERS_PER_STEP))
    return [subschema for pattern, subschema in patterns.items() if pattern.is_in(name)]


def _required(_validator: _Validator, value: object, instance: Json, _schema: Prepared) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for name in cast("Sequence[str]", value):
            if name not in instance:
                yield ValidationError("", path=(name,))


def _dependent(validator: _Validator, value: object, instance: Json, schema: Prepared) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for name, names in cast("Mapping[str, Sequence[str]]", value).items():
            if instance.get(name) is not None:
                validator.format_checker.take(len(names))
                yield from _required(validator, names, instance, schema)


def _reference(validator: _Validator, value: object, instance: Json, _schema: Prepared) -> _Errors:
    return validator.descend(instance, cast("Target", value).schema)


def _not(validator: _Validator, value: object, instance: Json, _schema: Prepared) -> Iterator[ValidationError]:
    if validator.evolve(schema=value).is_valid(instance):
        yield ValidationError("")


def _contains(validator: _Validator, value: object, instance: Json, schema: Prepared) -> Iterator[ValidationError]:
    if not isinstance(instance, list):
        return
    of_items = validator.evolve(schema=value)
    matching = sum(of_items.is_valid(item) for item in instance)
    least, most = cast("float", schema.get("minContains", 1)), cast("float", schema.get("maxContains", len(instance)))
    if not least <= matching <= most:
        yield ValidationError("")


def _any_of(validator: _Validator, value: object, instance: Json, _schema: Prepared) -> Iterator[ValidationError]:
    failures: list[list[ValidationError]] = []
    for alternative in cast("Sequence[Prepared]", value):
        errors = _errors(validator, alternative, instance)
        if not errors:
            return
        failures.append(errors)
    yield from _closest(failures)


def _one_of(validator: _Validator, value: object, instance: Json, _schema: Prepared) -> Iterator[ValidationError]:
    found = [_errors(validator, alternative, instance) for alternative in cast("Sequence[Prepared]", value)]
    matching = sum(not errors for errors in found)
    if matching > 1:
        yield ValidationError("")
    elif not matching:
        yield from _closest(found)


def _errors(validator: _Validator, alternative: Prepared, instance: Json) -> list[ValidationError]:
    errors: list[ValidationError] = []
    for error in validator.descend(instance, alternative):
        validator.format_checker.take(_STEPS_PER_VIOLATION)
        errors.append(error)
    return errors


def _closest(failures: Sequence[Sequence[ValidationError]]) -> Iterator[ValidationError]:
    """Yield the errors of the alternative that was meant: of the right type and constants, else with the fewest errors."""

    def distance(errors: Sequence[ValidationError]) -> tuple[bool, int, int]:
        return _is_other_type(errors), sum(error.validator == "const" for error in errors), len(errors)

    closest = min(failures, key=distance)
    if not _is_other_type(closest):
        yield from closest
        return
    words = [
        word
        for errors in failures
        for error in errors
        if not error.path and isinstance(error.validator_value, Types)
        for word in error.validator_value.words
    ]
    yield ValidationError("", validator="type", validator_value=Types(tuple(dict.fromkeys(words)), frozenset()))


def _is_other_type(errors: Sequence[ValidationError]) -> bool:
    return any(error.validator == "type" and not error.path for error in errors)


def _counted(keyword: _Keyword) -> _Keyword:
    def check(validator: _Validator, value: object, instance: Json, schema: Prepared) -> _Errors:
        validator.format_checker.take(1 + _size(value) + _size(instance))
        return keyword(validator, value, instance, schema)

    return check


def _size(value: object) -> int:
    if isinstance(value, str):
        return len(value) // _CHARACTERS_PER_STEP
    return len(value) if isinstance(value, (dict, list, tuple)) else 0


_KEYWORDS: Mapping[str, _Keyword] = {
    **{name: _tested(name, test) for name, test in TESTS.items()},
    **{
        name: cast("_Keyword", Draft202012Validator.VALIDATORS[name])
        for name in ("allOf", "dependentSchemas", "if", "items", "prefixItems", "propertyNames")
    },
    "$ref": _reference,
    "additionalProperties": _additional,
    "anyOf": _any_of,
    "contains": _contains,
    "dependentRequired": _dependent,
    "not": _not,
    "oneOf": _one_of,
    "patternProperties": _by_pattern,
    "properties": _properties,
    "required": _required,
}
_CHECKER = extend(
    Draft202012Validator, cast("Mapping[str, object]", {name: _counted(keyword) for name, keyword in _KEYWORDS.items()})
)
