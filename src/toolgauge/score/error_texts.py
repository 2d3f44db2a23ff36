"""Finds failed calls by their result alone: error objects, errors written as text, exit codes, error pages, contracts.

Rule: an object that reports an error and holds nothing else failed by itself, and so did a page titled `Error NNN`. Calls whose
results are error texts failed where their tool never worked in the run and was called at least twice; any other error text fails
nothing, as the tool may have found it.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping
from http import HTTPStatus
from itertools import islice
from operator import is_not
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.error_objects import SIGNS, reported_failure
from toolgauge.model.json import Json, JsonObject, leaves
from toolgauge.model.observations import CallError
from toolgauge.model.trajectory import ToolCall, Trajectory, has_succeeded
from toolgauge.score.contracts import Contract, ToolKinds
from toolgauge.score.recorded_values import result_value

# What such a failure is called where others have the class of an exception.
FAILED_RESULT: Final = "failed_result"


def with_failures(trajectory: Trajectory, kinds: ToolKinds) -> Trajectory:
    """Return the trajectory with an error for each call without one whose result is a failure by the contract of its tool."""
    if not kinds.has_failures:
        return trajectory
    calls = list(trajectory.calls)
    for place, call in enumerate(trajectory.calls):
        if call.error is None and failed_by(call, kinds.of(call.name)) is not None:
            message = (_text(call.result) or "")[:_MAX_MESSAGE]
            calls[place] = replace(call, error=CallError(kind=FAILED_RESULT, message=message))
    return replace(trajectory, calls=tuple(calls)) if any(map(is_not, calls, trajectory.calls)) else trajectory


def failed_by(call: ToolCall, contract: Contract) -> str | None:
    """Return the condition of `fails_when` that the result of a call meets; `None` where it meets none."""
    text = None if contract.fails_when is None else _text(call.result)
    if text is None:
        return None
    return contract.failed_by(text, opened(call.result.value) if isinstance(call.result, Recorded) else text)


def _text(result: Content) -> str | None:
    """Write the result as globs see it: text as it is, everything else as JSON without spaces."""
    match result:
        case Recorded(str() as text) | Unparsed(text):
            return text
        case Recorded(value):
            try:
                return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
            except (ValueError, RecursionError):
                # Python refuses to write out integers of thousands of digits.
                return None
        case NotRecorded():
            return None


# What such failures are called where others have the class of an exception.
ERROR_TEXT: Final = "error_text"
ERROR_PAGE: Final = "error_page"
ERROR_OBJECT: Final = "error_object"
_LEAST = 2

# An error text says so at once, and an exit code in its first or last lines.
_MAX_HEAD = 300
_MAX_PAGE_HEAD = 2000
_MAX_JSON = 64 * 1024
_MAX_MESSAGE = 4096

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
# How such texts begin, as far as that holds no value.
_BEGINNING = re.compile(
    r"\[?(?:tool |http |internal |server |unexpected )?(?:error|exception|failure|fatal)\]?(?: ?[:\u2013\u2014]| -)"
    r"|(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,60}(?-i:Error|Exception):"
    r"|error (?:executing|calling|running|invoking) |an error occurred|traceback \(most recent call last\)"
    r"|failed to |unable to |cannot |could not |invalid |permission denied|access denied|unauthorized|forbidden",
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


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Tools that show texts of others, in which an error is content: by the verb, by the noun, or by both.
_READS = _words(
    "cat console dmesg egrep grep journal journalctl logfile logs loki read rg ripgrep stacktrace stderr stdout syslog tail traceback zgrep"
)
_LOOKS = _words("fetch find get head less load open print query search show view")
_BARE = frozenset(("head", "less", "search", "view"))
_TEXTS = _words(
    "code content contents docs document documents error errors events exceptions file files lines output source text traces"
)
_CHANGES = _words(
    "add append archive clear create delete edit mark post put remove save send set truncate update upload write"
)
_SERVER = re.compile(r"__|[./:]")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_COMMAND = re.compile(
    r"(?:^|[;&|(]|\b(?:sudo|xargs|exec))\s{0,8}(?:cat|dmesg|[ez]?grep|head|journalctl|less|rg|sed -n|tail"
    r"|(?:docker|podman|docker compose|kubectl|oc|heroku|fly|gh run|aws|vercel)\b[^\n;&|]{0,80}\s(?:logs?|tail|view --log))\b"
)
# What shells and their tools say of a command that wrote nothing: `grep` ends with 1 where it finds nothing.
_SILENT = _words(
    "1 code command completed empty error exit exited failed finished no none of output process return returncode returned status"
    " stderr stdout the with"
)
_ECHOED = frozenset(("args", "cmd", "command", "cwd"))
# Their instrumentations set the status OK whatever a tool returned; anywhere else somebody said that it worked.
_ALWAYS_OK = frozenset(("langsmith", "openai_agents", "openinference", "openlit", "strands", "traceloop"))


class ErrorTexts(Struct, frozen=True):
    """A trajectory with an error for each call that failed by its result alone; `shown` are orders of doubtful calls.

    `kinds` are the kinds of error that results of calls without a recorded error read like, by the order of the call.
    """

    trajectory: Trajectory
    kinds: Mapping[int, str]
    shown: frozenset[int] = frozenset()

    @property
    def outcomes(self) -> Mapping[str, int]:
        """How many of the calls whose results read like errors failed for it, and how many did not."""
        return {"fail": len(self.kinds) - len(self.shown), "pass": len(self.shown)}


def with_error_texts(trajectory: Trajectory) -> ErrorTexts:
    """Find the calls that failed by their results alone, and those whose result only reads like an error."""
    errors: dict[int, CallError] = {}
    for call in trajectory.calls:
        error = error_in(call, changes_state=call.name in trajectory.writing_tools) if has_succeeded(call) else None
        if error is not None:
            errors[call.order] = error
    if not errors:
        return ErrorTexts(trajectory, {})
    kinds = {order: error.kind for order, error in errors.items()}
    # A call of which the producer itself recorded the error is one of those that failed.
    calls_of = Counter([call.name for call in trajectory.calls if call.state == "executed" or has_succeeded(call)])
    worked = {call.name for call in trajectory.calls if call.order not in errors and has_succeeded(call)}
    # In a trajectory that lacks spans, the tool may have worked in a call that was not seen.
    doubtful = trajectory.incomplete is not None
    shown = {
        call.order
        for call in trajectory.calls
        if kinds.get(call.order) == ERROR_TEXT and (doubtful or call.name in worked or calls_of[call.name] < _LEAST)
    }
    calls = [
        replace(call, error=errors.get(call.order, call.error)) if call.order not in shown else call
        for call in trajectory.calls
    ]
    return ErrorTexts(replace(trajectory, calls=tuple(calls)), kinds, frozenset(shown))


def error_in(call: ToolCall, *, changes_state: bool = False) -> CallError | None:
    """Return the error that the result of a call reads like; `None` for any other result."""
    if isinstance(call.result, NotRecorded):
        return None
    value = opened(call.result.value) if isinstance(call.result, Recorded) else call.result.text
    kind = None
    if isinstance(value, dict):
        objects = [one for one in value.values() if isinstance(one, dict)] if dict in map(type, value.values()) else []
        title = value.get("title")
        arguments = call.arguments.value if isinstance(call.arguments, Recorded) else None
        if isinstance(title, str) and _ERROR_TITLE.fullmatch(title[:_MAX_HEAD]) is not None:
            kind = ERROR_PAGE
        elif (failure := reported_failure(value, call.name, arguments, changes_state=changes_state)) is not None:
            return CallError(kind=ERROR_OBJECT, message=failure.message[:_MAX_MESSAGE])
        elif any(map(_has_exit_code, [value, *objects])):
            kind = ERROR_TEXT
    elif isinstance(value, str):
        kind = _error_kind(value)
        if kind == ERROR_TEXT and (_is_silent(value) or _shows_texts(call)):
            return None
    if kind == ERROR_TEXT and call.has_ok_status and call.dialect not in _ALWAYS_OK:
        return None
    return None if kind is None else CallError(kind=kind, message=(_text(call.result) or "")[:_MAX_MESSAGE])


def error_beginning(result: Content) -> str | None:
    """Return how a text that reads like an error begins, as far as that holds no value."""
    text = result.text if isinstance(result, Unparsed) else result.value if isinstance(result, Recorded) else None
    found = _BEGINNING.match(text) if isinstance(text, str) else None
    return None if found is None else found[0]


def _error_kind(text: str) -> str | None:
    # Settles nearly all texts, in a twentieth of the time.
    head = text[:_MAX_PAGE_HEAD]
    if ("rror" in head or "RROR" in head) and _TITLED.search(head) is not None:
        return ERROR_PAGE
    ends = (text[:_MAX_HEAD], text[-_MAX_HEAD:]) if len(text) > 2 * _MAX_HEAD else (text,)
    if _ERROR.match(ends[0]) is not None:
        return ERROR_TEXT
    # Settled by the two words for nearly all texts, in a twentieth of the time.
    for end in ends:
        lower = end.lower()
        if ("exit" in lower or "return" in lower) and _EXIT_CODE.search(end) is not None:
            return ERROR_TEXT
    return None


def opened(value: Json) -> Json:
    """Return the value without the wrapping of MCP servers and frameworks, an object that is written as text decoded."""
    value = result_value(value)
    if isinstance(value, dict) and len(value) == 1 and isinstance(only := next(iter(value.values())), str):
        # `{"error": "..."}` stays as it is: the name of the member is what says so.
        value = only if value.keys().isdisjoint(("title", *SIGNS)) else value
    if isinstance(value, str) and value[:1] == "{" and len(value) <= _MAX_JSON:
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _has_exit_code(value: JsonObject) -> bool:
    codes = [code for name in _EXIT_CODES.intersection(value) if type(code := value[name]) is int and code]
    if not codes or codes != [1]:
        return bool(codes)
    written = (leaf for name, one in value.items() if name not in _ECHOED for leaf in islice(leaves(one), _MAX_HEAD))
    return not all(_is_silent(leaf) for leaf in written if isinstance(leaf, str))


def _is_silent(text: str) -> bool:
    """Return whether a text reports an exit code of 1 and no output."""
    return len(text) <= _MAX_HEAD and _SILENT.issuperset(re.findall(r"\w+", text.replace("_", " ").lower()))


def _shows_texts(call: ToolCall) -> bool:
    """Return whether the tool reads logs or files, or searches them: by its name, or by the command that it was given."""
    words = [word.lower() for word in _WORD.findall(_SERVER.split(call.name)[-1])]
    if _CHANGES.isdisjoint(words) and (
        not _READS.isdisjoint(words)
        or "log" in words[1:]
        or (len(words) == 1 and words[0] in _BARE)
        or not (_LOOKS.isdisjoint(words) or _TEXTS.isdisjoint(words))
    ):
        return True
    arguments = call.arguments.value if isinstance(call.arguments, Recorded) else None
    commands = (arguments.get(name) for name in ("command", "cmd", "script")) if isinstance(arguments, dict) else ()
    return any(isinstance(one, str) and _COMMAND.search(one[:_MAX_PAGE_HEAD]) is not None for one in commands)
