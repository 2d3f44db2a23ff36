"""Distinguishes a call that waits for a person, or that a person turned down, from one that failed.

Frameworks stop a run by raising an exception, or answer the call in fixed words. Only the classes and words below count, and
words only at the beginning of an answer: a tool may return any text.
"""

import re
from typing import Literal, TypeAlias

from toolgauge.model.content import Content, Recorded, Unparsed
from toolgauge.model.json import JsonObject
from toolgauge.model.observations import PAUSED, REFUSED, CallError
from toolgauge.model.pausing_exceptions import PAUSING_EXCEPTIONS

NotExecuted: TypeAlias = Literal["paused", "refused"]

# The most members of an answer that holds only a decision.
_MAX_MEMBERS = 2
_KINDS: dict[str, NotExecuted] = {**dict.fromkeys(PAUSING_EXCEPTIONS, "paused"), PAUSED: "paused", REFUSED: "refused"}
# A status without an exception event begins with the class: `GraphInterrupt((Interrupt(value=...),))`.
_CLASS = re.compile(r"(?:[A-Za-z_]\w{0,60}\.){0,8}([A-Z]\w{2,60})(?=$|[(:])")
_MAX_TEXT = 600
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
# OpenAI Agents; a producer may write the name of an exception in front of it. It counts in errors alone.
_REJECTED_BY_HAND = re.compile(r"\bTool execution for \S{1,200} was manually rejected by user\b")


def not_executed(error: CallError | None, result: Content) -> NotExecuted | None:
    """Return whether the call waits or was refused; `None` without evidence."""
    if error is not None:
        kind = error.kind.rpartition(".")[2]
        return _KINDS.get(kind) or _in_message(error.message) or _in_words(error.message)
    match result:
        case Recorded(value=str() as text) | Unparsed(text=text):
            return _in_words(text)
        case Recorded(value=dict() as answer) if len(answer) <= _MAX_MEMBERS:
            return _in_object(answer)
        case _:
            return None


def _in_message(message: str) -> NotExecuted | None:
    raised = _CLASS.match(message)
    if raised is not None and raised[1] in _KINDS:
        return _KINDS[raised[1]]
    return "refused" if _REJECTED_BY_HAND.search(message, 0, _MAX_TEXT) else None


def _in_words(text: str) -> NotExecuted | None:
    if _REFUSED_WORDS.match(text, 0, _MAX_TEXT):
        return "refused"
    return "paused" if _PAUSED_WORDS.match(text, 0, _MAX_TEXT) else None


def _in_object(answer: JsonObject) -> NotExecuted | None:
    """Read an answer that is nothing but the decision: the AI SDK's `{"denied": true}`, UiPath's `{"meta": "Cancelled by user"}`."""
    if answer.get("denied") is True and answer.keys() <= {"denied", "reason"}:
        return "refused"
    if answer == {"meta": "Cancelled by user"}:
        return "refused"
    error = answer.get("error")
    return _in_words(error) if isinstance(error, str) and len(answer) == 1 else None
