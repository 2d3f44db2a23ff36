"""Reads the failure that an object reports in its top level: `{"error": "no such order"}`, `{"ok": false, "message": "..."}`.

Rule: an object that holds more than the failure is data, and so is what a tool was asked for: the `status` of `get_status`, the
`errors` of `list_errors`, the `rejected` of `reject_offer`. In doubt it is data.
"""

import re
from collections.abc import Collection
from itertools import islice
from typing import Final

from toolgauge.model.json import Json, JsonObject, leaves
from toolgauge.model.observations import OTHER_ERROR, CallError

_ERRORS = ("error", "errors", "error_message", "errorMessage")
_FLAGS = {"ok": True, "success": True, "isError": False, "is_error": False}
_STATES = ("status", "state")
SIGNS: Final = frozenset((*_ERRORS, *_FLAGS, *_STATES))
_MEANINGS = {"true": True, "1": True, "false": False, "0": False}
_FAILURES = frozenset(("error", "fail", "failed", "failure", "declined", "denied", "rejected"))
_NO_FAILURES = frozenset(
    (
        *("", "active", "complete", "completed", "done", "finished", "n/a", "no", "no error", "no errors", "none"),
        *("null", "ok", "partial", "passed", "pending", "running", "succeeded", "success", "successful"),
    )
)
# Members that explain a failure.
_ABOUT = re.compile(
    r"_?(?:available|cause|code|correlation|date$|desc|detail|did_?you_?mean|doc|err|exception|fail|fault|help|hint"
    r"|http_?code|http_?status|instance$|invalid|kind$|level$|link$|message|missing|msg$|path$|reason|recoverable"
    r"|request|require|retr|severity$|stack|status_?code|suggest|supported|time$|timestamp|title|trace|transient|type$"
    r"|url$|valid)",
    re.IGNORECASE,
)
# Words of tools that are asked whether something is well.
_CHECKS = frozenset(
    (
        *("can", "check", "confirm", "diagnose", "has", "health", "is", "lint", "monitor", "ping", "probe", "state"),
        *("status", "test", "validate", "verify"),
    )
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SENTENCE = re.compile(r"\S\s+\S+\s+\S|[^\x00-\x7f]")
# Tools name a failure in another form than their results: `deny`, `denied`.
_STEM = 3
# So many other values may explain an error: `{"error": "insufficient funds", "balance": 3, "price": 7}`.
_MAX_BESIDE = 2
_MAX_LEAVES = 1000


def reported_failure(value: JsonObject, tool: str, arguments: Json, *, changes_state: bool) -> CallError | None:
    """Return the failure that the result of a call reports; `None` for any other result."""
    fails = {name: _fails(name, value) for name in SIGNS.intersection(value)}
    # Settles nearly all objects.
    if True not in fails.values() or False in fails.values():
        return None
    words = [word.lower() for word in _WORD.findall(tool)]
    given = {str(leaf) for leaf in islice(leaves(arguments), _MAX_LEAVES)}
    signs = {name for name, failed in fails.items() if failed and not _is_asked_for(name, value, words, given)}
    beside = [
        one
        for name, one in value.items()
        if name not in SIGNS and not _ABOUT.match(name) and one not in (None, "", [], {})
    ]
    if not signs or any(isinstance(one, dict | list) for one in beside):
        return None
    # Values that the call was given do not count as data.
    added = [one for one in beside if str(one) not in given]
    if not signs.isdisjoint(_ERRORS):
        is_failure = len(added) <= _MAX_BESIDE
    elif not signs.isdisjoint(_FLAGS):
        is_failure = all(isinstance(one, str) and _SENTENCE.search(one) for one in added)
    else:
        # The state of a requested record is beside the name of the record.
        is_own = changes_state or any(_plain(value[name]) == "error" for name in signs)
        is_failure = not (added if is_own else beside)
    return _error(value) if is_failure else None


def _fails(name: str, value: JsonObject) -> bool | None:
    """Return whether a member means that the call failed, or that it worked; `None` for neither."""
    sign, text = value[name], _plain(value[name])
    if name in _FLAGS:
        means = _MEANINGS.get(text)
        return None if means is None else means is not _FLAGS[name]
    if name in _STATES:
        return True if text in _FAILURES else False if text and text in _NO_FAILURES else None
    if isinstance(sign, str):
        return True if text not in _NO_FAILURES and _MEANINGS.get(text, True) else None
    # A number is a measure unless words explain it: `{"mean": 3.1, "error": 0.02}`.
    is_measure = type(sign) in (int, float) and not isinstance(value.get("message"), str)
    return True if any(islice(leaves(sign), _MAX_LEAVES)) and not is_measure else None


def _is_asked_for(name: str, value: JsonObject, words: Collection[str], given: Collection[str]) -> bool:
    """Return whether the name or the arguments of the tool ask for the content of a member."""
    sign, is_check = value[name], not _CHECKS.isdisjoint(words)
    if name in _FLAGS:
        return is_check
    word = "error" if name in _ERRORS else _plain(sign)
    if any(one.startswith(word[:_STEM]) for one in words) or (isinstance(sign, str) and sign in given):
        return True
    return is_check and (isinstance(sign, list) if name in _ERRORS else word != "error" or len(value) == 1)


def _error(value: JsonObject) -> CallError:
    written = next((value[name] for name in _ERRORS if value.get(name)), None)
    if isinstance(written, list) and len(written) == 1:
        written = written[0]
    inner = written if isinstance(written, dict) else value
    explained = (one for name, one in value.items() if name not in SIGNS)
    texts = (written, inner.get("message"), inner.get("detail"), *explained)
    message = next((text for text in texts if text and isinstance(text, str)), "")
    kinds = (inner.get("type"), value.get("error_type"))
    kind = next((kind for kind in kinds if kind and isinstance(kind, str)), OTHER_ERROR)
    return CallError(kind=kind, message=message)


def _plain(value: Json) -> str:
    return "" if isinstance(value, dict | list) else str(value).strip().casefold()
