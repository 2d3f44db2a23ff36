"""What a report is made of: one row for each trajectory, or offline case, and criterion.

Whoever scores makes the rows, so that a report knows neither recordings nor cases. Texts are as `redact` allows them; they
may hold any character, and each form of report makes them safe for its reader.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from toolgauge.model.error_causes import with_cause
from toolgauge.model.outcomes import OutcomeWord
from toolgauge.report.criterion_counts import CriterionCounts


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
