"""What people and their tools write as a verdict on a run, read as passed or failed."""

import re
from math import isfinite

_PASSED = frozenset(
    [
        "1",
        "accepted",
        "correct",
        "good",
        "like",
        "ok",
        "pass",
        "passed",
        "positive",
        "success",
        "successful",
        "thumb_up",
        "thumbs_up",
        "true",
        "up",
        "yes",
    ]
)
_FAILED = frozenset(
    [
        "-1",
        "0",
        "bad",
        "dislike",
        "down",
        "fail",
        "failed",
        "failure",
        "false",
        "incorrect",
        "negative",
        "no",
        "rejected",
        "thumb_down",
        "thumbs_down",
        "wrong",
    ]
)
_SIGNS = {"\N{THUMBS UP SIGN}": True, "\N{THUMBS DOWN SIGN}": False}
# For messages: the words that need no explanation.
PLAIN_VERDICTS = (
    "`passed` or `failed`, `pass` or `fail`, `true` or `false`, `1` or `0`, `good` or `bad`, `up` or `down`"
)
_MAX_LENGTH = 32
# Between words; the sign of a number is none.
_SEPARATORS = re.compile(r"(?<=[a-z])[ _-]+")


def verdict_of(value: str | float, pass_at: float | None = None) -> bool | None:
    """Return whether a run passed; `None` for a value that is no verdict.

    Numbers pass from `pass_at` on; without it only 1 is a pass, and only 0 and -1 are failures.
    """
    if isinstance(value, str) and len(value) > _MAX_LENGTH:
        return None
    if pass_at is not None and (number := _number(value)) is not None:
        return number >= pass_at
    if isinstance(value, bool):
        return value
    if not isinstance(value, str):
        return {1.0: True, 0.0: False, -1.0: False}.get(float(value))
    word = _SEPARATORS.sub("_", value.strip().lower())
    if word in _PASSED:
        return True
    if word in _FAILED:
        return False
    number = _number(value)
    return _SIGNS.get(word) if number is None else verdict_of(number)


def _number(value: str | float) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if isfinite(number) else None
