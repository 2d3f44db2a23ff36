"""Words that people read in place of those for programs: JSON, span attributes and metrics keep the originals."""

from collections.abc import Mapping

from toolgauge.model.observations import OTHER_ERROR

_STATES: Mapping[str, str] = {"requested_only": "asked for, not run"}
_RULES: Mapping[str, str] = {"grounded": "seen before"}


def state_words(state: str) -> str:
    """Write the state of a call."""
    return _STATES.get(state, state)


def rule_words(rule: str) -> str:
    """Write the rule that decided about a difference."""
    return _RULES.get(rule, rule)


def error_words(kind: str) -> str:
    """Write the type of an error: one that the producer did not name is "failed"."""
    return "failed" if kind in ("", OTHER_ERROR) else kind
