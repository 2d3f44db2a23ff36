"""Counts on how many runs of a recording each criterion fired, against labels where there are any, and its cost.

A run is a labelled trace or conversation, else a conversation, or a trace without one. One fail in it is a firing.
"""

import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import sqrt
from typing import TypeAlias

from toolgauge.authoring.labels import Labelled, LabelSet
from toolgauge.judge.inquiry import DisabledJudges, questions
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


@dataclass(frozen=True, slots=True)
class Share:
    """`count` of `of`."""

    count: int
    of: int

    @property
    def value(self) -> float | None:
        """The share; `None` of nothing."""
        return self.count / self.of if self.of else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's interval: it stays within 0 and 1, and is honest where nothing, or everything, was counted."""
        share, square = self.value, _Z * _Z
        if share is None:
            return None
        middle = share + square / (2 * self.of)
        reach = _Z * sqrt(share * (1 - share) / self.of + square / (4 * self.of * self.of))
        whole = 1 + square / self.of
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
    judged: int = 0
    fired: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Firings:
    """On how many runs one criterion fired, of those it judged, with the first trace of the first few."""

    runs: Share
    trace_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """One criterion beside the labels of one source: of the runs with each label that it judged, those on which it fired."""

    passed: Share
    failed: Share
    not_judged: int
    false_alarms: tuple[str, ...]
    missed: tuple[str, ...]

    @property
    def precision(self) -> Share:
        """Of the runs on which it fired, those that are labelled as failed."""
        return Share(self.failed.count, self.failed.count + self.passed.count)

    @property
    def recall(self) -> Share:
        """Of the runs labelled as failed, those on which it fired."""
        return self.failed

    @property
    def agreement(self) -> Share:
        """Of all labelled runs, those on which it fired exactly where the label is a failure."""
        quiet = self.passed.of - self.passed.count
        return Share(self.failed.count + quiet, self.failed.of + self.passed.of)


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
        runs, examples = self._folded(lambda unit: (_unlabelled(unit), None))
        bits = self._all_bits()
        return tuple(
            Firings(
                runs=_share(runs, bit),
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

        runs, examples = self._folded(run_of)
        passed, failed = ([run for run in runs if run.passed is verdict] for verdict in (True, False))
        return tuple(
            Agreement(
                passed=_share(passed, bit),
                failed=_share(failed, bit),
                not_judged=sum(not run.judged & bit for run in runs),
                false_alarms=tuple(examples.get((bit, True), ())),
                missed=tuple(run.first_trace for run in failed if run.judged & bit and not run.fired & bit)[:EXAMPLES],
            )
            for bit in self._all_bits()
        )

    def _all_bits(self) -> tuple[int, ...]:
        return (*self._bits.values(), self._together)

    def _folded(self, run_of: _RunOf) -> tuple[list[_Run], dict[tuple[int, bool | None], list[str]]]:
        """Join units to runs; beside them are the first traces on which each criterion fired, by the verdict on the run."""
        runs: dict[Labelled, _Run] = {}
        examples: dict[tuple[int, bool | None], list[str]] = {}
        bits = self._all_bits()
        for unit in self._units.values():
            found = run_of(unit)
            if found is None:
                continue
            key, passed = found
            run = runs.setdefault(key, _Run(unit.trace_id, passed))
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


def _share(runs: Sequence[_Run], bit: int) -> Share:
    return Share(sum(bool(run.fired & bit) for run in runs), sum(bool(run.judged & bit) for run in runs))
