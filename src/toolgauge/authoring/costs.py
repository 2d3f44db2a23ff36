"""What criteria cost: the time their evaluators take here, and the judge calls they would make."""

import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from toolgauge.judge.disabled import DisabledJudges
from toolgauge.judge.inquiry import questions
from toolgauge.model.judging import Answers, Inquiry, Question
from toolgauge.model.trajectory import Trajectory
from toolgauge.score.criterion import Criterion


class Stopwatch:
    """Measures evaluators, as a `score.scorer.Deadline` that cuts none off."""

    def __init__(self) -> None:
        self.evaluations: Counter[str] = Counter()
        self.taken_ns: Counter[str] = Counter()

    @contextmanager
    def measure(self, criterion: Criterion) -> Generator[None]:
        """Measure one evaluation."""
        started_ns = time.perf_counter_ns()
        try:
            yield
        finally:
            self.taken_ns[criterion.name] += time.perf_counter_ns() - started_ns
            self.evaluations[criterion.name] += 1


class CountedJudges:
    """Implements `model.judging.Judging`: counts the questions, asks none, and answers with `judge_budget`."""

    def __init__(self) -> None:
        self._disabled = DisabledJudges("backtest asks no judge")
        self.calls: Counter[str] = Counter()

    def put(self, trajectory: Trajectory, inquiries: tuple[Inquiry, ...]) -> None:
        """Count what would be asked."""
        for inquiry in inquiries:
            self.calls[inquiry.criterion] += sum(isinstance(asked, Question) for _, asked in questions(inquiry))
        self._disabled.put(trajectory, inquiries)

    def take(self) -> list[Answers]:
        """Return the inquiries since the last time, unanswered."""
        return self._disabled.take()
