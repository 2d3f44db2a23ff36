"""Offline cases of `toolgauge check`: scored by the evaluators that score live traffic."""

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from toolgauge.cases.case import CaseError, check_files, lines, parse
from toolgauge.cases.scoring import CaseResult, Cases, result_object
from toolgauge.cli.check import Asked
from toolgauge.cli.output import judged_nothing, terminal_style
from toolgauge.cli.report_files import Reports
from toolgauge.config.load import load
from toolgauge.config.tool_definitions import load_tool_definitions
from toolgauge.export.redact import Redactor
from toolgauge.model.errors import RecordingError
from toolgauge.model.outcomes import Errored, Outcome, Scored, outcome_word
from toolgauge.report.explanations import comparison, figure, shown_difference
from toolgauge.report.findings import CriterionCounts, Report, Row, finding
from toolgauge.report.run_failures import Baseline, Exemptions
from toolgauge.report.streams import echo
from toolgauge.report.terminal import Style, indented, outcome_styled, printable
from toolgauge.service.pipeline_factory import redactor

_INDENT = " " * 4
_MAX_DIFFERENCES = _MAX_CALLS = 5
_UNREADABLE = "unreadable"


def check_cases(asked: Asked, reports: Reports, baseline: Baseline | None) -> tuple[Report, list[str]]:
    """Score cases and print their results; return the report and the last lines for standard error.

    Of a configuration only the tools that it registers count: they stand in where a case does not have the tools on offer.
    """
    check_files(asked.files)
    config = load(asked.config_paths, asked.overrides, os.environ, sends=False)
    cases = Cases(registered_tools=load_tool_definitions(config))
    words, places, style = Counter[str](), dict[str, str](), terminal_style()
    shown, hidden = redactor(config, show_values=True), redactor(config)
    exemptions = Exemptions(hidden, baseline, only_proved=asked.proved)
    # By evaluator, in place of a criterion.
    counts: dict[str, CriterionCounts] = {}
    for place, content in lines(asked.files):
        try:
            case = parse(place, content)
        except CaseError as error:
            words[_UNREADABLE] += 1
            echo(f"error: {indented(f'{place}: {error}', _INDENT)}", err=True)
            outcome = Errored(error_type=_UNREADABLE, message=str(error))
            counts.setdefault(_UNREADABLE, CriterionCounts(_UNREADABLE)).add(outcome)
            reports.add((_row(_UNREADABLE, place, place, [(outcome, "")], "", hidden),))
            continue
        first = places.setdefault(case.name, case.place)
        if first != case.place:
            echo(f"warning: {printable(f'{case.place}: case `{case.name}` has the id of {first}')}", err=True)
        result = cases.score(case)
        words[outcome_word(result.outcome)] += 1
        if isinstance(result.outcome, Errored):
            text = f"{case.place}: case `{case.name}`: {result.outcome.error_type}: {result.outcome.message}"
            echo(f"error: {indented(text, _INDENT)}", err=True)
        counts.setdefault(case.evaluator, CriterionCounts(case.evaluator)).add(result.outcome)
        exempt = exemptions.of_case(case.name, case.evaluator, result.outcome)
        calls = [(one.outcome, "" if one.call is None else one.call.name) for one in result.calls]
        outcomes = [(result.outcome, ""), *calls]
        reports.add((_row(case.evaluator, case.name, case.place, outcomes, exempt, hidden),))
        echo(json.dumps(result_object(result)) if asked.as_json else "\n".join(_lines(result, style, shown)))
    if not words:
        raise RecordingError("there is no case to score", hint="a case is one line of JSON")
    echo("cases: " + ", ".join(f"{count} {word}" for word, count in words.most_common()), err=True)
    failed = exemptions.failed > 0 or words[_UNREADABLE] > 0
    judged, closing = words["pass"] + words["fail"], [*exemptions.lines("case")] if asked.proved or baseline else []
    if not failed and not asked.allow_nothing:
        closing += judged_nothing(judged, words.total(), "case")
        failed = not judged
    report = Report(
        title=reports.title, rows=reports.rows, files=asked.files, counts=tuple(counts.values()), is_failed=failed
    )
    return report, closing


def _row(
    evaluator: str, subject: str, place: str, outcomes: Sequence[tuple[Outcome, str]], exempt: str, redactor: Redactor
) -> Row:
    """Make the row of a case; the first outcome is that of the case, the others are of its calls."""
    word = outcome_word(outcomes[0][0])
    found = [one for one in outcomes if outcome_word(one[0]) != "pass"] if word != "pass" else []
    file, _, number = place.rpartition(":")
    return Row(
        criterion=evaluator,
        subject=subject,
        outcome=word,
        place=(file, int(number)) if Path(file).exists() else None,
        exempt=exempt,
        passes=int(word == "pass"),
        findings=tuple(finding(redactor, *one) for one in found),
    )


def _lines(result: CaseResult, style: Style, shown: Redactor) -> Iterator[str]:
    """Write a row; below that of a failed case, the expected beside the actual calls."""
    value, reason = figure(result.outcome)
    word = outcome_word(result.outcome)
    score = f"{value:.3f}" if value is not None else printable(reason or "")
    why = "\n".join(map(style.aside, indented(result.outcome.explanation, _INDENT).split("\n")))
    yield f"{outcome_styled(style, word, f'{word:<13}')} {score:<16} {printable(result.case.name)}  {why}".rstrip()
    if word == "fail" and isinstance(result.outcome, Scored):
        compared = [one for one in result.outcome.differences if one.expected is not None]
        for one in compared[:_MAX_DIFFERENCES]:
            yield f"{_INDENT}{printable(comparison(shown_difference(one, shown)))}"
        if len(compared) > _MAX_DIFFERENCES:
            yield f"{_INDENT}and {len(compared) - _MAX_DIFFERENCES} more differences"
        below = [(one.call, one.outcome) for one in result.calls if outcome_word(one.outcome) == "fail"]
        for call, outcome in below[:_MAX_CALLS]:
            why = outcome.explanation
            name = "" if call is None or call.name in why else f"{call.name}: "
            yield f"{_INDENT}{indented(f'{name}{why}', _INDENT * 2)}"
        if len(below) > _MAX_CALLS:
            yield f"{_INDENT}and {len(below) - _MAX_CALLS} more calls"
