"""Results of recordings and cases: counted by criterion, as rows of a report, and as conditions of the gate.

In the gate, criteria with `enforce: shadow` never count, and a mean without a score fails its condition.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from toolgauge.export.redact import Redactor
from toolgauge.model.outcomes import (
    Outcome,
    OutcomeWord,
    Result,
    Scorecard,
    Scored,
    outcome_word,
)
from toolgauge.model.plain_words import with_cause
from toolgauge.model.trajectory import Trajectory
from toolgauge.report.explanations import figure, joined
from toolgauge.report.run_failures import FailureGroup, FailureGroups
from toolgauge.report.terminal import PLAIN, Style, counted, outcome_styled, percent, printable
from toolgauge.score.criterion import Criterion


class CriterionCounts:
    """Counts outcomes. Only scores enter the mean; `not_evaluated` and errors are counted by themselves."""

    def __init__(self, name: str, *, is_default: bool = False, is_shadow: bool = False) -> None:
        self.name = name
        self.is_default = is_default
        self.is_shadow = is_shadow
        self.words = Counter[OutcomeWord]()
        self.reasons = Counter[str]()
        self._sum = 0.0
        self._values = 0

    def add(self, outcome: Outcome) -> None:
        """Count one outcome."""
        self.count(outcome_word(outcome), *figure(outcome))

    def count(self, word: OutcomeWord, value: float | None = None, reason: str | None = None) -> None:
        """Count one outcome that is known by its word, its score or the reason why it was not evaluated."""
        self.words[word] += 1
        if value is not None:
            self._sum += value
            self._values += 1
        elif word == "not_evaluated" and reason is not None:
            self.reasons[reason] += 1

    @property
    def scored(self) -> int:
        """How many outcomes are scores."""
        return self.words["pass"] + self.words["fail"]

    @property
    def mean(self) -> float | None:
        """The mean score; `None` where no score is known."""
        return self._sum / self._values if self._values else None

    @property
    def reasons_text(self) -> str:
        """The reasons of `not_evaluated`, the commonest first."""
        return ", ".join(f"{reason} {count}" for reason, count in self.reasons.most_common())


class ResultSummary:
    """Counts results by criterion, in the order of the criteria."""

    def __init__(self, criteria: Sequence[Criterion]) -> None:
        self._rows = {
            one.name: CriterionCounts(one.name, is_default=one.is_default, is_shadow=one.enforce == "shadow")
            for one in criteria
        }
        # All runs, and all with a score.
        self.runs = self.judged = 0

    def add(self, scorecard: Scorecard) -> None:
        """Count the results of a trajectory."""
        self.runs += not scorecard.by_judges
        self.judged += any(isinstance(result.outcome, Scored) for result in scorecard.results)
        for result in scorecard.results:
            self._rows[result.criterion].add(result.outcome)

    @property
    def counts(self) -> tuple[CriterionCounts, ...]:
        """The counts of each criterion."""
        return tuple(self._rows.values())

    @property
    def words(self) -> Counter[OutcomeWord]:
        """Count the results of all criteria."""
        return sum((row.words for row in self._rows.values()), Counter[OutcomeWord]())

    def lines(self, unmatched: Collection[str], style: Style = PLAIN) -> Iterator[str]:
        """Write a table; `unmatched` are the criteria that matched nothing. Default criteria without results are left out."""
        shown = [row for row in self._rows.values() if row.words or not row.is_default]
        yield from table_lines(shown, unmatched, style)


def table_lines(
    rows: Sequence[CriterionCounts], unmatched: Collection[str] = (), style: Style = PLAIN
) -> Iterator[str]:
    """Write a table with a line for each row."""
    if not rows:
        return
    titles = [f"{printable(row.name)}{' (shadow)' if row.is_shadow else ''}" for row in rows]
    width = max(len("criterion"), *map(len, titles))
    has_means = all(row.mean is not None for row in rows if row.scored)
    means = f"  {'mean':>5}  {'of':>6}" if has_means else ""
    yield style.head(f"{'criterion':<{width}}  {'pass':>6}  {'fail':>6}  {'error':>6}{means}  not evaluated")
    columns: tuple[OutcomeWord, ...] = ("pass", "fail", "error")
    for row, title in zip(rows, titles, strict=True):
        if not row.words:
            why = "matched nothing" if row.name in unmatched else "no result"
            yield f"{title:<{width}}  {style.doubtful(why)}"
            continue
        counts = "  ".join(
            outcome_styled(style, word, f"{row.words[word]:>6}") if row.words[word] else f"{0:>6}" for word in columns
        )
        mean = f"  {'-' if row.mean is None else f'{row.mean:.3f}':>5}  {row.scored:>6}" if has_means else ""
        unseen, total = row.words["not_evaluated"], row.words.total()
        why = style.doubtful(f"{unseen} ({percent(unseen, total)}): {row.reasons_text}") if unseen else "0"
        yield f"{title:<{width}}  {counts}{mean}  {why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A result other than a pass. `tool` is empty for a whole trajectory, `reason` explains a missing score."""

    outcome: OutcomeWord
    tool: str = ""
    value: float | None = None
    reason: str = ""
    explanation: str = ""
    differences: tuple[str, ...] = ()

    def sentence(self, length: int | None = None) -> str:
        """Describe the finding on one line, in at most `length` characters with the cause at its end."""
        score = "" if self.value is None else f"{self.value:.3f}"
        head = " ".join(word for word in (self.tool, score or self.reason) if word)
        whole = f"{head}: {self.explanation}" if self.explanation else head
        return whole if length is None else with_cause(whole, length)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The results of one criterion in one trajectory, or in one case, whose file and line are `place`.

    `subject` is the same in the next recording where it can be (a case, a conversation), `details` lead to the trace;
    `exempt` is why a failure fails no run.
    """

    criterion: str
    subject: str
    outcome: OutcomeWord
    details: str = ""
    place: tuple[str, int] | None = None
    exempt: str = ""
    passes: int = 0
    findings: tuple[Finding, ...] = ()

    @property
    def is_problem(self) -> bool:
        """Whether it failed or ended in an error, and counts: that of a shadow criterion does not."""
        return not self.exempt and self.outcome in ("fail", "error")

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that decided the outcome, then findings that could not be evaluated."""
        return tuple(sorted(self.findings, key=lambda finding: finding.outcome == "not_evaluated"))


def finding(redactor: Redactor, outcome: Outcome, tool: str = "") -> Finding:
    """Describe a result other than a pass, as `redact` allows it."""
    value, reason = figure(outcome)
    return Finding(
        outcome=outcome_word(outcome),
        tool=tool,
        value=value,
        reason=reason or "",
        explanation=redactor.reason(outcome),
        differences=redactor.differences(outcome),
    )


class ScorecardRows:
    """Makes rows of scorecards. A trajectory is named by its case where a criterion looks one up."""

    def __init__(self, redactor: Redactor, case_of: Callable[[Trajectory], str | None]) -> None:
        self._redactor = redactor
        self._case_of = case_of
        self.groups = FailureGroups(redactor)

    def rows(self, scorecard: Scorecard, exempt: Mapping[str, str]) -> Iterator[Row]:
        """Yield a row for each criterion that judged the trajectory, and add it to the groups; `exempt` is as in `Row`."""
        self.groups.add(scorecard)
        by_criterion: dict[str, list[Result]] = {}
        for result in scorecard.results:
            by_criterion.setdefault(result.criterion, []).append(result)
        trajectory = scorecard.trajectory
        subject = self._case_of(trajectory)
        if subject is None and trajectory.scope == "conversation" and trajectory.conversation_id is not None:
            subject = f"conversation {trajectory.conversation_id}"
        trace = f"trace {trajectory.trace_id}{'' if trajectory.service is None else f' of {trajectory.service}'}"
        for criterion, results in by_criterion.items():
            found: list[tuple[Result, OutcomeWord]] = [(result, outcome_word(result.outcome)) for result in results]
            yield Row(
                criterion=criterion,
                subject=subject or trace,
                outcome=joined([word for _, word in found]),
                details=trace if subject else "",
                exempt=exempt.get(criterion, ""),
                passes=sum(word == "pass" for _, word in found),
                findings=tuple(
                    finding(self._redactor, result.outcome, "" if result.call is None else result.call.name)
                    for result, word in found
                    if word != "pass"
                ),
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class GateCheck:
    """A condition of the gate, as it was given, and its result."""

    condition: str
    passed: bool
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The content of a report. `files` were read; `without_result` are criteria that judged nothing, and why;
    `groups` the failed runs by kind.
    """

    title: str
    rows: Sequence[Row]
    files: Sequence[str] = ()
    counts: Sequence[CriterionCounts] = ()
    without_result: Mapping[str, str] = field(default_factory=dict[str, str])
    groups: Sequence[FailureGroup] = ()
    checks: Sequence[GateCheck] = ()
    is_failed: bool = False


FailOn: TypeAlias = Literal["fail", "error", "not_evaluated"]
FAIL_ON: tuple[FailOn, ...] = ("fail", "error", "not_evaluated")
_ROUNDING = 1e-9
_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The conditions that fail a run. `fail_under` has the least mean score by criterion."""

    fail_on: Sequence[FailOn] = ()
    fail_under: Mapping[str, float]

    @property
    def is_set(self) -> bool:
        """Whether there is any condition."""
        return bool(self.fail_on or self.fail_under)

    def checks(self, counts: Sequence[CriterionCounts], without_result: Mapping[str, str]) -> Iterator[GateCheck]:
        """Check each condition; `without_result` has the criteria without a result, and the reasons."""
        live = [one for one in counts if not one.is_shadow]
        for word in FAIL_ON:
            if word in self.fail_on:
                yield _outcomes(word, live, without_result)
        for one in live:
            if one.name in self.fail_under:
                yield _mean(one, self.fail_under[one.name], without_result)


def _outcomes(word: FailOn, live: Sequence[CriterionCounts], without_result: Mapping[str, str]) -> GateCheck:
    # A default criterion that finds nothing to look at (no failed call, no schema) does not fail the run.
    looked_at = [one for one in live if not (word == "not_evaluated" and one.is_default)]
    found = {one.name: one.words[word] for one in looked_at if one.words[word]}
    if word == "not_evaluated":
        found |= {one.name: 0 for one in looked_at if one.name in without_result and one.name not in found}
    condition = f"--fail-on {word}"
    if found:
        named = [f"`{name}` {count}" if count else f"`{name}` {without_result[name]}" for name, count in found.items()]
        more = f", and {len(named) - _NAMED} more criteria" if len(named) > _NAMED else ""
        total = sum(found.values())
        head = f"{counted(total, 'result')} `{word}`: " if total else ""
        return GateCheck(condition=condition, passed=False, sentence=f"{head}{', '.join(named[:_NAMED])}{more}")
    scores = sum(one.scored for one in live)
    if not scores:
        return GateCheck(condition=condition, passed=False, sentence="nothing was scored, so that nothing could pass")
    return GateCheck(condition=condition, passed=True, sentence=f"no result is `{word}`; {counted(scores, 'score')}")


def _mean(one: CriterionCounts, least: float, without_result: Mapping[str, str]) -> GateCheck:
    condition = f"--fail-under {one.name}={least:g}"
    if one.mean is None:
        why = without_result.get(one.name) or _unscored(one) or "has no result"
        sentence = f"`{one.name}` has no score to compare with {least:g}: {why}"
        return GateCheck(condition=condition, passed=False, sentence=sentence)
    passed = one.mean >= least - _ROUNDING
    beside = f"; without a score: {_unscored(one)}" if _unscored(one) else ""
    short = f"{one.mean:.3f}"
    shown = short if (float(short) < least) == (one.mean < least - _ROUNDING) else f"{one.mean:.9g}"
    sentence = f"the mean of `{one.name}` is {shown} ({counted(one.scored, 'score')}{beside}), "
    sentence += f"{'not ' if passed else ''}under {least:g}"
    return GateCheck(condition=condition, passed=passed, sentence=sentence)


def _unscored(one: CriterionCounts) -> str:
    errors = [counted(one.words["error"], "error")] if one.words["error"] else []
    missing = one.words["not_evaluated"]
    unseen = [f"{missing} not evaluated ({one.reasons_text})"] if missing else []
    return ", ".join([*errors, *unseen])
