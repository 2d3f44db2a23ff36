"""Reads errors and results: a call may wait for a person, be refused by one, be cancelled or rejected, or have failed.

Only the classes and words below count, a decision's only at the beginning of an answer, and a rejection's only where they
name this very tool or its arguments: a tool may return any text, and fail with a validation error about something else.
"""

import re
from typing import Literal, TypeAlias

from msgspec.structs import replace

from toolgauge.model.content import Content, Recorded, Unparsed
from toolgauge.model.error_objects import reported_failure
from toolgauge.model.json import JsonObject
from toolgauge.model.mcp_results import failed_mcp_result, mcp_result
from toolgauge.model.names import fold_name
from toolgauge.model.observations import (
    INVALID_ARGUMENTS,
    OTHER_ERROR,
    PAUSED,
    PAUSING_EXCEPTIONS,
    REFUSED,
    UNKNOWN_TOOL,
    CallError,
)

Rejection = Literal["unknown_tool", "invalid_arguments", "permission_denied"]

_MAX_SEARCHED = 4096
_NO_SUCH_TOOL = re.compile(
    r"un(?:known|available) (?:tool|function)\b|(?:tool|function)_?not_?found|no_?such_?(?:tool|function)|could not find (?:the )?(?:tool|function)\b|no (?:such )?(?:tool|function)\b|not an? (?:valid|available|known) (?:tool|function)\b"
    r"|\b(?:tool|function)\b.{0,100}?\b(?:not (?:be )?(?:found|available|registered|defined|recognized|part of the provided tools)|n[o']t exist)\b",
    re.IGNORECASE,
)
# pydantic names its model after the tool (FastMCP: `call[refund]`), and lists the arguments that it did not like.
_VALIDATED = re.compile(r"\b\d{1,6} validation errors? for (?:call\[)?([^\s\]]{1,200})")
_VALIDATED_FIELD = re.compile(r"^([A-Za-z_]\w{0,99})[^\n]{0,100}\n {1,2}\S", re.MULTILINE)
_MISSING_FIELD = re.compile(r"\[type=(?:missing|missing_argument|unexpected_keyword_argument)\b")
_NOT_THESE_ARGUMENTS = re.compile(
    r"invalid (?:json )?(?:input|arguments?|parameters?) (?:for|to) (?:tool|function)\b"
    # LangChain writes this for arguments that it refuses; LangChain.js, on one line, for every failure of a tool.
    r"|error invoking tool .{1,200}? with kwargs (?![^\n]{0,2000} with error: )"
    r"|\breceived tool input did not match expected schema\b"
    r"|invalid (?:input|arguments?|parameters?) for .{0,20}\b(?:tool|function)\b"
    r"|\bmandatory input parameters are not present\b"
    r"|\b(?:got an )?unexpected keyword argument\b|\bmissing \d+ required (?:positional|keyword-only) arguments?\b",
    re.IGNORECASE,
)
# Refusals that name neither tool nor arguments, and are all there is.
_NO_SUCH = re.compile(r"(?:Error: )?The requested tool does not exist(?: or is not available)?\.?")
_REFUSED = re.compile(r"Error: Argument parsing failed\.(?: Exception: .*)?", re.DOTALL)
# Pydantic AI's list of errors, in JSON.
_VALIDATION_ERRORS = re.compile(r"(?:Error: )?\d{1,6} validation errors?:\s{0,9}(?:```(?:json)?\s{1,9})?[\[{]")
# Rule: MCP servers that check arguments against the tool's schema begin their refusal in this way, without the tool's name.
# LangChain.js does so too, and Semantic Kernel lists the arguments.
_MCP_REFUSED = re.compile(
    r"(?:Error: )?(?:(?:MCP error -32602: )?Input validation error: \S|Received tool input did not match expected schema\b)"
    r"|(?:Missing required|Received unexpected) argument\(s\): \['"
)
_PARAMETER = re.compile(r"\bParameter (\w{1,100}) is expected to be parsed to \S")
_REJECTED_KINDS: dict[str, Rejection] = {
    **dict.fromkeys(("NoSuchToolError", "AI_NoSuchToolError", "ToolNotFoundError", "unknown_tool"), UNKNOWN_TOOL),
    **dict.fromkeys(("InvalidToolInputError", "AI_InvalidToolInputError"), INVALID_ARGUMENTS),
    **dict.fromkeys(("InvalidToolArgumentsError", "AI_InvalidToolArgumentsError"), INVALID_ARGUMENTS),
    "invalid_arguments": INVALID_ARGUMENTS,
    # Denied by a rule, a hook or a policy, and by no person.
    "permission_denied": "permission_denied",
    "policy_violation": "permission_denied",
}
# Claude Code, the Gemini CLI, Codex, Strands, CrewAI.
_DENIED = re.compile(
    r"(?:Error: )?(?:Permission (?:to use \S{1,200} has been denied|for this (?:action|command|tool use) (?:has been|was) denied)"
    r"|Tool execution (?:for \"[^\"\n]{1,200}\" )?denied by policy\b"
    r"|This action was rejected due to unacceptable risk\.|DENIED: "
    r"|Tool cancelled by hook\b|Tool execution blocked by hook\b"
    r"|[^\n]{0,300}\brejected(?:: blocked by policy| by user approval settings)\b|approval required by policy\b)"
)


_JSON = ("{", "[", '"')


def rejection(name: str, arguments: Content, error: CallError, result: Content) -> Rejection | None:
    """Return why the failed call was rejected, `None` when nothing shows that its tool never ran."""
    kind = error.kind.rpartition(".")[2]
    if kind in _REJECTED_KINDS:
        return _REJECTED_KINDS[kind]
    # Custom tools take free text, such as a patch.
    if (
        isinstance(arguments, Unparsed)
        and arguments.reason == "unparsable"
        and arguments.text.lstrip().startswith(_JSON)
    ):
        return INVALID_ARGUMENTS
    texts = [error.message]
    match result:
        case Recorded(value=str() as answered) | Recorded(value={"error": str() as answered}) | Unparsed(text=answered):
            texts.append(answered)
        case _:
            pass
    for text in texts:
        if text and (found := _reason_in(name, arguments, kind, text[:_MAX_SEARCHED])) is not None:
            return found
        if text and _DENIED.match(text):
            return "permission_denied"
    return None


def misfits(arguments: Content, schema: JsonObject | None) -> bool:
    """Return whether arguments lack a required member or have a forbidden one. Many frameworks convert values."""
    if schema is None or not isinstance(arguments, Recorded) or not isinstance(arguments.value, dict):
        return False
    given = arguments.value
    required = schema.get("required")
    if isinstance(required, list) and any(isinstance(key, str) and key not in given for key in required):
        return True
    properties = schema.get("properties")
    if schema.get("additionalProperties") is not False or not isinstance(properties, dict):
        return False
    return any(key not in properties for key in given)


def _reason_in(name: str, arguments: Content, kind: str, text: str) -> Rejection | None:
    if name in text:
        if _NO_SUCH_TOOL.search(text):
            return UNKNOWN_TOOL
        if name and _NOT_THESE_ARGUMENTS.search(text):
            return INVALID_ARGUMENTS
    if _NO_SUCH.fullmatch(text):
        return UNKNOWN_TOOL
    parameter = _PARAMETER.search(text)
    given = arguments.value if isinstance(arguments, Recorded) else None
    is_of_wrong_type = parameter is not None and isinstance(given, dict) and parameter[1] in given
    if _REFUSED.fullmatch(text) or _MCP_REFUSED.match(text) or _VALIDATION_ERRORS.match(text) or is_of_wrong_type:
        return INVALID_ARGUMENTS
    validated = _VALIDATED.search(text)
    if validated is None:
        return None
    if name and fold_name(validated[1]).startswith(fold_name(name)):
        return INVALID_ARGUMENTS
    fields = _VALIDATED_FIELD.findall(text)
    if kind != "ValidationError" or not fields or not isinstance(given, dict):
        return None
    is_missing = _MISSING_FIELD.search(text) is not None and str(given) in text
    return INVALID_ARGUMENTS if is_missing or all(field in given for field in fields) else None


_MAX_HEAD = 300
# A label and the class of an exception: `Error: TimeoutError: no answer`.
_LABELLED = re.compile(
    r"\s*(?i:(?:tool )?error(?: [a-z ]{1,40})?)\s*:\s*(?:[A-Za-z_]\w{0,60}\.){0,8}([A-Z]\w{0,80}(?:Error|Exception))\b"
)
# CAMEL, and FastMCP where its flag is lost, name the tool.
_EXECUTING = re.compile(r"(?:Tool execution failed: )?Error executing tool ['\"`]?([^\s'\"`:]{1,200})['\"`]?: ")


def failure_in(name: str, result: Content) -> CallError | None:
    """Return the failure that the answer to a call of this tool shows, `None` when it may be what the tool returned."""
    match result:
        case Recorded(value=str() as text):
            labelled = _LABELLED.match(text[:_MAX_HEAD])
            if labelled is not None:
                return CallError(kind=labelled[1], message=text)
            executing = _EXECUTING.match(text[:_MAX_HEAD])
            is_own = executing is not None and fold_name(executing[1]) == fold_name(name)
            return CallError(kind=OTHER_ERROR, message=text) if is_own else None
        case Recorded(value=dict() as answer):
            return reported_failure(answer, name, None, changes_state=False)
        case _:
            return None


def mcp_failure(result: Content) -> CallError | None:
    """Return the failure that a result reports by a flag beside content blocks, with their text; other flags are plain values."""
    found = failed_mcp_result(result.value) if type(result) is Recorded else None
    return None if found is None else CallError(kind=OTHER_ERROR, message=found.text)


def with_message(error: CallError, result: Content) -> CallError:
    """Return the error with the text of the result's content blocks where its producer gave it no message."""
    found = mcp_result(result.value) if not error.message and isinstance(result, Recorded) else None
    return error if found is None else replace(error, message=found.text)


NotExecuted: TypeAlias = Literal["paused", "refused", "cancelled"]

# The most members of an answer that holds only a decision.
_MAX_MEMBERS = 2
_STOPPED_KINDS: dict[str, NotExecuted] = {**dict.fromkeys((*PAUSING_EXCEPTIONS, PAUSED), "paused"), REFUSED: "refused"}
# A status without an exception event begins with the class: `GraphInterrupt((Interrupt(value=...),))`.
_CLASS = re.compile(r"(?:[A-Za-z_]\w{0,60}\.){0,8}([A-Z]\w{2,60})(?=$|[(:])")
_MAX_DECISION = 600
# Google ADK and its security plugin; VoltAgent; Genkit for Go.
_PAUSED_WORDS = re.compile(
    r"(?:Error: )?(?:This tool call (?:requires confirmation, please approve or reject|needs external confirmation before completion)"
    r"|Tool \S{1,200} requires approval\.\s*\Z"
    r"|tool execution interrupted\b)"
)
# Claude Code; Pydantic AI; OpenAI Agents; Google ADK; LangChain and Agno; Haystack; Agent Framework; AG2; Mastra; the AI SDK; Codex;
# the Gemini CLI; Strands; AutoGen; BeeAI.
_REFUSED_WORDS = re.compile(
    r"(?:Error: )?(?:The user doesn't want to (?:proceed with this tool use|take this action right now)\b"
    r"|Permission for this tool use was denied\. The tool use was rejected\b"
    r"|\[Request interrupted by user for tool use\]"
    r"|User rejected the tool call for "
    r"|Tool execution for '[^'\n]{1,200}' was rejected by the user\."
    r"|\[Operation Cancelled\] Reason: User (?:denied execution|cancelled operation)\b"
    r"|CONFIRMATION_FAILED: |Manual approval denied: |Code execution was not approved\."
    r"|(?:The tool call was denied|Tool execution (?:was not approved|rejected)"
    r"|This tool call is rejected|Tool call rejected from confirmation flow"
    r"|(?:Function|Tool) call was rejected(?: by the user)?|Tool call invocation was rejected by user"
    r"|User denied the tool call request|Tool call was not approved by the user|Tool call execution denied"
    r"|(?:exec command|patch) rejected by user|user rejected MCP tool call|tool cancelled by user"
    r"|This tool is not allowed to be used)\.?\s*\Z)"
)
# OpenAI Agents, after the name of an exception at some producers. It counts in errors alone.
_REJECTED_BY_HAND = re.compile(r"\bTool execution for \S{1,200} was manually rejected by user\b")


# Classes of Python, .NET, the JVM, JavaScript and Go, and values of `error.type` from gRPC and libraries without exceptions.
_CANCELLATIONS = frozenset(
    (
        *("CancelledError", "KeyboardInterrupt", "GeneratorExit", "AbortError", "ResponseAborted"),
        *("OperationCanceledException", "TaskCanceledException", "CancellationException", "JobCancellationException"),
        *("InterruptedException", "canceled", "cancelled", "Canceled", "Cancelled", "CANCELLED"),
    )
)
# A timeout may end its operation with one of these.
_TIMED_OUT = re.compile(r"time[sd]?[ _-]?out|deadline", re.IGNORECASE)
# Not a class at the beginning of a message: `Canceled: no such card`.
_WORDS_ALONE = frozenset(("canceled", "cancelled"))
_STOPPED = r"(?:was |has been )?(?:aborted|cancel+ed|interrupted)(?: by (?:the )?(?:user|client|caller))?"
_BY_OTHERS = (
    r"(?:<tool_use_error>)?(?:sibling tool call (?:errored|failed)"
    r"|cancel+ed(?:: | because | since | due to )(?:an?|the)? ?(?:sibling|parallel|other|another) [^\n]{0,300})"
)
# The words of libraries and coding agents.
_CANCELLED = re.compile(
    r"(?:Error: )?(?:(?:[^\n]{0,300}[:=] )?context canceled|(?:This|The) operation was (?:aborted|cancel+ed)"
    rf"|(?:The |This )?(?:run|request|task|stream|tool|execution|command|(?:tool |function )?call|tool (?:use|execution)) {_STOPPED}"
    r"|(?:aborted|cancel+ed|interrupted|stopped) by (?:the )?(?:user|client|caller)(?: after [\d.]{1,12} ?\w{1,12})?"
    r"|user (?:aborted|cancel+ed|interrupted)(?: (?:the |this )?(?:tool )?(?:run|request|task|call|execution|operation))?"
    rf"|{_BY_OTHERS})\.?(?:</tool_use_error>)?\s*$",
    re.IGNORECASE,
)
# No tool returns these words; the other ones may be about an order or a request.
_CANCELLED_ANSWER = re.compile(
    rf"(?:Error: )?(?:(?:The |This )?tool (?:call|use|execution) {_STOPPED}|{_BY_OTHERS})\.?(?:</tool_use_error>)?\s*$",
    re.IGNORECASE,
)


def not_executed(error: CallError | None, result: Content) -> NotExecuted | None:
    """Return whether the call waits, was refused or was cancelled; `None` without evidence."""
    if error is not None:
        kind = error.kind.rpartition(".")[2]
        raised = _CLASS.match(error.message)
        found = _STOPPED_KINDS.get(kind) or _STOPPED_KINDS.get(raised[1] if raised is not None else "")
        if found is None and _REJECTED_BY_HAND.search(error.message, 0, _MAX_DECISION):
            return "refused"
        found = found or _in_words(error.message)
        if found is not None or _TIMED_OUT.search(error.message, 0, _MAX_DECISION):
            return found
        is_raised = raised is not None and raised[1] in _CANCELLATIONS and raised[1].lower() not in _WORDS_ALONE
        is_cancelled = kind in _CANCELLATIONS or is_raised or _CANCELLED.match(error.message, 0, _MAX_DECISION)
        return "cancelled" if is_cancelled else None
    # Asked of every call: patterns cost five times as much.
    answer = result.value if type(result) is Recorded else result.text if type(result) is Unparsed else None
    if isinstance(answer, str):
        return _in_words(answer) or ("cancelled" if _CANCELLED_ANSWER.match(answer, 0, _MAX_DECISION) else None)
    if not isinstance(answer, dict) or len(answer) > _MAX_MEMBERS:
        return None
    # Nothing but a decision: the AI SDK's `{"denied": true}`, UiPath's `{"meta": "Cancelled by user"}`.
    is_denied = answer.get("denied") is True and answer.keys() <= {"denied", "reason"}
    if is_denied or answer == {"meta": "Cancelled by user"}:
        return "refused"
    words = answer.get("error")
    return _in_words(words) if isinstance(words, str) and len(answer) == 1 else None


def _in_words(text: str) -> NotExecuted | None:
    if _REFUSED_WORDS.match(text, 0, _MAX_DECISION):
        return "refused"
    return "paused" if _PAUSED_WORDS.match(text, 0, _MAX_DECISION) else None
