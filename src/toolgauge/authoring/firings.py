"""Counts on how many runs of a recording each criterion fired, against labels where there are any, and its cost.

A run is a labelled trace or conversation, else a conversation, or a trace without one. One fail in it is a firing.
"""

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple, TypeAlias

from toolgauge.authoring.labels import Labelled, LabelSet
from toolgauge.judge.disabled import DisabledJudges
from toolgauge.judge.inquiry import questions
from toolgauge.model.json import JsonObject
from toolgauge.model.judging import Inquiry, Question
from toolgauge.model.outcomes import Scorecard, outcome_word
from toolgauge.model.trajectory import Trajectory
from toolgauge.report.findings import CriterionCounts
from toolgauge.report.terminal import printable
from toolgauge.score.criterion import Criterion


class Stopwatch:
    """Measures evaluators, as a `score.scorer.Around`."""

    def __init__(self) -> None:
        self.evaluations: Counter[str] = Counter()
        self.taken_ns: Counter[str] = Counter()

    @contextmanager
    def measure(self, criterion: Criterion, trajectory: Trajectory) -> Generator[None]:  # noqa: ARG002 (as `Around` has it)
        """Measure one evaluation."""
        started_ns = time.perf_counter_ns()
        try:
            yield
        finally:
            self.taken_ns[criterion.name] += time.perf_counter_ns() - started_ns
            self.evaluations[criterion.name] += 1

    def lines(self, trajectories: int) -> Iterator[str]:
        """Write how long scoring took, by criterion."""
        total_ms = self.taken_ns.total() / 1e6
        yield f"cost: {total_ms:.1f} ms for {trajectories} trajectories, {total_ms / trajectories:.3f} ms each"
        for name, taken_ns in self.taken_ns.most_common():
            of = self.evaluations[name]
            figures = f"{taken_ns / 1e6:.1f} ms in {of} evaluations, {taken_ns / 1e3 / of:.0f} us each"
            yield f"  {printable(name)}: {figures}"


class CountedJudges(DisabledJudges):
    """Counts the questions, asks none, and answers with `judge_budget`."""

    def __init__(self) -> None:
        super().__init__("firings are counted without a judge")
        self.calls: Counter[str] = Counter()

    def put(self, trajectory: Trajectory, inquiries: tuple[Inquiry, ...]) -> None:
        """Count what would be asked."""
        for inquiry in inquiries:
            self.calls[inquiry.criterion] += sum(isinstance(asked, Question) for _, asked in questions(inquiry))
        super().put(trajectory, inquiries)


_Z = 1.959963984540054


class Tally(NamedTuple):
    """Runs, the sum of their weights, and that of the squares of their weights."""

    runs: int = 0
    weight: float = 0.0
    squares: float = 0.0

    def plus(self, weight: float) -> "Tally":
        """Count one more run, which stands for `weight` runs."""
        return Tally(self.runs + 1, self.weight + weight, self.squares + weight * weight)

    def join(self, other: "Tally") -> "Tally":
        """Add up two tallies."""
        return Tally(self.runs + other.runs, self.weight + other.weight, self.squares + other.squares)


@dataclass(frozen=True, slots=True)
class Share:
    """`count` of `of`; the share itself and its interval are `weighted`, where the runs were drawn with unequal probabilities.

    `weighted` has the share, and the size of the sample drawn with equal probabilities that is as precise.
    """

    count: int
    of: int
    weighted: tuple[float, float] | None = None

    @classmethod
    def of_tallies(cls, yes: Tally, no: Tally, heaviest: float) -> "Share":
        """Estimate the share of `yes` in all runs, which the weights stand for; no labelled run is heavier than `heaviest`."""
        count, of, weight = yes.runs, yes.runs + no.runs, yes.weight + no.weight
        if heaviest == 1 or not of:
            return cls(count, of)
        # The variance at a share that is drawn in a little, as if one run of the heaviest had been seen on each side: where
        # none was seen, one that was missed would count most.
        drawn, square = weight + 2 * heaviest, heaviest * heaviest
        share = (yes.weight + heaviest) / drawn
        spread = (1 - share) ** 2 * (yes.squares + square) + share**2 * (no.squares + square)
        effective = share * (1 - share) * drawn**2 / spread - 2
        return cls(count, of, (yes.weight / weight, max(effective, weight / heaviest / 2)))

    @property
    def value(self) -> float | None:
        """The share; `None` of nothing."""
        if not self.of:
            return None
        return self.count / self.of if self.weighted is None else self.weighted[0]

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's interval: it stays within 0 and 1, and is honest where nothing, or everything, was counted."""
        share, square = self.value, _Z * _Z
        if share is None:
            return None
        of = self.of if self.weighted is None else self.weighted[1]
        middle = share + square / (2 * of)
        reach = _Z * sqrt(share * (1 - share) / of + square / (4 * of * of))
        whole = 1 + square / of
        # Rounding must not turn the ends of what is exactly 0 or 1 into something else.
        low = 0.0 if self.count == 0 else (middle - reach) / whole
        high = 1.0 if self.count == self.of else (middle + reach) / whole
        return low, high

    def as_object(self) -> JsonObject:
        """Describe it for `--json`."""
        interval = self.interval
        return {
            "count": self.count,
            "of": self.of,
            "share": None if self.value is None else round(self.value, 6),
            "interval": None if interval is None else [round(end, 6) for end in interval],
        }

    def __str__(self) -> str:
        if self.value is None or self.interval is None:
            return "-"
        low, high = self.interval
        return f"{self.value:.2f} [{low:.2f}, {high:.2f}]"


EXAMPLES = 5


@dataclass(slots=True)
class _Unit:
    """One trace, or one conversation as a whole: the criteria that judged it and that fired on it, as bits by their number."""

    trace_id: str
    conversation_id: str | None
    is_conversation: bool
    judged: int = 0
    fired: int = 0


@dataclass(slots=True)
class _Run:
    first_trace: str
    passed: bool | None
    weight: float = 1.0
    judged: int = 0
    fired: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Firings:
    """On how many runs one criterion fired, of those it judged, with the first trace of the first few."""

    runs: Share
    trace_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """One criterion beside the labels of one source: the judged runs by their label, those on which it fired first.

    No labelled run is heavier than `heaviest`, and none on which it fired than `heaviest_fired`.
    """

    on_passed: tuple[Tally, Tally]
    on_failed: tuple[Tally, Tally]
    heaviest: float
    heaviest_fired: float
    not_judged: int
    false_alarms: tuple[str, ...]
    missed: tuple[str, ...]

    @property
    def passed(self) -> Share:
        """Of the runs labelled as passed, those on which it fired."""
        return Share.of_tallies(*self.on_passed, self.heaviest)

    @property
    def failed(self) -> Share:
        """Of the runs labelled as failed, those on which it fired."""
        return Share.of_tallies(*self.on_failed, self.heaviest)

    @property
    def precision(self) -> Share:
        """Of the runs on which it fired, those that are labelled as failed."""
        return Share.of_tallies(self.on_failed[0], self.on_passed[0], self.heaviest_fired)

    @property
    def recall(self) -> Share:
        """Of the runs labelled as failed, those on which it fired."""
        return self.failed

    @property
    def agreement(self) -> Share:
        """Of all labelled runs, those on which it fired exactly where the label is a failure."""
        (false, quiet), (found, missed) = self.on_passed, self.on_failed
        return Share.of_tallies(found.join(quiet), false.join(missed), self.heaviest)


# The run of a unit with its label; `None` leaves the unit out.
_RunOf: TypeAlias = Callable[[_Unit], tuple[Labelled, bool | None] | None]


class Backtest:
    """Counts results by criterion, and keeps a few bits and ids for each trace of the recording."""

    def __init__(self, criteria: Sequence[Criterion]) -> None:
        self.criteria = tuple(criteria)
        self.results = {criterion.name: CriterionCounts(criterion.name) for criterion in criteria}
        self._bits = {criterion.name: 1 << number for number, criterion in enumerate(criteria)}
        # One more for all criteria together.
        self._together = 1 << len(criteria)
        self._units: dict[Labelled, _Unit] = {}
        self.trajectories = 0
        self.first_ns: int | None = None
        self.last_ns = 0

    def add(self, scorecard: Scorecard) -> None:
        """Count the results of a trajectory; those of judges come in a scorecard of their own."""
        trajectory = scorecard.trajectory
        if not scorecard.by_judges:
            self.trajectories += 1
            if trajectory.start_ns > 0:
                self.first_ns = min(self.first_ns or trajectory.start_ns, trajectory.start_ns)
            self.last_ns = max(self.last_ns, trajectory.end_ns)
        is_conversation = trajectory.scope == "conversation" and trajectory.conversation_id is not None
        name = trajectory.conversation_id if is_conversation else None
        place = Labelled(is_conversation=is_conversation, id=name or trajectory.trace_id)
        unit = self._units.get(place)
        if unit is None:
            unit = _Unit(trajectory.trace_id, trajectory.conversation_id, is_conversation)
            self._units[place] = unit
        for result in scorecard.results:
            word = outcome_word(result.outcome)
            self.results[result.criterion].add(result.outcome)
            if word in ("pass", "fail") and result.can_fail:
                unit.judged |= self._bits[result.criterion] | self._together
            if word == "fail":
                unit.fired |= self._bits[result.criterion] | self._together

    @property
    def runs(self) -> int:
        """The number of conversations, and of traces without one."""
        return len({_unlabelled(unit) for unit in self._units.values()})

    def seen(self) -> Iterator[Labelled]:
        """Yield all that a label may be on."""
        for unit in self._units.values():
            yield Labelled(is_conversation=False, id=unit.trace_id)
            if unit.conversation_id is not None:
                yield Labelled(is_conversation=True, id=unit.conversation_id)

    def firings(self) -> tuple[Firings, ...]:
        """Return on how many runs each criterion fired; the last one is of all criteria together."""
        runs, examples = self._folded(lambda unit: (_unlabelled(unit), None), {})
        bits = self._all_bits()
        return tuple(
            Firings(
                runs=Share(sum(bool(run.fired & bit) for run in runs), sum(bool(run.judged & bit) for run in runs)),
                trace_ids=tuple(examples.get((bit, None), ())),
            )
            for bit in bits
        )

    def agreements(self, labels: LabelSet) -> tuple[Agreement, ...]:
        """Set each criterion beside labels; the last one is of all criteria together."""

        def run_of(unit: _Unit) -> tuple[Labelled, bool | None] | None:
            found = labels.label_of(unit.trace_id, unit.conversation_id, conversation_first=unit.is_conversation)
            verdict = None if found is None else labels.verdicts[found]
            return None if found is None or verdict is None else (found, verdict)

        runs, examples = self._folded(run_of, labels.weights)
        passed, failed = ([run for run in runs if run.passed is verdict] for verdict in (True, False))
        heaviest = max((run.weight for run in runs), default=1.0)
        return tuple(
            Agreement(
                on_passed=_tallies(passed, bit),
                on_failed=_tallies(failed, bit),
                heaviest=heaviest,
                heaviest_fired=max((run.weight for run in runs if run.fired & bit), default=1.0),
                not_judged=sum(not run.judged & bit for run in runs),
                false_alarms=tuple(examples.get((bit, True), ())),
                missed=tuple(run.first_trace for run in failed if run.judged & bit and not run.fired & bit)[:EXAMPLES],
            )
            for bit in self._all_bits()
        )

    def _all_bits(self) -> tuple[int, ...]:
        return (*self._bits.values(), self._together)

    def _folded(
        self, run_of: _RunOf, weights: Mapping[Labelled, float]
    ) -> tuple[list[_Run], dict[tuple[int, bool | None], list[str]]]:
        """Join units to runs; beside them are the first traces on which each criterion fired, by the verdict on the run."""
        runs: dict[Labelled, _Run] = {}
        examples: dict[tuple[int, bool | None], list[str]] = {}
        bits = self._all_bits()
        for unit in self._units.values():
            found = run_of(unit)
            if found is None:
                continue
            key, passed = found
            run = runs.setdefault(key, _Run(unit.trace_id, passed, weights.get(key, 1.0)))
            for bit in bits if unit.fired & ~run.fired else ():
                shown = examples.setdefault((bit, passed), [])
                if unit.fired & ~run.fired & bit and len(shown) < EXAMPLES:
                    shown.append(unit.trace_id)
            run.judged |= unit.judged
            run.fired |= unit.fired
        return list(runs.values()), examples


def _unlabelled(unit: _Unit) -> Labelled:
    is_conversation = unit.conversation_id is not None
    return Labelled(is_conversation=is_conversation, id=unit.conversation_id or unit.trace_id)


def _tallies(runs: Sequence[_Run], bit: int) -> tuple[Tally, Tally]:
    fired = quiet = Tally()
    for run in runs:
        if run.fired & bit:
            fired = fired.plus(run.weight)
        elif run.judged & bit:
            quiet = quiet.plus(run.weight)
    return fired, quiet
