"""Evaluators that ask a judge: their parameters, their questions, and the outcomes of verdicts.

A question quotes the known history within a budget, the newest first, and counts the omitted parts. Nothing recorded can end
a quotation: one JSON value a line, unprintable characters escaped, between two marks with a hash of all between them.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from pydantic import Field

from toolgauge.model.content import Content, NotRecorded, Recorded, Unparsed
from toolgauge.model.expected import Expected, ExpectedCall
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.judging import Asking, Question
from toolgauge.model.observations import ToolDefinition
from toolgauge.model.outcomes import JUDGE_RULE, Difference, Errored, Level, NotEvaluated, Outcome, Scored, Side, unseen
from toolgauge.model.ports import Needs
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score import prompts
from toolgauge.score.prompts import JudgeView, Prompt, Spoken, exchanges_by_run, view_of_call, was_known
from toolgauge.score.selection import CallSelection, nothing_to_judge

_INDEX_WIDTH = 16
_ENCODER = json.JSONEncoder(ensure_ascii=False)


def quoted(title: str, lines: Sequence[str]) -> str:
    """Return lines as a quotation; each must come from `line`."""
    content = "\n".join(lines)
    mark = hashlib.sha256(f"{title}\n{content}".encode("utf-8", "backslashreplace")).hexdigest()[:_INDEX_WIDTH]
    return f"<<<{title} {mark}\n{content}\n{mark} {title}>>>"


def line(fields: Iterable[tuple[str, Json]], limit: int) -> tuple[str, bool]:
    """Write an object on one line, no value longer than `limit` characters; return whether one was cut."""
    written: list[str] = []
    was_cut = False
    for key, value in fields:
        text, is_whole = _limited(value, limit)
        was_cut = was_cut or not is_whole
        # The rest of a cut value is not JSON, so it is quoted as text.
        name = key if is_whole else f"{key} (cut)"
        written.append(f"{_text(name)}: {text if is_whole else _text(text)}")
    return "{" + ", ".join(written) + "}", was_cut


def _limited(value: Json, limit: int) -> tuple[str, bool]:
    """Return the JSON text and True, or its beginning and False."""
    if isinstance(value, str) and len(value) > limit:
        return value[:limit], False
    pieces: list[str] = []
    length = 0
    try:
        for piece in _ENCODER.iterencode(value):
            pieces.append(_printable(piece))
            length += len(pieces[-1])
            if length > limit + 2:
                return "".join(pieces)[:limit], False
    except (ValueError, RecursionError):
        # Python refuses to write out integers of thousands of digits.
        return '"(a value that cannot be written)"', True
    return "".join(pieces), True


def _text(text: str) -> str:
    """Write a JSON string with unprintable characters escaped: line ends, and letters that no person would see."""
    return _printable(json.dumps(text, ensure_ascii=False))


def _printable(written: str) -> str:
    if written.isprintable():
        return written
    return "".join(one if one.isprintable() else json.dumps(one)[1:-1] for one in written)


DEFAULT_HISTORY_CHARS = 60_000
# One giant result may not push out everything else.
_SHARE_OF_ONE_VALUE = 4


# Lines of calls by their order: a call is in the history of every later one.
Lines: TypeAlias = dict[int, tuple[str, bool]]


@dataclass(slots=True)
class Writer:
    """Renders the parts of one prompt; `notes` collects the omitted parts. `lines` may be shared by prompts."""

    budget: int
    lines: Lines = field(default_factory=Lines)
    notes: list[str] = field(default_factory=list[str])
    cut_values: int = 0

    def history(self, view: JudgeView) -> str:
        """Quote the conversation before the target, the newest lines as far as the budget goes."""
        entries = [
            (place, one)
            for place, entry in enumerate(view.history)
            for one in ((entry,) if isinstance(entry, Spoken) else entry)
        ]
        if not entries:
            return prompts.NO_HISTORY
        # The prompt that the target serves is kept in any case: nothing could be judged without it.
        first = view.history[view.current] if view.current < len(view.history) else None
        prompt = self._line(((first.role, first.text),)) if isinstance(first, Spoken) else None
        left = self.budget - len(prompt or "")
        kept: list[str] = []
        for place, one in reversed(entries):
            if prompt is not None and place == view.current:
                kept.append(prompt)
                continue
            text = self._line(((one.role, one.text),)) if isinstance(one, Spoken) else self._call(one)
            left -= len(text)
            if left < 0:
                if prompt is not None and place > view.current:
                    kept.append(prompt)
                break
            kept.append(text)
        if len(kept) < len(entries):
            left_out = len(entries) - len(kept)
            self.notes.append(f"history cut: {left_out} of {len(entries)} entries left out, the oldest first")
        return quoted(prompts.HISTORY, kept[::-1])

    def tools(self, tools: Sequence[ToolDefinition], target: str | None) -> str:
        """Quote the tools on offer; where they are too many, in any case the called one."""
        if not tools:
            return prompts.NO_TOOLS
        called = next((tool for tool in tools if tool.name == target), None)
        texts = self._within_budget(
            self._line((("tool", tool.name), ("description", tool.description), ("parameters", tool.parameters)))
            for tool in sorted(tools, key=lambda tool: tool is not called)
        )
        if len(texts) < len(tools):
            self.notes.append(f"{len(tools) - len(texts)} of {len(tools)} tools on offer left out")
        return quoted(prompts.TOOLS, texts)

    def calls(self, title: str, calls: Sequence[ToolCall]) -> str:
        """Quote calls in their order, the newest as far as the budget goes."""
        kept = self._within_budget(map(self._call, reversed(calls)))
        if len(kept) < len(calls):
            self.notes.append(f"{len(calls) - len(kept)} of {len(calls)} calls left out, the oldest first")
        return quoted(title, kept[::-1] or [self._line((("calls", 0),))])

    def _within_budget(self, texts: Iterable[str]) -> list[str]:
        """Take texts until the budget is used up, but always the first."""
        left = self.budget
        kept: list[str] = []
        for text in texts:
            left -= len(text)
            if left < 0 and kept:
                break
            kept.append(text)
        return kept

    def target(self, call: ToolCall) -> str:
        """Quote the call to judge: the request, never its result."""
        return quoted(prompts.TARGET_CALL, [self._line(_asked(call), self.budget)])

    def expected_calls(self, calls: Sequence[ExpectedCall]) -> str:
        """Quote expected calls."""
        lines = [
            self._line((("call", call.name), *((("arguments", call.args),) if call.args else ()))) for call in calls
        ]
        return quoted(prompts.EXPECTED_TRAJECTORY, lines)

    def text(self, title: str, key: str, value: Json) -> str:
        """Quote one value."""
        return quoted(title, [self._line(((key, value),), self.budget)])

    def _call(self, call: ToolCall) -> str:
        known = self.lines.get(call.order)
        if known is None:
            fields = _asked(call)
            if call.error is None or not isinstance(call.result, NotRecorded):
                fields = (*fields, ("result", shown_content(call.result)))
            if call.error is not None:
                fields = (*fields, ("error", call.error.message or call.error.kind))
            known = self.lines[call.order] = line(fields, max(1, self.budget // _SHARE_OF_ONE_VALUE))
        self.cut_values += known[1]
        return known[0]

    def _line(self, fields: Sequence[tuple[str, Json]], limit: int | None = None) -> str:
        text, was_cut = line(fields, limit or max(1, self.budget // _SHARE_OF_ONE_VALUE))
        self.cut_values += was_cut
        return text


def shown_content(content: Content) -> Json:
    """Return what a judge sees of arguments or of a result."""
    match content:
        case Recorded(value=value):
            return value
        case Unparsed(text=text):
            return text
        case NotRecorded():
            return prompts.NOT_RECORDED


def _asked(call: ToolCall) -> tuple[tuple[str, Json], ...]:
    return (("call", call.name), ("arguments", shown_content(call.arguments)))


# The outcome of a verdict without meaning: a last resort, as its form has been checked.
UNUSABLE = Errored(error_type="invalid_verdict", message="the judge gave no verdict of the form that was asked for")
# What a judge writes is not bounded by anybody else.
_MAX_REASONING = 4000
_NO_WORDS = NotEvaluated(reason="no_content", explanation="what the user said was not recorded")


class AsksOnce:
    """An evaluator that asks one question about a trajectory."""

    def joined(self, outcomes: Sequence[Outcome]) -> Outcome:
        """Return the only outcome."""
        return outcomes[0] if outcomes else Errored(error_type="no_verdict", message="the judge gave no verdict")


class JudgedByModel(AsksOnce, CallSelection):
    """The parameters that all our evaluators with a judge share."""

    judges_every_answer: ClassVar[bool] = True

    # How much of the conversation the judge is shown; the oldest turns go first.
    max_history_chars: int = Field(default=DEFAULT_HISTORY_CHARS, ge=1000, le=10_000_000)

    def outcome(self, question: Question, verdict: JsonObject) -> Outcome:  # noqa: ARG002 (a verdict says it all)
        """Turn a number from 0 to 1 into a score."""
        return fraction(verdict)


class JudgedCalls(JudgedByModel):
    """Asks one question a call; the answer is Yes or No."""

    level: ClassVar[Level] = "call"
    needs: ClassVar[Needs] = Needs(reference="none", recent_offer=True)
    prompt: ClassVar[Prompt]

    def questions(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Asking]:  # noqa: ARG002 (no reference needed)
        """Yield one question a call, or the outcome where it is clear without asking."""
        chosen = self.calls(trajectory)
        if not chosen:
            yield None, nothing_to_judge(trajectory)
            return
        counted = {call.order for call in chosen}
        exchanges = exchanges_by_run(trajectory)
        lines = Lines()
        for number, exchange in enumerate(exchanges):
            for call in exchange.calls:
                if call.order not in counted:
                    continue
                view = view_of_call(exchanges, number, call, was_known)
                clear = self.clear(call, view)
                has_user = any(isinstance(entry, Spoken) and entry.role == "user" for entry in view.history)
                if clear is not None or not has_user:
                    yield call, clear or _NO_WORDS
                else:
                    writer = Writer(self.max_history_chars, lines)
                    yield call, question_about_call(self.prompt, view, call, writer)

    def clear(self, call: ToolCall, view: JudgeView) -> Outcome | None:  # noqa: ARG002 (for those that look)
        """Return the outcome where it is clear without a judge."""
        return None

    def outcome(self, question: Question, verdict: JsonObject) -> Outcome:  # noqa: ARG002 (a verdict says it all)
        """Score 1 for Yes and 0 for No."""
        return labelled(verdict, {"Yes": 1.0, "No": 0.0}.get)


def question_about_call(prompt: Prompt, view: JudgeView, call: ToolCall, writer: Writer) -> Question:
    """Return the question about one call."""
    tools = writer.tools(view.tools, call.name)
    return question(prompt, (tools, writer.history(view), writer.target(call)), writer)


def question(prompt: Prompt, sections: Sequence[str], writer: Writer, *, instructions: str | None = None) -> Question:
    """Put a question together; `instructions` stand for the prompt's own where a configuration adds to them."""
    return Question(
        instructions=prompt.instructions if instructions is None else instructions,
        prompt="\n\n".join(sections),
        form_name=prompt.form_name,
        form=prompt.form,
        notes=(*writer.notes, *((f"long values cut: {writer.cut_values}",) if writer.cut_values else ())),
    )


def unreadable_arguments(call: ToolCall) -> NotEvaluated | None:
    """Return the outcome of a call whose arguments cannot be judged; `None` when they can."""
    reason = unseen(call.arguments, "arguments_not_recorded")
    words = {"arguments_not_recorded": "were not recorded", "redacted": "were redacted"}
    explanation = f"the arguments {words.get(reason or '', f'are {reason}')}"
    return None if reason is None else NotEvaluated(reason=reason, explanation=explanation)


def labelled(verdict: JsonObject, value_of: Callable[[str], float | None]) -> Outcome:
    """Make an outcome of a label and its reasoning; `value_of` has the value of each label."""
    label = verdict.get("score")
    value = value_of(label) if isinstance(label, str) else None
    if value is None:
        return UNUSABLE
    return Scored(
        value=value, explanation=f"the judge says {label}", differences=(judged(verdict.get("reasoning"), label=label),)
    )


def fraction(verdict: JsonObject) -> Outcome:
    """Make an outcome of a number from 0 to 1 and its reasoning."""
    score = verdict.get("score")
    if not isinstance(score, int | float) or isinstance(score, bool) or not 0 <= score <= 1:
        return UNUSABLE
    return Scored(
        value=float(score),
        explanation=f"the judge scores {score:.3g} by the rubric",
        differences=(judged(verdict.get("reasoning")),),
    )


def judged(reasoning: Json, **more: Json) -> Difference:
    """Keep what a judge wrote where values are kept: it quotes them."""
    text = reasoning[:_MAX_REASONING] if isinstance(reasoning, str) else None
    return Difference(where="verdict", rule=JUDGE_RULE, actual=Side(value={**more, "reasoning": text}))
