"""What can be wrong with arguments: a violation, what one costs a score, and the rules about a value alone."""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias, cast

from msgspec import Struct

from toolgauge.model.errors import SchemaError
from toolgauge.model.json import Json, JsonObject
from toolgauge.score.equality import canonical
from toolgauge.score.patterns import Pattern
from toolgauge.score.schemas.schema_reader import Allowed, Types

Kind: TypeAlias = Literal["unknown_arguments", "missing_required", "wrong_type", "enum", "range", "other"]
# Takes the keyword's value and the value to test; true for a value of a type that the keyword is not about.
Test: TypeAlias = Callable[[object, Json], bool]

# Rules that judge a list or an object as a whole: with it, nothing in it is right.
_OF_THE_WHOLE = frozenset(("additionalProperties", "type", "enum", "const", "not"))
# Arguments that break more rules than this are wrong from end to end.
MAX_VIOLATIONS = 1000
# 0.3 is a multiple of 0.1, though not to the last digit.
_ROUNDING = 1e-9


class Violation(Struct, frozen=True):
    """One rule that is broken. `path` leads to the value, or to where it is missing (`is_missing`)."""

    path: tuple[str | int, ...]
    kind: Kind
    rule: str
    allowed: Json
    actual: Json
    is_missing: bool


class Steps:
    """What checking may still take."""

    def __init__(self, left: int) -> None:
        self.left = left

    def take(self, steps: int) -> None:
        """Count, and raise `SchemaError` when no step is left."""
        self.left -= steps
        if self.left < 0:
            raise SchemaError("it takes too long to check against")


def valid_share(arguments: JsonObject, found: Sequence[Violation]) -> float:
    """Return the share of leaves that are valid: a missing value counts as one, and so does a rule about a list or an object."""
    wholes = {violation.path: violation for violation in found if _is_whole(violation)}
    others = len({(violation.path, violation.rule) for violation in found if not _is_whole(violation)})
    wrong = others + sum(
        leaves(violation.actual)
        for path, violation in wholes.items()
        if not any(path[:length] in wholes for length in range(len(path)))
    )
    total = max(wrong, 1, others + sum(map(leaves, arguments.values())))
    return (total - wrong) / total


def leaves(value: Json) -> int:
    """Count the values that hold no others."""
    return sum(1 for _ in each_leaf(value))


def each_leaf(value: Json) -> Iterator[Json]:
    """Yield the values that hold no others."""
    left = [value]
    while left:
        node = left.pop()
        members = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        if not members:
            yield node
        left.extend(members)


def _is_whole(violation: Violation) -> bool:
    if violation.is_missing:
        return False
    return violation.rule in _OF_THE_WHOLE or not isinstance(violation.actual, (dict, list))


# -- rules about a value alone ------------------------------------------------------------------------------------


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _of_numbers(test: Callable[[float, float], bool]) -> Test:
    return lambda limit, value: not _is_number(value) or test(cast("float", value), cast("float", limit))


def _of_size(kind: type, test: Callable[[float, float], bool]) -> Test:
    return lambda limit, value: not isinstance(value, kind) or test(len(cast("str", value)), cast("float", limit))


def _is_multiple(value: float, divisor: float) -> bool:
    try:
        quotient = value / divisor
        return abs(quotient - round(quotient)) <= _ROUNDING * max(1.0, abs(quotient))
    except (OverflowError, ValueError):
        # Whole numbers beyond what a float holds, and infinity.
        return isinstance(value, int) and isinstance(divisor, int) and value % divisor == 0


TESTS: Mapping[str, Test] = {
    "type": lambda types, value: cast("Types", types).match(value),
    "enum": lambda allowed, value: cast("Allowed", allowed).match(value),
    "const": lambda allowed, value: cast("Allowed", allowed).match(value),
    "minimum": _of_numbers(operator.ge),
    "maximum": _of_numbers(operator.le),
    "exclusiveMinimum": _of_numbers(operator.gt),
    "exclusiveMaximum": _of_numbers(operator.lt),
    "multipleOf": _of_numbers(_is_multiple),
    "pattern": lambda pattern, value: not isinstance(value, str) or cast("Pattern", pattern).is_in(value),
    "minLength": _of_size(str, operator.ge),
    "maxLength": _of_size(str, operator.le),
    "minItems": _of_size(list, operator.ge),
    "maxItems": _of_size(list, operator.le),
    "minProperties": _of_size(dict, operator.ge),
    "maxProperties": _of_size(dict, operator.le),
    "uniqueItems": lambda wanted, value: not wanted or not isinstance(value, list) or _are_unique(value),
}


def _are_unique(items: list[Json]) -> bool:
    return len(set(map(canonical, items))) == len(items)
