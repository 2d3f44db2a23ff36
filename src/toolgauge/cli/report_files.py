"""The report options of `replay` and `score`, the rows of cases, and the files that are written."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import click

from toolgauge.cases.case import Case, Unreadable
from toolgauge.cases.scoring import CaseResult
from toolgauge.export.redact import Redactor
from toolgauge.model.errors import ToolgaugeError
from toolgauge.model.outcomes import Errored, Outcome, outcome_word
from toolgauge.report.findings import CriterionCounts, Report, Row, finding
from toolgauge.report.junit import junit
from toolgauge.report.markdown import annotations, markdown
from toolgauge.report.streams import annotate, echo
from toolgauge.report.terminal import printable

_F = TypeVar("_F", bound=Callable[..., object])
_UNREADABLE = "unreadable"


def report_options(function: _F) -> _F:
    """Add `--junit` and `--markdown`, which arrive as `junit_file` and `markdown_file`."""
    as_junit = click.option(
        "--junit",
        "junit_file",
        metavar="FILE",
        type=click.Path(dir_okay=False),
        help="Also write JUnit XML, as GitHub, GitLab and Jenkins read it: a test case for each criterion and what it "
        "judged. What was not evaluated is skipped, with its reason.",
    )
    as_markdown = click.option(
        "--markdown",
        "markdown_file",
        metavar="FILE",
        type=click.Path(dir_okay=False),
        help="Also write a table and the failures as Markdown, at most 64 KiB, for a comment on a pull request or "
        "`$GITHUB_STEP_SUMMARY`, which is appended to.",
    )
    return as_junit(as_markdown(function))


class Reports:
    """Collects rows where a report needs them, and writes the reports at the end."""

    def __init__(
        self, title: str, junit_file: str | None, markdown_file: str | None, environment: Mapping[str, str]
    ) -> None:
        self._title = title
        self._junit_file = junit_file
        self._markdown_file = markdown_file
        self._annotates = environment.get("GITHUB_ACTIONS") == "true"
        self._summary_file = environment.get("GITHUB_STEP_SUMMARY")
        self._rows: list[Row] = []
        for file in (junit_file, markdown_file):
            if file is not None and not Path(file).absolute().parent.is_dir():
                raise click.UsageError(f"cannot write `{file}`: there is no directory `{Path(file).parent}`")

    @property
    def is_wanted(self) -> bool:
        """Whether rows are needed."""
        return self._annotates or self._junit_file is not None or self._markdown_file is not None

    def add(self, rows: Iterable[Row]) -> None:
        """Keep rows."""
        if self.is_wanted:
            self._rows += rows

    def write(self, make: Callable[[str, Sequence[Row]], Report]) -> None:
        """Write the files, and the annotations to standard error; `make` completes the report."""
        if not self.is_wanted:
            return
        report = make(self._title, self._rows)
        if self._junit_file is not None:
            _write(self._junit_file, junit(report), appends=False)
        if self._markdown_file is not None:
            _write(self._markdown_file, markdown(report).encode(), appends=self._markdown_file == self._summary_file)
        for line in annotations(report) if self._annotates else ():
            annotate(line)


def _write(file: str, content: bytes, *, appends: bool) -> None:
    try:
        with Path(file).open("ab" if appends else "wb") as stream:
            stream.write(content)
    except OSError as error:
        raise ToolgaugeError(f"cannot write `{file}`: {error.strerror or error}") from error
    echo(f"{'added to' if appends else 'wrote'} `{printable(file)}`", err=True)


class CaseRows:
    """Makes rows of offline cases, and counts them by evaluator in place of a criterion."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._counts: dict[str, CriterionCounts] = {}

    @property
    def counts(self) -> tuple[CriterionCounts, ...]:
        """The counts of each evaluator."""
        return tuple(self._counts.values())

    def row(self, result: CaseResult) -> Row:
        """Make the row of a case."""
        case = result.case
        self._count(case.evaluator, result.outcome)
        word = outcome_word(result.outcome)
        calls = [(call.outcome, "" if call.call is None else call.call.name) for call in result.calls]
        below = [one for one in calls if outcome_word(one[0]) != "pass"]
        found = [] if word == "pass" else [(result.outcome, ""), *below]
        return Row(
            criterion=case.evaluator,
            subject=case.name,
            outcome=word,
            place=_place(case),
            passes=int(word == "pass"),
            findings=tuple(finding(self._redactor, *one) for one in found),
        )

    def unreadable(self, line: Unreadable) -> Row:
        """Make the row of a line without a readable case."""
        outcome = Errored(error_type=_UNREADABLE, message=line.problem)
        self._count(_UNREADABLE, outcome)
        return Row(
            criterion=_UNREADABLE,
            subject=line.place,
            outcome="error",
            place=_place(line),
            findings=(finding(self._redactor, outcome),),
        )

    def _count(self, evaluator: str, outcome: Outcome) -> None:
        self._counts.setdefault(evaluator, CriterionCounts(evaluator)).add(outcome)


def _place(line: Case | Unreadable) -> tuple[str, int] | None:
    file, _, number = line.place.rpartition(":")
    return (file, int(number)) if Path(file).exists() else None
