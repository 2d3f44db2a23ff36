"""Recognizes values and names that a redaction processor masked, so that no rule of a schema counts against what they hide.

A digest is a mask only where the schema takes no id. Where it takes ids, a digest may be a wrong id of the model.
"""

import re
from collections.abc import Sequence

from toolgauge.model.json import Json, JsonObject
from toolgauge.model.masks import is_digest, is_mask
from toolgauge.score.schemas.violations import Violation, each_leaf

# Rules that compare all values inside a list or an object.
_OF_ALL_INSIDE = frozenset(("enum", "const", "not", "oneOf", "uniqueItems", "contains"))
_NUMBERS: frozenset[Json] = frozenset(("integer", "number", "boolean", "null"))
_FORMATS: frozenset[Json] = frozenset(("email", "idn-email", "date", "date-time", "time", "ipv4", "ipv6"))
# Parts of a pattern that take no letters, and parts that may take some.
_WITHOUT_LETTERS = re.compile(r"\\[ds.]")
_MAY_TAKE_LETTERS = re.compile(r"[A-Za-z.]|\[\^")


def is_masked(violation: Violation, arguments: JsonObject) -> bool:
    """Return whether a mask stands in place of the value or name that breaks the rule, or of a value that the rule is about."""
    if violation.is_missing:
        # A masked name may be the one that is missing.
        return any(map(is_mask, _holder(arguments, violation.path)))
    if violation.kind == "unknown_arguments":
        return bool(violation.path) and is_mask(str(violation.path[-1]))
    actual = violation.actual
    if isinstance(actual, str):
        return is_mask(actual) or (is_digest(actual) and takes_no_id({violation.rule: violation.allowed}))
    return violation.rule in _OF_ALL_INSIDE and any(isinstance(one, str) and is_mask(one) for one in each_leaf(actual))


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
        if not isinstance(schema, dict):
            return {}
        properties = schema.get("properties")
        if isinstance(step, int):
            schema = schema.get("items")
        else:
            schema = properties.get(step) if isinstance(properties, dict) else None
    return schema if isinstance(schema, dict) else {}


def _holder(arguments: JsonObject, path: Sequence[str | int]) -> JsonObject:
    """Return the object that a path leads into."""
    found: Json = arguments
    for step in path[:-1]:
        match found:
            case dict() if isinstance(step, str):
                found = found.get(step)
            case list() if isinstance(step, int):
                found = found[step]
            case _:
                return {}
    return found if isinstance(found, dict) else {}
