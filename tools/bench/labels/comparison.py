"""Sets what criteria fail in labelled runs beside what people marked there.

A verdict and a label meet when they belong to the same step. People mark an error that repeats only once, so a failed step
without a label is a repeat (the same criterion fails the same tool in a step of this run that people marked), recorded (the
producer itself recorded an error in the step), or wrong (no evidence but the verdict). An error found is a failing verdict
in its step.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from toolgauge.authoring.firings import Share
from toolgauge.model.outcomes import outcome_word
from toolgauge.recordings.recorded_requests import find_files, read, scorecards
from toolgauge.service.criteria_factory import load_for_replay
from toolgauge.service.pipeline_factory import offline_pipeline
from tools.bench.labels.labelled_runs import STRUCTURAL, LabelledRun, Step

_DEFAULT = "default."


class Place(NamedTuple):
    """A span or a step of a run."""

    trace_id: str
    id: str


class Verdict(NamedTuple):
    """One pass or fail of a criterion, on a call or, without a tool, on a run."""

    criterion: str
    place: Place
    tool: str | None
    failed: bool


def verdicts(file: Path, overrides: Sequence[str] = (), criteria: Sequence[str] = ()) -> list[Verdict]:
    """Score the traces of a set, as `toolgauge check` does."""
    config, made = load_for_replay((), overrides, criteria, {})
    found: list[Verdict] = []
    for scorecard in scorecards(read(find_files([str(file)]), lambda _size: None), offline_pipeline(config, made)):
        for result in scorecard.results:
            word = outcome_word(result.outcome)
            if word in ("pass", "fail"):
                span = "" if result.target is None else result.target.span_id
                tool = None if result.call is None else result.call.name
                place = Place(scorecard.trajectory.trace_id, span)
                found.append(Verdict(result.criterion.removeprefix(_DEFAULT), place, tool, word == "fail"))
    return found


@dataclass(frozen=True)
class FailedSteps:
    """The steps that a criterion fails, by what else says that there is an error."""

    marked: int = 0
    repeats: int = 0
    recorded: int = 0
    wrong: int = 0

    @property
    def failed(self) -> int:
        return self.marked + self.repeats + self.recorded + self.wrong

    @property
    def precision(self) -> Share:
        """Return the share of failed steps that people marked."""
        return Share(self.marked, self.failed)

    @property
    def precision_with_repeats(self) -> Share:
        """Return the same share, where repeats of a marked error are right too."""
        return Share(self.marked + self.repeats, self.failed)


class Comparison:
    """One set of runs beside the verdicts on it."""

    def __init__(self, runs: Sequence[LabelledRun], verdicts: Iterable[Verdict]) -> None:
        self.runs = runs
        steps = {Place(run.trace_id, step.id): step for run in runs for step in run.steps}
        step_of = {Place(at.trace_id, span): at for at, step in steps.items() for span in step.spans}
        self.order = {Place(run.trace_id, step.id): n for run in runs for n, step in enumerate(run.steps)}
        self.tool_steps = {at for at, step in steps.items() if step.calls or step.agents}
        self.recorded = {at for at, step in steps.items() if step.failed}
        self.calls = {Place(at.trace_id, span) for at, step in steps.items() for span in _call_spans(step)}
        self.marked: dict[Place, set[str]] = defaultdict(set)
        for run in runs:
            for error in run.errors:
                if error.step is not None and Place(run.trace_id, error.step) in steps:
                    self.marked[Place(run.trace_id, error.step)].add(error.category)
        self.structural = {at for at, categories in self.marked.items() if categories & STRUCTURAL}
        # For each failed step the criteria that fail it, each with the tool.
        self.failures: dict[Place, set[tuple[str, str]]] = defaultdict(set)
        self.judged: dict[str, set[Place]] = defaultdict(set)
        self.flagged: dict[str, set[str]] = defaultdict(set)
        for verdict in verdicts:
            if verdict.place in self.calls:
                self.judged[verdict.criterion].add(verdict.place)
            if verdict.failed:
                self.flagged[verdict.criterion].add(verdict.place.trace_id)
            # A verdict on a whole run belongs to no step.
            if verdict.failed and verdict.tool is not None:
                self.failures[step_of.get(verdict.place, verdict.place)].add((verdict.criterion, verdict.tool))

    def found(self, criterion: str | None = None) -> set[Place]:
        """Return the steps that a criterion fails, or any."""
        return {at for at, by in self.failures.items() if criterion is None or any(name == criterion for name, _ in by)}

    def failed_steps(self, criterion: str | None = None, among: Collection[Place] | None = None) -> FailedSteps:
        """Sort the steps that a criterion fails, or any."""
        failures = {
            at: {one for one in self.failures[at] if criterion in (None, one[0])}
            for at in self.found(criterion)
            if among is None or at in among
        }
        marked_failures: dict[str, set[tuple[str, str]]] = defaultdict(set)
        for at, by in failures.items():
            if at in self.marked:
                marked_failures[at.trace_id] |= by
        counts = Counter(self._evidence(at, by, marked_failures[at.trace_id]) for at, by in failures.items())
        return FailedSteps(**counts)

    def _evidence(self, at: Place, by: set[tuple[str, str]], marked_failures: set[tuple[str, str]]) -> str:
        if at in self.marked:
            return "marked"
        if by & marked_failures:
            return "repeats"
        return "recorded" if at in self.recorded else "wrong"

    def recall(self, criterion: str | None = None) -> Share:
        """Return the share of steps with a call and a structural error that fail."""
        wanted = self.structural & self.tool_steps
        return Share(len(wanted & self.found(criterion)), len(wanted))

    def coverage(self, criterion: str) -> Share:
        """Return the share of calls that the criterion judged."""
        return Share(len(self.judged[criterion]), len(self.calls))

    def flagged_runs(self, criterion: str | None = None, *, passed: bool) -> Share:
        """Return the share of runs with this verdict that have a failing result."""
        runs = [run.trace_id for run in self.runs if run.passed is passed]
        flagged = set[str]().union(*(ids for name, ids in self.flagged.items() if criterion in (None, name)))
        return Share(len(flagged.intersection(runs)), len(runs))

    def found_of(self, categories: Collection[str]) -> Share:
        """Return the share of steps with an error of these categories that fail.

        A step that people marked with a structural error too does not count for its other errors: it fails for that one.
        """
        wanted = {at for at, marked in self.marked.items() if marked & set(categories)}
        if not STRUCTURAL.intersection(categories):
            wanted -= self.structural
        return Share(len(wanted & self.found()), len(wanted))

    def decisive(self) -> Share:
        """Return the share of runs, of those with a known decisive step, where the first failing step is the decisive one."""
        named = [Place(run.trace_id, error.step or "") for run in self.runs for error in run.errors if error.root]
        return Share(sum(at == self._first_failure(at.trace_id) for at in named), len(named))

    def _first_failure(self, trace_id: str) -> Place | None:
        failing = (at for at in self.failures if at.trace_id == trace_id and at in self.order)
        return min(failing, key=self.order.__getitem__, default=None)


def _call_spans(step: Step) -> Iterator[str]:
    yield from step.calls
    yield from step.agents


def pooled(shares: Iterable[Share]) -> Share:
    """Add the counts of several sets."""
    both = list(shares)
    return Share(sum(one.count for one in both), sum(one.of for one in both))


Comparisons = Mapping[str, Comparison]
