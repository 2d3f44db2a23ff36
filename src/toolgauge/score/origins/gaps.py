"""Finds unrecorded content that an agent may have seen, and texts of its messages that another agent wrote.

A missing value proves nothing where something was not recorded: models read values off pictures and files that the recorded
texts do not hold. A sub-agent reads the texts that an agent gave to it as its user's, although a model wrote them.
"""

import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import islice
from operator import attrgetter

from msgspec.structs import replace

from toolgauge.model.content import Recorded
from toolgauge.model.json import leaves
from toolgauge.model.outcomes import NotEvaluated, Reason
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import Run, ToolCall, Trajectory
from toolgauge.score.patterns import Pattern
from toolgauge.score.selection import hidden_calls

NO_USER = NotEvaluated(
    reason="no_content", explanation="a value was not found, and what the user wrote was not recorded"
)


# By the reason why earlier traces of the conversation may have shown more than is remembered of them.
_EARLIER_GAPS: Mapping[Reason, str] = {
    "incomplete": "earlier turns of its conversation were not seen, or are not remembered",
    "truncated": "content of an earlier trace of its conversation was cut off",
    "redacted": "content of an earlier trace of its conversation was redacted",
    "results_not_recorded": "a result in an earlier trace of its conversation was not recorded",
    "no_content": "content of an earlier trace of its conversation was not recorded",
}


def not_found(reason: Reason, why: str) -> NotEvaluated:
    """Return the outcome for a value that may have been seen all the same."""
    return NotEvaluated(reason=reason, explanation=f"a value was not found, and {why}")


def gap_of(trajectory: Trajectory) -> NotEvaluated | None:
    """Return the reason why not all texts could be searched, as far as the trajectory shows it."""
    if trajectory.hidden_turns:
        return hidden_calls(trajectory)
    if trajectory.calls and trajectory.calls[-1].order != len(trajectory.calls) - 1:
        return not_found("incomplete", "the calls of other agents were not looked at")
    if trajectory.left_out.texts:
        return not_found("truncated", "texts were too long to keep")
    if trajectory.has_media:
        return not_found("no_content", "the user sent pictures, sound or files, which are not read")
    if trajectory.earlier is not None:
        gap = trajectory.earlier.gap
        gaps = () if gap is None else _EARLIER_GAPS.items()
        return next((not_found(reason, why) for reason, why in gaps if reason == gap), None)
    if trajectory.has_beginning is False and trajectory.earlier_turns is not None:
        return None
    if trajectory.has_beginning is False:
        why = "the first model call had messages of earlier turns that were not recorded by themselves"
        return not_found("incomplete", why)
    if trajectory.scope == "trace" and trajectory.conversation_id is not None and not trajectory.has_beginning:
        explanation = (
            "a value was not found in this trace, and earlier traces of its conversation were not looked at: "
            "`scope: conversation` does"
        )
        return NotEvaluated(reason="incomplete", explanation=explanation)
    return None


# A content block of a picture, by its type or its member: MCP's, Anthropic's, OpenAI's, Bedrock's, Gemini's and the AI SDK's.
_NAME = r"""\\{0,7}["']"""
_IS = rf"{_NAME}\s{{0,4}}:\s{{0,4}}"
_MEDIA = "image|audio|video|screenshot"
_TYPE = rf"\b(?:type|block_type|modality){_IS}{_NAME}(?:\w{{1,20}}[_-])?(?:{_MEDIA})(?:[_-]?\w{{1,20}})?{_NAME}"
_MEMBER = (
    rf"[\"'](?:(?:inline_?data|\w{{0,30}}_?(?:base64|b64)){_IS}"
    rf"|(?:image|document|video|audio){_IS}\{{[^{{}}]{{0,200}}?\b(?:format|source){_IS}"
    rf"|screenshot{_IS}{_NAME}(?!https?:|/))"
)
# The first bytes of PNG, JPEG, GIF, PDF and office files in base64, and placeholders of observability tools.
_BYTES = (
    r"(?<![a-z0-9+/])(?:ivborw0kg|/9j/[24]|r0lgodlh|jvberi0|uesdbb)"
    r"|\bdata:(?:image|audio|video|application)/[\w.+-]{1,80};base64|@@@langfusemedia:"
)
_KIND = r"(?:image|screenshot|picture|photo|pdf|attachment|audio|video|media|base64|binary)"
_GONE = (
    r"(?:attached|bytes|content|data|elided|hidden|not (?:shown|recorded)|omitted|placeholder|redacted|removed|replaced"
    r"|stripped|truncated)"
)
# `[image]`, `<image>`, `[Image: 640x480]`, `(screenshot omitted)`; `[image](...)` is a link.
_PLACEHOLDER = (
    rf"[\[<({{](?:(?<=[\[<]){_KIND}(?: ?[#:] ?[^\[\]<>\n]{{0,80}}| \d{{1,4}})?[\]>](?!\()"
    rf"|(?:[\w/.+-]{{1,30}} ){{0,3}}{_KIND}\b[^\[\]<>(){{}}\n]{{0,60}}\b{_GONE}\b)"
)
# Each with words; it finds no text without one. Few texts have any, and to look for words takes a thirtieth of the time.
_MEDIA_WORDS = b"image audio video screenshot "
_PICTURES = (
    (_MEDIA_WORDS.split(), re.compile(_TYPE.encode())),
    ((_MEDIA_WORDS + b"document inline base64 b64").split(), re.compile(_MEMBER.encode())),
    (b"base64 ivborw0kg /9j/ r0lgodlh jvberi0 uesdbb langfusemedia".split(), re.compile(_BYTES.encode())),
    ((_MEDIA_WORDS + b"picture photo pdf attachment media base64 binary").split(), re.compile(_PLACEHOLDER.encode())),
)
_WORDS = Pattern(b"|".join((*(word for words, _ in _PICTURES for word in words), b"mime|file|blob|data:")).decode())
# A file counts where its bytes, or a reference to them, are beside its type; lists of files have types as well.
_FILE = re.compile(
    (
        rf"(?:mime_?type|media_?type|content_?type){_IS}{_NAME}(?:image/|audio/|video/|application/(?:pdf|octet-stream|vnd))"
        rf"|\btype{_IS}{_NAME}(?:input_)?(?:document|file|media|blob|binary)(?:[_-]?\w{{1,20}})?{_NAME}"
    ).encode()
)
_FILE_BYTES = re.compile(rf"{_NAME}(?:data|bytes|blob|source|file_?data|file_?id|base64){_IS}".encode())
# Looking around each costs a walk over the text.
_MAX_FILES = 16

_SCREENS = re.compile(r"screen_?shot|screen_?capture|computer_?use|^computer(?:_\d+)?$", re.IGNORECASE)


def holds_picture(folded: bytes) -> bool:
    """Return whether a folded text holds a picture, sound or a file, or a placeholder of one."""
    if not _WORDS.is_in_bytes(folded):
        return False
    for words, pattern in _PICTURES:
        if any(map(folded.__contains__, words)) and pattern.search(folded) is not None:
            return True
    for found in islice(_FILE.finditer(folded), _MAX_FILES) if b"type" in folded else ():
        begin, end = folded.rfind(b"{", 0, found.start()), folded.find(b"}", found.end())
        if _FILE_BYTES.search(folded, max(begin, 0), len(folded) if end < 0 else end) is not None:
            return True
    return False


def shows_screen(call: ToolCall) -> bool:
    """Return whether a call that worked gave the model a picture of a screen, recorded or not."""
    arguments = call.arguments.value if isinstance(call.arguments, Recorded) else None
    action = arguments.get("action") if isinstance(arguments, dict) else None
    return call.error is None and (action == "screenshot" or _SCREENS.search(call.name) is not None)


# So many calls that began before a run are looked at for the one that started it.
_MAX_CALLS = 64
_START = attrgetter("start_ns")


def without_delegated(trajectory: Trajectory) -> Trajectory:
    """Take the texts that agents wrote out of the messages and prompts of their sub-agents."""
    # Rule: an argument of several words of the call around a sub-agent is its caller's, unless the caller was given the same words.
    if len(trajectory.runs) <= 1:
        return trajectory
    runs = {run.span: run for run in trajectory.runs}
    inner = [run for run in trajectory.runs if run.is_agent and run.above in runs]
    if not inner:
        return trajectory
    calls: defaultdict[SpanRef | None, list[ToolCall]] = defaultdict(list)
    for call in sorted(trajectory.calls, key=_START):
        calls[call.run].append(call)
    times = [message.time_ns for message in trajectory.messages]
    texts = [message.text for message in trajectory.messages]
    for run in inner:
        above = runs[run.above] if run.above is not None else run
        started = calls[run.above]
        started = started[: bisect_right(started, run.start_ns, key=_START)][-_MAX_CALLS:]
        around = [
            one.arguments.value for one in started if ran_within(run, one) and isinstance(one.arguments, Recorded)
        ]
        texts_of_calls = [leaf.strip() for value in around for leaf in leaves(value) if isinstance(leaf, str)]
        # The texts of several words, but for words that the caller was given.
        written = [
            text for text in texts_of_calls if len(text.split(None, 1)) > 1 and text not in (above.prompt or text)
        ]
        if not written:
            continue
        for place in range(bisect_left(times, run.start_ns), bisect_right(times, run.end_ns)):
            texts[place] = _without(texts[place], written)
        runs[run.span] = replace(run, prompt=_without(run.prompt or "", written))
    messages = [replace(one, text=text) for one, text in zip(trajectory.messages, texts, strict=True)]
    return replace(trajectory, messages=tuple(messages), runs=tuple(runs.values()))


def ran_within(run: Run, call: ToolCall) -> bool:
    """Return whether a sub-agent of the agent that made the call ran while the call did."""
    is_below = run.is_agent and run.span != call.run and run.above == call.run
    return is_below and call.start_ns <= run.start_ns and run.end_ns <= call.end_ns


def _without(text: str, written: Sequence[str]) -> str:
    for one in written:
        text = text.replace(one, " ")
    return text.strip()
