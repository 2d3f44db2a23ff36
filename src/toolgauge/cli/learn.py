"""`toolgauge learn`: recorded traffic in, a criteria file to review out."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from toolgauge.cli.main import configuration_options
from toolgauge.cli.output import reading_progress
from toolgauge.config.model import Defaults
from toolgauge.model.errors import RecordingError, ToolgaugeError
from toolgauge.model.trajectory import Trajectory
from toolgauge.offline.backtest.labels import LabelSet, read_labels
from toolgauge.offline.compare.conversation_means import attribute
from toolgauge.offline.learn.evidence import Requirements
from toolgauge.offline.learn.learner import Learner, Options, ServiceSummary
from toolgauge.offline.replay.recordings import scorecards
from toolgauge.offline.terminal import shortened
from toolgauge.score.criterion import with_writing_tools
from toolgauge.service.criteria_factory import default_criteria, load_for_replay
from toolgauge.service.pipeline_factory import offline_pipeline, tool_kinds

_EPILOG = (
    "Exit codes: 0 criteria were written; 1 the recordings cannot be read; 2 misuse or bad configuration; 3 not enough data: "
    "no tool calls, or too few runs for any rule."
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
    """Write a criteria file that holds what was usual in recorded traffic, each line with its evidence.

    FILE is as in `toolgauge inspect --help`. For each service: which tools are called, in which order, how often, with which
    arguments, where ids come from, and how long it all takes. Learn from traffic that you are content with, read the file,
    and run it: `toolgauge replay --criteria envelope.yaml FILE`, then as one of `criteria_files` of `toolgauge serve`.

    Values stay out of it, but for truth values, rounded figures, and labels such as `economy` that the tool's definition
    spells or that at least five conversations share. The same recordings give the same bytes.
    """
    wanted = Wanted(tuple(map(_attribute, only)), None if label_file is None else read_labels(label_file))
    learner = learned_from(files, wanted, config_paths, overrides)
    if not learner.calls:
        raise RecordingError(
            wanted.why_none() or f"there is no tool call in these recordings ({learner.runs} runs)",
            hint="`toolgauge doctor FILE...` looks for the reason",
        )
    options = Options(requirements=Requirements(runs=min_runs, tolerance=tolerance), most_alarms=false_alarms)
    text, summaries = learner.result(options)
    written = sum(summary.criteria for summary in summaries)
    for summary in summaries:
        click.echo(_line(summary, min_runs), err=True)
    if learner.cut_short:
        click.echo(f"left out: {learner.cut_short} runs that were not seen to their end", err=True)
    if not written:
        click.echo(
            "no rule has enough evidence; record more, or lower --min-runs and allow more --false-alarms", err=True
        )
        return 3
    if output is None:
        click.echo(text, nl=False)
        return 0
    _write(output, text)
    click.echo(
        f"wrote {written} criteria to {output}; try them: toolgauge replay --criteria {output} FILE...", err=True
    )
    return 0


@dataclass(slots=True)
class Wanted:
    """Which runs are learned from: those with some attributes, and those that passed by some labels."""

    attributes: tuple[tuple[str, str], ...] = ()
    labels: LabelSet | None = None
    seen: int = 0
    with_attributes: int = 0
    labelled: int = 0

    def takes(self, trajectory: Trajectory) -> bool:
        """Return whether to learn from a run, and count what keeps runs out."""
        self.seen += 1
        if not all(attribute(trajectory, key) == value for key, value in self.attributes):
            return False
        self.with_attributes += 1
        if self.labels is None:
            return True
        labelled = self.labels.label_of(trajectory.trace_id, trajectory.conversation_id, conversation_first=True)
        self.labelled += labelled is not None
        return labelled is not None and self.labels.verdicts[labelled] is True

    def why_none(self) -> str | None:
        """Name what left no run to learn from; `None` where it is the traffic itself."""
        if self.seen and not self.with_attributes:
            return "no run has " + " and ".join(f"`{key}={value}`" for key, value in self.attributes)
        if self.labels is None or not self.seen:
            return None
        if not self.labelled:
            return (
                f"none of the {len(self.labels.verdicts)} labels of `{self.labels.name}` is on a run of the recording"
            )
        return f"no run with tool calls passed by the labels of `{self.labels.name}` ({self.labelled} runs have one)"


def _attribute(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise click.UsageError(f"--only takes ATTRIBUTE=VALUE, not `{text}`")
    return key, value


def learned_from(
    files: Sequence[str],
    wanted: Wanted,
    config_paths: Sequence[str],
    overrides: Sequence[str],
) -> Learner:
    """Read recordings as one, with progress, and take the wanted runs."""
    config, _ = load_for_replay(config_paths, overrides, (), os.environ)
    # A criterion that looks at conversations is what puts them together; one is enough.
    criteria = [one for one in default_criteria(Defaults(scope="conversation")) if one.evaluator_name == "tool_use"]
    kinds = tool_kinds(config)
    make = offline_pipeline(config, criteria, attributes=[key for key, _ in wanted.attributes])
    learner = Learner()
    with reading_progress(files) as reading:
        for scorecard in scorecards(reading, make):
            trajectory = scorecard.trajectory
            # A trace without the id of a conversation is judged as one of its own.
            is_whole = trajectory.scope == "conversation" or trajectory.conversation_id is None
            if is_whole and wanted.takes(trajectory):
                learner.add(with_writing_tools(trajectory, (), kinds))
    return learner


def _line(summary: ServiceSummary, min_runs: int) -> str:
    name = "(no service name)" if summary.service is None else shortened(summary.service, _NAME_LENGTH)
    text = f"{name}: {summary.runs} runs, {summary.calls} calls, {summary.criteria} criteria"
    if summary.needed > min_runs:
        text += f"; a rule needs {summary.needed} runs, as with {min_runs} too many runs would fail"
    if len(summary.versions) > 1:
        text += f"; {len(summary.versions)} versions are mixed: `--only service.version=...` learns from one"
    return text


def _write(output: Path, text: str) -> None:
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ToolgaugeError(f"cannot write `{output}`: {error.strerror}") from error
