"""Violations of a schema, their share of the arguments, and those that a redaction processor caused.

A digest is a mask only where the schema takes no id. Where it takes ids, a digest may be a wrong id of the model.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from toolgauge.model.json import Json, JsonObject
from toolgauge.model.masks import is_digest, is_mask

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
        is_single = not isinstance(self.actual, (dict, list))
        return not self.is_missing and (is_single or self.rule in _OF_THE_WHOLE)


def valid_share(arguments: JsonObject, found: Sequence[Violation]) -> float:
    """Return the share of leaves that are valid: a missing value counts as one, and so does a rule about a list or an object."""
    wholes = {violation.path: violation for violation in found if violation.is_whole}
    others = len({(violation.path, violation.rule) for violation in found if not violation.is_whole})
    wrong = others + sum(
        leaves(violation.actual)
        for path, violation in wholes.items()
        if not any(path[:length] in wholes for length in range(len(path)))
    )
    total = max(wrong, 1, others + sum(map(leaves, arguments.values())))
    return (total - wrong) / total


def leaves(value: Json) -> int:
    """Count the values that hold no others."""
    return sum(1 for _ in _each_leaf(value))


def _each_leaf(value: Json) -> Iterator[Json]:
    left = [value]
    while left:
        node = left.pop()
        members = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
        if not members:
            yield node
        left.extend(members)


def is_masked(violation: Violation, arguments: JsonObject) -> bool:
    """Return whether a mask stands in place of the value or name that breaks the rule, or of a value that the rule is about."""
    if violation.is_missing:
        # A masked name may be the one that is missing.
        holder = value_at(arguments, violation.path[:-1])
        return isinstance(holder, dict) and any(map(is_mask, holder))
    if violation.kind == "unknown_arguments":
        return bool(violation.path) and is_mask(str(violation.path[-1]))
    actual = violation.actual
    if isinstance(actual, str):
        return is_mask(actual) or (is_digest(actual) and takes_no_id({violation.rule: violation.allowed}))
    return violation.rule in _OF_ALL_INSIDE and any(isinstance(one, str) and is_mask(one) for one in _each_leaf(actual))


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
