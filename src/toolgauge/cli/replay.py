"""`toolgauge replay`: recorded traffic, scored as live traffic would have been."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

import click

from toolgauge.cli.main import configuration_options
from toolgauge.cli.output import Reading, reading_progress, terminal_style
from toolgauge.config.model import Config
from toolgauge.export.regression_events import sentence
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.regressions import Regression
from toolgauge.offline.replay.criteria_table import Summary
from toolgauge.offline.replay.descriptions import trajectory_head
from toolgauge.offline.replay.recordings import scorecards
from toolgauge.offline.replay.result_lines import ResultLines, result_objects
from toolgauge.offline.terminal import printable
from toolgauge.score.criterion import Criterion, register, with_writing_tools
from toolgauge.score.unmatched import Unmatched, UnmatchedCriteria
from toolgauge.service.criteria_factory import load_for_replay
from toolgauge.service.pipeline_factory import offline_pipeline, redactor, tool_kinds

_Describe: TypeAlias = Callable[[Scorecard], Iterable[str]]


@click.command("replay")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--criteria",
    "criteria_files",
    multiple=True,
    type=click.Path(),
    help="A criteria file; may be given several times. Without one, the default criteria score what needs no reference.",
)
@configuration_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a result and line.")
def command(
    files: tuple[str, ...],
    criteria_files: tuple[str, ...],
    config_paths: tuple[str, ...],
    overrides: tuple[str, ...],
    *,
    as_json: bool,
) -> None:
    """Score recorded OTLP traffic with recorded time and print the results.

    Trajectories close as they would have closed live. FILE is as in `toolgauge inspect --help`. With `--criteria`,
    the criteria of these files are scored besides the default ones. No judge is asked here, so that a replay costs nothing
    and gives the same results every time: criteria that ask one are `not_evaluated` for the reason `judge_budget`.

    A table of the criteria ends the results (with --json, on standard error): how many passed and failed, the mean of so
    many scores, how many were not evaluated and why, and which criteria matched nothing. Standard error then says what to
    look at in those. Drops of a mean score are looked for as live, and named there where they would have been announced.

    On a terminal, explanations show the values that differ, unless the configuration has `redact.values`; in a pipe and
    with --json they do with `--set redact.values=show` only. What looks like a key, a token, an e-mail address or a card is
    masked in any case.
    """
    config, criteria = load_for_replay(config_paths, overrides, criteria_files, os.environ)
    summary = Summary(criteria)
    unmatched = UnmatchedCriteria(tuple(map(register, criteria)))
    kinds = tool_kinds(config)
    describe = _objects(config) if as_json else _lines(config, criteria)
    with reading_progress(files) as reading:
        make = offline_pipeline(config, criteria, on_regressions=partial(_print_regressions, reading))
        for scorecard in scorecards(reading, make):
            summary.add(scorecard)
            unmatched.see(with_writing_tools(scorecard.trajectory, (), kinds))
            for line in describe(scorecard):
                reading.echo(line)
    _print_summary(summary, unmatched.so_far(), to_stderr=as_json)


def _objects(config: Config) -> _Describe:
    redacting = redactor(config)
    return lambda scorecard: map(json.dumps, result_objects(scorecard, redacting))


def _lines(config: Config, criteria: Sequence[Criterion]) -> _Describe:
    style = terminal_style()
    # Whoever sits in front of a terminal looks at recordings of their own; `redact.values`, where it is written, decides.
    is_shown = sys.stdout.isatty() and "values" not in config.redact.model_fields_set
    results = ResultLines(
        redactor(config, show_values=is_shown or config.redact.values == "show"),
        {criterion.name: criterion.pass_at for criterion in criteria},
        style,
    )

    def lines(scorecard: Scorecard) -> Iterator[str]:
        if scorecard.results:
            yield style.head(trajectory_head(scorecard.trajectory))
            yield from map(results.line, scorecard.results)

    return lines


def _print_summary(summary: Summary, without: Sequence[Unmatched], *, to_stderr: bool) -> None:
    style = terminal_style(sys.stderr if to_stderr else sys.stdout)
    table = list(summary.lines({one.criterion.name for one in without}, style))
    for line in ("", *table) if table else ():
        click.echo(line, err=to_stderr)
    for one in without:
        click.echo(f"warning: criterion `{one.criterion.name}` {one.description}: look at {one.keys}", err=True)
    total = ", ".join(f"{count} {word}" for word, count in summary.words.most_common()) or "none"
    more = f"; criteria without a match: {len(without)}" if without else ""
    click.echo(f"results: {total}{more}", err=True)


def _print_regressions(reading: Reading, regressions: Sequence[Regression]) -> None:
    for regression in regressions:
        reading.echo(printable(f"regression: {sentence(regression)}"), err=True)
