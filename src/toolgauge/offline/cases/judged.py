"""Evaluators that ask a judge, offline: the answers come from whoever is handed in, a case's own script by default."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from toolgauge.model.expected import Expected
from toolgauge.model.json import Json, JsonObject
from toolgauge.model.judging import JudgeEvaluator, Question
from toolgauge.model.outcomes import Errored, Level, Outcome, Scored
from toolgauge.model.ports import Evaluation
from toolgauge.model.trajectory import Trajectory

# A verdict that fits the question's form, or why there is none.
Answer: TypeAlias = Callable[[Question], JsonObject | Errored]
# Makes whoever answers the questions of one case from the verdicts that stand in it.
Judge: TypeAlias = Callable[[Sequence[Json]], Answer]


class Judged:
    """Stands in for a judge evaluator where an evaluator is wanted that yields outcomes itself."""

    def __init__(self, evaluator: JudgeEvaluator, answer: Answer) -> None:
        self._evaluator = evaluator
        self._answer = answer
        self.version: str = evaluator.version
        self.level: Level = evaluator.level

    def evaluate(self, trajectory: Trajectory, expected: Expected | None) -> Iterator[Evaluation]:
        """Ask and yield what the answers mean."""
        outcomes: list[Outcome] = []
        for asking in self._evaluator.questions(trajectory, expected):
            if asking is None:
                continue
            call, asked = asking
            outcome = self._ask(asked) if isinstance(asked, Question) else asked
            if self.level == "call":
                yield call, outcome
            else:
                outcomes.append(outcome)
        if self.level == "trajectory":
            yield None, self._evaluator.joined(outcomes)

    def original(self, outcome: Outcome) -> JsonObject:
        """Return what the original would say besides the score, where the evaluator can tell."""
        tell: Callable[[Scored], JsonObject] | None = getattr(self._evaluator, "original", None)
        return tell(outcome) if tell is not None and isinstance(outcome, Scored) else {}

    def _ask(self, question: Question) -> Outcome:
        verdict = self._answer(question)
        return verdict if isinstance(verdict, Errored) else self._evaluator.outcome(question, verdict)


def answers(verdicts: Sequence[Json]) -> Sequence[Json]:
    """Return what the judge answers; bare words are the verdicts of one answer, as DeepEval asks for them."""
    if not verdicts or not all(isinstance(verdict, str) for verdict in verdicts):
        return verdicts
    return ({"verdicts": [{"verdict": verdict} for verdict in verdicts]},)
