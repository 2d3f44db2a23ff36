"""`toolgauge replay`: recorded traffic, scored as live traffic would have been."""

import json
import os
from collections import Counter
from collections.abc import Sequence

import click

from toolgauge.cli.main import configuration_options
from toolgauge.cli.output import reading_progress
from toolgauge.export.regression_events import sentence
from toolgauge.model.outcomes import outcome_word
from toolgauge.model.regressions import Regression
from toolgauge.offline.replay.descriptions import result_line, result_objects, trajectory_head
from toolgauge.offline.replay.recordings import scorecards
from toolgauge.offline.terminal import printable
from toolgauge.score.criterion import register, with_writing_tools
from toolgauge.score.unmatched import UnmatchedCriteria
from toolgauge.service.criteria_factory import load_for_replay
from toolgauge.service.pipeline_factory import offline_pipeline, tool_kinds


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
    and gives the same results every time: criteria that ask one are `not_evaluated` for the reason `judge_budget`. At the end,
    standard error names criteria that matched no trajectory, or whose `tools` named no call. Drops of a mean score are looked
    for as live, and named there where they would have been announced.
    """
    config, criteria = load_for_replay(config_paths, overrides, criteria_files, os.environ)
    make = offline_pipeline(config, criteria, on_regressions=_print_regressions)
    words: Counter[str] = Counter()
    unmatched = UnmatchedCriteria(tuple(map(register, criteria)))
    kinds = tool_kinds(config)
    with reading_progress(files) as recording:
        for scorecard in scorecards(recording, make):
            words.update(outcome_word(result.outcome) for result in scorecard.results)
            unmatched.see(with_writing_tools(scorecard.trajectory, (), kinds))
            if as_json:
                for line in result_objects(scorecard):
                    click.echo(json.dumps(line))
            elif scorecard.results:
                click.echo(trajectory_head(scorecard.trajectory))
                for result in scorecard.results:
                    click.echo(result_line(result))
    without = unmatched.so_far()
    for one in without:
        click.echo(f"warning: criterion `{one.criterion.name}` {one.description}: look at {one.keys}", err=True)
    total = ", ".join(f"{count} {word}" for word, count in words.most_common()) or "none"
    more = f"; criteria without a match: {len(without)}" if without else ""
    click.echo(f"results: {total}{more}", err=True)


def _print_regressions(regressions: Sequence[Regression]) -> None:
    for regression in regressions:
        click.echo(printable(f"regression: {sentence(regression)}"), err=True)
