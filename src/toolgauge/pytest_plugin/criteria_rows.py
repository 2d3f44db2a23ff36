"""What became of criteria in a test, as plain values that workers of pytest-xdist send, and as the table at the end of a run."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from toolgauge.api.evaluation import CriterionResult
from toolgauge.model.outcomes import OutcomeWord
from toolgauge.report.criteria_table import table_lines
from toolgauge.report.criterion_counts import CriterionCounts

# The attribute of a test's last report that has them; `hooks` looks for it by its name, without importing this.
RESULTS = "toolgauge"
# Criterion, outcome, score, and why there is none; no outcome where the criterion matched nothing.
Row: TypeAlias = tuple[str, OutcomeWord | None, float | None, str | None]


def rows_of(criterion: str, results: Sequence[CriterionResult]) -> Iterator[Row]:
    """Write the results of one criterion in one test."""
    if not results:
        yield criterion, None, None, None
    for result in results:
        yield criterion, result.outcome, result.value, result.reason


def summary_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Write the table: how many results of each criterion passed, and the mean score."""
    counts: dict[str, CriterionCounts] = {}
    for criterion, word, value, reason in rows:
        count = counts.setdefault(criterion, CriterionCounts(criterion))
        if word is not None:
            count.count(word, value, reason)
    yield from table_lines(tuple(counts.values()), unmatched=counts)


def junit_text(results: Sequence[CriterionResult]) -> str:
    """Write the results of one criterion as one property of a test's report."""
    return ", ".join(
        f"{result.outcome} {result.reason if result.value is None else f'{result.value:.3f}'}" for result in results
    )
