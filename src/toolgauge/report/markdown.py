"""A report for GitHub: Markdown for a step's summary and for a comment on a pull request, and annotations.

GitHub takes 65,536 characters in a comment and 1 MiB in a summary. Bytes are counted; the text counts the parts left out.
"""

import re
from collections.abc import Iterable, Iterator

from toolgauge.report.findings import CriterionCounts, Report, Row
from toolgauge.report.run_failures import FailureGroup, group_line, minute
from toolgauge.report.terminal import printable, shortened

MAX_SHOWN = 10
_MAX_MESSAGE = 1_000
_MAX_TITLE = 200


def annotations(report: Report) -> Iterator[str]:
    """Yield the commands: conditions of the gate that failed first, then kinds of failure, then failures and errors."""
    level = "error" if report.is_failed else "warning"
    found = [_command(level, check.condition, check.sentence) for check in report.checks if not check.passed]
    # The annotation of a single run says the same.
    kinds = [group for group in report.groups if group.runs > 1]
    found += [_command(level, f"{one.kind.criterion}: {one.share}", group_line(one)) for one in kinds]
    for row in report.rows:
        lines = [row.details] if row.details else []
        for finding in row.problems if row.is_problem else ():
            lines += [finding.sentence(_MAX_MESSAGE // 2), *(f"  {each}" for each in finding.differences)]
        if row.is_problem:
            text = "\n".join(map(printable, lines))
            found.append(_command(level, f"{row.criterion}: {row.subject}", text, place=row.place))
    if (more := len(found) - MAX_SHOWN) > 0:
        found[MAX_SHOWN - 1 :] = [
            _command(level, report.title, f"{more + 1} more failures, in the log and the reports")
        ]
    yield from found


def _command(level: str, title: str, text: str, *, place: tuple[str, int] | None = None) -> str:
    properties = [f"title={_property(shortened(title, _MAX_TITLE))}"]
    if place is not None:
        properties = [f"file={_property(printable(place[0]))}", f"line={place[1]}", *properties]
    message = "\n".join(printable(line) for line in text.split("\n"))
    return f"::{level} {','.join(properties)}::{_data(message[:_MAX_MESSAGE])}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


NAME_LENGTH = 60
_UNSAFE = re.compile(r"[^\w .-]|(?<=www)\.", re.ASCII)


def code(text: str | None, length: int = NAME_LENGTH) -> str:
    """Write a text as code that no Markdown reader takes for anything else."""
    if text is None:
        return "-"
    safe = _UNSAFE.sub(lambda found: f"&#{ord(found[0])};", shortened(text, length))
    return f"<code>{safe}</code>"


MAX_BYTES = 65_536
# For the line that counts the parts left out, and for the words of a bot above the text.
_RESERVED = 1_536
_MAX_TEXT = 600
_MAX_NAME = 100
_MAX_FINDINGS = 10
_MARKS = {True: "passed", False: "**failed**"}


def markdown(report: Report) -> str:
    """Write the report."""
    problems = [row for row in report.rows if row.is_problem]
    verdict = f"{len(problems)} failure{'' if len(problems) == 1 else 's'}" if problems else "no failure"
    if not report.rows:
        verdict = "nothing was judged"
    elif report.checks:
        verdict = f"{'failed' if report.is_failed else 'passed'}, {verdict}"
    text = _Bounded(f"### {report.title}: {verdict}", MAX_BYTES - _RESERVED)
    # What decides comes first, a table of thousands of criteria could fill the page.
    text.add(
        "", ([f"- {_MARKS[check.passed]}: {code(check.sentence, _MAX_TEXT)}"] for check in report.checks), "conditions"
    )
    head = "| criterion | pass | fail | error | mean | of | not evaluated |\n|---|---|---|---|---|---|---|"
    shown = [one for one in report.counts if one.words or not one.is_default]
    # Half the room: a failure with its reason is worth more than another line of figures.
    text.add(head, ([_figures(one, report)] for one in shown), "criteria", share=0.5)
    kinds = "**Kinds of failure**\n\n| runs | criterion | tool | reason | versions | first | last | example |"
    text.add(kinds + "\n|---|---|---|---|---|---|---|---|", map(_group, report.groups), "kinds", share=0.5)
    text.add("#### Failures", map(_row, problems), "failures")
    return text.value


def _figures(one: CriterionCounts, report: Report) -> str:
    shadow = " (shadow)" if one.is_shadow else ""
    name = code(one.name, _MAX_NAME) + shadow
    if not one.words:
        return f"| {name} | | | | | | {code(report.without_result.get(one.name, 'no result'), _MAX_TEXT)} |"
    fail = f"**{one.words['fail']}**" if one.words["fail"] else "0"
    error = f"**{one.words['error']}**" if one.words["error"] else "0"
    mean = "-" if one.mean is None else f"{one.mean:.3f}"
    missing = one.words["not_evaluated"]
    why = f"{missing}: {code(one.reasons_text, _MAX_TEXT)}" if missing else "0"
    return f"| {name} | {one.words['pass']} | {fail} | {error} | {mean} | {one.scored} | {why} |"


def _group(group: FailureGroup) -> list[str]:
    kind = group.kind
    named = (kind.criterion, kind.tool or None, group.why, ", ".join(group.versions) or None)
    cells = [code(text, _MAX_TEXT if text is group.why else _MAX_NAME) for text in named]
    times = f"{minute(group.first_ns)} | {minute(group.last_ns)}"
    return [f"| {group.share} | {' | '.join(cells)} | {times} | {code(group.example)} |"]


def _row(row: Row) -> list[str]:
    where = f", {code(f'{row.place[0]}:{row.place[1]}', _MAX_NAME)}" if row.place is not None else ""
    details = f", {code(row.details, _MAX_NAME)}" if row.details and row.details != row.subject else ""
    lines = [f"- {code(row.criterion, _MAX_NAME)}, {code(row.subject, _MAX_NAME)}{details}{where}"]
    for finding in row.problems[:_MAX_FINDINGS]:
        lines.append(f"  - {finding.outcome.replace('_', ' ')}: {code(finding.sentence(_MAX_TEXT), _MAX_TEXT)}")
        lines += (f"    - {code(difference, _MAX_TEXT)}" for difference in finding.differences)
    if len(row.problems) > _MAX_FINDINGS:
        lines.append(f"  - and {len(row.problems) - _MAX_FINDINGS} more results")
    return lines


class _Bounded:
    """Collects parts of a text while there is room, and counts the rest."""

    def __init__(self, title: str, room: int) -> None:
        self._room = room
        self._lines = [title]

    def add(self, head: str, parts: Iterable[list[str]], name: str, share: float = 1.0) -> None:
        """Add parts under a head, in a share of the room that is left."""
        room = int(self._room * share)
        left_out = 0
        for number, part in enumerate(parts):
            lines = part if number else ["", *([head, *([""] if head.startswith("#") else [])] if head else []), *part]
            size = sum(len(line.encode()) + 1 for line in lines)
            if left_out or size > room:
                left_out += 1
                continue
            room -= size
            self._room -= size
            self._lines += lines
        if left_out:
            self._lines += ["", f"{left_out} more {name} left out"]

    @property
    def value(self) -> str:
        """The text."""
        return "\n".join(self._lines) + "\n"
