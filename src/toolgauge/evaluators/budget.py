"""`budget`: did the run stay within its limits of calls, errors, time and tokens? Needs no reference."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, ClassVar, Literal, TypeAlias

from msgspec import Struct
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from toolgauge.model.content import NotRecorded
from toolgauge.model.expected import Expected
from toolgauge.model.outcomes import Difference, Level, NotEvaluated, Outcome, Scored, Side
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import Tokens, ToolCall, Trajectory
from toolgauge.score.patterns import Globs
from toolgauge.score.selection import CUT_SHORT, hidden_calls, shown, was_stopped
from toolgauge.settings import WrittenDuration, duration_ns

_NS_PER_S = 1_000_000_000
_MOST = 10**15
_MAX_TOOLS = 100
_DESCRIBED = 5

# A figure, and why there may be more of it.
_Measured: TypeAlias = tuple[int, NotEvaluated | None]
Figure: TypeAlias = Literal["calls", "errors", "duration", "tokens"]


def _no_truth_value(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("must be a whole number")
    return value


Most: TypeAlias = Annotated[int, BeforeValidator(_no_truth_value), Field(ge=0, le=_MOST)]
# A duration with its unit, in nanoseconds.
MostTime: TypeAlias = Annotated[int, BeforeValidator(duration_ns, json_schema_input_type=WrittenDuration | Literal[0])]
Quantile: TypeAlias = Annotated[float, Field(gt=0, le=1)]
Quantiles: TypeAlias = dict[Quantile, Most]


class ToolLimits(BaseModel):
    """The most that calls of a tool may take together."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    calls: Most | None = None
    errors: Most | None = None
    duration: MostTime | None = None


class ToolEnvelope(BaseModel):
    """What calls of a tool took together in runs that were seen: figures by quantile."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    calls: Quantiles = {}
    errors: Quantiles = {}
    duration: dict[Quantile, MostTime] = {}


class Envelope(ToolEnvelope):
    """What runs took that were seen: figures by quantile."""

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
    needs_content: ClassVar[bool] = False

    tokens: Most | None = None
    per_tool: Annotated[dict[str, ToolLimits], Field(max_length=_MAX_TOOLS)] = {}
    envelope: Envelope = Envelope()
    quantile: Quantile = 0.99

    @model_validator(mode="after")
    def _has_limits(self) -> "Budget":
        for _, _, figures in self._figures_of_envelope():
            if figures and self.quantile not in figures:
                known = ", ".join(f"{quantile:g}" for quantile in sorted(figures))
                raise ValueError(f"has an `envelope` without the quantile {self.quantile:g}; it has {known}")
        if not self._limits:
            raise ValueError("has no limit: give `calls`, `errors`, `duration`, `tokens`, `per_tool` or `envelope`")
        return self

    def _figures_of_envelope(self) -> Iterator[tuple[str | None, Figure, Mapping[float, int]]]:
        envelope = self.envelope
        yield None, "tokens", envelope.tokens
        tools: list[tuple[str | None, ToolEnvelope]] = [(None, envelope), *envelope.per_tool.items()]
        for tool, figures in tools:
            yield tool, "calls", figures.calls
            yield tool, "errors", figures.errors
            yield tool, "duration", figures.duration

    def _written_limits(self) -> Iterator[tuple[str | None, Figure, int | None]]:
        yield None, "tokens", self.tokens
        tools: list[tuple[str | None, ToolLimits]] = [(None, self), *self.per_tool.items()]
        for tool, limits in tools:
            yield tool, "calls", limits.calls
            yield tool, "errors", limits.errors
            yield tool, "duration", limits.duration

    def _learned_limits(self) -> Iterator[tuple[str | None, Figure, int | None]]:
        for tool, figure, figures in self._figures_of_envelope():
            yield tool, figure, figures.get(self.quantile)

    @cached_property
    def _limits(self) -> tuple["_Limit", ...]:
        limits: dict[tuple[str | None, Figure], int] = {}
        for tool, figure, most in (*self._written_limits(), *self._learned_limits()):
            if most is not None:
                limits[tool, figure] = min(most, limits.get((tool, figure), most))
        return tuple(
            _Limit(tool, None if tool is None else Globs((tool,)), figure, most)
            for (tool, figure), most in limits.items()
        )

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:  # noqa: ARG002 (no reference needed)
        """Yield one outcome for the trajectory."""
        yield None, _outcome([_Tally(limit, *_measured(limit, trajectory)) for limit in self._limits])


class _Limit(Struct, frozen=True):
    """The most that a figure may be, of the run or of tools."""

    tool: str | None
    globs: Globs | None
    figure: Figure
    most: int

    @property
    def name(self) -> str:
        """How parts and differences call it."""
        figure = "seconds" if self.figure == "duration" else self.figure
        return figure if self.tool is None else f"{figure} of {self.tool}"

    def number(self, figure: int) -> int | float:
        """Return a figure as parts and differences have it."""
        return figure / _NS_PER_S if self.figure == "duration" else figure

    def text(self, figure: int) -> str:
        """Return a figure as explanations have it."""
        return f"{round(figure / _NS_PER_S, 3):g} s" if self.figure == "duration" else str(figure)


class _Tally(Struct, frozen=True):
    """A limit and what there was; `gap` where there may have been more."""

    limit: _Limit
    actual: int
    gap: NotEvaluated | None

    @property
    def is_kept(self) -> bool:
        return self.actual <= self.limit.most

    @property
    def is_judged(self) -> bool:
        return self.gap is None or not self.is_kept

    @property
    def value(self) -> float:
        return 1.0 if self.is_kept else self.limit.most / self.actual

    def note(self) -> str:
        limit = self.limit
        whose = "" if limit.tool is None else f" of {shown(limit.tool)}"
        return f"{limit.figure}{whose}: {limit.text(self.actual)}, and at most {limit.text(limit.most)}"

    def difference(self) -> Difference:
        limit = self.limit
        return Difference(
            where=limit.name,
            rule="budget",
            expected=Side(value=limit.number(limit.most)),
            actual=Side(value=limit.number(self.actual)),
        )


def _outcome(tallies: Sequence[_Tally]) -> Outcome:
    judged = [tally for tally in tallies if tally.is_judged]
    gaps = [tally.gap for tally in tallies if not tally.is_judged and tally.gap is not None]
    if not judged:
        return gaps[0]
    broken = sorted((tally for tally in judged if not tally.is_kept), key=lambda tally: tally.value)
    kept = len(judged) - len(broken)
    notes = [f"{kept} of {len(judged)} limits are kept", *(tally.note() for tally in broken[:_DESCRIBED])]
    if len(broken) > _DESCRIBED:
        notes.append(f"{len(broken) - _DESCRIBED} more")
    if gaps:
        notes.append(f"{len(gaps)} could not be judged: {gaps[0].explanation}")
    figures = {tally.limit.name: tally.limit.number(tally.actual) for tally in judged}
    return Scored(
        value=min(tally.value for tally in judged),
        explanation="; ".join(notes),
        parts={"limits": len(judged), "kept": kept, **figures},
        differences=tuple(tally.difference() for tally in broken),
    )


def _measured(limit: _Limit, trajectory: Trajectory) -> _Measured:
    """Return a figure, as far as it is known, and why there may be more of it."""
    globs = limit.globs
    calls = trajectory.calls if globs is None else [call for call in trajectory.calls if globs.match(call.name)]
    actual, gap = _figure(limit, calls, trajectory)
    return actual, gap or _unfinished(trajectory)


def _figure(limit: _Limit, calls: Sequence[ToolCall], trajectory: Trajectory) -> _Measured:
    match limit.figure:
        case "calls":
            return len(calls), _hidden(trajectory)
        case "errors":
            return sum(call.has_failed for call in calls), _hidden(trajectory) or _unknown_end(calls)
        case "duration" if limit.globs is None:
            return _run_time(trajectory), None
        case "duration":
            timed = [call for call in calls if call.executed_by is not None]
            took = _union_ns((call.start_ns, call.end_ns) for call in timed)
            return took, _hidden(trajectory) or _unknown_time(calls)
        case "tokens":
            return _tokens(trajectory.tokens)


def _hidden(trajectory: Trajectory) -> NotEvaluated | None:
    return hidden_calls(trajectory) if trajectory.hidden_turns else None


def _unfinished(trajectory: Trajectory) -> NotEvaluated | None:
    because = trajectory.closed_because
    # Without a run that has ended, nothing shows that what is missing above is all that is missing.
    if because in CUT_SHORT or (because == "open_idle" and not trajectory.has_agent_run):
        return NotEvaluated(reason="incomplete", explanation="the trajectory was closed before it had ended")
    return None


def _unknown_end(calls: Sequence[ToolCall]) -> NotEvaluated | None:
    for call in calls:
        if call.state == "requested_only" and call.error is None and isinstance(call.result, NotRecorded):
            explanation = f"{shown(call.name)} was requested; no execution and no answer was seen"
            return NotEvaluated(reason="results_not_recorded", explanation=explanation)
    return None


def _unknown_time(calls: Sequence[ToolCall]) -> NotEvaluated | None:
    for call in calls:
        if call.executed_by is None and call.state != "rejected" and not was_stopped(call):
            explanation = f"no span shows how long {shown(call.name)} took"
            return NotEvaluated(reason="no_content", explanation=explanation)
    return None


def _run_time(trajectory: Trajectory) -> int:
    """Return how long the run took; between the turns of a conversation a person thinks."""
    if trajectory.scope == "conversation" and trajectory.runs:
        return _union_ns((run.start_ns, run.end_ns) for run in trajectory.runs if run.above is None)
    return _union_ns(((trajectory.start_ns, trajectory.end_ns),))


def _union_ns(intervals: Iterable[tuple[int, int]]) -> int:
    """Return how long any of the intervals lasted."""
    total, until = 0, 0
    for start, end in sorted(intervals):
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total


def _tokens(tokens: Tokens | None) -> _Measured:
    if tokens is None:
        return 0, NotEvaluated(reason="no_content", explanation="tokens were not recorded")
    total = tokens.input + tokens.output
    if not tokens.unmeasured:
        return total, None
    explanation = f"the tokens of {tokens.unmeasured} model calls were not recorded"
    return total, NotEvaluated(reason="no_content", explanation=explanation)
