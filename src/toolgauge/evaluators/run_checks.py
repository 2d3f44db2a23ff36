"""`budget`, `coverage`, `run_completed` and `tool_use`: how did the run as a whole go? None of them needs a reference."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from toolgauge.model.content import NotRecorded
from toolgauge.model.expected import Expected
from toolgauge.model.judging import Judged
from toolgauge.model.notices import OpenCall
from toolgauge.model.observations import OTHER_ERROR, Ending
from toolgauge.model.outcomes import (
    OBSERVABLE,
    UNOBSERVED,
    Difference,
    Level,
    NotEvaluated,
    Observed,
    Outcome,
    Reason,
    Scored,
    Side,
)
from toolgauge.model.ports import Evaluation, Needs
from toolgauge.model.records import SpanRef
from toolgauge.model.trajectory import Run, ToolCall, Trajectory
from toolgauge.score.contracts import name_words
from toolgauge.score.facts import Facts, FactsEvaluator, TakesFacts
from toolgauge.score.patterns import Globs
from toolgauge.score.selection import (
    CUT_SHORT,
    NO_CALLS,
    first_names,
    first_notes,
    hidden_calls,
    shown,
    unfinished,
    was_stopped,
)
from toolgauge.settings import Duration, whole

_NS_PER_S = 1_000_000_000
_MOST = 10**15
_MAX_TOOLS = 100
_DESCRIBED = 5

Figure: TypeAlias = Literal["calls", "errors", "duration", "tokens"]


Most: TypeAlias = Annotated[int, BeforeValidator(whole), Field(ge=0, le=_MOST)]
Quantile: TypeAlias = Annotated[float, Field(gt=0, le=1)]
Quantiles: TypeAlias = dict[Quantile, Most]


class ToolLimits(BaseModel):
    """The most that calls of a tool may take together."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    calls: Most | None = None
    errors: Most | None = None
    duration: Duration | None = None


class ToolEnvelope(BaseModel):
    """Figures of the calls of a tool in earlier runs, by quantile."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    calls: Quantiles = {}
    errors: Quantiles = {}
    duration: dict[Quantile, Duration] = {}


class Envelope(ToolEnvelope):
    """Figures of earlier runs, by quantile."""

    tokens: Quantiles = {}
    per_tool: Annotated[dict[str, ToolEnvelope], Field(max_length=_MAX_TOOLS)] = {}


class Budget(ToolLimits):
    """The smallest of limit / actual figure over all limits, 1 where all are kept.

    `calls`, `errors`, `duration` and `tokens` are limits of the run, `per_tool` those of tools (names and globs). With an
    `envelope`, the figures of its `quantile` are limits, too. A figure that is known in part is judged where that part
    exceeds the limit. Not evaluated: no limit could be judged.

    Parts: `limits` that could be judged, `kept`, and each figure; times in seconds.
    """

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "trajectory"
    needs: ClassVar[Needs] = Needs(reference="none")

    tokens: Most | None = None
    per_tool: Annotated[dict[str, ToolLimits], Field(max_length=_MAX_TOOLS)] = {}
    envelope: Envelope = Envelope()
    quantile: Quantile = 0.99

    @model_validator(mode="after")
    def _has_limits(self) -> "Budget":
        for _, _, figures in _figures_of(self.envelope):
            if isinstance(figures, Mapping) and figures and self.quantile not in figures:
                known = ", ".join(f"{quantile:g}" for quantile in sorted(figures))
                raise ValueError(f"has an `envelope` without the quantile {self.quantile:g}; it has {known}")
        if not self._limits:
            raise ValueError("has no limit: give `calls`, `errors`, `duration`, `tokens`, `per_tool` or `envelope`")
        return self

    @cached_property
    def _limits(self) -> tuple["_Limit", ...]:
        limits: dict[tuple[str | None, Figure], int] = {}
        for tool, figure, written in (*_figures_of(self), *_figures_of(self.envelope)):
            most = written.get(self.quantile) if isinstance(written, Mapping) else written
            if most is not None:
                limits[tool, figure] = min(most, limits.get((tool, figure), most))
        return tuple(_Limit(tool, figure, most) for (tool, figure), most in limits.items())

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:  # noqa: ARG002 (no reference needed)
        """Yield one outcome for the trajectory."""
        tallies = [_Tally(limit, *_measured(limit, trajectory)) for limit in self._limits]
        judged = [tally for tally in tallies if tally.gap is None or not tally.is_kept]
        gaps = [tally.gap for tally in tallies if tally.gap is not None and tally.is_kept]
        if not judged:
            yield None, gaps[0]
            return
        values = {tally.limit: 1.0 if tally.is_kept else tally.limit.most / tally.actual for tally in judged}
        broken = sorted((tally for tally in judged if not tally.is_kept), key=lambda tally: values[tally.limit])
        kept = len(judged) - len(broken)
        notes = [f"{kept} of {len(judged)} limits are kept", *first_notes([each.note for each in broken], _DESCRIBED)]
        if gaps:
            notes.append(f"{len(gaps)} could not be judged: {gaps[0].explanation}")
        figures = {tally.limit.name: tally.limit.number(tally.actual) for tally in judged}
        differences = tuple(
            Difference(
                where=limit.name,
                rule="budget",
                expected=Side(value=limit.number(limit.most)),
                actual=Side(value=figures[limit.name]),
            )
            for limit in (tally.limit for tally in broken)
        )
        parts = {"limits": len(judged), "kept": kept, **figures}
        yield None, Scored(min(values.values()), "; ".join(notes), parts, differences)

    def while_open(self, call: OpenCall) -> str | None:
        """Return the first limit that the run exceeds."""
        for limit in self._limits:
            tools = [counts for name, counts in call.by_tool.items() if limit.globs is None or limit.globs.match(name)]
            figures = {"calls": sum(calls for calls, _ in tools), "errors": sum(failed for _, failed in tools)}
            if limit.globs is None:
                figures["duration"] = call.elapsed_ns
            tally = _Tally(limit, figures.get(limit.figure, 0), None)
            if not tally.is_kept:
                return tally.note
        return None


def _figures_of(written: Budget | Envelope) -> Iterator[tuple[str | None, Figure, int | Mapping[float, int] | None]]:
    """Yield the limits or figures of the run (`None`) and of tools, by figure."""
    yield None, "tokens", written.tokens
    tools: list[tuple[str | None, ToolLimits | ToolEnvelope]] = [(None, written), *written.per_tool.items()]
    for tool, figures in tools:
        yield tool, "calls", figures.calls
        yield tool, "errors", figures.errors
        yield tool, "duration", figures.duration


class _Limit:
    """The highest allowed figure of the run, or of tools."""

    def __init__(self, tool: str | None, figure: Figure, most: int) -> None:
        self.tool, self.most = tool, most
        self.figure: Figure = figure
        self.globs = None if tool is None else Globs((tool,))
        # The name of the figure in parts and differences.
        self.name: str = "seconds" if figure == "duration" else figure
        if tool is not None:
            self.name += f" of {tool}"

    def number(self, figure: int) -> int | float:
        return figure / _NS_PER_S if self.figure == "duration" else figure


class _Tally(Struct, frozen=True):
    """A limit and the actual figure; `gap` where that may be larger."""

    limit: _Limit
    actual: int
    gap: NotEvaluated | None

    @property
    def is_kept(self) -> bool:
        return self.actual <= self.limit.most

    @property
    def note(self) -> str:
        limit = self.limit
        whose = "" if limit.tool is None else f" of {shown(limit.tool)}"
        numbers = self.actual, limit.most
        if limit.figure == "duration":
            texts = [f"{round(one / _NS_PER_S, 3):g} s" for one in numbers]
        else:
            texts = [str(one) for one in numbers]
        return f"{limit.figure}{whose}: {texts[0]}, and at most {texts[1]}"


def _measured(limit: _Limit, trajectory: Trajectory) -> tuple[int, NotEvaluated | None]:
    """Return a figure, as far as it is known, and the reason why it may be higher."""
    globs, gap, unknown = limit.globs, None, ""
    calls = trajectory.calls if globs is None else [call for call in trajectory.calls if globs.match(call.name)]
    if trajectory.hidden_turns and (limit.figure in ("calls", "errors") or globs is not None):
        gap = hidden_calls(trajectory)
    match limit.figure:
        case "calls":
            actual = len(calls)
        case "errors":
            actual = sum(call.has_failed for call in calls)
            for call in calls:
                is_open = call.state == "requested_only" and call.error is None
                if gap is None and is_open and isinstance(call.result, NotRecorded):
                    explanation = f"{shown(call.name)} was requested; no execution and no answer was seen"
                    gap = NotEvaluated(reason="results_not_recorded", explanation=explanation)
        case "duration" if globs is not None:
            actual = _union_ns((call.start_ns, call.end_ns) for call in calls if call.executed_by is not None)
            for call in calls:
                if call.executed_by is None and call.state != "rejected" and not was_stopped(call):
                    unknown = unknown or f"no span shows how long {shown(call.name)} took"
        case "duration":
            # Between the turns of a conversation a person thinks.
            is_conversation = trajectory.scope == "conversation" and trajectory.runs
            runs = [run for run in trajectory.runs if run.above is None] if is_conversation else [trajectory]
            actual = _union_ns((run.start_ns, run.end_ns) for run in runs)
            unknown = "" if trajectory.end_ns else "the times of the trajectory were not recorded"
        case "tokens":
            tokens = trajectory.tokens
            actual, unknown = (0, "tokens were not recorded") if tokens is None else (tokens.input + tokens.output, "")
            if tokens is not None and tokens.unmeasured:
                unknown = f"the tokens of {tokens.unmeasured} model calls were not recorded"
    if gap is None and unknown:
        gap = NotEvaluated(reason="no_content", explanation=unknown)
    return actual, gap or unfinished(trajectory)


def _union_ns(intervals: Iterable[tuple[int, int]]) -> int:
    total, until = 0, 0
    for start, end in sorted(intervals):
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total


# One object for all trajectories, here and below: an outcome that is known needs no check, and is written once.
_ALL_SEEN = Scored(value=1.0, explanation="arguments, end and definition were seen of all calls")
_UNSEEN: dict[Reason, str] = {
    "arguments_not_recorded": "arguments not recorded",
    "redacted": "arguments redacted",
    "truncated": "arguments cut off",
    "unparsable": "arguments unreadable",
    "results_not_recorded": "end not seen",
    "no_tool_offer": "no tools on offer recorded",
    "no_schema": "no schema of the tool recorded",
    "no_content": "call not recorded at all",
}


class Coverage(FactsEvaluator):
    """The share of what can be seen of the calls that was seen: of each its arguments, its end, and the definition of its tool.

    A model call that asked for tools without a record of which counts as one call of which nothing was seen. Results and
    messages are not looked at: they are not read for every trajectory.

    Parts: `calls`, and for each reason how many things it hid.
    """

    version: ClassVar[str] = "1"
    level: ClassVar[Level] = "trajectory"
    needs: ClassVar[Needs] = Needs(reference="none")

    def outcomes(self, facts: Facts) -> list[Judged]:
        """Return one outcome for the trajectory."""
        trajectory = facts.trajectory
        calls, hidden = self.calls(trajectory), trajectory.hidden_turns
        if not calls and not hidden:
            return [(None, NO_CALLS)]
        observed = Observed(trajectory)
        missing: dict[Reason, int] = {}
        for call in calls:
            for reason in observed.missing(call):
                missing[reason] = missing.get(reason, 0) + 1
        if hidden:
            missing["no_content"] = OBSERVABLE * hidden
        if not missing:
            return [(None, _ALL_SEEN)]
        listed = tuple([(one, missing[one]) for one in UNOBSERVED if one in missing])
        return [(None, _covered(len(calls) + hidden, listed))]


# Runs of an agent mostly lack the same things.
@lru_cache(maxsize=64)
def _covered(count: int, missing: tuple[tuple[Reason, int], ...]) -> Scored:
    things = OBSERVABLE * count
    seen = things - sum(number for _, number in missing)
    listed = "; ".join(f"{_UNSEEN[reason]}: {number}" for reason, number in missing)
    explanation = f"{seen} of {things} things were seen of {count} calls; {listed}"
    return Scored(value=seen / things, explanation=explanation, parts={"calls": count, **dict(missing)})


_COMPLETED = Scored(value=1.0, explanation="the run ended without an error")
_NOTHING_SEEN = NotEvaluated(reason="no_content", explanation="no model call and no run of an agent was seen")
_HALF_SEEN = NotEvaluated(reason="incomplete", explanation="the run was closed before its end was seen")


_ENDINGS: Mapping[Ending, str] = {
    "empty": "the last answer is empty: it has neither text nor calls",
    "length": "the model ran out of tokens: its last answer was cut off (`length`)",
    "content_filter": "the provider's filter stopped the last answer (`content_filter`)",
    "refusal": "the model refused to answer (`refusal`)",
}
# Words of tools that give the user the answer: `send_message`, `reply`, `slack_send`, `final_answer`.
_ANSWERING = frozenset(
    (
        *("answer", "complete", "done", "email", "finish", "mail", "message", "notification", "notify", "present"),
        *("publish", "reply", "respond", "response", "result", "say", "sms", "speak", "submit", "tell", "whatsapp"),
    )
)


class RunCompleted(TakesFacts, BaseModel):
    """0 for a run that ended with an error or without a whole answer, 1 for any other.

    A run ended with an error when its own span says so, or the span of its last model call or of the turn around that, and
    no model was asked after it. Cancellations, interrupts for a person, hand-offs and guardrails are no errors. A run that the
    same agent then did again with success is made good. Calls that were asked for and never answered are named, and fail nothing:
    tools on the client's side end runs in this way.

    A run has no whole answer when its last model output was recorded and holds neither text nor calls, or its last finish reason
    is `length`, `content_filter` or `refusal`. An empty output after a tool or another agent that gave the answer is none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: ClassVar[str] = "2"
    level: ClassVar[Level] = "trajectory"
    needs: ClassVar[Needs] = Needs(reference="none", binary=True)

    def outcomes(self, facts: Facts) -> list[Judged]:
        """Return one outcome for the trajectory."""
        trajectory = facts.trajectory
        unanswered = _unanswered(trajectory.calls)
        was_cut_short = trajectory.closed_because in CUT_SHORT
        endings: dict[SpanRef, Ending | None] = {}
        for run in trajectory.runs:
            if run.ending is not None and run.above is None and not was_cut_short:
                endings[run.span] = _ending(run, trajectory)
        for run in trajectory.runs:
            if run.above is not None or (run.error is None and endings.get(run.span) is None):
                continue
            # A run with a prompt is made good where the same agent later did the same run without an error.
            later = [one for one in trajectory.runs if one.above is None and one.start_ns >= run.end_ns]
            good = [one for one in later if one.error is None and endings.get(one.span) is None]
            if run.prompt is not None and any((one.agent, one.prompt) == (run.agent, run.prompt) for one in good):
                continue
            ending = endings.get(run.span)
            explanation, differences = "" if ending is None else _ENDINGS[ending], ()
            if run.error is not None:
                error, who = run.error, f"the run of {shown(run.agent)}" if run.agent else "the run"
                kind = f": {shown(error.kind)}" if error.kind and error.kind != OTHER_ERROR else ""
                explanation = f"{who} ended with an error{kind}"
                if error.message:
                    message = Side(value=error.message)
                    differences = (Difference(where=run.agent or "run", rule="error", actual=message),)
            return [(None, Scored(0.0, explanation + unanswered, differences=differences))]
        outcome: Outcome = _COMPLETED
        if unanswered:
            outcome = replace(_COMPLETED, explanation=_COMPLETED.explanation + unanswered)
        # The last model call has to show the end of a run without a span of its own.
        if not trajectory.has_agent_run:
            last = max((call.turn for call in trajectory.calls), default=0)
            open_end = _unanswered([call for call in trajectory.calls if call.turn == last])
            if not any(source.model_calls for source in trajectory.sources):
                outcome = _NOTHING_SEEN
            elif was_cut_short:
                outcome = _HALF_SEEN
            elif open_end:
                # Rule: without an agent run, a last turn with calls that were never answered is no end.
                explanation = f"nothing shows how the run ended{open_end}"
                outcome = NotEvaluated(reason="incomplete", explanation=explanation)
        return [(None, outcome)]


def _ending(run: Run, trajectory: Trajectory) -> Ending | None:
    """Return why a run has no whole answer; `None` for an empty one where content was not recorded or something else answered."""
    if run.ending != "empty":
        return run.ending
    roles = [message.role for message in trajectory.messages if message.role != "system"]
    is_another = len(trajectory.agents) > 1 and roles[-1:] == ["assistant"]
    called = [call for call in trajectory.calls if run.start_ns <= call.start_ns <= run.end_ns]
    words = name_words(called[-1].name) if called else ()
    # `slack_send` sends an answer, `send_certificate` something else.
    is_tool = words[-1:] == ("send",) or not _ANSWERING.isdisjoint(words)
    return None if "user" not in roles or is_another or is_tool else "empty"


def _unanswered(calls: Sequence[ToolCall]) -> str:
    names: dict[str, None] = {}
    for call in calls:
        if call.state == "requested_only":
            names[shown(call.name)] = None
    return f"; never answered: {first_names(list(names), _DESCRIBED)}" if names else ""


_NAME = attrgetter("name")
_CALLED = Scored(value=1.0, explanation="the run called a tool")
_ASKED = Scored(value=1.0, explanation="a model asked for tools, and which ones was not recorded")
_NOT_CALLED = Scored(value=0.0, explanation="the run called no tool")
_ONLY_NEUTRAL = Scored(value=0.0, explanation="the run called only tools that answer, think or hand over")
_NO_RUN = NotEvaluated(reason="incomplete", explanation="no run of an agent was seen")
_NO_CALL_SEEN = NotEvaluated(
    reason="incomplete", explanation="no tool call was seen before the run was closed unfinished"
)


class ToolUse(FactsEvaluator):
    """1 for a run that called a tool, 0 for one that called none.

    The state of a call does not matter: a rejected one, or one known only from the model's request, is a call.
    """

    version: ClassVar[str] = "2"
    judges_every_answer: ClassVar[bool] = True
    level: ClassVar[Level] = "trajectory"
    needs: ClassVar[Needs] = Needs(reference="none", recent_offer=True, agent_run=True, binary=True)

    def outcomes(self, facts: Facts) -> list[Judged]:
        """Return one outcome for the trajectory."""
        trajectory = facts.trajectory
        calls = self.calls(trajectory)
        outcome: Outcome = _ONLY_NEUTRAL if calls else _NOT_CALLED
        if not trajectory.has_agent_run:
            outcome = _NO_RUN
        # Rule: a call of a neutral tool (answers, thinking, hand-offs) is no tool use, unless `tools` names the tool.
        elif calls and (self.tools is not None or not trajectory.neutral_tools.issuperset(map(_NAME, calls))):
            outcome = _CALLED
        elif trajectory.hidden_turns:
            outcome = _ASKED if self.tools is None and self.failed_calls == "count" else hidden_calls(trajectory)
        elif trajectory.closed_because in CUT_SHORT:
            outcome = _NO_CALL_SEEN
        return [(None, outcome)]
