"""Why a run failed: its verdicts with expected beside actual, its calls in turns, and what could not be observed.

As large as an answer may be: where it would be larger it has fewer calls and shorter values, and says so. The lines begin
with the answer; a difference is marked where it is.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from toolgauge.export.redact import Redactor
from toolgauge.mcp_server.plain_text import MAX_JSON, as_json, cut, more, size_of
from toolgauge.mcp_server.scored_recordings import Scoring
from toolgauge.mcp_server.trajectory_list import ListedTrajectory, listed, named, named_if_known
from toolgauge.model.error_causes import with_cause
from toolgauge.model.outcomes import ERROR_RULE, MEANINGS, OutcomeWord, Result, outcome_word
from toolgauge.model.plain_words import state_words
from toolgauge.model.trajectory import Trajectory
from toolgauge.report.explanations import ShownDifference, ShownVerdict, comparison_by_rule
from toolgauge.report.kept import KeptTrajectory
from toolgauge.report.producer_advice import advice
from toolgauge.report.terminal import counted
from toolgauge.report.trajectory_view import ShownCall, ShownCriterion, ShownTrajectory, ShownValue, TrajectoryWriter

_NAME = 120
_EXPLANATION = 600
_MAX_CRITERIA = 40
_MAX_REMEDIES = 10
# Longer than any value that is written.
_NEVER_INDENTED = 1_000_000
HOW_TO_SHOW_VALUES = (
    "values are hidden; the person who runs this server shows them with `toolgauge mcp --set redact.values=show`"
)


class ReportedVerdict(Struct, frozen=True, kw_only=True):
    """The verdict of one criterion, on a call or on the trajectory as a whole."""

    criterion: str
    evaluator: str
    outcome: OutcomeWord
    score: float | None
    requirement: Annotated[str, Meta(description="the score that is enough, such as `passes at 0.8`")]
    is_shadow: Annotated[bool, Meta(description="the criterion is tried out: it decides nothing")]
    call: Annotated[int | None, Meta(description="number of the judged call; null for the trajectory as a whole")]
    tool: str | None
    explanation: str
    differences: list[ShownDifference]
    more_differences: int


class ReportedGap(Struct, frozen=True, kw_only=True):
    """A criterion that could not judge, and why. It is no failure."""

    criterion: str
    reason: str
    meaning: str
    explanation: str
    count: int


class ReportedArgument(Struct, frozen=True, kw_only=True):
    """One argument of a call. `value` is null where there is none to show; `note` is why."""

    name: str
    value: str | None
    note: str
    differs: Annotated[list[str], Meta(description="what criteria expected in its place")]


class ReportedCall(Struct, frozen=True, kw_only=True):
    """One call. `state` is executed, rejected (never run), requested_only, paused (waits for a person) or refused (by a person)."""

    number: int
    tool: str
    agent: str | None
    state: str
    span_id: str
    arguments: list[ReportedArgument]
    more_arguments: int
    result: str
    error: str | None
    verdicts: Annotated[list[str], Meta(description="criteria that this call failed or errored under")]
    not_observed: list[str]
    value_origins: Annotated[
        list[str],
        Meta(description="where each argument value is from, back to the user; of failing calls, no step is the cause"),
    ]


class ReportedTurn(Struct, frozen=True, kw_only=True):
    """The calls of one model output; several of them were asked for together."""

    turn: int
    calls: list[ReportedCall]


class ReportedMessage(Struct, frozen=True, kw_only=True):
    """One text of the conversation."""

    role: str
    text: str


class ReportedRemedy(Struct, frozen=True, kw_only=True):
    """What a producer does not record, and what turns it on."""

    producer: str
    missing: list[str]
    instruction: str
    switches: list[str]
    is_never_recorded: bool


class FailureReport(Struct, frozen=True, kw_only=True):
    """Why one run failed."""

    recording: str
    why: Annotated[str, Meta(description="the answer in one sentence")]
    trajectory: ListedTrajectory
    trace_id: str
    closed_because: str
    incomplete: Annotated[str | None, Meta(description="why the recording may lack spans of it")]
    verdicts: Annotated[list[ReportedVerdict], Meta(description="what failed, the criteria that decide first")]
    more_verdicts: int
    passed: list[str]
    not_evaluated: list[ReportedGap]
    calls_total: int
    first_call: Annotated[int, Meta(description="number of the first call in `turns`; `call` asks for others")]
    turns: list[ReportedTurn]
    messages: list[ReportedMessage]
    remedies: list[ReportedRemedy]
    other_failed: Annotated[int, Meta(description="further failed trajectories of the recording")]
    notes: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Detail:
    """How much of a trajectory is written."""

    calls: int
    arguments: int
    value: int
    verdicts: int
    differences: int
    messages: int


# From all that is useful down to what is always small enough.
_DETAILS = (
    _Detail(calls=40, arguments=30, value=400, verdicts=20, differences=12, messages=8),
    _Detail(calls=20, arguments=12, value=200, verdicts=10, differences=6, messages=4),
    _Detail(calls=8, arguments=8, value=120, verdicts=6, differences=4, messages=2),
    _Detail(calls=3, arguments=4, value=80, verdicts=3, differences=3, messages=0),
)


def failure_report(
    name: str, kept: KeptTrajectory, scoring: Scoring, *, criterion: str | None, call: int | None, other_failed: int
) -> FailureReport:
    """Explain one trajectory, under one criterion or all. `call` is the number of a call to show, with those around it."""
    results = [result for result in kept.results if criterion in (None, result.criterion)]
    writer = TrajectoryWriter(scoring.redactor, scoring.pass_at, line_length=_NEVER_INDENTED, first=0)
    numbers = {id(one): number for number, one in enumerate(kept.trajectory.calls)}
    asked = _first_failing(results, numbers) if call is None else call
    reports = (
        _Report(
            kept, writer.shown(kept.trajectory, results, asked, detail.calls), numbers, detail, scoring.redactor
        ).written(name, results, other_failed)
        for detail in _DETAILS
    )
    smallest: FailureReport | None = None
    for smallest in reports:
        if size_of(as_json(smallest)) <= MAX_JSON:
            break
    if smallest is None:
        raise IndexError(len(_DETAILS))
    return smallest


def _first_failing(results: Sequence[Result], numbers: Mapping[int, int]) -> int | None:
    """Number the first call that failed under a criterion that decides, so that it is among those shown."""
    failing = [
        numbers[id(result.call)]
        for result in results
        if result.call is not None and result.enforce == "live" and outcome_word(result.outcome) in ("fail", "error")
    ]
    return min(failing, default=None)


class _Report:
    """Writes one trajectory with so much detail."""

    def __init__(
        self,
        kept: KeptTrajectory,
        shown: ShownTrajectory,
        numbers: Mapping[int, int],
        detail: _Detail,
        redactor: Redactor,
    ) -> None:
        self._redactor = redactor
        self._kept = kept
        self._shown = shown
        self._numbers = numbers
        self._detail = detail

    def written(self, name: str, results: Sequence[Result], other_failed: int) -> FailureReport:
        trajectory, shown = self._kept.trajectory, self._shown
        described = listed(self._kept, self._redactor)
        failed = [one for one in shown.criteria if one.word in ("fail", "error")]
        failed.sort(key=lambda one: one.criterion != described.worst_criterion)
        verdicts = [verdict for one in failed for verdict in one.verdicts]
        return FailureReport(
            recording=name,
            why=_why(described, failed, len(results)),
            trajectory=described,
            trace_id=trajectory.trace_id,
            closed_because=trajectory.closed_because,
            incomplete=trajectory.incomplete,
            verdicts=[self._verdict(verdict) for verdict in verdicts[: self._detail.verdicts]],
            more_verdicts=len(verdicts[self._detail.verdicts :]) + sum(one.more for one in failed),
            passed=[cut(one.criterion, _NAME) for one in shown.criteria if one.word == "pass"][:_MAX_CRITERIA],
            not_evaluated=list(_gaps(shown.criteria)),
            calls_total=shown.total,
            first_call=shown.first,
            turns=[
                ReportedTurn(turn=turn.number, calls=[self._call(call) for call in turn.calls]) for turn in shown.turns
            ],
            messages=[
                ReportedMessage(role=message.role, text=cut(message.text, self._detail.value))
                for message in shown.messages[: self._detail.messages]
            ],
            remedies=list(self._remedies(trajectory)),
            other_failed=other_failed,
            notes=list(self._notes()),
        )

    def _verdict(self, verdict: ShownVerdict) -> ReportedVerdict:
        result, value = verdict.result, self._detail.value
        differences = verdict.differences[: self._detail.differences]
        return ReportedVerdict(
            criterion=cut(result.criterion, _NAME),
            evaluator=result.evaluator,
            outcome=verdict.word,
            score=verdict.value,
            requirement=verdict.requirement,
            is_shadow=result.enforce == "shadow",
            call=None if result.call is None else self._numbers.get(id(result.call)),
            tool=None if result.call is None else named(result.call.name, self._redactor),
            explanation=cut(with_cause(verdict.explanation, _EXPLANATION), _EXPLANATION),
            differences=[
                replace(
                    one,
                    where=cut(one.where, _NAME),
                    rule=cut(one.rule, _NAME),
                    expected=None if one.expected is None else cut(one.expected, value),
                    actual=None
                    if one.actual is None
                    else cut(with_cause(one.actual, value) if one.rule == ERROR_RULE else one.actual, value),
                    in_words=cut(one.in_words, _EXPLANATION),
                )
                for one in differences
            ],
            more_differences=verdict.more + more(differences, len(verdict.differences)),
        )

    def _call(self, shown: ShownCall) -> ReportedCall:
        arguments = shown.arguments[: self._detail.arguments]
        # Arguments that differ are what was asked for; they come however many others there are.
        differing = [one for one in shown.arguments[self._detail.arguments :] if one.expected][:5]
        written = [*arguments, *differing]
        error = None
        if shown.error is not None:
            error = f"{shown.error_kind}: {shown.error}" if shown.error else shown.error_kind
        return ReportedCall(
            number=shown.number,
            tool=named(shown.call.name, self._redactor),
            agent=named_if_known(shown.call.agent, self._redactor),
            state=shown.call.state,
            span_id=shown.call.span.span_id,
            arguments=[
                ReportedArgument(
                    name=cut(one.name, _NAME),
                    value=cut(one.value.text, self._detail.value) if one.value.text else None,
                    note=one.value.note,
                    differs=[cut(f"{criterion}: {text}", self._detail.value) for criterion, text in one.expected[:5]],
                )
                for one in written
            ]
            + self._whole(shown.whole),
            more_arguments=shown.more_arguments + more(written, len(shown.arguments)),
            result=cut(shown.result.text or shown.result.note, self._detail.value),
            error=None if error is None else cut(with_cause(error, self._detail.value), self._detail.value),
            verdicts=[
                cut(f"{one.result.criterion} {one.word}", _NAME)
                for one in shown.verdicts
                if one.word in ("fail", "error")
            ],
            not_observed=list(shown.missing),
            value_origins=[cut(line, _EXPLANATION) for line in shown.origins[: self._detail.arguments]],
        )

    def _whole(self, shown: ShownValue | None) -> list[ReportedArgument]:
        """Write arguments that are no object, or that were not recorded."""
        if shown is None or shown.note == "none":
            return []
        value = cut(shown.text, self._detail.value) if shown.text else None
        return [ReportedArgument(name="", value=value, note=shown.note, differs=[])]

    def _notes(self) -> Iterator[str]:
        if not self._redactor.shows_values:
            yield HOW_TO_SHOW_VALUES
        shown = self._shown
        if shown.total > sum(len(turn.calls) for turn in shown.turns):
            yield f"{shown.total} calls, not all of them shown: `call` asks for the calls around another one"
        if self._detail is not _DETAILS[0]:
            yield "values are cut shorter than usual, as there are many: `criterion` and `call` ask for less"
        if self._kept.trajectory.incomplete is not None:
            yield "what judges the run as a whole was not evaluated, as spans of it may be missing"

    def _remedies(self, trajectory: Trajectory) -> Iterator[ReportedRemedy]:
        found = [(producer, each) for producer in advice([trajectory]) for each in producer.advice]
        for producer, each in found[:_MAX_REMEDIES]:
            yield ReportedRemedy(
                producer=named(
                    f"{producer.service or 'unknown service'}: {producer.scope or '(no scope)'}", self._redactor
                ),
                missing=[missing.name for missing in each.missing],
                instruction=each.remedy.how,
                switches=list(each.remedy.switches),
                is_never_recorded=each.remedy.never,
            )


def _why(described: ListedTrajectory, failed: Sequence[ShownCriterion], results: int) -> str:
    if not results:
        return "no criterion judges this run"
    deciding = [one for one in failed if not one.is_shadow] or list(failed)
    if not deciding:
        return "it did not fail: every criterion that could judge it passed"
    names = ", ".join(f"`{cut(one.criterion, _NAME)}`" for one in deciding[:5])
    others = f" and {len(deciding) - 5} more" if len(deciding) > 5 else ""
    shadow = " (in the shadow: it decides nothing)" if deciding[0].is_shadow else ""
    first = deciding[0].verdicts[0]
    reason = described.worst_reason if described.worst_criterion == deciding[0].criterion else first.explanation
    return f"it does not pass {names}{others}{shadow}: {cut(reason, _EXPLANATION)}"


def _gaps(criteria: Sequence[ShownCriterion]) -> Iterator[ReportedGap]:
    meanings: Mapping[str, str] = {str(reason): meaning for reason, meaning in MEANINGS.items()}
    for one in [each for each in criteria if each.word == "not_evaluated"][:_MAX_CRITERIA]:
        verdict = one.verdicts[0]
        reason = verdict.reason or ""
        yield ReportedGap(
            criterion=cut(one.criterion, _NAME),
            reason=reason,
            meaning=meanings.get(reason, ""),
            explanation=cut(verdict.explanation, _EXPLANATION),
            count=one.total,
        )


def failure_lines(report: FailureReport) -> Iterator[str]:
    """Write the report for a model to read."""
    one = report.trajectory
    yield f"why: {report.why}"
    who = " ".join(filter(None, (one.service or "unknown service", one.version)))
    agents = f" [{', '.join(one.agents)}]" if one.agents else ""
    conversation = f", conversation {one.conversation_id}" if one.conversation_id else ""
    yield f"trajectory {one.id} of {who}{agents}{conversation}, {one.started or 'no time'}, closed: {report.closed_because}"
    if report.incomplete:
        yield f"incomplete: {report.incomplete}"
    for verdict in report.verdicts:
        yield from _verdict(verdict)
    if report.more_verdicts:
        yield f"and {report.more_verdicts} more verdicts that are no pass"
    for message in report.messages:
        yield f"{message.role}: {message.text}"
    yield f"{counted(report.calls_total, 'call')}{f', from number {report.first_call} on' if report.first_call else ''}:"
    for turn in report.turns:
        together = ", asked for together" if len(turn.calls) > 1 else ""
        yield f"turn {turn.turn}{together}"
        for call in turn.calls:
            yield from _call(call)
    if report.passed:
        yield f"passed: {', '.join(report.passed)}"
    yield from map(_gap, report.not_evaluated)
    yield from map(_remedy, report.remedies)
    yield from (f"note: {note}" for note in report.notes)
    if report.other_failed:
        others = counted(report.other_failed, "other trajectory", "other trajectories")
        yield f"{others} failed; `list_trajectories` lists them"


def _verdict(verdict: ReportedVerdict) -> Iterator[str]:
    score = "" if verdict.score is None else f" {verdict.score:.3f}"
    enough = f" ({verdict.requirement})" if verdict.requirement and verdict.score is not None else ""
    where = "" if verdict.tool is None else f" of call {verdict.call} `{verdict.tool}`"
    shadow = ", shadow" if verdict.is_shadow else ""
    head = f"{verdict.outcome} {verdict.criterion} [{verdict.evaluator}{shadow}]{where}:{score}{enough}"
    yield f"{head}  {verdict.explanation}"
    yield from (f"  {comparison_by_rule(one)}" for one in verdict.differences)
    if verdict.more_differences:
        yield f"  and {counted(verdict.more_differences, 'more difference')}"


def _call(call: ReportedCall) -> Iterator[str]:
    arguments = ", ".join(map(_argument, call.arguments))
    rest = f", and {call.more_arguments} more" if call.more_arguments else ""
    agent = f" [{call.agent}]" if call.agent else ""
    mark = f"  <-- {', '.join(call.verdicts)}" if call.verdicts else ""
    yield f"  {call.number} {call.tool}({arguments}{rest}) {state_words(call.state)}{agent}{mark}"
    if call.error is not None:
        yield f"    {'rejected' if call.state == 'rejected' else 'error'}: {call.error}"
    elif call.result:
        yield f"    result: {call.result}"
    if call.not_observed:
        yield f"    not observed: {', '.join(call.not_observed)}"
    yield from (f"    {line}" for line in call.value_origins)


def _argument(argument: ReportedArgument) -> str:
    value = argument.value if argument.value is not None else f"<{argument.note}>"
    written = f"{argument.name}={value}" if argument.name else value
    return written + "".join(f" <-- {text}" for text in argument.differs)


def _gap(gap: ReportedGap) -> str:
    times = f" ({gap.count} times)" if gap.count > 1 else ""
    return f"not evaluated{times}: {gap.criterion}: {gap.reason}: {gap.explanation or gap.meaning}"


def _remedy(remedy: ReportedRemedy) -> str:
    word = "instead" if remedy.is_never_recorded else "do"
    return f"not recorded by {remedy.producer}: {', '.join(remedy.missing)}; {word}: {remedy.instruction}"
