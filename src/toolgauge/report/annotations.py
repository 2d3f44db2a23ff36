"""A report as annotations of GitHub: workflow commands, one a line.

GitHub shows ten annotations of a level for a step; what is beyond that is counted in the last one. A failure is an error
where it decides about the exit code, and a warning elsewhere.
"""

from collections.abc import Iterator

from toolgauge.report.findings import Report, Row
from toolgauge.report.terminal import printable, shortened

MAX_SHOWN = 10
_MAX_TEXT = 1_000
_MAX_NAME = 200


def annotations(report: Report) -> Iterator[str]:
    """Yield the commands: conditions of the gate that failed first, then failures and errors."""
    level = "error" if report.is_failed else "warning"
    found = [_command(level, check.condition, check.sentence) for check in report.checks if not check.passed]
    found += [_of_row(level, row) for row in report.rows if row.is_problem]
    if len(found) <= MAX_SHOWN:
        yield from found
        return
    shown = found[: MAX_SHOWN - 1]
    yield from shown
    yield _command(level, report.title, f"{len(found) - len(shown)} more failures, in the log and the reports")


def _of_row(level: str, row: Row) -> str:
    lines = [row.details] if row.details else []
    for finding in row.problems:
        lines += [finding.sentence_of(_MAX_TEXT // 2), *(f"  {difference}" for difference in finding.differences)]
    text = "\n".join(printable(line) for line in lines)
    return _command(level, f"{row.criterion}: {row.subject}", text, place=row.place)


def _command(level: str, title: str, text: str, *, place: tuple[str, int] | None = None) -> str:
    properties = [f"title={_property(shortened(title, _MAX_NAME))}"]
    if place is not None:
        properties = [f"file={_property(printable(place[0]))}", f"line={place[1]}", *properties]
    message = "\n".join(printable(line) for line in text.split("\n"))
    return f"::{level} {','.join(properties)}::{_data(message[:_MAX_TEXT])}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
