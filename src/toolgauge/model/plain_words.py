"""Words that people read in place of those for programs: JSON, span attributes and metrics keep the originals."""

from collections.abc import Callable, Collection

from toolgauge.model.observations import OTHER_ERROR
from toolgauge.model.outcomes import OTHER_ARGUMENTS

_STATES = {
    "requested_only": "asked for, not run",
    "paused": "paused, waits for a person",
    "refused": "refused by a person",
}
# Why a value of a call is missing or no value.
WHY_NOT_RECORDED = {
    "not_recorded": "the producer did not record it",
    "redacted": "the producer redacted it",
    "unparsable": "it is no valid JSON and stays text",
    "truncated": "it was cut off on the way",
}
_RULES = {"grounded": "seen before", OTHER_ARGUMENTS: "same tool, other arguments"}
_MAX_ARGUMENTS, _MAX_NAME = 5, 60


def state_words(state: str) -> str:
    """Write the state of a call."""
    return _STATES.get(state, state)


def reason_words(reason: str) -> str:
    """Write a reason of the closed list."""
    return reason.replace("_", " ")


def rule_words(rule: str) -> str:
    """Write the rule that decided about a difference."""
    return _RULES.get(rule, rule)


def error_words(kind: str) -> str:
    """Write the type of an error; one without a name is "failed"."""
    return "failed" if kind in ("", OTHER_ERROR) else kind


def with_spaces(text: str, mark: str = " ") -> str:
    """Put a space, or another mark, in place of each character that does not print."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else mark for letter in text)


def argument_words(expected: Collection[str], actual: Collection[str], compared: Callable[[str], str]) -> str:
    """Name the first wrong arguments of a call; `compared` words an argument of both sides."""
    names = [*dict.fromkeys((*expected, *actual))]
    parts: list[str] = []
    for name in names[:_MAX_ARGUMENTS]:
        quoted = f"`{with_spaces(name[:_MAX_NAME])}`"
        if name not in actual:
            parts.append(f"without {quoted}")
        elif name not in expected:
            parts.append(f"with {quoted} that was not expected")
        else:
            parts.append(f"{quoted} {compared(name)}")
    more = [f"{len(names) - _MAX_ARGUMENTS} more"] if len(names) > _MAX_ARGUMENTS else []
    return ", ".join([*parts, *more])
