"""Puts codes into plain words for people; JSON, span attributes and metrics keep the codes. Shortens errors, but not their cause."""

import re
from collections.abc import Callable, Collection

from toolgauge.model.observations import OTHER_ERROR
from toolgauge.model.outcomes import OTHER_ARGUMENTS

# The cause: the exception below a traceback, else the text from the last "caused by" on, else that after the last colon.
_CUT = " … "
# A stack: `  File "x.py", line 1` with its source line in Python, `    at f (x.js:1)` and `... 12 more` elsewhere.
_PYTHON_FRAME = re.compile(
    r'^(?:Traceback \(most recent call last\):\n|[ \t]+File "[^\n]*(?:\n[ \t]+[^\n]*)*\n?)', re.MULTILINE
)
_FRAME = re.compile(r"\n[ \t]+(?:at [^\n]*|\.\.\. \d+ more)")
_MARK = re.compile(r"\b(?:caused by|because|due to|(?:root cause|cause|reason)\s*[:=])|\[cause\]", re.IGNORECASE)


def with_cause(text: str, length: int) -> str:
    """Return a text of at most `length` characters: the whole one, or its beginning and its cause."""
    if len(text) <= length:
        return text
    shown, start = _without_frames(text)
    if len(shown) <= length:
        return shown
    room = length - length // 4 - len(_CUT)
    if start is None:
        start = shown.rfind(": ") + 2
        if len(shown) - start > room:
            # Nothing shows where the cause begins: half of the room is for each end.
            start = len(shown) - length // 2
    if start <= length - len(_CUT) - room:
        return f"{shown[: length - 1]}…"[:length]
    cause = shown[start:]
    tail = cause if len(cause) <= room else f"{cause[: max(room - 1, 0)]}…"
    return f"{shown[: max(length - len(_CUT) - len(tail), 0)]}{_CUT}{tail}"[:length]


def _without_frames(text: str) -> tuple[str, int | None]:
    """Return the text without the frames of stacks, and where its cause begins; `None` where nothing marks it."""
    *_, last = [None, *_PYTHON_FRAME.finditer(text)]
    if last is not None:
        cause = text[last.end() :].strip()
        shown = _PYTHON_FRAME.sub("", text).strip()
        return shown, len(shown) - len(cause)
    shown = _FRAME.sub("", text).strip()
    *_, mark = [None, *_MARK.finditer(shown)]
    return shown, None if mark is None else mark.start()


_STATES = {
    "requested_only": "asked for, not run",
    "paused": "paused, waits for a person",
    "refused": "refused by a person",
    "cancelled": "cancelled before it ended",
}
# Why a value of a call is missing or no value.
WHY_NOT_RECORDED = {
    "not_recorded": "the producer did not record it",
    "redacted": "the producer redacted it",
    "unparsable": "it is no valid JSON and stays text",
    "truncated": "it was cut off on the way",
}
_REASONS = {"no_tool_offer": "tools on offer not recorded"}
_RULES = {"grounded": "not seen before", OTHER_ARGUMENTS: "same tool, other arguments"}
_MAX_ARGUMENTS, _MAX_NAME = 5, 60


def state_words(state: str) -> str:
    """Write the state of a call."""
    return _STATES.get(state, state)


def reason_words(reason: str) -> str:
    """Write a reason of the closed list."""
    return _REASONS.get(reason, reason.replace("_", " "))


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
