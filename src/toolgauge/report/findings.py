"""The gate: conditions on the results of a recording that decide about an exit code.

Criteria with `enforce: shadow` never count. What was not evaluated is no score and passes nothing: a mean without a score
fails its condition, and so does a gate under which nothing was scored at all.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from toolgauge.model.error_causes import with_cause
from toolgauge.model.outcomes import OutcomeWord
from toolgauge.report.criteria_table import CriterionCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A result that is no pass. `tool` is empty for a whole trajectory, `reason` names why there is no score.

    `differences` have what was expected beside what was done, where values may be shown.
    """

    outcome: OutcomeWord
    tool: str = ""
    value: float | None = None
    reason: str = ""
    explanation: str = ""
    differences: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Describe the finding on one line."""
        score = "" if self.value is None else f"{self.value:.3f}"
        head = " ".join(word for word in (self.tool, score or self.reason) if word)
        return f"{head}: {self.explanation}" if self.explanation else head

    def sentence_of(self, length: int) -> str:
        """Describe the finding in at most `length` characters, where it is an error with its cause."""
        return with_cause(self.sentence, length) if self.outcome == "error" else self.sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one criterion found in one trajectory, or in one case.

    `subject` is the same in the next recording where it can be (a case, a conversation), `details` lead to the trace.
    `place` is the file and line of a case. `passes` are counted, all other results are `findings`.
    """

    criterion: str
    subject: str
    outcome: OutcomeWord
    details: str = ""
    place: tuple[str, int] | None = None
    is_shadow: bool = False
    passes: int = 0
    findings: tuple[Finding, ...] = ()

    @property
    def is_problem(self) -> bool:
        """Whether it failed or ended in an error, and counts: a shadow criterion does not."""
        return not self.is_shadow and self.outcome in ("fail", "error")

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that decided the outcome, before those that could not be evaluated."""
        return tuple(sorted(self.findings, key=lambda finding: finding.outcome == "not_evaluated"))


def joined(words: Collection[OutcomeWord]) -> OutcomeWord:
    """Make one outcome of those of several calls: passes make no failure good, and outweigh what was not evaluated."""
    order: tuple[OutcomeWord, ...] = ("fail", "error", "pass", "not_evaluated")
    return next(word for word in order if word in words or word == order[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A condition of the gate, as it was given, and what came of it."""

    condition: str
    passed: bool
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All that a report shows. `without_result` are criteria that judged nothing, and why."""

    title: str
    rows: Sequence[Row]
    counts: Sequence[CriterionCounts]
    without_result: Mapping[str, str] = field(default_factory=dict[str, str])
    checks: Sequence[Check] = ()
    is_failed: bool = False


FailOn: TypeAlias = Literal["fail", "error", "not_evaluated"]
FAIL_ON: tuple[FailOn, ...] = ("fail", "error", "not_evaluated")
_ROUNDING = 1e-9
_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """What ends a run with a failure. `fail_under` has the least mean score by criterion."""

    fail_on: Sequence[FailOn] = ()
    fail_under: Mapping[str, float]

    @property
    def is_set(self) -> bool:
        """Whether there is any condition."""
        return bool(self.fail_on or self.fail_under)

    def checks(self, counts: Sequence[CriterionCounts], without_result: Mapping[str, str]) -> Iterator[Check]:
        """Yield what came of each condition; `without_result` are criteria that judged nothing, and why."""
        live = [one for one in counts if not one.is_shadow]
        for word in FAIL_ON:
            if word in self.fail_on:
                yield _outcomes(word, live, without_result)
        for one in live:
            if one.name in self.fail_under:
                yield _mean(one, self.fail_under[one.name], without_result)


def _outcomes(word: FailOn, live: Sequence[CriterionCounts], without_result: Mapping[str, str]) -> Check:
    # A default criterion that finds nothing to look at (no failed call, no schema) is no fault of the run.
    looked_at = [one for one in live if not (word == "not_evaluated" and one.is_default)]
    found = {one.name: one.words[word] for one in looked_at if one.words[word]}
    if word == "not_evaluated":
        found |= {one.name: 0 for one in looked_at if one.name in without_result and one.name not in found}
    condition = f"--fail-on {word}"
    if found:
        return Check(condition=condition, passed=False, sentence=_found(word, found, without_result))
    scores = sum(one.scored for one in live)
    if not scores:
        return Check(condition=condition, passed=False, sentence="nothing was scored, so that nothing could pass")
    return Check(condition=condition, passed=True, sentence=f"no result is `{word}`; {_plural(scores, 'score')}")


def _found(word: FailOn, found: Mapping[str, int], without_result: Mapping[str, str]) -> str:
    named = [f"`{name}` {count}" if count else f"`{name}` {without_result[name]}" for name, count in found.items()]
    more = f", and {len(named) - _NAMED} more criteria" if len(named) > _NAMED else ""
    total = sum(found.values())
    head = f"{_plural(total, 'result')} `{word}`: " if total else ""
    return f"{head}{', '.join(named[:_NAMED])}{more}"


def _mean(one: CriterionCounts, least: float, without_result: Mapping[str, str]) -> Check:
    condition = f"--fail-under {one.name}={least:g}"
    if one.mean is None:
        why = without_result.get(one.name) or _unscored(one) or "has no result"
        sentence = f"`{one.name}` has no score to compare with {least:g}: {why}"
        return Check(condition=condition, passed=False, sentence=sentence)
    passed = one.mean >= least - _ROUNDING
    beside = f"; without a score: {_unscored(one)}" if _unscored(one) else ""
    short = f"{one.mean:.3f}"
    figure = short if (float(short) < least) == (one.mean < least - _ROUNDING) else f"{one.mean:.9g}"
    sentence = (
        f"the mean of `{one.name}` is {figure} ({_plural(one.scored, 'score')}{beside}), "
        f"{'not ' if passed else ''}under {least:g}"
    )
    return Check(condition=condition, passed=passed, sentence=sentence)


def _unscored(one: CriterionCounts) -> str:
    errors = [_plural(one.words["error"], "error")] if one.words["error"] else []
    missing = one.words["not_evaluated"]
    unseen = [f"{missing} not evaluated ({one.reasons_text})"] if missing else []
    return ", ".join([*errors, *unseen])


def _plural(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
