"""The report on a failed run: verdicts with expected beside actual, calls in turns, and missing facts.

Where it would be too large for an answer it has fewer calls and shorter values, and notes that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from msgspec import to_builtins
from msgspec.structs import replace

from toolgauge.export.redact import Redactor
from toolgauge.mcp_server.plain_text import MAX_JSON, as_json, cut, size_of
from toolgauge.mcp_server.scored_recordings import Scoring
from toolgauge.mcp_server.trajectory_list import Listed, named, named_if_known
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.outcomes import ERROR_RULE, MEANINGS, outcome_word
from toolgauge.model.plain_words import with_cause
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
) -> tuple[JsonObject, Sequence[str]]:
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
    answer: JsonObject = {}
    lines: list[str] = []
    for detail in _DETAILS:
        lines = []
        shown = writer.shown(kept.trajectory, results, call, detail.calls)
        report = _Report(kept, shown, numbers, detail, scoring.redactor, lines)
        answer = report.written(name, len(results), other_failed)
        if size_of(as_json(answer)) <= MAX_JSON:
            break
    return answer, lines


@dataclass(frozen=True, slots=True)
class _Report:
    """Writes one trajectory with so much detail, as JSON and as lines for a model to read."""

    kept: KeptTrajectory
    shown: ShownTrajectory
    numbers: Mapping[int, int]
    detail: _Detail
    redactor: Redactor
    lines: list[str]

    def written(self, name: str, results: int, other_failed: int) -> JsonObject:
        trajectory, shown, add = self.kept.trajectory, self.shown, self.lines.append
        listed = Listed.of(self.kept, self.redactor)
        failed = [one for one in shown.criteria if one.word in _FAILED]
        failed.sort(key=lambda one: one.criterion != listed.worst_criterion)
        why = _why(listed, failed, results)
        add(f"why: {why}")
        conversation = f", conversation {listed.conversation_id}" if listed.conversation_id else ""
        run = f"trajectory {self.kept.id} of {listed.who}{conversation}"
        add(f"{run}, {listed.started or 'no time'}, closed: {trajectory.closed_because}")
        if trajectory.incomplete:
            add(f"incomplete: {trajectory.incomplete}")
        answer: JsonObject = {
            "recording": name,
            "why": why,
            "trajectory": listed.as_object(),
            "trace_id": trajectory.trace_id,
            "closed_because": trajectory.closed_because,
            "incomplete": trajectory.incomplete,
            **self._verdicts(failed),
            "calls_total": shown.total,
            # The number of the first call in `turns`; `call` asks for others.
            "first_call": shown.first,
        }
        messages = [(one.role, cut(one.text, self.detail.value)) for one in shown.messages[: self.detail.messages]]
        self.lines.extend(f"{role}: {text}" for role, text in messages)
        answer["messages"] = [{"role": role, "text": text} for role, text in messages]
        add(f"{counted(shown.total, 'call')}{f', from number {shown.first} on' if shown.first else ''}:")
        turns: list[Json] = []
        for turn in shown.turns:
            add(f"turn {turn.number}{', asked for together' if len(turn.calls) > 1 else ''}")
            turns.append({"turn": turn.number, "calls": [self._call(call) for call in turn.calls]})
        answer["turns"] = turns
        return {**answer, **self._rest(), "other_failed": other_failed, "notes": self._notes(other_failed)}

    def _verdicts(self, failed: Sequence[ShownCriterion]) -> JsonObject:
        """Write what failed, the criteria that decide first."""
        detail = self.detail
        verdicts = [verdict for one in failed for verdict in one.verdicts]
        more = len(verdicts[detail.verdicts :]) + sum(one.more for one in failed)
        written: list[Json] = [self._verdict(verdict) for verdict in verdicts[: detail.verdicts]]
        if more:
            self.lines.append(f"and {more} more verdicts that are no pass")
        return {"verdicts": written, "more_verdicts": more}

    def _verdict(self, verdict: ShownVerdict) -> JsonObject:
        result, value, call = verdict.result, self.detail.value, verdict.result.call
        differences: list[ShownDifference] = []
        for one in verdict.differences[: self.detail.differences]:
            actual = with_cause(one.actual, value) if one.actual and one.rule == ERROR_RULE else one.actual
            where, rule, words = cut(one.where, _NAME), cut(one.rule, _NAME), cut(one.in_words, _EXPLANATION)
            expected, actual = (None if side is None else cut(side, value) for side in (one.expected, actual))
            differences.append(replace(one, where=where, rule=rule, expected=expected, actual=actual, in_words=words))
        is_shadow = result.enforce == "shadow"
        written: JsonObject = {
            "criterion": cut(result.criterion, _NAME),
            "evaluator": result.evaluator,
            "outcome": verdict.word,
            "score": verdict.value,
            # The score that is enough, such as `passes at 0.8`.
            "requirement": verdict.requirement,
            "is_shadow": is_shadow,
            # The number of the judged call; null for the trajectory as a whole.
            "call": None if call is None else self.numbers.get(id(call)),
            "tool": None if call is None else named(call.name, self.redactor),
            "explanation": cut(with_cause(verdict.explanation, _EXPLANATION), _EXPLANATION),
            "differences": [to_builtins(one) for one in differences],
            "more_differences": (more := verdict.more + len(verdict.differences) - len(differences)),
        }
        score = "" if verdict.value is None else f" {verdict.value:.3f}"
        enough = f" ({verdict.requirement})" if verdict.requirement and score else ""
        where = "" if call is None else f" of call {written['call']} `{written['tool']}`"
        head = f"{verdict.word} {written['criterion']} [{result.evaluator}{', shadow' if is_shadow else ''}]"
        self.lines.append(f"{head}{where}:{score}{enough}  {written['explanation']}")
        self.lines.extend(f"  {comparison_by_rule(one)}" for one in differences)
        if more:
            self.lines.append(f"  and {counted(more, 'more difference')}")
        return written

    def _call(self, shown: ShownCall) -> JsonObject:
        detail, whole, call = self.detail, shown.whole, shown.call
        # Arguments that differ are what was asked for; they come however many others there are.
        differing = [one for one in shown.arguments[detail.arguments :] if one.expected][:5]
        kept = [*shown.arguments[: detail.arguments], *differing]
        arguments = [(one.name, one.value, one.expected[:5]) for one in kept]
        if whole is not None and whole.note != "none":
            # Arguments that are no object, or that were not recorded.
            arguments.append(("", whole, ()))
        objects: list[Json] = []
        texts: list[str] = []
        for name, value, expected in arguments:
            name, text = cut(name, _NAME), cut(value.text, detail.value) if value.text else None  # noqa: PLW2901 (cut)
            differs = [cut(f"{criterion}: {wanted}", detail.value) for criterion, wanted in expected]
            objects.append({"name": name, "value": text, "note": value.note, "differs": [*differs]})
            marked = f"{text if text is not None else f'<{value.note}>'}{''.join(f' <-- {one}' for one in differs)}"
            texts.append(f"{name}={marked}" if name else marked)
        error = None if shown.error is None else ": ".join(filter(None, (shown.error_kind, shown.error)))
        error = None if error is None else cut(with_cause(error, detail.value), detail.value)
        result, more = cut(shown.result.text or shown.result.note, detail.value), shown.more_arguments
        more += len(shown.arguments) - len(kept)
        tool, agent = named(call.name, self.redactor), named_if_known(call.agent, self.redactor)
        verdicts = [cut(f"{one.result.criterion} {one.word}", _NAME) for one in shown.verdicts if one.word in _FAILED]
        origins = [cut(line, _EXPLANATION) for line in shown.origins[: detail.arguments]]
        rest, mark = f", and {more} more" if more else "", f"  <-- {', '.join(verdicts)}" if verdicts else ""
        of_agent = f" [{agent}]" if agent else ""
        self.lines.append(f"  {shown.number} {tool}({', '.join(texts)}{rest}) {shown.state}{of_agent}{mark}")
        if error is not None:
            self.lines.append(f"    {'rejected' if call.state == 'rejected' else 'error'}: {error}")
        elif result:
            self.lines.append(f"    result: {result}")
        if shown.missing:
            self.lines.append(f"    not observed: {', '.join(shown.missing)}")
        self.lines.extend(f"    {line}" for line in origins)
        return {
            "number": shown.number,
            "tool": tool,
            "agent": agent,
            "state": call.state,
            "span_id": call.span.span_id,
            "arguments": objects,
            "more_arguments": more,
            "result": result,
            "error": error,
            "verdicts": [*verdicts],
            "not_observed": [*shown.missing],
            "value_origins": [*origins],
        }

    def _rest(self) -> JsonObject:
        """Write what passed, what could not be judged, and the switches that record what was missing."""
        passed = [cut(one.criterion, _NAME) for one in self.shown.criteria if one.word == "pass"][:_MAX_CRITERIA]
        if passed:
            self.lines.append(f"passed: {', '.join(passed)}")
        gaps: list[Json] = []
        for one in [one for one in self.shown.criteria if one.word == "not_evaluated"][:_MAX_CRITERIA]:
            criterion, reason = cut(one.criterion, _NAME), one.verdicts[0].reason or ""
            meaning, explanation = _MEANINGS.get(reason, ""), cut(one.verdicts[0].explanation, _EXPLANATION)
            gap: JsonObject = {"criterion": criterion, "reason": reason, "meaning": meaning}
            gaps.append({**gap, "explanation": explanation, "count": one.total})
            times = f" ({one.total} times)" if one.total > 1 else ""
            self.lines.append(f"not evaluated{times}: {criterion}: {reason}: {explanation or meaning}")
        remedies: list[Json] = []
        for by in advice([self.kept.trajectory]):
            for each in by.advice[: _MAX_REMEDIES - len(remedies)]:
                producer = named(f"{by.service or 'unknown service'}: {by.scope or '(no scope)'}", self.redactor)
                missing, remedy = [one.name for one in each.missing], each.remedy
                written: JsonObject = {"producer": producer, "missing": [*missing], "instruction": remedy.how}
                remedies.append({**written, "switches": [*remedy.switches], "is_never_recorded": remedy.never})
                word = "instead" if remedy.never else "do"
                self.lines.append(f"not recorded by {producer}: {', '.join(missing)}; {word}: {remedy.how}")
        return {"passed": [*passed], "not_evaluated": gaps, "remedies": remedies}

    def _notes(self, other_failed: int) -> list[Json]:
        shown = self.shown
        not_all = f"{shown.total} calls, not all of them shown: `call` asks for the calls around another one"
        notes = (
            (not self.redactor.shows_values, HOW_TO_SHOW_VALUES),
            (shown.total > sum(len(turn.calls) for turn in shown.turns), not_all),
            (self.detail is not _DETAILS[0], _CUT_SHORTER),
            (self.kept.trajectory.incomplete is not None, _NOT_WHOLE),
        )
        self.lines.extend(f"note: {text}" for is_so, text in notes if is_so)
        if other_failed:
            others = counted(other_failed, "other trajectory", "other trajectories")
            self.lines.append(f"{others} failed; `list_trajectories` lists them")
        return [text for is_so, text in notes if is_so]


def _why(listed: Listed, failed: Sequence[ShownCriterion], results: int) -> str:
    if not results:
        return "no criterion judges this run"
    deciding = [one for one in failed if not one.is_shadow] or list(failed)
    if not deciding:
        return "it did not fail: every criterion that could judge it passed"
    names = ", ".join(f"`{cut(one.criterion, _NAME)}`" for one in deciding[:5])
    others = f" and {len(deciding) - 5} more" if len(deciding) > 5 else ""
    shadow = " (in the shadow: it decides nothing)" if deciding[0].is_shadow else ""
    first = deciding[0].verdicts[0]
    reason = listed.worst_reason if listed.worst_criterion == deciding[0].criterion else first.explanation
    return f"it does not pass {names}{others}{shadow}: {cut(reason, _EXPLANATION)}"
