"""Counts and reports on how many runs of a recording each criterion fired, against labels where there are any, and its cost.

A run is a labelled trace or conversation, else a conversation, or a trace without one. One fail in it is a firing.
The same recording gives the same report, byte for byte.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import sqrt

from toolgauge.authoring.labels import Labelled, LabelSet
from toolgauge.judge.inquiry import DisabledJudges, questions
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.judging import Inquiry, Question
from toolgauge.model.outcomes import OutcomeWord, Scorecard, outcome_word
from toolgauge.model.trajectory import Trajectory
from toolgauge.report.findings import CriterionCounts
from toolgauge.report.terminal import PLAIN, Style, aligned, printable, shortened
from toolgauge.score.criterion import Criterion


@dataclass(slots=True)
class Stopwatch:
    """Measures evaluators, as a `score.scorer.Around`."""

    evaluations: Counter[str] = field(default_factory=Counter[str])
    taken_ns: Counter[str] = field(default_factory=Counter[str])

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
        """Count the questions."""
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
        # Rounding must not move an end that is exactly 0 or 1.
        low = 0.0 if self.count == 0 else (middle - reach) / whole
        high = 1.0 if self.count == self.of else (middle + reach) / whole
        return low, high

    def as_object(self) -> JsonObject:
        """Describe it for `--json`."""
        found: JsonObject = {"count": self.count, "of": self.of, "share": None, "interval": None}
        if self.value is not None and self.interval is not None:
            found |= {"share": round(self.value, 6), "interval": [round(end, 6) for end in self.interval]}
        return found

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

    @property
    def run(self) -> Labelled:
        """The run that it is a part of, unless a label names another."""
        is_conversation = self.conversation_id is not None
        return Labelled(is_conversation=is_conversation, id=self.conversation_id or self.trace_id)


@dataclass(slots=True)
class _Run:
    first_trace: str
    passed: bool
    judged: int = 0
    fired: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """One criterion beside the labels of one source: the runs on which it fired, of the judged ones with each label (`failed`: recall)."""

    passed: Share
    failed: Share
    not_judged: int
    false_alarms: tuple[str, ...]
    missed: tuple[str, ...]

    @property
    def precision(self) -> Share:
        """The runs labelled as failed, of the runs on which it fired."""
        return Share(self.failed.count, self.failed.count + self.passed.count)

    @property
    def agreement(self) -> Share:
        """The labelled runs on which it fired exactly where the label is a failure."""
        quiet = self.passed.of - self.passed.count
        return Share(self.failed.count + quiet, self.failed.of + self.passed.of)


class Backtest:
    """Counts results by criterion, and keeps a few bits and ids for each trace of the recording."""

    def __init__(self, criteria: Sequence[Criterion]) -> None:
        self.criteria = tuple(criteria)
        self.results = {criterion.name: CriterionCounts(criterion.name) for criterion in criteria}
        # One bit a criterion, and one for all criteria together.
        self._bits = tuple(1 << number for number in range(len(criteria) + 1))
        self._bit_of = dict(zip(self.results, self._bits, strict=False))
        self._units: dict[Labelled, _Unit] = {}
        self.trajectories = 0
        self.first_ns: int | None = None
        self.last_ns = 0

    def add(self, scorecard: Scorecard) -> None:
        """Count the results of a trajectory; the results of judges come in a scorecard of their own."""
        trajectory = scorecard.trajectory
        if not scorecard.by_judges:
            self.trajectories += 1
            if trajectory.start_ns > 0:
                self.first_ns = min(self.first_ns or trajectory.start_ns, trajectory.start_ns)
            self.last_ns = max(self.last_ns, trajectory.end_ns)
        trace_id, conversation_id = trajectory.trace_id, trajectory.conversation_id
        is_conversation = trajectory.scope == "conversation" and conversation_id is not None
        place = Labelled(is_conversation=is_conversation, id=(conversation_id if is_conversation else None) or trace_id)
        unit = self._units.setdefault(place, _Unit(trace_id, conversation_id, is_conversation))
        for result in scorecard.results:
            word, bits = outcome_word(result.outcome), self._bit_of[result.criterion] | self._bits[-1]
            self.results[result.criterion].add(result.outcome)
            if word in ("pass", "fail") and result.can_fail:
                unit.judged |= bits
            if word == "fail":
                unit.fired |= bits

    @property
    def runs(self) -> int:
        """The number of conversations, and of traces without one."""
        return len({unit.run for unit in self._units.values()})

    def seen(self) -> Iterator[Labelled]:
        """Yield everything that a label may be on."""
        for unit in self._units.values():
            yield Labelled(is_conversation=False, id=unit.trace_id)
            if unit.conversation_id is not None:
                yield Labelled(is_conversation=True, id=unit.conversation_id)

    def agreements(self, labels: LabelSet | None = None) -> tuple[Agreement, ...]:
        """Set each criterion beside labels, last all criteria together. Without labels each run counts as one that passed."""
        runs: dict[Labelled, _Run] = {}
        # The first traces on which each criterion fired, of runs that passed.
        examples: defaultdict[int, list[str]] = defaultdict(list)
        for unit in self._units.values():
            found, verdict = unit.run, True
            if labels is not None:
                found = labels.label_of(unit.trace_id, unit.conversation_id, conversation_first=unit.is_conversation)
                verdict = None if found is None else labels.verdicts[found]
            if found is None or verdict is None:
                continue
            run = runs.setdefault(found, _Run(unit.trace_id, verdict))
            for bit in self._bits if verdict and unit.fired & ~run.fired else ():
                if unit.fired & ~run.fired & bit and len(examples[bit]) < EXAMPLES:
                    examples[bit].append(unit.trace_id)
            run.judged |= unit.judged
            run.fired |= unit.fired
        passed, failed = ([run for run in runs.values() if run.passed is verdict] for verdict in (True, False))
        return tuple(
            Agreement(
                passed=_share(passed, bit),
                failed=_share(failed, bit),
                not_judged=sum(not run.judged & bit for run in runs.values()),
                false_alarms=tuple(examples[bit]),
                missed=tuple(run.first_trace for run in failed if run.judged & bit and not run.fired & bit)[:EXAMPLES],
            )
            for bit in self._bits
        )


def _share(runs: Sequence[_Run], bit: int) -> Share:
    return Share(sum(bool(run.fired & bit) for run in runs), sum(bool(run.judged & bit) for run in runs))


TOGETHER = "all together"
_WORDS: tuple[OutcomeWord, ...] = ("pass", "fail", "error", "not_evaluated")
_NAME_LENGTH = 60
_HEADS = ("criterion", "level", "pass", "fail", "error", "runs flagged", "share [95 %]", "not evaluated")
_LABEL_HEADS = ("criterion", "on passed", "on failed", "not judged", "precision", "recall", "agreement")


class Report:
    """The findings on each criterion, and last on all together: the firings and the agreement with each label set."""

    def __init__(
        self, backtest: Backtest, labels: Sequence[LabelSet], judge_calls: Mapping[str, int], explains: str
    ) -> None:
        """`explains` is the command that explains a trace."""
        self._explains = explains
        self._backtest, self._judge_calls = backtest, judge_calls
        # Without labels: all runs, and the traces of the first ones on which a criterion fired.
        self._firings = backtest.agreements()
        self._labels = [(one, backtest.agreements(one)) for one in labels]
        # All criteria but default ones without results.
        self._shown = [
            (number, one, printable(one.name) + (" (shadow)" if one.enforce == "shadow" else ""))
            for number, one in enumerate(backtest.criteria)
            if backtest.results[one.name].words or not one.is_default
        ]

    def as_object(self) -> JsonObject:
        """Describe it for `--json`."""
        backtest, criteria = self._backtest, list[Json]()
        for number, criterion in enumerate(backtest.criteria):
            counts, can_fail = backtest.results[criterion.name], criterion.pass_at > 0
            described: JsonObject = {
                "criterion": criterion.name,
                "revision": criterion.revision,
                "evaluator": criterion.evaluator_name,
                "level": criterion.evaluator.level,
                "enforce": criterion.enforce,
                "can_fail": can_fail,
                "results": {word: counts.words[word] for word in _WORDS},
                "reasons": dict(counts.reasons.most_common()),
                "judge_calls": self._judge_calls.get(criterion.name, 0),
            }
            criteria.append(described | self._runs_object(number, can_fail=can_fail))
        return {
            "trajectories": backtest.trajectories,
            "runs": backtest.runs,
            "first_ns": backtest.first_ns,
            "last_ns": backtest.last_ns or None,
            "labels": [
                {
                    "name": labels.name,
                    "passed": sum(verdict is True for verdict in labels.verdicts.values()),
                    "failed": sum(verdict is False for verdict in labels.verdicts.values()),
                    "contradicted": labels.contradicted,
                    "unread": labels.unread,
                    "unmatched": len(labels.unmatched(set(backtest.seen()))),
                }
                for labels, _ in self._labels
            ],
            "criteria": criteria,
            "all_together": self._runs_object(-1, can_fail=True),
        }

    def _runs_object(self, number: int, *, can_fail: bool) -> JsonObject:
        labels: list[Json] = []
        for one, agreements in self._labels if can_fail else ():
            agreement = agreements[number]
            labels.append(
                {
                    "label": one.name,
                    "passed_runs": agreement.passed.as_object(),
                    "failed_runs": agreement.failed.as_object(),
                    "not_judged": agreement.not_judged,
                    "precision": agreement.precision.as_object(),
                    "recall": agreement.failed.as_object(),
                    "agreement": agreement.agreement.as_object(),
                    "false_alarms": list(agreement.false_alarms),
                    "missed": list(agreement.missed),
                }
            )
        firings = self._firings[number]
        return {"fired": firings.passed.as_object(), "trace_ids": [*firings.false_alarms], "labels": labels}

    def lines(self, style: Style = PLAIN) -> Iterator[str]:
        """Write tables: results and runs of each criterion, then the criteria beside each label set, then traces to look at."""
        yield f"{self._backtest.trajectories} trajectories of {self._backtest.runs} runs"
        yield ""
        rows = list[tuple[str, ...]]()
        for number, criterion, title in self._shown:
            counts, runs = self._backtest.results[criterion.name], self._firings[number].passed
            words = (str(counts.words[word]) for word in ("pass", "fail", "error"))
            fired = (_plain(runs), str(runs)) if criterion.pass_at > 0 else ("never fails", "-")
            count = counts.words["not_evaluated"]
            unseen = f"{count}: {counts.reasons_text}" if count else "0"
            rows.append((title, criterion.evaluator.level, *words, *fired, unseen))
        together = self._firings[-1].passed
        rows.append((TOGETHER, "-", "", "", "", _plain(together), str(together), ""))
        yield from _table(_HEADS, rows, style)
        for labels, agreements in self._labels:
            yield ""
            verdicts = list(labels.verdicts.values())
            parts = [f"{verdicts.count(True)} passed", f"{verdicts.count(False)} failed"]
            if labels.contradicted:
                parts.append(f"{labels.contradicted} with different verdicts, left out")
            yield f"labels `{shortened(labels.name, _NAME_LENGTH)}`: {', '.join(parts)}"
            failing = [(title, agreements[number]) for number, one, title in self._shown if one.pass_at > 0]
            rows = list[tuple[str, ...]]()
            for title, one in (*failing, (TOGETHER, agreements[-1])):
                shares = (str(share) for share in (one.precision, one.failed, one.agreement))
                rows.append((title, _plain(one.passed), _plain(one.failed), str(one.not_judged), *shares))
            yield from _table(_LABEL_HEADS, rows, style)
        found = [(what, traces) for what, traces in self._traces() if traces]
        if found:
            yield ""
            yield style.head(f"traces to look at first, as in `{self._explains}`")
        for what, traces in found:
            yield f"  {what}"
            yield from (f"    {trace}" for trace in traces)
        if total := sum(self._judge_calls.values()):
            yield ""
            counts = sorted(self._judge_calls.items())
            calls = ", ".join(f"`{printable(name)}` {count}" for name, count in counts if count)
            yield f"judge calls that `toolgauge serve` would make: at least {total} ({calls})"

    def _traces(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield traces with a heading; a failure that a single criterion misses may be found by another."""
        for number, _, title in self._shown if not self._labels else ():
            yield f"`{title}` fired", self._firings[number].false_alarms
        for labels, agreements in self._labels:
            by = f" by `{shortened(labels.name, _NAME_LENGTH)}`" if len(self._labels) > 1 else ""
            for number, _, title in self._shown:
                yield f"`{title}` fired, labelled as passed{by}", agreements[number].false_alarms
            yield f"no criterion fired, labelled as failed{by}", agreements[-1].missed


def _plain(share: Share) -> str:
    return f"{share.count} of {share.of}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], style: Style) -> Iterator[str]:
    head, *lines = aligned((heads, *rows))
    yield from (style.head(head), *lines)
