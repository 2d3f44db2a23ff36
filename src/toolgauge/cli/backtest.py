"""`toolgauge backtest`: how often criteria would have fired on recorded traffic; `labels pull`: people's verdicts from a backend."""

import asyncio
import json
import os
import re
import time
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import click

from toolgauge.authoring.backtest_report import Report
from toolgauge.authoring.firings import Backtest, CountedJudges, Stopwatch
from toolgauge.authoring.labels import Labelled, LabelSet, RecordedFeedback, read_labels
from toolgauge.backends.score_sender import PersonVerdict
from toolgauge.cli.loaded_criteria import allow_nothing_option, judged_nothing, load_to_score, warn_of_unmatched
from toolgauge.cli.main import EXIT_CODES, configuration_options, criteria_option
from toolgauge.cli.output import reading_progress, terminal_style, write_text
from toolgauge.config.load import load
from toolgauge.config.model import backends
from toolgauge.export.label_queues import QUEUED
from toolgauge.model.errors import ConfigError, RecordingError
from toolgauge.recognize.feedback_reader import PLAIN_VERDICTS
from toolgauge.recordings.recorded_requests import scorecards
from toolgauge.report.streams import echo
from toolgauge.report.terminal import printable
from toolgauge.score.criterion import register, with_writing_tools
from toolgauge.score.scorer import nothing_around
from toolgauge.score.unmatched import UnmatchedCriteria
from toolgauge.service.pipeline_factory import offline_pipeline, tool_kinds
from toolgauge.service.pulled_verdicts import as_feedback, pull
from toolgauge.settings import duration_ns


@click.command("backtest", epilog=EXIT_CODES)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@criteria_option("A criteria file, scored besides the default criteria; may be given several times.")
@click.option(
    "--labels",
    "label_file",
    metavar="FILE.csv",
    type=click.Path(path_type=Path),
    help="Verdicts of people: a CSV file with the columns `trace_id` or `conversation_id`, and `verdict`.",
)
@click.option(
    "--label-attribute", metavar="KEY", help="The verdict on a trace is in this attribute of its spans or resource."
)
@click.option(
    "--label-pass-at",
    type=float,
    metavar="NUMBER",
    help="Labels that are numbers pass from here on. Without it, 1 passes, 0 and -1 fail, and others are no verdicts.",
)
@allow_nothing_option
@click.option("--cost", is_flag=True, help="Print on standard error how long scoring took, by criterion.")
@configuration_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    files: tuple[str, ...],
    criteria_files: tuple[str, ...],
    label_file: Path | None,
    label_attribute: str | None,
    label_pass_at: float | None,
    config_paths: tuple[str, ...],
    overrides: tuple[str, ...],
    *,
    allow_nothing: bool,
    cost: bool,
    as_json: bool,
) -> int:
    """Count how often each criterion would have fired on recorded traffic, before it does.

    FILE is as in `toolgauge inspect --help`. A criterion fires on a run when any of its results there is a `fail`; a run is a
    conversation, or a trace where no producer recorded its id. With labels, a run is what a label is on, and the table shows on how many
    passed and failed runs each criterion fired, with precision (of the runs it fired on, those that had failed), recall (of the failed
    runs, those it fired on) and agreement, each with its 95 % interval. Runs that a criterion did not judge count in none of
    them; `all together` fires when any criterion does.

    A verdict is `passed` or `failed`, `true` or `false`, `1` or `0`, `good` or `bad`, `up` or `down`. No judge is asked; the
    number of its calls is counted. What is printed depends on the recording, the criteria and the labels alone.
    """
    labels = [] if label_file is None else [read_labels(label_file, label_pass_at)]
    attribute = None if label_attribute is None else LabelSet(label_attribute)
    config, criteria = load_to_score(config_paths, overrides, criteria_files)
    if not criteria:
        raise ConfigError("there is no criterion", hint="give `--criteria FILE`, or leave the default criteria on")
    judges, stopwatch, feedback = CountedJudges(), Stopwatch(), RecordedFeedback(label_pass_at)
    backtest, unmatched = Backtest(criteria), UnmatchedCriteria(tuple(map(register, criteria)))
    make = offline_pipeline(
        config,
        criteria,
        attributes=() if attribute is None else (attribute.name,),
        judging=judges,
        around=stopwatch.measure if cost else nothing_around,
        feedback=feedback,
    )
    kinds = tool_kinds(config)
    with reading_progress(files) as reading:
        for scorecard in scorecards(reading, make):
            backtest.add(scorecard)
            unmatched.see(with_writing_tools(scorecard.trajectory, (), kinds))
            if attribute is not None:
                attribute.add_attribute(scorecard.trajectory, label_pass_at)
    if not backtest.trajectories:
        raise RecordingError("there is no trajectory to judge", hint="`toolgauge doctor FILE...` shows what is there")
    if attribute is not None:
        labels.append(attribute)
    labels = _usable_labels(labels, feedback, backtest)
    report = Report(backtest, labels, judges.calls)
    for line in (json.dumps(report.as_object()),) if as_json else report.lines(terminal_style()):
        echo(line)
    warn_of_unmatched(unmatched)
    if cost:
        _print_cost(stopwatch, backtest)
    scores = sum(counts.words["pass"] + counts.words["fail"] for counts in backtest.results.values())
    return int(judged_nothing(scores, backtest.runs, "run", allow_nothing=allow_nothing))


def _usable_labels(labels: Sequence[LabelSet], feedback: RecordedFeedback, backtest: Backtest) -> list[LabelSet]:
    """Add recorded verdicts; warn of labels that could not be used, and raise `RecordingError` where none could be."""
    seen = dict.fromkeys(backtest.seen())
    for one in labels:
        name, unmatched = printable(one.name), one.unmatched(seen)
        if one.verdicts and len(unmatched) == len(one.verdicts):
            raise RecordingError(
                f"none of the {len(unmatched)} labels of `{name}` is on a trace or conversation of the recording",
                hint=f"the first label is on {unmatched[0]}, the first trajectory is of {next(iter(seen))}",
            )
        _warn_of_labels(one, unmatched)
        if not one.verdicts:
            raise RecordingError(f"no trace has a verdict in `{name}`", hint=f"a verdict is {PLAIN_VERDICTS}")
    recorded = [found for _, found in sorted(feedback.by_name.items())]
    for one in recorded:
        _warn_of_labels(one, one.unmatched(seen))
    return [*labels, *(one for one in recorded if one.verdicts)]


def _warn_of_labels(labels: LabelSet, unmatched: Sequence[Labelled]) -> None:
    name = printable(labels.name)
    if labels.unread:
        first = f", the first is `{labels.first_unread}`" if labels.first_unread else ""
        echo(f"warning: {labels.unread} values of `{name}` are no verdicts{first}", err=True)
    if unmatched:
        of = f"{len(unmatched)} of {len(labels.verdicts)} labels of `{name}`"
        echo(f"warning: {of} are on nothing in the recording, the first on {unmatched[0]}", err=True)


def _print_cost(stopwatch: Stopwatch, backtest: Backtest) -> None:
    """Print durations where they change nothing that is compared."""
    total_ms = stopwatch.taken_ns.total() / 1e6
    each_ms = total_ms / backtest.trajectories
    echo(f"cost: {total_ms:.1f} ms for {backtest.trajectories} trajectories, {each_ms:.3f} ms each", err=True)
    for name, taken_ns in stopwatch.taken_ns.most_common():
        evaluations = stopwatch.evaluations[name]
        each_us = taken_ns / 1e3 / evaluations
        text = f"  {printable(name)}: {taken_ns / 1e6:.1f} ms in {evaluations} evaluations, {each_us:.0f} us each"
        echo(text, err=True)


_DAYS = re.compile("([0-9]{1,4})d")
_READABLE = ("phoenix", "langfuse", "mlflow", "langsmith", "opik")


@click.group("labels", epilog=EXIT_CODES)
def labels() -> None:
    """Read people's verdicts from a backend."""


@labels.command("pull", epilog=EXIT_CODES)
@click.argument("backend")
@click.option("--since", default="7d", show_default=True, metavar="DURATION", help="How far back to read.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="The CSV file to write; standard output without it."
)
@click.option(
    "--name", "names", multiple=True, metavar="GLOB", help="Verdicts of this name alone; may be given several times."
)
@click.option(
    "--pass-at",
    type=float,
    metavar="NUMBER",
    help="Verdicts that are numbers pass from here on. Without it, 1 passes, 0 and -1 fail, and others are no verdicts.",
)
@configuration_options
def pull_command(
    backend: str,
    since: str,
    output: Path | None,
    names: tuple[str, ...],
    pass_at: float | None,
    config_paths: tuple[str, ...],
    overrides: tuple[str, ...],
) -> None:
    """Write verdicts of people as labels: a CSV file that `backtest --labels` and `expect --labels` read.

    BACKEND is `phoenix`, `langfuse`, `mlflow`, `langsmith` or `opik`, whose address and key are in the section
    `exporters` of the configuration, or the `name` of an entry there. Scores of models and code are left out. A run with
    different verdicts is left out: choose one with --name. Runs that `queues` drew have a weight.
    """
    known = {**backends(load([Path(path) for path in config_paths], overrides, os.environ, sends=False).exporters)}
    settings = known.get(backend)
    if settings is None:
        names_known = ", ".join(f"`{name}`" for name in known) or "none"
        raise ConfigError(
            f"there is no backend `{printable(backend)}` in `exporters` of the configuration",
            hint=f"there is {names_known}; one of {', '.join(_READABLE)} is added with `--set exporters.{_READABLE[0]}.endpoint=URL`",
        )
    days = _DAYS.fullmatch(since)
    try:
        since_ns = duration_ns(since if days is None else f"{24 * int(days[1])}h")
    except ValueError as error:
        raise ConfigError(f"`--since` {error}, or in days, such as `7d`") from error
    verdicts = asyncio.run(pull(backend, settings, time.time_ns() - since_ns))
    pulled = _labels(backend, verdicts, names, pass_at)
    if not pulled.verdicts:
        raise RecordingError(f"there is no verdict of a person in `{backend}` since {since}", hint=_counts(verdicts))
    if output is None:
        echo(pulled.as_csv(), end="")
    else:
        write_text(output, pulled.as_csv())
    found = list(pulled.verdicts.values())
    parts = [f"{found.count(True)} passed", f"{found.count(False)} failed"]
    if pulled.contradicted:
        parts.append(f"{pulled.contradicted} with different verdicts, left out")
    if pulled.unread:
        parts.append(f"{pulled.unread} values that are no verdicts, the first is `{printable(pulled.first_unread)}`")
    echo(f"labels of `{pulled.name}` ({_counts(verdicts)}): {', '.join(parts)}", err=True)


def _labels(backend: str, verdicts: Sequence[PersonVerdict], names: Sequence[str], pass_at: float | None) -> LabelSet:
    labels = LabelSet(backend)
    for verdict in verdicts:
        labelled = Labelled(
            is_conversation=verdict.trace_id is None, id=verdict.trace_id or verdict.conversation_id or ""
        )
        if verdict.name == QUEUED:
            if verdict.value is not None and 0 < verdict.value <= 1:
                labels.weights[labelled] = 1 / verdict.value
        elif not names or any(fnmatchcase(verdict.name, name) for name in names):
            passed = as_feedback(verdict).passed
            if verdict.value is not None and pass_at is not None:
                passed = verdict.value >= pass_at
            value = str(verdict.label if verdict.value is None else verdict.value)
            labels.add_value(labelled, value, passed=passed)
    return labels


def _counts(verdicts: Sequence[PersonVerdict]) -> str | None:
    """Count the verdicts by name: a hint where `--name` matched none."""
    counts = Counter(verdict.name for verdict in verdicts if verdict.name != QUEUED)
    return ", ".join(f"`{printable(name)}` {count}" for name, count in sorted(counts.items())) or None
