"""Rows as a hostile client would have them, and plain ones."""

from toolgauge.report.findings import CriterionCounts, Finding, GateCheck, Report, Row
from toolgauge.report.run_failures import FailureGroup, FailureKind

# Markup, a mention, a link, a command, control characters, a lone surrogate, a character that XML does not have.
TEXT = "<img src=x onerror=1> @team #1 [a](http://e.example) | `x` ::error::y\n\x00\x1b[31m\ud800\ufffe]]>&amp;"
FAILED = Finding(outcome="fail", tool="pay", value=0.5, explanation="half", differences=("amount: expected 1, got 2",))
UNSEEN = Finding(outcome="not_evaluated", tool="pay", reason="no_schema", explanation="no schema was offered")
BROKEN = Finding(outcome="error", reason="timeout", explanation="took too long")


def row(**changes: object) -> Row:
    """Make a row that failed."""
    written = {"criterion": "refund", "subject": "case-1", "outcome": "fail", "findings": (FAILED,)}
    return Row(**{**written, **changes})  # pyright: ignore[reportArgumentType] (keys of a row)


def group(**changes: object) -> FailureGroup:
    """Make a kind of failure."""
    written: dict[str, object] = {
        "service": "shop",
        "kind": FailureKind("refund", "pay", "amount", "exact"),
        "why": "`amount` differs",
        "runs": 35,
        "of": 60,
        "versions": ["1.0", "1.1"],
        "first_ns": 1_800_000_000_000_000_000,
        "last_ns": 1_800_000_060_000_000_000,
        "example": "4bf92f35" * 4,
    }
    return FailureGroup(**{**written, **changes})  # pyright: ignore[reportArgumentType] (fields of a group)


def hostile_group() -> FailureGroup:
    """Make a kind of failure of which every text is hostile."""
    return group(kind=FailureKind(TEXT, TEXT, TEXT, TEXT), why=TEXT, versions=[TEXT])


def report(
    *rows: Row, groups: tuple[FailureGroup, ...] = (), checks: tuple[GateCheck, ...] = (), is_failed: bool = False
):
    """Make a report of rows."""
    names = dict.fromkeys(one.criterion for one in rows)
    counts = [CriterionCounts(name) for name in names]
    return Report(title="toolgauge replay", rows=rows, counts=counts, groups=groups, checks=checks, is_failed=is_failed)


def hostile_row() -> Row:
    """Make a row of which every text is hostile."""
    finding = Finding(outcome="fail", tool=TEXT, value=0.0, explanation=TEXT, differences=(TEXT,))
    return row(criterion=TEXT, subject=TEXT, details=TEXT, place=(TEXT, 3), findings=(finding,))
