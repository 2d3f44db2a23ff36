"""Finds failures that a producer records as nothing but the text of a result, by the globs of a criterion."""

import json

from msgspec.structs import replace

from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.observations import CallError
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.patterns import Globs

# What such a failure is called where others have the class of an exception.
_KIND = "failed_result"


def with_failures(trajectory: Trajectory, failures: Globs) -> Trajectory:
    """Return the trajectory with an error for each call without one whose result matches a glob."""
    calls = tuple(_marked(call, failures) for call in trajectory.calls)
    same = all(marked is call for marked, call in zip(calls, trajectory.calls, strict=True))
    return trajectory if same else replace(trajectory, calls=calls)


def _marked(call: ToolCall, failures: Globs) -> ToolCall:
    if call.error is not None:
        return call
    text = _text(call.result)
    if text is None or not failures.match(text):
        return call
    return replace(call, error=CallError(kind=_KIND, message=text))


def _text(result: Content) -> str | None:
    """Write the result as globs see it: text as it is, everything else as JSON without spaces."""
    match result:
        case Recorded(str() as text) | Unparsed(text):
            return text
        case Recorded(value):
            try:
                return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
            except ValueError:
                # Python refuses to write out integers of thousands of digits.
                return None
        case NotRecorded():
            return None
