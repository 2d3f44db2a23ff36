"""The report on a failed run: verdicts with expected beside actual, calls in turns, and missing facts.

Where it would be too large for an answer it has fewer calls and shorter values, and notes that.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct
from msgspec.structs import replace

from toolgauge.export.redact import Redactor
from toolgauge.mcp_server.plain_text import MAX_JSON, as_json, cut, size_of
from toolgauge.mcp_server.scored_recordings import RecordingAnswer, Scoring
from toolgauge.mcp_server.trajectory_list import ListedTrajectory, listed, named, named_if_known
from toolgauge.model.outcomes import ERROR_RULE, MEANINGS, OutcomeWord, Result, outcome_word
from toolgauge.model.plain_words import state_words, with_cause
from toolgauge.report.explanations import ShownDifference, ShownVerdict, comparison_by_rule
from toolgauge.report.kept import KeptTrajectory
from toolgauge.report.producer_advice import advice
from toolgauge.report.terminal import counted
from toolgauge.report.trajectory_view import ShownCall, ShownCriterion, ShownTrajectory, TrajectoryWriter

_NAME = 120
_EXPLANATION = 600
_MAX_CRITERIA = 40
_MAX_REMEDIES = 10
_FAILED = ("fail", "error")
_MEANINGS: Mapping[str, str] = {str(reason): meaning for reason, meaning in MEANINGS.items()}
# Longer than any value that is written.
_NEVER_INDENTED = 1_000_000
HOW_TO_SHOW_VALUES = (
    "values are hidden; the person who runs this server shows them with `toolgauge mcp --set redact.values=show`"
)
_CUT_SHORTER = "values are cut shorter than usual, as there are many: `criterion` and `call` ask for less"
_NOT_WHOLE = "what judges the run as a whole was not evaluated, as spans of it may be missing"


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
    """One call. `state` is executed, rejected (never run), requested_only, paused (waits for a person), refused (by a person) or cancelled."""

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
    """The facts that a producer does not record, and the switch that turns them on."""

    producer: str
    missing: list[str]
    instruction: str
    switches: list[str]
    is_never_recorded: bool


class FailureReport(RecordingAnswer, frozen=True, kw_only=True):
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


class _Detail(NamedTuple):
    """How much of a trajectory is written: calls, arguments of each, characters of a value, and so on."""

    calls: int = 40
    arguments: int = 30
    value: int = 400
    verdicts: int = 20
    differences: int = 12
    messages: int = 8


# From all that is useful down to what is always small enough.
_DETAILS = (_Detail(), _Detail(20, 12, 200, 10, 6, 4), _Detail(8, 8, 120, 6, 4, 2), _Detail(3, 4, 80, 3, 3, 0))


def failure_report(
    name: str, kept: KeptTrajectory, scoring: Scoring, *, criterion: str | None, call: int | None, other_failed: int
) -> FailureReport:
    """Explain one trajectory, under one criterion or all. `call` is the number of a call to show, with those around it."""
    results = [result for result in kept.results if criterion in (None, result.criterion)]
    writer = TrajectoryWriter(scoring.redactor, scoring.pass_at, line_length=_NEVER_INDENTED, first=0)
    numbers = {id(one): number for number, one in enumerate(kept.trajectory.calls)}
    if call is None:
        # The first call that failed under a criterion that decides is among those shown.
        failing = (
            numbers[id(result.call)]
            for result in results
            if result.call is not None and result.enforce == "live" and outcome_word(result.outcome) in _FAILED
        )
        call = min(failing, default=None)

    def written(detail: _Detail) -> FailureReport:
        shown = writer.shown(kept.trajectory, results, call, detail.calls)
        return _Report(kept, shown, numbers, detail, scoring.redactor).written(name, results, other_failed)

    *details, least = _DETAILS
    reports = map(written, details)
    return next((each for each in reports if size_of(as_json(each)) <= MAX_JSON), None) or written(least)


@dataclass(frozen=True, slots=True)
class _Report:
    """Writes one trajectory with so much detail."""

    kept: KeptTrajectory
    shown: ShownTrajectory
    numbers: Mapping[int, int]
    detail: _Detail
    redactor: Redactor

    def written(self, name: str, results: Sequence[Result], other_failed: int) -> FailureReport:
        trajectory, shown, detail = self.kept.trajectory, self.shown, self.detail
        described = listed(self.kept, self.redactor)
        failed = [one for one in shown.criteria if one.word in _FAILED]
        failed.sort(key=lambda one: one.criterion != described.worst_criterion)
        verdicts = [verdict for one in failed for verdict in one.verdicts]
        unseen = [one for one in shown.criteria if one.word == "not_evaluated"]
        remedies = [(producer, each) for producer in advice([trajectory]) for each in producer.advice]
        not_all = f"{shown.total} calls, not all of them shown: `call` asks for the calls around another one"
        notes = (
            (not self.redactor.shows_values, HOW_TO_SHOW_VALUES),
            (shown.total > sum(len(turn.calls) for turn in shown.turns), not_all),
            (detail is not _DETAILS[0], _CUT_SHORTER),
            (trajectory.incomplete is not None, _NOT_WHOLE),
        )
        return FailureReport(
            recording=name,
            why=_why(described, failed, len(results)),
            trajectory=described,
            trace_id=trajectory.trace_id,
            closed_because=trajectory.closed_because,
            incomplete=trajectory.incomplete,
            verdicts=[self._verdict(verdict) for verdict in verdicts[: detail.verdicts]],
            more_verdicts=len(verdicts[detail.verdicts :]) + sum(one.more for one in failed),
            passed=[cut(one.criterion, _NAME) for one in shown.criteria if one.word == "pass"][:_MAX_CRITERIA],
            not_evaluated=[
                ReportedGap(
                    criterion=cut(one.criterion, _NAME),
                    reason=one.verdicts[0].reason or "",
                    meaning=_MEANINGS.get(one.verdicts[0].reason or "", ""),
                    explanation=cut(one.verdicts[0].explanation, _EXPLANATION),
                    count=one.total,
                )
                for one in unseen[:_MAX_CRITERIA]
            ],
            calls_total=shown.total,
            first_call=shown.first,
            turns=[
                ReportedTurn(turn=turn.number, calls=[self._call(call) for call in turn.calls]) for turn in shown.turns
            ],
            messages=[
                ReportedMessage(role=message.role, text=cut(message.text, detail.value))
                for message in shown.messages[: detail.messages]
            ],
            remedies=[
                ReportedRemedy(
                    producer=named(f"{one.service or 'unknown service'}: {one.scope or '(no scope)'}", self.redactor),
                    missing=[missing.name for missing in each.missing],
                    instruction=each.remedy.how,
                    switches=list(each.remedy.switches),
                    is_never_recorded=each.remedy.never,
                )
                for one, each in remedies[:_MAX_REMEDIES]
            ],
            other_failed=other_failed,
            notes=[text for is_so, text in notes if is_so],
        )

    def _verdict(self, verdict: ShownVerdict) -> ReportedVerdict:
        result, value = verdict.result, self.detail.value
        differences: list[ShownDifference] = []
        for one in verdict.differences[: self.detail.differences]:
            actual = with_cause(one.actual, value) if one.actual and one.rule == ERROR_RULE else one.actual
            where, rule, words = cut(one.where, _NAME), cut(one.rule, _NAME), cut(one.in_words, _EXPLANATION)
            expected, actual = (None if side is None else cut(side, value) for side in (one.expected, actual))
            differences.append(replace(one, where=where, rule=rule, expected=expected, actual=actual, in_words=words))
        return ReportedVerdict(
            criterion=cut(result.criterion, _NAME),
            evaluator=result.evaluator,
            outcome=verdict.word,
            score=verdict.value,
            requirement=verdict.requirement,
            is_shadow=result.enforce == "shadow",
            call=None if result.call is None else self.numbers.get(id(result.call)),
            tool=None if result.call is None else named(result.call.name, self.redactor),
            explanation=cut(with_cause(verdict.explanation, _EXPLANATION), _EXPLANATION),
            differences=differences,
            more_differences=verdict.more + len(verdict.differences) - len(differences),
        )

    def _call(self, shown: ShownCall) -> ReportedCall:
        detail, whole, call = self.detail, shown.whole, shown.call
        # Arguments that differ are what was asked for; they come however many others there are.
        differing = [one for one in shown.arguments[detail.arguments :] if one.expected][:5]
        written = [*shown.arguments[: detail.arguments], *differing]
        arguments = [(one.name, one.value, one.expected[:5]) for one in written]
        if whole is not None and whole.note != "none":
            # Arguments that are no object, or that were not recorded.
            arguments.append(("", whole, ()))
        error = None if shown.error is None else ": ".join(filter(None, (shown.error_kind, shown.error)))
        return ReportedCall(
            number=shown.number,
            tool=named(call.name, self.redactor),
            agent=named_if_known(call.agent, self.redactor),
            state=call.state,
            span_id=call.span.span_id,
            arguments=[
                ReportedArgument(
                    name=cut(name, _NAME),
                    value=cut(value.text, detail.value) if value.text else None,
                    note=value.note,
                    differs=[cut(f"{criterion}: {text}", detail.value) for criterion, text in expected],
                )
                for name, value, expected in arguments
            ],
            more_arguments=shown.more_arguments + len(shown.arguments) - len(written),
            result=cut(shown.result.text or shown.result.note, detail.value),
            error=None if error is None else cut(with_cause(error, detail.value), detail.value),
            verdicts=[
                cut(f"{one.result.criterion} {one.word}", _NAME) for one in shown.verdicts if one.word in _FAILED
            ],
            not_observed=list(shown.missing),
            value_origins=[cut(line, _EXPLANATION) for line in shown.origins[: detail.arguments]],
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


def failure_lines(report: FailureReport) -> Iterator[str]:
    """Write the report for a model to read."""
    one = report.trajectory
    yield f"why: {report.why}"
    conversation = f", conversation {one.conversation_id}" if one.conversation_id else ""
    yield f"trajectory {one.id} of {one.who}{conversation}, {one.started or 'no time'}, closed: {report.closed_because}"
    if report.incomplete:
        yield f"incomplete: {report.incomplete}"
    for verdict in report.verdicts:
        score = "" if verdict.score is None else f" {verdict.score:.3f}"
        enough = f" ({verdict.requirement})" if verdict.requirement and score else ""
        where = "" if verdict.tool is None else f" of call {verdict.call} `{verdict.tool}`"
        head = f"{verdict.outcome} {verdict.criterion} [{verdict.evaluator}{', shadow' if verdict.is_shadow else ''}]"
        yield f"{head}{where}:{score}{enough}  {verdict.explanation}"
        yield from (f"  {comparison_by_rule(one)}" for one in verdict.differences)
        if verdict.more_differences:
            yield f"  and {counted(verdict.more_differences, 'more difference')}"
    if report.more_verdicts:
        yield f"and {report.more_verdicts} more verdicts that are no pass"
    yield from (f"{message.role}: {message.text}" for message in report.messages)
    yield f"{counted(report.calls_total, 'call')}{f', from number {report.first_call} on' if report.first_call else ''}:"
    for turn in report.turns:
        yield f"turn {turn.turn}{', asked for together' if len(turn.calls) > 1 else ''}"
        for call in turn.calls:
            arguments: list[str] = []
            for argument in call.arguments:
                value = argument.value if argument.value is not None else f"<{argument.note}>"
                differs = "".join(f" <-- {text}" for text in argument.differs)
                arguments.append(f"{argument.name}={value}{differs}" if argument.name else f"{value}{differs}")
            rest = f", and {call.more_arguments} more" if call.more_arguments else ""
            agent = f" [{call.agent}]" if call.agent else ""
            mark = f"  <-- {', '.join(call.verdicts)}" if call.verdicts else ""
            yield f"  {call.number} {call.tool}({', '.join(arguments)}{rest}) {state_words(call.state)}{agent}{mark}"
            if call.error is not None:
                yield f"    {'rejected' if call.state == 'rejected' else 'error'}: {call.error}"
            elif call.result:
                yield f"    result: {call.result}"
            if call.not_observed:
                yield f"    not observed: {', '.join(call.not_observed)}"
            yield from (f"    {line}" for line in call.value_origins)
    if report.passed:
        yield f"passed: {', '.join(report.passed)}"
    for gap in report.not_evaluated:
        times = f" ({gap.count} times)" if gap.count > 1 else ""
        yield f"not evaluated{times}: {gap.criterion}: {gap.reason}: {gap.explanation or gap.meaning}"
    for remedy in report.remedies:
        word = "instead" if remedy.is_never_recorded else "do"
        yield f"not recorded by {remedy.producer}: {', '.join(remedy.missing)}; {word}: {remedy.instruction}"
    yield from (f"note: {note}" for note in report.notes)
    if report.other_failed:
        others = counted(report.other_failed, "other trajectory", "other trajectories")
        yield f"{others} failed; `list_trajectories` lists them"
