"""What calls gave back and what was expected of them, brought into one form.

Arrives: results as dialects read them, outputs as people write them: values, JSON text, or either inside
`{"content": ...}`. Leaves: values that can be compared. Spans carry outputs as text, so that a text which is JSON cannot
be told from its value; both sides are read alike, and what is equal in any of these forms stays equal.
"""

import json
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast

from toolgauge.model.content import NotRecorded, Recorded, Unparsed
from toolgauge.model.expected import ExpectedOutput
from toolgauge.model.json import Json
from toolgauge.model.trajectory import ToolCall
from toolgauge.score.selection import has_failed

_ENVELOPE = "content"
_ERROR = "error"
_MAX_TEXT = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Returned:
    """The call gave this back."""

    value: Json


@dataclass(frozen=True, slots=True)
class Failed:
    """The call failed; `texts` are what is known of the error: its kind and its message."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unseen:
    """What the call gave back was not recorded, or not in full."""

    reason: Literal["results_not_recorded", "redacted", "truncated"]


Output: TypeAlias = Returned | Failed | Unseen


def output_of(call: ToolCall) -> Output:
    """Say what became of a call; a failed one has an error, whatever else was recorded of it."""
    if has_failed(call):
        error = call.error
        return Failed(() if error is None else tuple(text for text in (error.kind, error.message) if text))
    match call.result:
        case Recorded(value=value):
            return Returned(opened(value))
        case Unparsed(reason="truncated"):
            return Unseen("truncated")
        case Unparsed(text=text):
            return Returned(opened(text))
        case NotRecorded(reason="redacted"):
            return Unseen("redacted")
        case NotRecorded():
            return Unseen("results_not_recorded")


def expected_error(output: ExpectedOutput) -> str | bool | None:
    """Return what error is expected: its kind or message, True for any; `None` where none is.

    It is written `{"error": "..."}` or `{"error": true}`.
    """
    value = opened(output.value)
    if not isinstance(value, dict) or list(value) != [_ERROR]:
        return None
    error = value[_ERROR]
    return error if isinstance(error, str) or error is True else None


def opened(value: Json) -> Json:
    """Open `{"content": ...}`, and read a text that is JSON."""
    value = _read(value)
    if isinstance(value, dict) and list(value) == [_ENVELOPE]:
        return _read(value[_ENVELOPE])
    return value


def _read(value: Json) -> Json:
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        return value
    try:
        return cast("Json", json.loads(value))  # typed Any by json; JSON by its contract
    except (ValueError, RecursionError):
        return value
