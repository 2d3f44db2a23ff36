"""What evaluators that ask a judge have in common: parameters, what cannot be judged, and what a verdict means."""

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

from pydantic import Field

from toolgauge.model.content import NotRecorded, Recorded, Unparsed
from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.judging import Asking, Question
from toolgauge.model.outcomes import Difference, Errored, Level, NotEvaluated, Outcome, Scored, Side
from toolgauge.model.trajectory import ToolCall, Trajectory
from toolgauge.score.judge_view import Exchange, JudgeView, Said, exchanges_by_run, view_of_call, was_known
from toolgauge.score.prompts import Prompt
from toolgauge.score.questions import DEFAULT_HISTORY_CHARS, Lines, Writer
from toolgauge.score.selection import CallSelection, nothing_to_judge

# What a judge writes is not bounded by anybody else.
_MAX_REASONING = 4000
_NO_WORDS = NotEvaluated(reason="no_content", explanation="what the user said was not recorded")


class JudgedByModel(CallSelection):
    """The parameters that all our evaluators with a judge share."""

    # How much of the conversation the judge is shown; the oldest turns go first.
    max_history_chars: int = Field(default=DEFAULT_HISTORY_CHARS, ge=1000, le=10_000_000)

    def joined(self, outcomes: Sequence[Outcome]) -> Outcome:
        """Return the only outcome."""
        return only(outcomes)


class JudgedCalls(JudgedByModel):
    """Asks one question a call; the answer is Yes or No."""

    level: ClassVar[Level] = "call"
    prompt: ClassVar[Prompt]

    def questions(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Asking]:  # noqa: ARG002 (no reference needed)
        """Yield one question a call, or what is clear without asking."""
        chosen = self.calls(trajectory)
        if not chosen:
            yield None, nothing_to_judge(trajectory)
            return
        counted = {call.order for call in chosen}
        exchanges = exchanges_by_run(trajectory)
        lines = Lines()
        for number, exchange in enumerate(exchanges):
            for call in exchange.calls:
                if call.order in counted:
                    yield (call, self._asked(call, exchanges, number, Writer(self.max_history_chars, lines)))

    def _asked(self, call: ToolCall, exchanges: Sequence[Exchange], number: int, writer: Writer) -> Question | Outcome:
        view = view_of_call(exchanges, number, call, was_known)
        clear = self.clear(call, view)
        if clear is not None:
            return clear
        if not has_words(view):
            return _NO_WORDS
        return question_about_call(self.prompt, view, call, writer)

    def clear(self, call: ToolCall, view: JudgeView) -> Outcome | None:  # noqa: ARG002 (for those that look)
        """Return what is clear without a judge."""
        return None

    def outcome(self, question: Question, verdict: JsonObject) -> Outcome:  # noqa: ARG002 (a verdict says it all)
        """Score 1 for Yes and 0 for No."""
        return labelled(verdict, {"Yes": 1.0, "No": 0.0}.get)


def question_about_call(prompt: Prompt, view: JudgeView, call: ToolCall, writer: Writer) -> Question:
    """Return the question about one call."""
    tools = writer.tools(view.tools, call.name)
    history = writer.history(view)
    return question(prompt, (tools, history, writer.target(call)), writer)


def question(prompt: Prompt, sections: Sequence[str], writer: Writer, *, instructions: str | None = None) -> Question:
    """Put a question together; `instructions` stand for the prompt's own where a configuration adds to them."""
    return Question(
        instructions=prompt.instructions if instructions is None else instructions,
        prompt="\n\n".join(sections),
        form_name=prompt.form_name,
        form=prompt.form,
        notes=writer.all_notes,
    )


def has_words(view: JudgeView) -> bool:
    """Return whether anything that the user said was recorded."""
    return any(isinstance(entry, Said) and entry.role == "user" for entry in view.history)


def unreadable_arguments(call: ToolCall) -> NotEvaluated | None:
    """Say why the arguments of a call cannot be judged; `None` when they can."""
    match call.arguments:
        case Recorded():
            return None
        case Unparsed(reason=reason):
            return NotEvaluated(reason=reason, explanation=f"the arguments are {reason}")
        case NotRecorded(reason="redacted"):
            return NotEvaluated(reason="redacted", explanation="the arguments were redacted")
        case NotRecorded():
            return NotEvaluated(reason="arguments_not_recorded", explanation="the arguments were not recorded")


def labelled(verdict: JsonObject, value_of: Callable[[str], float | None]) -> Outcome:
    """Make an outcome of a label and its reasoning; `value_of` says what a label is worth."""
    label = verdict.get("score")
    value = value_of(label) if isinstance(label, str) else None
    if value is None:
        return unusable()
    return Scored(
        value=value, explanation=f"the judge says {label}", differences=(judged(verdict.get("reasoning"), label=label),)
    )


def fraction(verdict: JsonObject) -> Outcome:
    """Make an outcome of a number from 0 to 1 and its reasoning."""
    score = verdict.get("score")
    if not isinstance(score, int | float) or isinstance(score, bool) or not 0 <= score <= 1:
        return unusable()
    return Scored(
        value=float(score),
        explanation=f"the judge scores {score:.3g} by the rubric",
        differences=(judged(verdict.get("reasoning")),),
    )


def judged(reasoning: Json, **more: Json) -> Difference:
    """Keep what a judge wrote where values are kept: it quotes them."""
    text = reasoning[:_MAX_REASONING] if isinstance(reasoning, str) else None
    return Difference(where="verdict", rule="judge", actual=Side(value={**more, "reasoning": text}))


def unusable() -> Errored:
    """Say that a verdict means nothing; whoever asks has made sure of its form, so this is a last resort."""
    return Errored(error_type="invalid_verdict", message="the judge gave no verdict of the form that was asked for")


def only(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the outcome of an evaluator that asks one question."""
    if not outcomes:
        return Errored(error_type="no_verdict", message="the judge gave no verdict")
    return outcomes[0]
