"""`toolgauge check --firings` and `--labels`: the runs on which each criterion failed, beside people's verdicts.

Verdicts come from a CSV file, from attributes and events of the recording, or from a backend.
"""

import asyncio
import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import click

from toolgauge.authoring.firings import Backtest, CountedJudges, Report, Stopwatch
from toolgauge.authoring.labels import Labelled, LabelSet, RecordedFeedback, read_labels
from toolgauge.backends.settings import VENDORS
from toolgauge.cli.check import Asked
from toolgauge.cli.output import Reading, terminal_style, warn_of_unmatched, write_text
from toolgauge.cli.recordings import View
from toolgauge.config.load import load
from toolgauge.config.model import Config, backends
from toolgauge.model.errors import ConfigError, RecordingError
from toolgauge.model.feedback import PLAIN_VERDICTS
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.trajectory import Trajectory
from toolgauge.pipeline.pipeline import Pipeline
from toolgauge.pipeline.stages import ScorecardSink
from toolgauge.report.findings import ResultSummary
from toolgauge.report.streams import echo
from toolgauge.report.terminal import printable
from toolgauge.score.criterion import Criterion
from toolgauge.score.unmatched import UnmatchedCriteria
from toolgauge.service.pipeline_factory import offline_pipeline
from toolgauge.service.pulled_verdicts import pull
from toolgauge.settings import duration_ns

_DAYS = re.compile("([0-9]{1,4})d")
_READABLE = [name for name in VENDORS if name != "datadog"]


class Firings(View):
    """A `View` of runs by criterion. Its output depends on the recording, the criteria and the labels alone, but for durations."""

    def __init__(self, asked: Asked, config: Config, criteria: Sequence[Criterion]) -> None:
        if not criteria:
            raise ConfigError("there is no criterion", hint="give `--criteria FILE`, or leave the default criteria on")
        super().__init__(asked, config, criteria)
        self._labels: list[LabelSet] = []
        if asked.labels is not None:
            path = Path(asked.labels)
            labels = _pulled(asked) if _is_backend(asked.labels) else read_labels(path, asked.label_pass_at)
            self._labels.append(labels)
        if asked.label_attribute is not None:
            self._labels.append(LabelSet(asked.label_attribute, is_attribute=True, pass_at=asked.label_pass_at))
        self._judges, self._stopwatch = CountedJudges(), Stopwatch()
        self._feedback = RecordedFeedback(asked.label_pass_at)
        self._backtest = Backtest(criteria)

    def pipeline(self, reading: Reading) -> Callable[[ScorecardSink], Pipeline]:
        """Make the pipeline."""
        del reading
        return offline_pipeline(
            self.config,
            self.criteria,
            attributes=[one.name for one in self._labels if one.is_attribute],
            judging=self._judges,
            around=self._stopwatch.measure if self.asked.cost else None,
            feedback=self._feedback,
        )

    def takes(self, trajectory: Trajectory) -> bool:
        """Take the attribute with the verdict from each run."""
        for labels in self._labels:
            labels.add_attribute(trajectory)
        return True

    def lines(self, scorecard: Scorecard) -> Iterable[str]:
        """Count a run."""
        self._backtest.add(scorecard)
        return ()

    def end(self, summary: ResultSummary, unmatched: UnmatchedCriteria) -> int:
        """Print the report, and return the number of runs."""
        del summary
        self.check_runs(self._backtest.trajectories)
        is_earlier = click.get_current_context().info_name == "backtest"
        explains = f"toolgauge {'explain CRITERION' if is_earlier else 'check --criterion NAME'} FILE... --trace ID"
        report = Report(self._backtest, self._usable_labels(), self._judges.calls, explains)
        for line in (json.dumps(report.as_object()),) if self.asked.as_json else report.lines(terminal_style()):
            echo(line)
        warn_of_unmatched(unmatched)
        if self.asked.cost:
            for line in self._stopwatch.lines(self._backtest.trajectories):
                echo(line, err=True)
        return self._backtest.runs

    def _usable_labels(self) -> list[LabelSet]:
        """Add recorded verdicts; warn of labels that could not be used, and raise `RecordingError` where none could be."""
        seen = dict.fromkeys(self._backtest.seen())
        for one in self._labels:
            name, unmatched = printable(one.name), one.unmatched(seen)
            if one.verdicts and len(unmatched) == len(one.verdicts):
                raise RecordingError(
                    f"none of the {len(unmatched)} labels of `{name}` is on a trace or conversation of the recording",
                    hint=f"the first label is on {unmatched[0]}, the first trajectory is of {next(iter(seen))}",
                )
            _warn_of_labels(one, unmatched)
            if not one.verdicts:
                raise RecordingError(f"no trace has a verdict in `{name}`", hint=f"a verdict is {PLAIN_VERDICTS}")
        recorded = [found for _, found in sorted(self._feedback.by_name.items())]
        for one in recorded:
            _warn_of_labels(one, one.unmatched(seen))
        return [*self._labels, *(one for one in recorded if one.verdicts)]


def _warn_of_labels(labels: LabelSet, unmatched: Sequence[Labelled]) -> None:
    name = printable(labels.name)
    if labels.unread:
        first = f", the first is `{labels.first_unread}`" if labels.first_unread else ""
        echo(f"warning: {labels.unread} values of `{name}` are no verdicts{first}", err=True)
    if unmatched:
        of = f"{len(unmatched)} of {len(labels.verdicts)} labels of `{name}`"
        echo(f"warning: {of} are on nothing in the recording, the first on {unmatched[0]}", err=True)


def _is_backend(labels: str) -> bool:
    """Return whether `--labels` names a backend, and no file."""
    return ":" in labels and not Path(labels).exists()


def print_labels(asked: Asked) -> None:
    """Print the labels of a backend as CSV, unless they are written to a file."""
    if not _is_backend(asked.labels or ""):
        raise click.UsageError("`--labels FILE.csv` takes recordings")
    labels = _pulled(asked)
    if asked.labels_file is None:
        echo(labels.as_csv(), end="")


def _pulled(asked: Asked) -> LabelSet:
    """Read labels from a backend, and write them to the file for them.

    Scores of models and code are left out, and so are runs with different verdicts.
    """
    backend, _, project = (asked.labels or "").partition(":")
    place = "experiments" if backend == "mlflow" else "project"
    overrides = (*asked.overrides, *([f"exporters.{backend}.{place}={project}"] if project else []))
    known = {**backends(load([*map(Path, asked.config_paths)], overrides, os.environ, sends=False).exporters)}
    settings = known.get(backend)
    if settings is None:
        names_known = ", ".join(f"`{name}`" for name in known) or "none"
        raise ConfigError(
            f"there is no backend `{printable(backend)}` in `exporters` of the configuration",
            hint=f"there is {names_known}; one of {', '.join(_READABLE)} is added with `--set exporters.{_READABLE[0]}.endpoint=URL`",
        )
    days = _DAYS.fullmatch(asked.since)
    try:
        since_ns = duration_ns(asked.since if days is None else f"{24 * int(days[1])}h")
    except ValueError as error:
        raise ConfigError(f"`--since` {error}, or in days, such as `7d`") from error
    verdicts = asyncio.run(pull(backend, settings, time.time_ns() - since_ns))
    labels, names = LabelSet(backend, pass_at=asked.label_pass_at), asked.label_names
    for verdict in verdicts:
        if not names or any(fnmatchcase(verdict.name, name) for name in names):
            labels.add_feedback(verdict)
    by_name = sorted(Counter(verdict.name for verdict in verdicts).items())
    counts = ", ".join(f"`{printable(name)}` {count}" for name, count in by_name) or None
    if not labels.verdicts:
        raise RecordingError(f"there is no verdict of a person in `{backend}` since {asked.since}", hint=counts)
    if asked.labels_file is not None:
        write_text(Path(asked.labels_file), labels.as_csv())
    found = list(labels.verdicts.values())
    parts = [f"{found.count(True)} passed", f"{found.count(False)} failed"]
    if labels.contradicted:
        parts.append(f"{labels.contradicted} with different verdicts, left out")
    if labels.unread:
        parts.append(f"{labels.unread} values that are no verdicts, the first is `{printable(labels.first_unread)}`")
    echo(f"labels of `{labels.name}` ({counts}): {', '.join(parts)}", err=True)
    return labels
