"""Tells from an answer alone that a tool failed, where no tool span says so.

Applications that call the model themselves write a failure as text or as an object. Both may also be what a tool
rightly returned, so only forms that name an error twice over, or hold nothing but the error, count.
"""

import re

from toolgauge.model.content import Content, Recorded
from toolgauge.model.json import JsonObject
from toolgauge.model.observations import CallError

OTHER = "_OTHER"

_MAX_HEAD = 300
# A label and the class of an exception: `Error: TimeoutError: no answer`.
_LABELLED = re.compile(
    r"\s*(?i:(?:tool )?error(?: [a-z ]{1,40})?)\s*:\s*(?:[A-Za-z_]\w{0,60}\.){0,8}([A-Z]\w{0,80}(?:Error|Exception))\b"
)
_FLAGS = ("is_error", "isError")
_ABOUT_THE_ERROR = frozenset(
    (*_FLAGS, "code", "detail", "details", "error", "error_type", "message", "ok", "status", "success", "type")
)


def told_failure(result: Content) -> CallError | None:
    """Return the failure that the answer tells, `None` when it may be what the tool returned."""
    match result:
        case Recorded(value=str() as text):
            labelled = _LABELLED.match(text[:_MAX_HEAD])
            return CallError(kind=labelled[1], message=text) if labelled is not None else None
        case Recorded(value=dict() as told):
            return _told_in_object(told)
        case _:
            return None


def _told_in_object(told: JsonObject) -> CallError | None:
    if not told.keys() <= _ABOUT_THE_ERROR:
        return None
    said = told.get("error")
    if not said and not any(told.get(flag) is True for flag in _FLAGS):
        return None
    inner = said if isinstance(said, dict) else told
    words = (said, inner.get("message"), inner.get("detail"), told.get("message"))
    message = next((word for word in words if word and isinstance(word, str)), "")
    kinds = (inner.get("type"), told.get("error_type"))
    kind = next((kind for kind in kinds if kind and isinstance(kind, str)), OTHER)
    return CallError(kind=kind, message=message)
