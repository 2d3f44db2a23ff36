"""Violations of a schema in words, and as differences."""

from collections.abc import Mapping

from toolgauge.model.outcomes import Difference, Side
from toolgauge.score.compare import path
from toolgauge.score.selection import shown
from toolgauge.score.tool_schemas import Kind, Violation

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
