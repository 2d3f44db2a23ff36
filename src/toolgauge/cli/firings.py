"""`toolgauge check --firings` and `--labels`: on how many runs each criterion failed, beside people's verdicts."""

import json
from collections.abc import Callable, Iterable, Sequence

import click

from toolgauge.authoring.firings import Backtest, CountedJudges, Report, Stopwatch
from toolgauge.authoring.labels import Labelled, LabelSet, RecordedFeedback
from toolgauge.cli.check import Asked
from toolgauge.cli.labels import labels_of
from toolgauge.cli.loaded_criteria import warn_of_unmatched
from toolgauge.cli.output import Reading, terminal_style
from toolgauge.cli.recordings import View
from toolgauge.config.model import Config
from toolgauge.model.errors import ConfigError, RecordingError
from toolgauge.model.outcomes import Scorecard
from toolgauge.model.trajectory import Trajectory
from toolgauge.pipeline.pipeline import Pipeline
from toolgauge.pipeline.stages import ScorecardSink
from toolgauge.recognize.feedback_reader import PLAIN_VERDICTS
from toolgauge.report.findings import Summary
from toolgauge.report.streams import echo
from toolgauge.report.terminal import printable
from toolgauge.score.criterion import Criterion
from toolgauge.score.scorer import nothing_around
from toolgauge.score.unmatched import UnmatchedCriteria
from toolgauge.service.pipeline_factory import offline_pipeline


class Firings(View):
    """A `View` of runs by criterion. Its output depends on the recording, the criteria and the labels alone, but for durations."""

    def __init__(self, asked: Asked, config: Config, criteria: Sequence[Criterion]) -> None:
        if not criteria:
            raise ConfigError("there is no criterion", hint="give `--criteria FILE`, or leave the default criteria on")
        super().__init__(asked, config, criteria)
        given = labels_of(asked)
        self._labels = [] if given is None else [given]
        self._attribute = None if asked.label_attribute is None else LabelSet(asked.label_attribute)
        self._judges, self._stopwatch = CountedJudges(), Stopwatch()
        self._feedback = RecordedFeedback(asked.label_pass_at)
        self._backtest = Backtest(criteria)

    def pipeline(self, reading: Reading) -> Callable[[ScorecardSink], Pipeline]:
        """Make the pipeline."""
        del reading
        return offline_pipeline(
            self.config,
            self.criteria,
            attributes=() if self._attribute is None else (self._attribute.name,),
            judging=self._judges,
            around=self._stopwatch.measure if self.asked.cost else nothing_around,
            feedback=self._feedback,
        )

    def takes(self, trajectory: Trajectory) -> bool:
        """Take the attribute with the verdict from each run."""
        if self._attribute is not None:
            self._attribute.add_attribute(trajectory, self.asked.label_pass_at)
        return True

    def lines(self, scorecard: Scorecard) -> Iterable[str]:
        """Count a run."""
        self._backtest.add(scorecard)
        return ()

    def end(self, summary: Summary, unmatched: UnmatchedCriteria) -> int:
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
        labels = [*self._labels, *([] if self._attribute is None else [self._attribute])]
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
        recorded = [found for _, found in sorted(self._feedback.by_name.items())]
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
