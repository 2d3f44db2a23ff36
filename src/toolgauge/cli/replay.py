"""`toolgauge replay`: recorded traffic, scored as live traffic would have been; `explain`: one criterion, verdict by verdict."""

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias, TypeVar

import click
from msgspec.structs import replace

from toolgauge.backends.settings import VENDORS
from toolgauge.cli.loaded_criteria import allow_nothing_option, judged_nothing, load_to_score, warn_of_unmatched
from toolgauge.cli.main import EXIT_CODES, configuration_options, criteria_option
from toolgauge.cli.output import Reading, reading_progress, terminal_style
from toolgauge.cli.report_files import Reports, report_options
from toolgauge.config.model import Config, backends
from toolgauge.config.problems import suggestion
from toolgauge.export.open_incidents import IncidentLines
from toolgauge.export.redact import Redactor
from toolgauge.export.tool_change_events import tool_change_sentence
from toolgauge.model.errors import ConfigError, RecordingError
from toolgauge.model.outcomes import OutcomeWord, Result, Scorecard, outcome_word
from toolgauge.pipeline.pipeline import Pipeline
from toolgauge.pipeline.stages import ScorecardSink
from toolgauge.recordings.recorded_requests import scorecards
from toolgauge.report.failure_groups import FailureGroups
from toolgauge.report.findings import FAIL_ON, FailOn, Gate, Report, ScorecardRows, Summary
from toolgauge.report.json_objects import result_objects, verdict_objects
from toolgauge.report.streams import echo, echo_fitted, has_bar, is_terminal, redraw
from toolgauge.report.terminal import fitted, printable
from toolgauge.report.text import TextWriter, trajectory_head
from toolgauge.score.criterion import Criterion, register, with_writing_tools
from toolgauge.score.unmatched import UnmatchedCriteria
from toolgauge.service.pipeline_factory import offline_pipeline, redactor, tool_kinds

_F = TypeVar("_F", bound=Callable[..., object])


def gate_options(function: _F) -> _F:
    """Add `--fail-on` and `--fail-under`, which arrive as `fail_on` and `fail_under`."""
    fail_on = click.option(
        "--fail-on",
        multiple=True,
        metavar="OUTCOME",
        callback=_outcomes,
        help="End with exit code 1 when a result is `fail`, `error` or `not_evaluated`; a list with commas, or several "
        "times. `not_evaluated` looks at criteria other than the default ones, and is also one that matched nothing.",
    )
    fail_under = click.option(
        "--fail-under",
        multiple=True,
        metavar="NAME=SCORE",
        callback=_means,
        help="End with exit code 1 when the mean of a criterion is under SCORE (0 to 1), or when it has no score. May be "
        "given several times.",
    )
    return fail_on(fail_under(function))


def _outcomes(_context: click.Context, _parameter: click.Parameter, values: Sequence[str]) -> tuple[FailOn, ...]:
    words = [word.strip() for value in values for word in value.split(",")]
    unknown = [word for word in words if word not in FAIL_ON]
    if unknown:
        known = ", ".join(f"`{word}`" for word in FAIL_ON)
        raise click.BadParameter(f"no outcome called `{printable(unknown[0][:80])}`; known: {known}")
    return tuple(word for word in FAIL_ON if word in words)


def _means(_context: click.Context, _parameter: click.Parameter, values: Sequence[str]) -> dict[str, float]:
    means: dict[str, float] = {}
    for value in values:
        name, _, text = value.rpartition("=")
        try:
            least = float(text)
        except ValueError:
            least = math.nan
        if not name or not 0 <= least <= 1:
            raise click.BadParameter(f"`{printable(value[:80])}` is no NAME=SCORE with a score from 0 to 1")
        if name in means:
            raise click.BadParameter(f"criterion `{printable(name[:80])}` is given twice")
        means[name] = least
    return means


def make_gate(fail_on: Sequence[FailOn], fail_under: dict[str, float], criteria: Sequence[Criterion]) -> Gate:
    """Make the gate; an unknown criterion is misuse."""
    known = {criterion.name: criterion.enforce for criterion in criteria}
    for name in fail_under:
        if name not in known:
            names = ", ".join(f"`{one}`" for one in known) or "none"
            raise click.UsageError(f"`--fail-under`: no criterion called `{printable(name[:80])}`; known: {names}")
        if known[name] == "shadow":
            echo(
                f"warning: `--fail-under {name}` is left out: the criterion has `enforce: shadow`, which fails nothing",
                err=True,
            )
    return Gate(fail_on=fail_on, fail_under=fail_under)


_Describe: TypeAlias = Callable[[Scorecard], Iterable[str]]


# Recordings that the title of a page names.
_MAX_NAMED = 3

_EXIT_CODES = (
    "Exit codes: 0 fine, or no condition is given; 1 a condition of `--fail-on` or `--fail-under` does not hold, no run could "
    "be judged, or a failure at run time; 2 misuse or bad configuration."
)


@click.command("replay", epilog=_EXIT_CODES)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@criteria_option(
    "A criteria file; may be given several times. Without one, the default criteria score what needs no reference."
)
@gate_options
@allow_nothing_option
@report_options
@click.option(
    "--html",
    "html_file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Also write the trajectories as one HTML file that needs no network: verdicts, calls, expected beside actual, "
    "with filters, those that failed first. Values are in it with `--set redact.values=show` only.",
)
@click.option(
    "--to",
    multiple=True,
    metavar="BACKEND[=URL]",
    help="Also send the scores to a backend: `phoenix`, `langfuse`, `mlflow`, `langsmith`, `opik` or `datadog`, as "
    "`exporters` has it, or at this URL. What was sent before is overwritten where the backend can. May be given several "
    "times.",
)
@configuration_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per result, each on one line.")
def command(
    files: tuple[str, ...],
    criteria_files: tuple[str, ...],
    fail_on: tuple[FailOn, ...],
    fail_under: dict[str, float],
    junit_file: str | None,
    markdown_file: str | None,
    html_file: str | None,
    to: tuple[str, ...],
    config_paths: tuple[str, ...],
    overrides: tuple[str, ...],
    *,
    allow_nothing: bool,
    as_json: bool,
) -> int:
    """Score recorded OTLP traffic with recorded time and print the results.

    Trajectories close as they would have closed live. FILE is as in `toolgauge inspect --help`. With `--criteria`,
    the criteria of these files are scored besides the default ones. No judge is asked here, so that a replay costs nothing
    and gives the same results every time: criteria that ask one are `not_evaluated` for the reason `judge_budget`.

    A table of the criteria ends the results (with --json, on standard error): how many passed and failed, the mean of so
    many scores, how many were not evaluated and why, and which criteria matched nothing. Standard error then says what to
    look at in those. Drops of a mean score and changes of tools are looked for as live, and named there where they would
    have been announced.

    On a terminal, explanations show the values that differ, unless the configuration has `redact.values`; in a pipe and
    with --json they do with `--set redact.values=show` only. What looks like a key, a token, an e-mail address or a card is
    masked in any case.

    `--fail-on` and `--fail-under` make it a gate for CI. Criteria with `enforce: shadow` fail nothing; what was not
    evaluated is no score and passes nothing, so that a gate under which nothing was scored fails. In a step of GitHub
    Actions, failures become annotations too, on standard error. Reports show values as a pipe does.
    """
    config, criteria = load_to_score(config_paths, (*overrides, *_endpoints(to)), criteria_files)
    gate = make_gate(fail_on, fail_under, criteria)
    reports = Reports("toolgauge replay", junit_file, markdown_file, os.environ)
    redacting, kinds = redactor(config), tool_kinds(config)
    summary, rows = Summary(criteria), ScorecardRows(redacting, criteria)
    unmatched = UnmatchedCriteria(tuple(map(register, criteria)))
    describe: _Describe = (
        (lambda card: map(json.dumps, result_objects(card, redacting))) if as_json else _lines(config, criteria)
    )
    lost: list[str] = []
    with (
        _document(html_file, files, config, criteria) as add_to_document,
        _score_tables(to, config, lost) as add_to_tables,
        reading_progress(files) as reading,
    ):
        for scorecard in scorecards(reading, _announcing_pipeline(config, criteria, reading)):
            summary.add(scorecard)
            add_to_document(scorecard)
            add_to_tables(scorecard)
            reports.add(rows.rows(scorecard))
            unmatched.see(with_writing_tools(scorecard.trajectory, (), kinds))
            for line in describe(scorecard):
                reading.echo(line if as_json else fitted(line))
    code = _conclude(summary, unmatched, gate, reports, rows.groups, as_json=as_json)
    is_failed = bool(code or lost)
    return int(is_failed or judged_nothing(summary.judged, summary.runs, "run", allow_nothing=allow_nothing))


def _announcing_pipeline(
    config: Config, criteria: Sequence[Criterion], reading: Reading
) -> Callable[[ScorecardSink], Pipeline]:
    def echo_all(lines: Iterable[str]) -> None:
        for line in lines:
            reading.echo(fitted(printable(line)), err=True)

    incidents = IncidentLines()
    return offline_pipeline(
        config,
        criteria,
        on_regressions=lambda found: echo_all(f"regression: {line}" for _, _, line in incidents.add(found)),
        on_tool_changes=lambda found, _: echo_all(f"tool change: {tool_change_sentence(one)}" for one in found),
    )


def _conclude(
    summary: Summary,
    unmatched: UnmatchedCriteria,
    gate: Gate,
    reports: Reports,
    groups: FailureGroups,
    *,
    as_json: bool,
) -> int:
    """Print the table and the gate, write the reports, and return the exit code."""
    without = unmatched.so_far()
    table = list(summary.lines({one.criterion.name for one in without}, terminal_style(err=as_json)))
    for line in ("", *table) if table else ():
        echo_fitted(line, err=as_json)
    warn_of_unmatched(unmatched)
    total = ", ".join(f"{count} {word}" for word, count in summary.words.most_common()) or "none"
    more = f"; criteria without a match: {len(without)}" if without else ""
    echo_fitted(f"results: {total}{more}", err=True)
    # A default criterion may have nothing to look at.
    without_result = {one.name: "has no result" for one in summary.counts if not (one.words or one.is_default)}
    without_result |= {one.criterion.name: one.description for one in without}
    checks = tuple(gate.checks(summary.counts, without_result))
    is_failed = not all(check.passed for check in checks)
    reports.write(
        lambda title, found: Report(
            title=title,
            rows=found,
            counts=summary.counts,
            groups=groups.groups(),
            without_result=without_result,
            checks=checks,
            is_failed=is_failed,
        )
    )
    # Conditions that failed come last.
    for check in sorted(checks, key=lambda check: not check.passed):
        word = "passed" if check.passed else "failed"
        echo_fitted(printable(f"gate {word}: `{check.condition}`: {check.sentence}"), err=True)
    failed = sum(one.words["fail"] + one.words["error"] for one in summary.counts if not one.is_shadow)
    if failed and not gate.is_set:
        text = "; `--fail-on fail,error` or `--fail-under NAME=0.9` end with 1"
        echo_fitted(
            f"exit code 0, although {failed} result{' is' if failed == 1 else 's are'} `fail` or `error`{text}",
            err=True,
        )
    return int(is_failed)


def _endpoints(to: Sequence[str]) -> Iterator[str]:
    """Write the backends that `--to` names as settings."""
    for text in to:
        vendor, _, url = text.partition("=")
        if vendor not in VENDORS:
            known = ", ".join(f"`{one}`" for one in VENDORS)
            raise click.UsageError(f"`--to`: no backend called `{printable(vendor[:80])}`; known: {known}")
        if url:
            yield f"exporters.{vendor}.endpoint={url}"


@contextmanager
def _score_tables(to: Sequence[str], config: Config, lost: list[str]) -> Generator[Callable[[Scorecard], None]]:
    """Yield what sends a scorecard to the backends of `--to`; name those that did not take all in `lost`."""
    vendors = {text.partition("=")[0] for text in to}
    chosen = {name: each for name, each in backends(config.exporters).items() if each.vendor in vendors}
    missing = vendors - {each.vendor for each in chosen.values()}
    if missing:
        vendor = min(missing)
        raise click.UsageError(f"`--to {vendor}`: `exporters.{vendor}` is not set; write `--to {vendor}=URL`")
    if not chosen:
        yield lambda _scorecard: None
        return
    from toolgauge.service.score_backlog import ScoreBacklog

    waits = has_bar()
    with ScoreBacklog(
        config, chosen, lambda waiting: redraw(f"sending: {waiting} scores wait") if waits else None
    ) as backlog:
        yield backlog.add
    redraw("")
    for name, counts in backlog.counts().items():
        accepted, delivered = counts.pop("accepted", 0), counts.pop("delivered", 0)
        rest = "".join(f", {count} {reason}" for reason, count in counts.items() if count)
        echo(f"{name}: {delivered} of {accepted} scores sent{rest}", err=True)
        if delivered + counts["left_out"] < accepted:
            lost.append(name)


@contextmanager
def _document(
    file: str | None, recordings: Sequence[str], config: Config, criteria: Sequence[Criterion]
) -> Generator[Callable[[Scorecard], None]]:
    """Open the file that `--html` names, and yield what adds a scorecard; it is in its place when all went well."""
    if file is None:
        yield lambda _scorecard: None
        return
    if file == "-":
        raise click.UsageError("`--html -`: standard output has the results; name a file")
    from toolgauge.report.document import TrajectoryDocument

    pass_at = {criterion.revision: criterion.pass_at for criterion in criteria}
    document = TrajectoryDocument(file, redactor(config), pass_at, config.trace_url)
    names = ", ".join(Path(name).name for name in recordings[:_MAX_NAMED])
    more = f" and {len(recordings) - _MAX_NAMED} more" if len(recordings) > _MAX_NAMED else ""
    document.open(f"Trajectories of {names}{more}")
    try:
        yield document.add
        document.close()
    finally:
        document.discard()
    echo(f"wrote `{printable(file)}`", err=True)
    if document.left_out:
        echo(f"{document.left_out} trajectories are not in `{file}`: it has no room for more", err=True)


def _terminal_redactor(config: Config, *, is_terminal: bool) -> Redactor:
    # Whoever sits in front of a terminal looks at recordings of their own; `redact.values`, where it is written, decides.
    is_shown = is_terminal and "values" not in config.redact.model_fields_set
    return redactor(config, show_values=is_shown or config.redact.values == "show")


def _lines(config: Config, criteria: Sequence[Criterion]) -> _Describe:
    style = terminal_style()
    redacting = _terminal_redactor(config, is_terminal=is_terminal())
    text = TextWriter(redacting, {criterion.revision: criterion.pass_at for criterion in criteria}, style)

    def lines(scorecard: Scorecard) -> Iterator[str]:
        if scorecard.results:
            yield style.head(trajectory_head(scorecard.trajectory))
            yield from map(text.result, scorecard.results)

    return lines


@click.command("explain", epilog=EXIT_CODES)
@click.argument("name", metavar="CRITERION")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@criteria_option("A criteria file, which has CRITERION; may be given several times. Default criteria need none.")
@click.option("--failed", is_flag=True, help="Only verdicts that are `fail` or `error`.")
@click.option(
    "--trace",
    "trace_id",
    metavar="ID",
    help="Only the trajectories of traces or conversations whose id begins with this.",
)
@configuration_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per verdict, each on one line.")
def explain(
    name: str,
    files: tuple[str, ...],
    criteria_files: tuple[str, ...],
    trace_id: str | None,
    config_paths: tuple[str, ...],
    overrides: tuple[str, ...],
    *,
    failed: bool,
    as_json: bool,
) -> None:
    """Explain the verdicts of one criterion on recorded traffic: what differed, expected beside actual, and the calls.

    CRITERION is the name of a default criterion or of one in `--criteria` or `--config`, FILE is as in `toolgauge inspect --help`.
    A verdict on a trajectory as a whole shows all its calls, one on a call shows this call. No judge is asked.

    On a terminal, values are shown, unless the configuration has `redact.values`; in a pipe and with --json they are with
    `--set redact.values=show` only. What looks like a key, a token, an e-mail address or a card is masked in any case.
    """
    config, criteria = load_to_score(config_paths, overrides, criteria_files)
    criterion = next((one for one in criteria if one.name == name), None)
    if criterion is None:
        raise ConfigError(
            f"no criterion called `{printable(name)}`", hint=suggestion(name, [it.name for it in criteria])
        )
    redacting = _terminal_redactor(config, is_terminal=is_terminal() and not as_json)
    pass_at = {criterion.revision: criterion.pass_at}
    text = TextWriter(redacting, pass_at, terminal_style())
    unmatched, kinds = UnmatchedCriteria((register(criterion),)), tool_kinds(config)
    words, is_found = Counter[OutcomeWord](), False
    with reading_progress(files) as reading:
        for scorecard in scorecards(reading, offline_pipeline(config, (criterion,))):
            unmatched.see(with_writing_tools(scorecard.trajectory, (), kinds))
            # A trajectory of a conversation is of all its traces.
            trajectory = scorecard.trajectory
            ids = (trajectory.trace_id, trajectory.conversation_id, *(call.span.trace_id for call in trajectory.calls))
            if trace_id is not None and not any(each and each.startswith(trace_id) for each in ids):
                continue
            is_found = True
            found: list[tuple[Result, OutcomeWord]] = [(one, outcome_word(one.outcome)) for one in scorecard.results]
            words.update(word for _, word in found)
            wanted = tuple(result for result, word in found if not failed or word in ("fail", "error"))
            if wanted:
                card = replace(scorecard, results=wanted)
                objects = verdict_objects(card, redacting, pass_at)
                for line in map(json.dumps, objects) if as_json else map(fitted, text.explained(card)):
                    reading.echo(line)
    if not is_found and trace_id is None:
        raise RecordingError("there is no trajectory to judge", hint="`toolgauge doctor FILE...` shows what is there")
    if not is_found:
        hint = "`toolgauge inspect FILE...` lists the trajectories"
        raise RecordingError(f"no trajectory of trace `{printable(trace_id or '')}`", hint=hint)
    warn_of_unmatched(unmatched)
    if text.hint is not None:
        echo_fitted(f"hint: {text.hint}", err=True)
    counts = ", ".join(f"{count} {word}" for word, count in words.most_common()) or "none"
    rule = f"{criterion.evaluator_name}, passes at {criterion.pass_at:g}"
    shadow = ", in the shadow" if criterion.enforce == "shadow" else ""
    echo_fitted(f"verdicts of `{name}` ({rule}{shadow}): {counts}", err=True)
