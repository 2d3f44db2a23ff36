"""Words that people read in place of those for programs: JSON, span attributes and metrics keep the originals."""

from collections.abc import Callable, Collection, Mapping

from toolgauge.model.observations import OTHER_ERROR
from toolgauge.model.outcomes import OTHER_ARGUMENTS

_STATES: Mapping[str, str] = {"requested_only": "asked for, not run"}
_RULES: Mapping[str, str] = {"grounded": "seen before", OTHER_ARGUMENTS: "same tool, other arguments"}
_MAX_ARGUMENTS, _MAX_NAME = 5, 60


def state_words(state: str) -> str:
    """Write the state of a call."""
    return _STATES.get(state, state)


def rule_words(rule: str) -> str:
    """Write the rule that decided about a difference."""
    return _RULES.get(rule, rule)


def error_words(kind: str) -> str:
    """Write the type of an error: one that the producer did not name is "failed"."""
    return "failed" if kind in ("", OTHER_ERROR) else kind


def with_spaces(text: str, mark: str = " ") -> str:
    """Put a space, or another mark, in place of each character that does not print."""
    return text if text.isprintable() else "".join(letter if letter.isprintable() else mark for letter in text)


def argument_words(expected: Collection[str], actual: Collection[str], compared: Callable[[str], str]) -> str:
    """Name the arguments of a call that are wrong, the first few of them; `compared` words one that both sides have."""
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
