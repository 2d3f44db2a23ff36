"""`toolgauge expect`: good recorded runs become references, a failing one becomes a case to correct."""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import click

from toolgauge.authoring.documents import Document, criteria_lines, document, reference_lines
from toolgauge.authoring.labels import LabelSet, read_labels
from toolgauge.authoring.runs import Choice, Chooser, choose_runs, with_runs_put_together
from toolgauge.cli.main import EXIT_CODES, configuration_options, criteria_option
from toolgauge.cli.output import load_to_score, reading_progress, write_text
from toolgauge.config.model import Config
from toolgauge.model.errors import ConfigError
from toolgauge.model.outcomes import outcome_word
from toolgauge.model.trajectory import TrajectoryScope
from toolgauge.recordings.recorded_requests import STDIN, RecordedRequest, scorecards
from toolgauge.report.streams import echo, redraw
from toolgauge.report.terminal import counted, printable
from toolgauge.service.criteria_factory import load_for_replay
from toolgauge.service.pipeline_factory import offline_pipeline


@click.command("expect", epilog=EXIT_CODES)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--trace",
    "traces",
    multiple=True,
    metavar="ID",
    help="A run, by the beginning of its trace id. Given several times: runs of one task.",
)
@click.option(
    "--case", "cases", multiple=True, metavar="GLOB", help="Runs of these cases only, by the attribute of --key."
)
@click.option(
    "--key",
    "case_key",
    default="eval.case.id",
    show_default=True,
    metavar="ATTRIBUTE",
    help="The attribute that names the task of a run: runs with the same value are runs of one task.",
)
@click.option(
    "--tools",
    multiple=True,
    metavar="TOOLS",
    help="Which calls are expected: `writes`, those that change state (the default), `all`, or names and globs of tools.",
)
@click.option(
    "--scope",
    type=click.Choice(("trace", "conversation")),
    help="What one run is: by default the trace with --trace, and else the whole conversation.",
)
@click.option("--promote", is_flag=True, help="Make cases of failing runs, for a person to correct.")
@criteria_option(
    "A criteria file; may be given several times. A run that fails a criterion in it, or without one a default criterion, "
    "is no reference; with --promote, its criteria show which calls were wrong."
)
@click.option(
    "--labels",
    "label_file",
    metavar="FILE.csv",
    type=click.Path(path_type=Path),
    help="Verdicts of people, as for `toolgauge check`: runs that passed are references, with --promote those that failed.",
)
@click.option(
    "--label-attribute", metavar="KEY", help="The verdict on a trace is in this attribute of its spans or resource."
)
@click.option("--label-pass-at", type=float, metavar="NUMBER", help="Labels that are numbers pass from here on.")
@click.option(
    "--references",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write what is expected to this file, one line a case, and one criterion that looks it up there.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Replace a file of --references that holds anything else: a person may have corrected it.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the criteria to this file, not to standard output.",
)
@configuration_options
def command(
    files: tuple[str, ...],
    traces: tuple[str, ...],
    cases: tuple[str, ...],
    case_key: str,
    tools: tuple[str, ...],
    scope: TrajectoryScope | None,
    criteria_files: tuple[str, ...],
    label_file: Path | None,
    label_attribute: str | None,
    label_pass_at: float | None,
    references: Path | None,
    output: Path | None,
    config_paths: tuple[str, ...],
    overrides: tuple[str, ...],
    *,
    promote: bool,
    force: bool,
) -> None:
    """Turn good recorded runs into references: the calls that the next run of the same task is held against.

    Prints a criteria file that `toolgauge check --criteria` and `criteria_files` take as it is. FILE is as in
    `toolgauge check --help`.

    Runs of one task are compared: calls that only some of them have become optional, and values that differ are left
    free. Of a task with a single run, values are left free by their form and by where they come from: text that the agent
    wrote, ids that nothing before the call had shown, the time of the run. Comments name what is free, and why. What looks
    like a key, a token, an e-mail address or a card is never written. Other values are: read the file before you share it.

    With --promote a failing run becomes a case: calls that no criterion faults are expected, the others stand in comments
    marked CORRECT, below what the user wrote. Until somebody has corrected them, the case fails.

    Each criterion is then tried on the recording: one that accepts every one of several runs is named, as it finds nothing in runs like these.
    """
    labels = [] if label_file is None else [read_labels(label_file, label_pass_at)]
    if label_attribute is not None:
        labels.append(LabelSet(label_attribute, is_attribute=True, pass_at=label_pass_at))
    choice = Choice(
        scope=scope or ("trace" if traces else "conversation"),
        tools=_tools(tools),
        case_key=case_key,
        traces=tuple(trace.lower() for trace in traces),
        cases=cases,
        only_failing=promote,
        labels=tuple(labels),
    )
    config, criteria = load_to_score(config_paths, with_runs_put_together(choice.scope, overrides), criteria_files)
    with reading_progress(files) as reading:
        # Standard input cannot be read again, to try the criteria on it.
        recording = list(reading) if STDIN in files else reading
        chooser = choose_runs(recording, choice, config, criteria)
    tasks, is_one = chooser.tasks(), references is not None
    written = document(tasks, tools=choice.tools, case_key=case_key, is_promoted=promote, is_one_criterion=is_one)
    _write(written, references, output, is_forced=force)
    _print_summary(written, chooser)
    with reading_progress(files) as reading:
        _print_accepting(recording if STDIN in files else reading, written, config, references)


def _tools(written: Sequence[str]) -> Literal["writes"] | tuple[str, ...] | None:
    """Read `--tools`; `None` is all tools."""
    if tuple(written) in ((), ("writes",)):
        return "writes"
    if len(written) > 1 and ("writes" in written or "all" in written):
        raise click.UsageError("`--tools writes` and `--tools all` stand alone")
    return None if "all" in written else tuple(written)


def _write(written: Document, references: Path | None, output: Path | None, *, is_forced: bool) -> None:
    looked_up = None
    if references is not None:
        looked_up = os.path.relpath(references, Path() if output is None else output.parent)
        lines = tuple(reference_lines(written))
        found = references.read_bytes().splitlines() if references.is_file() and not is_forced else ()
        if not {*filter(None, found)} <= {line.encode() for line in lines}:
            hint = "name another file, or replace it with `--force`"
            raise ConfigError(f"`{references}` holds other cases", hint=hint)
        _write_file(references, lines)
    if output is not None:
        _write_file(output, criteria_lines(written, looked_up))
        return
    for line in criteria_lines(written, looked_up):
        echo(line)


def _write_file(path: Path, lines: Iterable[str]) -> None:
    write_text(path, "".join(f"{line}\n" for line in lines))
    echo(f"wrote `{printable(str(path))}`", err=True)


def _print_summary(written: Document, chooser: Chooser) -> None:
    for line in chooser.left_out:
        echo(f"left out: {printable(line)}", err=True)
    if (more := chooser.count_left_out - len(chooser.left_out)) > 0:
        echo(f"left out: {more} more", err=True)
    cases = [case for one in written.criteria for case in one.cases]
    calls = [call for case in cases for call in case.expected]
    optional = sum(call.is_optional for call in calls)
    doubtful = sum(bool(call.doubts) for case in cases for call in case.calls)
    free = sum(word == "ignore" for one in written.criteria for word, _ in one.arguments.values())
    expected, left_free = counted(len(calls), "call"), counted(free, "argument")
    parts = [f"{expected} expected", f"{optional} of them optional", f"{left_free} left free"]
    if doubtful:
        parts.append(f"{counted(doubtful, 'call')} to correct")
    echo(f"{counted(len(cases), 'case')} from {counted(written.runs, 'run')}: {', '.join(parts)}", err=True)


_REFERENCES, _MAX_SHOWN = "references.jsonl", 5


def _print_accepting(
    recording: Iterable[RecordedRequest], written: Document, config: Config, references: Path | None
) -> None:
    """Name the criteria that accept every run that they judge in the recording."""
    # As `check --criteria` loads them, from files of their own: the files that were written may not be known here.
    with TemporaryDirectory() as folder:
        path = Path(folder, "criteria.yaml")
        lines = criteria_lines(written, None if references is None else _REFERENCES)
        path.write_text("\n".join(lines), encoding="utf-8")
        Path(folder, _REFERENCES).write_text("\n".join(reference_lines(written)), encoding="utf-8")
        _, criteria = load_for_replay((), (), [str(path)], os.environ, defaults=False)
    passed = Counter[str]()
    failed = set[str]()
    for scorecard in scorecards(recording, offline_pipeline(config, criteria)):
        for result in scorecard.results:
            word = outcome_word(result.outcome)
            passed[result.criterion] += word == "pass"
            if word in ("fail", "error"):
                failed.add(result.criterion)
    # A criterion was made of one run at least, which it accepts.
    names = [one.name for one in criteria if passed[one.name] > 1 and one.name not in failed]
    redraw("")
    for name in names[:_MAX_SHOWN]:
        text = f"`{name}` accepts every one of the {passed[name]:,} runs: it will find nothing in runs like these"
        echo(f"note: {printable(text)}", err=True)
    if len(names) > _MAX_SHOWN:
        echo(f"note: {len(names) - _MAX_SHOWN} more criteria accept every run", err=True)
