"""`toolgauge learn`: recorded traffic in, criteria to review out."""

import os
from collections.abc import Sequence
from pathlib import Path

import click

from toolgauge.authoring.evidence import Requirements
from toolgauge.authoring.labels import read_labels
from toolgauge.authoring.learner import Learner, Wanted, learn_recording
from toolgauge.cli.main import configuration_options
from toolgauge.cli.output import reading_progress, write_text
from toolgauge.config.model import Config
from toolgauge.model.errors import RecordingError
from toolgauge.report.streams import echo
from toolgauge.report.terminal import shortened
from toolgauge.service.criteria_factory import load_for_replay

_EPILOG = (
    "Exit codes: 0 criteria were written; 1 there is no tool call, or the recordings cannot be read; "
    "2 misuse or bad configuration; 3 not enough data: too few runs for any rule."
)
_NAME_LENGTH = 80


@click.command("learn", epilog=_EPILOG)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="The file to write. Default: stdout."
)
@click.option(
    "--min-runs",
    type=click.IntRange(min=2),
    default=20,
    show_default=True,
    help="A rule is written when it had something to judge in at least so many runs.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0, 0.5),
    default=0.01,
    show_default=True,
    help="The share of these runs that may break a rule which is written.",
)
@click.option(
    "--false-alarms",
    type=click.FloatRange(0, 1),
    default=0.05,
    show_default=True,
    help="How many runs may fail criteria learned from the other runs; above that, rules need more runs.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="ATTRIBUTE=VALUE",
    help="Learn from runs with this attribute only, of the resource or of a span, as in `--only service.version=1.4` or "
    "`--only ticket.outcome=solved`. May be given several times.",
)
@click.option(
    "--labels",
    "label_file",
    metavar="FILE.csv",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Learn from the runs alone that passed by this CSV file: `trace_id` or `conversation_id`, and `verdict`.",
)
@configuration_options
def command(
    files: tuple[str, ...],
    output: Path | None,
    min_runs: int,
    tolerance: float,
    false_alarms: float,
    only: tuple[str, ...],
    label_file: Path | None,
    config_paths: tuple[str, ...],
    overrides: tuple[str, ...],
) -> int:
    """Write contracts of tools and criteria that hold what was usual in traffic, each line with its evidence.

    FILE is as in `toolgauge check --help`. For each tool: which call has to work before it, for the same values, its arguments,
    and the keys of its results; for each service a budget, and what answers say after a tool worked. Learn from traffic that
    you are content with, read the file, and run it: `toolgauge check --criteria envelope.yaml FILE`, then as one of `criteria_files` of `toolgauge serve`.

    Values stay out of it, but for truth values, rounded figures, and labels such as `economy` that the tool's definition
    spells or that at least five conversations share. The same recordings give the same bytes.
    """
    for each in only:
        if not each.partition("=")[0] or "=" not in each:
            raise click.UsageError(f"--only takes ATTRIBUTE=VALUE, not `{each}`")
    pairs = tuple((key, value) for key, _, value in (each.partition("=") for each in only))
    wanted = Wanted(pairs, None if label_file is None else read_labels(label_file))
    config, _ = load_for_replay(config_paths, overrides, (), os.environ)
    learner = learned_from(files, wanted, config)
    if not learner.calls:
        raise RecordingError(
            wanted.why_none() or f"there is no tool call in these recordings ({learner.runs} runs)",
            hint="`toolgauge doctor FILE...` shows the reason",
        )
    learned = learner.result(Requirements(runs=min_runs, tolerance=tolerance, most_alarms=false_alarms))
    echo(f"{learned.runs} runs: contracts of {len(learned.contracts)} tools", err=True)
    if learned.needed > min_runs:
        echo(f"a contract needs {learned.needed} runs, as with {min_runs} too many would break one", err=True)
    for summary in learned.services:
        name = "(no service name)" if summary.service is None else shortened(summary.service, _NAME_LENGTH)
        line = f"{name}: {summary.runs} runs, {summary.calls} calls, {summary.criteria} criteria"
        if summary.needed > min_runs:
            line += f"; a limit needs {summary.needed} runs, as with {min_runs} too many runs would fail"
        if len(summary.versions) > 1:
            line += f"; {len(summary.versions)} versions are mixed: `--only service.version=...` learns from one"
        echo(line, err=True)
    if learner.cut_short:
        echo(f"left out: {learner.cut_short} runs that were not seen to their end", err=True)
    if not learned.count:
        text = "no rule has enough evidence; record more, or lower --min-runs and allow more --false-alarms"
        echo(text, err=True)
        return 3
    if output is None:
        echo(learned.text, end="")
        return 0
    write_text(output, learned.text)
    text = f"wrote contracts of {len(learned.contracts)} tools and {len(learned.criteria)} criteria to {output}; try them: toolgauge check --criteria {output} FILE..."
    echo(text, err=True)
    return 0


def learned_from(files: Sequence[str], wanted: Wanted, config: Config) -> Learner:
    """Read recordings as one, with progress, and take the wanted runs."""
    with reading_progress(files) as reading:
        return learn_recording(reading, wanted, config)
