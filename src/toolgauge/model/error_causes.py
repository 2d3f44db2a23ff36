"""Shortens the text of an error so that its cause stays: most errors end with what went wrong, behind what wraps it.

The cause is the exception below the last frame of a Python traceback, else the text from the last "caused by" on, else
what follows the last colon where that is short enough, else the end of the text. Frames of stacks are left out first.
"""

import re

_CUT = " … "
# A stack: `  File "x.py", line 1` with its source line in Python, `    at f (x.js:1)` and `... 12 more` elsewhere.
_PYTHON_FRAME = re.compile(
    r'^(?:Traceback \(most recent call last\):\n|[ \t]+File "[^\n]*(?:\n[ \t]+[^\n]*)*\n?)', re.MULTILINE
)
_FRAME = re.compile(r"\n[ \t]+(?:at [^\n]*|\.\.\. \d+ more)")
_MARK = re.compile(r"\b(?:caused by|because|due to|(?:root cause|cause|reason)\s*[:=])|\[cause\]", re.IGNORECASE)


def with_cause(text: str, length: int) -> str:
    """Return a text of at most `length` characters: all of it, or its beginning and its cause."""
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
