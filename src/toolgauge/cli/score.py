"""`toolgauge score`: offline cases, scored by the evaluators that score live traffic."""

import json
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from toolgauge.cases.case import Unreadable, check_files, lines, parse
from toolgauge.cases.scoring import CaseResult, Cases, explanation, result_object
from toolgauge.cli.loaded_criteria import allow_nothing_option, judged_nothing
from toolgauge.cli.main import configuration_options
from toolgauge.cli.output import Bar, terminal_style
from toolgauge.cli.report_files import CaseRows, Reports, report_options
from toolgauge.config.load import load
from toolgauge.config.tool_definitions import load_tool_definitions
from toolgauge.export.redact import Redactor
from toolgauge.model.errors import RecordingError
from toolgauge.model.outcomes import Errored, Scored, outcome_word
from toolgauge.recordings.recorded_requests import STDIN
from toolgauge.report.explanations import comparison, figure, shown_difference
from toolgauge.report.findings import Report
from toolgauge.report.streams import echo, has_bar, is_terminal, redraw
from toolgauge.report.terminal import Style, indented, outcome_styled, printable
from toolgauge.service.pipeline_factory import redactor

_INDENT = " " * 4
_MAX_DIFFERENCES = _MAX_CALLS = 5
_EXIT_CODES = (
    "Exit codes: 0 fine; 1 a case failed, ended in an error or could not be read, no case could be judged, or a failure at run "
    "time; 2 misuse or bad configuration."
)


@click.command("score", epilog=_EXIT_CODES)
@click.argument("files", nargs=-1, required=True, metavar="CASES...")
@allow_nothing_option
@report_options
@configuration_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per case, each on one line.")
def command(
    files: tuple[str, ...],
    junit_file: str | None,
    markdown_file: str | None,
    config_paths: tuple[str, ...],
    overrides: tuple[str, ...],
    *,
    allow_nothing: bool,
    as_json: bool,
) -> int:
    """Score offline cases and print the results.

    CASES is a file with one JSON object a line, as it is or compressed by gzip or xz; `-` is standard input. A case has
    an `id`, the name of an `evaluator`, its parameters as `config`, and what was `expected` and what was done (`actual`)
    in any of the documented shapes; `pass_at` (default 1.0) is the least score that passes, `verdicts` are the answers
    of a scripted judge. Of a configuration only the tools that it registers (`tool_definitions`) count: they stand in
    where a case does not have the tools on offer.

    The exit code is 1 when a case scores below its `pass_at`, when its evaluation ends in an error, when a line
    cannot be read, and when there is no case at all. A case that could not be judged (`not_evaluated`) does not fail,
    unless that is all of them.
    Cases with the same `id` are all scored, with a warning, as only their order tells their results apart.
    """
    check_files(files)
    config = load([Path(path) for path in config_paths], overrides, os.environ, sends=False)
    cases = Cases(registered_tools=load_tool_definitions(config))
    words: Counter[str] = Counter()
    places: dict[str, str] = {}
    style = terminal_style()
    shown = redactor(config, show_values=True)
    reports, rows = Reports("toolgauge score", junit_file, markdown_file, os.environ), CaseRows(redactor(config))
    with _progress(files) as advance:
        for line in lines(files):
            advance(line.read)
            case = parse(line)
            if isinstance(case, Unreadable):
                words["unreadable"] += 1
                echo(f"error: {indented(f'{case.place}: {case.problem}', _INDENT)}", err=True)
                reports.add((rows.unreadable(case),))
                continue
            first = places.setdefault(case.name, case.place)
            if first != case.place:
                echo(f"warning: {printable(f'{case.place}: case `{case.name}` has the id of {first}')}", err=True)
            result = cases.score(case)
            words[outcome_word(result.outcome)] += 1
            if isinstance(result.outcome, Errored):
                text = f"{case.place}: case `{case.name}`: {result.outcome.error_type}: {result.outcome.message}"
                echo(f"error: {indented(text, _INDENT)}", err=True)
            reports.add((rows.row(result),))
            echo(json.dumps(result_object(result)) if as_json else "\n".join(_lines(result, style, shown)))
    if not words:
        raise RecordingError("there is no case to score", hint="a case is one line of JSON")
    echo("cases: " + ", ".join(f"{count} {word}" for word, count in words.most_common()), err=True)
    is_failed = any(words[word] for word in ("fail", "error", "unreadable"))
    reports.write(lambda title, found: Report(title=title, rows=found, counts=rows.counts, is_failed=is_failed))
    judged = words["pass"] + words["fail"]
    return int(is_failed or judged_nothing(judged, words.total(), "case", allow_nothing=allow_nothing))


def _lines(result: CaseResult, style: Style, shown: Redactor) -> Iterator[str]:
    """Write a row; below that of a failed case, the expected beside the actual calls."""
    value, reason = figure(result.outcome)
    word = outcome_word(result.outcome)
    score = f"{value:.3f}" if value is not None else printable(reason or "")
    why = "\n".join(map(style.aside, indented(explanation(result.outcome), _INDENT).split("\n")))
    yield f"{outcome_styled(style, word, f'{word:<13}')} {score:<16} {printable(result.case.name)}  {why}".rstrip()
    if word == "fail" and isinstance(result.outcome, Scored):
        compared = [one for one in result.outcome.differences if one.expected is not None]
        for one in compared[:_MAX_DIFFERENCES]:
            yield f"{_INDENT}{printable(comparison(shown_difference(one, shown)))}"
        if len(compared) > _MAX_DIFFERENCES:
            yield f"{_INDENT}and {len(compared) - _MAX_DIFFERENCES} more differences"
        below = [(one.call, one.outcome) for one in result.calls if outcome_word(one.outcome) == "fail"]
        for call, outcome in below[:_MAX_CALLS]:
            why = explanation(outcome)
            name = "" if call is None or call.name in why else f"{call.name}: "
            yield f"{_INDENT}{indented(f'{name}{why}', _INDENT * 2)}"
        if len(below) > _MAX_CALLS:
            yield f"{_INDENT}and {len(below) - _MAX_CALLS} more calls"


@contextmanager
def _progress(files: Sequence[str]) -> Generator[Callable[[int], None]]:
    """Show how far the files are read when stderr is a terminal and stdout is not, which would show the rows."""
    if not has_bar() or is_terminal() or STDIN in files:
        yield lambda _size: None
        return
    total = sum(Path(file).stat().st_size for file in files)
    try:
        yield Bar("scoring", total).add
    finally:
        redraw("")
