"""Recordings of `toolgauge check`: one loop reads and scores them, and a view prints the results."""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import click
from msgspec.structs import replace

from toolgauge.cli.check import Asked
from toolgauge.cli.output import (
    Reading,
    judged_nothing,
    load_to_score,
    reading_progress,
    terminal_style,
    warn_of_unmatched,
)
from toolgauge.cli.report_files import Reports, endpoints, html_document, score_tables
from toolgauge.config.load import load
from toolgauge.config.model import Config
from toolgauge.config.problems import suggestion
from toolgauge.export.regression_events import IncidentLines, tool_change_sentence
from toolgauge.model.errors import ConfigError, RecordingError
from toolgauge.model.outcomes import OutcomeWord, Result, Scorecard, outcome_word
from toolgauge.model.trajectory import Trajectory
from toolgauge.pipeline.pipeline import Pipeline
from toolgauge.pipeline.stages import ScorecardSink
from toolgauge.recordings.producer_counts import Tally
from toolgauge.recordings.recorded_requests import scorecards
from toolgauge.report.findings import FAIL_ON, Gate, Report, ResultSummary, ScorecardRows
from toolgauge.report.json_objects import result_objects, trajectory_object, verdict_objects
from toolgauge.report.run_failures import Baseline, Exemptions
from toolgauge.report.streams import echo, echo_fitted, is_terminal
from toolgauge.report.terminal import fitted, printable
from toolgauge.report.text import TextWriter, trajectory_head
from toolgauge.score.criterion import Criterion, Lookup, register, with_writing_tools
from toolgauge.score.unmatched import UnmatchedCriteria
from toolgauge.service.pipeline_factory import offline_pipeline, redactor, tool_kinds


class View(ABC):
    """Scores by all criteria, and counts every run."""

    def __init__(self, asked: Asked, config: Config, criteria: Sequence[Criterion]) -> None:
        self.asked, self.config, self.criteria = asked, config, criteria
        self.pass_at = {one.revision: one.pass_at for one in criteria}
        # A person at a terminal looks at recordings of their own; `redact.values` decides where it is configured.
        is_shown = is_terminal() and not asked.as_json and "values" not in config.redact.model_fields_set
        self.redactor = redactor(config, show_values=True if is_shown else None)
        self.text = TextWriter(self.redactor, self.pass_at, terminal_style())

    def pipeline(self, reading: Reading) -> Callable[[ScorecardSink], Pipeline]:
        """Make the pipeline; lines on standard error go through `reading`."""
        del reading
        return offline_pipeline(self.config, self.criteria)

    def takes(self, trajectory: Trajectory) -> bool:
        """Return whether a run counts."""
        del trajectory
        return True

    @abstractmethod
    def lines(self, scorecard: Scorecard) -> Iterable[str]:
        """Describe a run."""

    @abstractmethod
    def end(self, summary: ResultSummary, unmatched: UnmatchedCriteria) -> int:
        """Print the end, and return the number of runs."""

    def check_runs(self, runs: int) -> None:
        """Raise `RecordingError` without any run."""
        if not runs:
            raise RecordingError(
                "there is no trajectory to judge", hint="`toolgauge doctor FILE...` shows what is there"
            )


def check_recordings(asked: Asked, reports: Reports, baseline: Baseline | None) -> tuple[Report, list[str]]:
    """Score recordings and print what the view shows; return the report and the last lines for standard error."""
    overrides = (*asked.overrides, *endpoints(asked.to))
    config, criteria = load_to_score(asked.config_paths, overrides, asked.criteria_files)
    view = _view(asked, config, criteria)
    criteria, kinds, redacting = view.criteria, tool_kinds(config), redactor(config)
    gate = _gate(asked, criteria)
    keys = [one.reference.key for one in criteria if isinstance(one.reference, Lookup)]
    exemptions = Exemptions(redacting, baseline, only_proved=asked.proved, case_keys=keys)
    summary, rows = ResultSummary(criteria), ScorecardRows(redacting, exemptions.case_of)
    unmatched, lost = UnmatchedCriteria(tuple(map(register, criteria))), list[str]()
    with (
        html_document(asked, config, criteria) as add_to_document,
        score_tables(asked.to, config, lost) as add_to_tables,
        reading_progress(asked.files) as reading,
    ):
        for scorecard in scorecards(reading, view.pipeline(reading)):
            unmatched.see(with_writing_tools(scorecard.trajectory, (), kinds))
            if view.takes(scorecard.trajectory):
                summary.add(scorecard)
                add_to_document(scorecard)
                add_to_tables(scorecard)
                reports.add(rows.rows(scorecard, exemptions.of_run(scorecard)))
                for line in view.lines(scorecard):
                    reading.echo(line if asked.as_json else fitted(line))
    runs = view.end(summary, unmatched)
    if not runs and not asked.fail_on and not asked.allow_nothing:
        view.check_runs(runs)
    # A default criterion may have nothing to look at.
    without_result = {one.name: "has no result" for one in summary.counts if not (one.words or one.is_default)}
    without_result |= {one.criterion.name: one.description for one in unmatched.so_far()}
    checks = tuple(gate.checks(summary.counts, without_result))
    # Conditions that failed come last.
    closing = [
        printable(f"gate {'passed' if each.passed else 'failed'}: `{each.condition}`: {each.sentence}")
        for each in sorted(checks, key=lambda each: not each.passed)
    ]
    failed = not all(each.passed for each in checks)
    if not asked.fail_on:
        closing += exemptions.lines()
        failed = failed or exemptions.failed > 0
    elif not gate.is_set and isinstance(view, Results):
        count = sum(one.words["fail"] + one.words["error"] for one in summary.counts if not one.is_shadow)
        results = f"{count} result{' is' if count == 1 else 's are'} `fail` or `error`"
        how = "`--fail-on fail,error` or `--fail-under NAME=0.9` end with 1"
        closing += [f"exit code 0, although {results}; {how}"] * bool(count)
    if not failed and not lost and not asked.allow_nothing:
        closing += judged_nothing(summary.judged, runs, "run")
        failed = summary.judged == 0 < runs
    report = Report(
        title=reports.title,
        rows=reports.rows,
        files=asked.files,
        counts=summary.counts,
        groups=rows.groups.groups(),
        without_result=without_result,
        checks=checks,
        is_failed=failed or bool(lost),
    )
    return report, closing


def _gate(asked: Asked, criteria: Sequence[Criterion]) -> Gate:
    """Make the gate; an unknown criterion is misuse."""
    known = {criterion.name: criterion.enforce for criterion in criteria}
    for name in asked.fail_under:
        if name not in known:
            names = ", ".join(f"`{one}`" for one in known) or "none"
            raise click.UsageError(f"`--fail-under`: no criterion called `{printable(name[:80])}`; known: {names}")
        if known[name] == "shadow":
            echo(
                f"warning: `--fail-under {name}` is left out: the criterion has `enforce: shadow`, which fails nothing",
                err=True,
            )
    return Gate(fail_on=[word for word in FAIL_ON if word in asked.fail_on], fail_under=asked.fail_under)


def _view(asked: Asked, config: Config, criteria: Sequence[Criterion]) -> View:
    if asked.view == "firings" or asked.labels is not None or asked.label_attribute is not None:
        from toolgauge.cli.firings import Firings

        return Firings(asked, config, criteria)
    if asked.criterion is None and asked.trace_id is None and not asked.failed:
        return Results(asked, config, criteria)
    return Verdicts(asked, config, criteria)


class Results(View):
    """A `View` of all results, with a table of the criteria, regressions and changes of tools."""

    def pipeline(self, reading: Reading) -> Callable[[ScorecardSink], Pipeline]:
        """Make the pipeline, which names drops of scores and changes of tools."""

        def echo_all(lines: Iterable[str]) -> None:
            for line in lines:
                reading.echo(fitted(printable(line)), err=True)

        incidents = IncidentLines()
        return offline_pipeline(
            self.config,
            self.criteria,
            on_regressions=lambda found: echo_all(f"regression: {line}" for _, _, line in incidents.add(found)),
            on_tool_changes=lambda found, _: echo_all(f"tool change: {tool_change_sentence(one)}" for one in found),
        )

    def lines(self, scorecard: Scorecard) -> Iterator[str]:
        """Write each result on a line."""
        if self.asked.as_json:
            yield from map(json.dumps, result_objects(scorecard, self.redactor))
        elif scorecard.results:
            yield terminal_style().head(trajectory_head(scorecard.trajectory))
            yield from map(self.text.result, scorecard.results)

    def end(self, summary: ResultSummary, unmatched: UnmatchedCriteria) -> int:
        """Print the table; with --json, on standard error."""
        without = unmatched.so_far()
        table = [*summary.lines({one.criterion.name for one in without}, terminal_style(err=self.asked.as_json))]
        for line in ("", *table) if table else ():
            echo_fitted(line, err=self.asked.as_json)
        warn_of_unmatched(unmatched)
        more = f"; criteria without a match: {len(without)}" if without else ""
        echo_fitted(f"results: {_counted(summary)}{more}", err=True)
        return summary.runs


class Verdicts(View):
    """A `View` of what decided: expected beside actual, and the calls, of one criterion or of the runs with an id."""

    def __init__(self, asked: Asked, config: Config, criteria: Sequence[Criterion]) -> None:
        name = asked.criterion
        super().__init__(asked, config, [one for one in criteria if name in (None, one.name)])
        if not self.criteria and name is not None:
            hint = suggestion(name, [one.name for one in criteria])
            raise ConfigError(f"no criterion called `{printable(name)}`", hint=hint)

    def takes(self, trajectory: Trajectory) -> bool:
        """Count runs with the id: a trajectory of a conversation is of all its traces."""
        ids = (trajectory.trace_id, trajectory.conversation_id, *(call.span.trace_id for call in trajectory.calls))
        start = self.asked.trace_id or ""
        return any(each is not None and each.startswith(start) for each in ids)

    def lines(self, scorecard: Scorecard) -> Iterator[str]:
        """Explain each verdict."""
        found: list[tuple[Result, OutcomeWord]] = [(one, outcome_word(one.outcome)) for one in scorecard.results]
        wanted = tuple(one for one, word in found if not self.asked.failed or word in ("fail", "error"))
        if wanted:
            card = replace(scorecard, results=wanted)
            objects = verdict_objects(card, self.redactor, self.pass_at)
            yield from map(json.dumps, objects) if self.asked.as_json else self.text.explained(card)

    def end(self, summary: ResultSummary, unmatched: UnmatchedCriteria) -> int:
        """Print the counts of each criterion; raise `RecordingError` where no run counts."""
        if not summary.runs and self.asked.trace_id is not None:
            text = f"no trajectory of trace `{printable(self.asked.trace_id)}`"
            raise RecordingError(text, hint="`toolgauge check --calls FILE...` lists the trajectories")
        self.check_runs(summary.runs)
        warn_of_unmatched(unmatched)
        if self.text.hint is not None:
            echo_fitted(f"hint: {self.text.hint}", err=True)
        for criterion in self.criteria if self.asked.criterion is not None else ():
            rule = f"{criterion.evaluator_name}, passes at {criterion.pass_at:g}"
            shadow = ", in the shadow" if criterion.enforce == "shadow" else ""
            echo_fitted(f"verdicts of `{criterion.name}` ({rule}{shadow}): {_counted(summary)}", err=True)
        return summary.runs


def _counted(summary: ResultSummary) -> str:
    return ", ".join(f"{count} {word}" for word, count in summary.words.most_common()) or "none"


def print_calls(asked: Asked) -> None:
    """Print each run with its calls, without scores."""
    config = load([Path(path) for path in asked.config_paths], asked.overrides, os.environ, sends=False)
    tally, is_any = Tally(), False
    text = TextWriter(redactor(config), style=terminal_style(), shows_values=True)
    with reading_progress(asked.files) as reading:
        for scorecard in scorecards(tally.counted(reading), offline_pipeline(config, (), tally.recognizer)):
            is_any = True
            tally.unread_tools.add(scorecard.trajectory)
            if asked.as_json:
                reading.echo(json.dumps(trajectory_object(scorecard.trajectory)))
            else:
                for line in (*map(fitted, text.trajectory(scorecard.trajectory)), ""):
                    reading.echo(line)
    unread = sum(one.spans for one in tally.unread_tools.left_over() if one.is_problem)
    if unread or not is_any:
        found = f"{unread} of the spans look like tool calls and are not read" if unread else "nothing recognised"
        echo_fitted(
            f"{found}: no dialect knows their form; the section `dialects` of the configuration can map their attributes, "
            "`toolgauge doctor` names them",
            err=True,
        )
