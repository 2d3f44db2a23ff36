"""Finds failed calls by their result alone: errors written as text, exit codes, error pages, globs of a criterion.

Rule: the calls of a tool failed where it answered with an error at least twice in the run and never worked; a page titled
`Error NNN` failed by itself; any other single error text fails nothing, as it may be what the tool found.
"""

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from http import HTTPStatus
from operator import is_not
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.json import Json, JsonObject, nests_too_deep
from toolgauge.model.observations import CallError
from toolgauge.model.recoveries import has_succeeded
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.patterns import Globs
from toolgauge.score.recorded_values import result_value

# What such a failure is called where others have the class of an exception.
_KIND = "failed_result"


def with_failures(trajectory: Trajectory, failures: Globs) -> Trajectory:
    """Return the trajectory with an error for each call without one whose result matches a glob."""
    calls = list(trajectory.calls)
    for place, call in enumerate(trajectory.calls):
        text = None if call.error is not None else _text(call.result)
        if text is not None and failures.match(text):
            calls[place] = replace(call, error=CallError(kind=_KIND, message=text))
    return replace(trajectory, calls=tuple(calls)) if any(map(is_not, calls, trajectory.calls)) else trajectory


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


# What such failures are called where others have the class of an exception.
ERROR_TEXT: Final = "error_text"
ERROR_PAGE: Final = "error_page"
_LEAST = 2

# An error text says so at once, and an exit code in its first or last lines.
_MAX_HEAD = 300
_MAX_PAGE_HEAD = 2000
_MAX_JSON = 64 * 1024
_MAX_MESSAGE = 4096
_MAX_DEPTH = 90

_PHRASES = "|".join(sorted({re.escape(status.phrase) for status in HTTPStatus if status >= HTTPStatus.BAD_REQUEST}))
_SUBJECTS = (
    "authentication|call|command|connection|execution|function|operation|query|request|tool|transaction|validation"
)
_ERROR = re.compile(
    # Marks and brackets in front of the words: `[ERROR] `, `**Error**: `.
    r"\W{0,6}(?:"
    # `Error: no such order`, `Tool error (404): ...`, `An error occurred while ...`, `Error executing tool pay: ...`
    r"(?:(?:an?|the) )?(?:\w{1,30} ){0,2}(?:error|exception|failure|fatal)(?: code)?(?: ?[(\[]?[\w.-]{0,20}\d[)\]]?)?(?:[\])*]{0,3} ?[:\u2013\u2014]|[\])*]{1,3} | - |$|\n)"
    r"|(?:(?:an?|the) )?(?:\w{1,30} ){0,2}error (?:[45]\d\d\b|occurred\b|while\b|during\b|when\b|calling\b|creating\b|executing\b|fetching\b|getting\b|invoking\b|loading\b|parsing\b|processing\b|reading\b|running\b|updating\b|writing\b)"
    # `psycopg2.errors.UniqueViolationError: ...`
    r"|(?:\w{1,60}\.){0,8}(?-i:[A-Z])\w{0,60}(?-i:Error|Exception)\b(?:[:(]|$|\n)"
    r"|traceback \(most recent call last\)"
    r"|(?:failed|unable) to \w|(?:cannot|can't|could not|couldn't) \w"
    rf"|(?:{_SUBJECTS})(?: (?:call|execution))? (?:failed|timed out|refused)\b"
    r"|(?:permission denied|access denied|unauthorized|forbidden|timed out|timeout|connection refused)(?:[.:!]|$|\n)"
    r"|invalid [^\n:]{1,60}(?::|\.?$|\.?\n)"
    rf"|(?:http\S{{0,8}} (?:status )?)?[45]\d\d[ :-]{{1,3}}(?:{_PHRASES}|client error|server error)\b|http (?:status )?[45]\d\d\b"
    r")",
    re.IGNORECASE,
)
_EXIT_CODE = re.compile(
    r"^[^\n]{0,60}?\b(?:exit(?:ed)?(?: with)?[ _]?(?:status|code)|exited with|return[ _]?code)(?: (?:of|is))?[ :=]{1,3}-?[1-9]\d{0,9}\b(?:\W{0,3}$|[.:,;)])",
    re.IGNORECASE | re.MULTILINE,
)
_TITLE = rf"(?:HTTP )?Error [45]\d\d\b(?:\W{{1,4}}(?:{_PHRASES}))?\W{{0,8}}"
_ERROR_TITLE = re.compile(_TITLE, re.IGNORECASE)
_TITLED = re.compile(
    rf"^[ \t]{{0,8}}(?:page )?title: ?{_TITLE}$|<title>\s{{0,8}}{_TITLE}</title>", re.IGNORECASE | re.MULTILINE
)
_EXIT_CODES = frozenset(
    ("exit_code", "exitCode", "exit_status", "exitStatus", "returncode", "return_code", "returnCode")
)
_ERRORS = frozenset(("error", "errors", "error_message", "errorMessage"))
_FLAGS: JsonObject = {"is_error": True, "isError": True, "success": False, "ok": False, "status": "error"}
_MEMBERS = _ERRORS.union(_FLAGS, _EXIT_CODES)
# Types that hold the words of an error.
_WORDED = (str, list, dict)


class ErrorTexts(Struct, frozen=True):
    """A trajectory with an error for each call that failed by its result alone; `shown` are orders of doubtful calls.

    `kinds` are the kinds of error that results of calls without a recorded error read like, by the order of the call.
    """

    trajectory: Trajectory
    kinds: Mapping[int, str]
    shown: frozenset[int] = frozenset()


def with_error_texts(trajectory: Trajectory) -> ErrorTexts:
    """Find the calls that failed by their results alone, and those whose result only reads like an error."""
    kinds = {
        call.order: kind
        for call in trajectory.calls
        if has_succeeded(call) and (kind := error_in(call.result)) is not None
    }
    if not kinds:
        return ErrorTexts(trajectory, kinds)
    by_tool: defaultdict[str, list[ToolCall]] = defaultdict(list)
    for call in trajectory.calls:
        if call.kind == "tool":
            by_tool[call.name].append(call)
    failures: dict[int, CallError] = {}
    shown: set[int] = set()
    for calls in by_tool.values():
        succeeded = [call for call in calls if has_succeeded(call)]
        pages = [call for call in succeeded if kinds.get(call.order) == ERROR_PAGE]
        texts = [call for call in succeeded if kinds.get(call.order) == ERROR_TEXT]
        failures |= {call.order: _error(ERROR_PAGE, call) for call in pages}
        # A call of which the producer itself recorded the error is one of the two.
        failed = sum(call.state == "executed" and call.has_failed for call in calls)
        has_worked = len(pages) + len(texts) < len(succeeded)
        # In a trajectory that lacks spans, the tool may have worked in a call that was not seen.
        if has_worked or failed + len(succeeded) < _LEAST or trajectory.incomplete is not None:
            shown.update(call.order for call in texts)
        else:
            failures |= {call.order: _error(ERROR_TEXT, call) for call in texts}
    if failures:
        calls = [replace(call, error=failures.get(call.order, call.error)) for call in trajectory.calls]
        trajectory = replace(trajectory, calls=tuple(calls))
    return ErrorTexts(trajectory, kinds, frozenset(shown))


def error_in(result: Content) -> str | None:
    """Return the kind of error that a result reads like; `None` for all other results."""
    if isinstance(result, NotRecorded):
        return None
    value = _opened(result.value) if isinstance(result, Recorded) else result.text
    if isinstance(value, dict):
        title = value.get("title")
        if isinstance(title, str) and _ERROR_TITLE.fullmatch(title[:_MAX_HEAD]) is not None:
            return ERROR_PAGE
        inner = [one for one in value.values() if isinstance(one, dict)]
        return ERROR_TEXT if _is_error_object(value) or any(map(_has_exit_code, inner)) else None
    if not isinstance(value, str):
        return None
    # Settles nearly all texts, in a twentieth of the time.
    head = value[:_MAX_PAGE_HEAD]
    if ("rror" in head or "RROR" in head) and _TITLED.search(head) is not None:
        return ERROR_PAGE
    is_long = len(value) > 2 * _MAX_HEAD
    ends = (value[:_MAX_HEAD], value[-_MAX_HEAD:]) if is_long else (value,)
    return ERROR_TEXT if _ERROR.match(ends[0]) is not None or any(map(_shows_exit_code, ends)) else None


def _error(kind: str, call: ToolCall) -> CallError:
    match call.result:
        case Recorded(value=str() as text) | Unparsed(text=text):
            return CallError(kind=kind, message=text[:_MAX_MESSAGE])
        case Recorded(value=value) if not nests_too_deep(value, _MAX_DEPTH):
            return CallError(kind=kind, message=json.dumps(value, ensure_ascii=False)[:_MAX_MESSAGE])
        case _:
            return CallError(kind=kind, message="")


def _opened(value: Json) -> Json:
    """Return the value without the wrapping of MCP servers and frameworks, an object that is written as text decoded."""
    value = result_value(value)
    if isinstance(value, dict) and len(value) == 1 and isinstance(only := next(iter(value.values())), str):
        # `{"error": "..."}` stays as it is: the name of the member is what says so.
        value = only if value.keys().isdisjoint((*_ERRORS, "title")) else value
    if isinstance(value, str) and value[:1] == "{" and len(value) <= _MAX_JSON:
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _shows_exit_code(text: str) -> bool:
    # Settles nearly all texts, in a twentieth of the time.
    lower = text.lower()
    return ("exit" in lower or "return" in lower) and _EXIT_CODE.search(text) is not None


def _is_error_object(value: JsonObject) -> bool:
    for name in _MEMBERS.intersection(value):
        found = value[name]
        if name in _FLAGS:
            is_error = found is _FLAGS[name] or found == _FLAGS[name] == "error"
        elif name in _ERRORS:
            # A number under `error` is a measure: `{"mean": 3.1, "error": 0.02}`.
            is_error = bool(found) and (found is True or isinstance(found, _WORDED))
        else:
            is_error = _is_exit_code(found)
        if is_error:
            return True
    return False


def _has_exit_code(value: JsonObject) -> bool:
    return any(map(_is_exit_code, map(value.get, _EXIT_CODES)))


def _is_exit_code(value: Json) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value != 0
